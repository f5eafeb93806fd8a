"""Trainer: steps of training, evaluation, and files to go on from."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

import numpy as np

from ...ops.data_types import parse_enum
from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    ShapeError,
    SkippedStepWarning,
    nearest,
)
from ...ops.values import format_value, integer
from ..compile.compiled_graph import CompiledGraph
from ..compile.options import Tune
from ..compile.signature import Results
from ..compile.trials import Choices
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, format_shape, label
from ..open_graph import OpenGraph, no_graph_yet
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from ..runtime.engine import Engine
from ..runtime.interrupts import held_back
from ..runtime.parameter import Parameter
from ..runtime.tensor import plain_array
from .checkpoint import Contents, read_checkpoint, write_checkpoint
from .evaluation import evaluated
from .fitting import Batches, Epoch, batches_of, fitted
from .meeting import meeting
from .metrics import Means, Metric, batch_size
from .optimizers import Choice, Optimizer, chosen
from .program import Feeds, Program, Shapes
from .state_dict import state_dict
from .step import PREFIX, Communicator, Step, check_trainable, training_step
from .ways import of_first

WORD = (1 << 63) - 1


class Precision(StrEnum):
    """In what the forward and backward passes compute."""

    f32 = "f32"
    bf16 = "bf16"


class Trainer:
    """Trains the parameters of a graph, in their place: the graph, and what is compiled from it, shares them.

    One step, forward, backward and update, is one program. It is made at the first step, once for each set of input
    shapes. What the graph assigns itself, running statistics say, is assigned at each step and is not differentiated.
    The seed of each Dropout comes from `seed` and the number of the step. A step whose gradients are not finite, in one
    process or in all, changes nothing and warns.

    Args:
        graph: with parameters; it stays as it is, but for their values.
        loss: one number, of the graph.
        optimizer: `SGD`, `Adam`, `AdamW`, or another one that does what `Optimizer` says; or a function from a
            parameter, as a `LogicalTensor` with its name and shape, to its optimizer, or None where it stays as it is.
        comm: processes that train one model together, `og.training.mpi()`, each on its part of the batch; None for
            this one alone. All begin with what process 0 has.
        precision: `bf16` stores and multiplies in bf16, with parameters, gradients and updates in f32. See `Graph.to`.
        seed: of random numbers.
        engine, threads: as for `Graph.compile`.
        deterministic: whether two runs of the same steps compute the same bits. Otherwise the first steps try the
            likely ways of each weight gradient in turn and keep the fastest (`tune="online"` of `Graph.compile`), and
            which one that is, is a matter of time. Each process of several chooses for itself.
        kept_shapes: for how many sets of input shapes programs are kept, with the memory that each needs for a step;
            a set beyond them takes the place of the one that was not used for longest.

    Attributes:
        steps: how many are done.
        skipped: how many were skipped.

    Raises:
        ArgumentError, ArgumentTypeError, ShapeError: an argument does not fit; there is nothing to train.
    """

    def __init__(
        self,
        graph: Graph,
        loss: LogicalTensor,
        optimizer: Optimizer | Choice,
        *,
        comm: Communicator | None = None,
        precision: Precision | str = Precision.f32,
        seed: int = 0,
        engine: Engine | None = None,
        threads: int | None = None,
        deterministic: bool = False,
        kept_shapes: int = 16,
    ) -> None:
        if isinstance(graph, OpenGraph):
            raise GraphError(f"Trainer takes a Graph, got {graph!r}: {no_graph_yet(graph)}")
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(f"Trainer takes a Graph, got {format_value(graph)}")
        if not isinstance(loss, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"Trainer takes the loss as a LogicalTensor, got {format_value(loss)}")
        number = None if isinstance(seed, bool) else integer(seed)
        if number is None:
            raise ArgumentTypeError(f"seed must be an integer, got {format_value(seed)}")
        if not isinstance(deterministic, bool):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(f"deterministic must be True or False, got {format_value(deterministic)}")
        kept = None if isinstance(kept_shapes, bool) else integer(kept_shapes)
        if kept is None or kept < 1:
            raise ArgumentError(f"kept_shapes must be 1 or more, got {format_value(kept_shapes)}")
        self.deterministic = deterministic
        self.precision = parse_enum(Precision, precision, "precision")
        self.optimizer = optimizer
        self.seed = number
        self.steps: int = 0
        self.skipped: int = 0
        self._graph = graph.with_shapes({}) if graph.finalized else copy.copy(graph)
        self._loss = self._graph.tensor(loss.id)
        if self._loss.shape is not None and any(d not in (1, -1) for d in self._loss.shape):
            raise ShapeError(
                f"the loss must be one number, got {self._loss} of shape {format_shape(self._loss.shape)}; reduce it"
            )
        self._comm = comm
        self._options: dict[str, Any] = {"engine": engine, "threads": threads}
        self._choices = Choices()
        tune = Tune.off if deterministic else Tune.online
        self._tuned: dict[str, Any] = {**self._options, "tune": tune, "choices": self._choices}
        held = self._graph.held_parameters
        self._parameters = {label(t): held[t.id] for t in self._graph.parameter_tensors}
        trained = {label(t): t for t in check_trainable(self._graph, self._loss)}
        self._optimizers = chosen(optimizer, list(trained.values()))
        self._states = {
            name: tuple(
                Parameter(np.zeros(trained[name].dims, np.float32), np.dtype(np.float32)) for _ in one.states
            )
            for name, one in self._optimizers.items()
        }
        self._programs: BoundedCache[Shapes, tuple[Step, Program]] = BoundedCache(
            kept,
            f"Trainer compiles shapes again that it had compiled before, for it keeps {kept}; pad or group batches so "
            f"that they have fewer shapes, or give Trainer(…, kept_shapes={2 * kept})",
        )
        self._evaluations: dict[frozenset[str], CompiledGraph] = {}
        self._take_over()

    def _take_over(self) -> None:
        """Has all processes go on from where process 0 is."""
        if self._comm is None:
            return
        numbers = np.array([self.steps, self.skipped, self.seed % (1 << 64)], np.uint64)
        contents = list(self._contents().parameters.values())
        self._comm.broadcast([numbers, *(one.array for one in contents)])
        for one in contents:
            one.changed()
        if self._comm.rank:
            self.steps, self.skipped, self.seed = map(int, numbers)

    # --- steps ---------------------------------------------------------------------------------------

    def step(self, feeds: Feeds) -> float:
        """One step: forward, backward, update.

        Args:
            feeds: arrays by the names of the inputs.

        Returns:
            The loss before the update.

        Raises:
            ArgumentError, DataTypeError, ShapeError: an input is missing, unknown, or does not fit; nothing is changed.
        """
        done = self.steps + self.skipped
        with meeting(self._comm, "Trainer.step") as brought:
            arrays = self._arrays(feeds)
            shapes = tuple(sorted((name, a.shape) for name, a in arrays.items()))
            step, program = self._programs.get(shapes, lambda: self._program(shapes))
            program.take(arrays, self._numbers(step, done))
            brought.value, brought.weight = step.exchanged, batch_size(arrays.values())
        with held_back():  # parameters and the optimizer's state change together
            results = program.run()
            loss = float(results[label(step.loss)].reshape(()))
            norm = float(results[label(step.norm)])
            skipped = not np.isfinite(norm)
            self.skipped += skipped
            self.steps += not skipped
        if skipped:
            warnings.warn(
                f"step {done} was skipped: the norm of its gradients is {norm}, and its loss {loss}",
                SkippedStepWarning,
                stacklevel=2,
            )
        return loss

    def _numbers(self, step: Step, done: int) -> dict[str, float]:
        """Values of the inputs that training has added, for the step after so many."""
        numbers: dict[str, float] = {label(rate): one.rate(self.steps) for one, rate in step.rates}
        own = [self._comm.rank] if self._comm is not None and self._comm.rank else []
        seeds = {label(t): _mixed(self.seed, done, place, *own) for place, t in enumerate(step.seeds)}
        return numbers | {label(step.step): self.steps + 1} | seeds

    def fit(
        self,
        batches: Batches,
        epochs: int = 1,
        *,
        first: int = 0,
        validation: Batches | None = None,
        metrics: Mapping[str, Metric] | None = None,
        callbacks: Sequence[Callable[[Epoch], object]] = (),
    ) -> list[Epoch]:
        """Steps over batches, again and again.

        A bar on the terminal says how far it is, where rich is installed (the extra `cli`), and a plain line otherwise.

        Args:
            batches: feeds of each step, gone through once an epoch; or a function from the number of the epoch to them.
            epochs: how many times.
            first: number of the first epoch, for training that goes on.
            validation: batches of other data, which `validate` runs over after each epoch.
            metrics: of the validation data, see `validate`.
            callbacks: called after each epoch, as `print` may be; StopIteration from one ends the training early, and
                so does any other exception, which goes on to the caller.

        Returns:
            What was told of each epoch.

        Raises:
            ArgumentError: there are no batches, as where an iterator is used up; metrics without validation data.
            ArgumentTypeError: batches are none.
        """
        if metrics and validation is None:
            raise ArgumentError("fit: metrics are of validation data; give validation=… too")

        def taken(feeds: Feeds) -> tuple[float, bool]:
            skipped = self.skipped
            return self.step(feeds), self.skipped == skipped

        def validated(number: int) -> Mapping[str, float]:
            return (
                {}
                if validation is None
                else self.validate(batches_of(validation, number, "validation"), metrics)
            )

        shown = self._comm is None or self._comm.rank == 0
        return fitted(taken, batches, epochs, first, validated, callbacks, shown=shown)

    def _arrays(self, feeds: Feeds) -> dict[str, Array]:
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            example = ", ".join(f"{name!r}: …" for name in self._graph.input_names)
            raise ArgumentTypeError(
                f"feeds must be a mapping from names of inputs to arrays, {{{example}}}, got a {type(feeds).__name__}"
            )
        names = self._graph.input_names
        found: dict[str, Array] = {}
        for key, value in cast("Mapping[object, object]", feeds).items():
            name = label(key) if isinstance(key, LogicalTensor) else key
            if not isinstance(name, str) or name not in names:
                raise ArgumentError(
                    f"the graph has no input {format_value(name)}{nearest(name, names)}; it has "
                    f"{', '.join(map(repr, names)) or 'none'}"
                )
            found[name] = plain_array(value, f"input {name!r}")
        return found

    def _program(self, shapes: Shapes) -> tuple[Step, Program]:
        """A program for inputs of these shapes."""
        step = training_step(
            self._graph.with_shapes(dict(shapes)),
            self._loss,
            self._optimizers,
            self._states,
            comm=self._comm,
            bf16=self.precision is Precision.bf16,
        )
        names = {name for name, _ in shapes}
        read = {t.id for op in step.graph.ops for t in op.inputs}  # the seed of a model's own is not any more
        wanted = [label(t) for t in step.graph.inputs if t.id in read]
        missing = [n for n in wanted if n not in names and not n.startswith(PREFIX)]
        if missing:
            raise ArgumentError(
                f"input {missing[0]!r} is missing, which the loss depends on; got "
                f"{', '.join(map(repr, sorted(names))) or 'none'}"
            )
        return step, Program(step.graph, self._tuned)

    # --- evaluation ----------------------------------------------------------------------------------

    def evaluate(self, feeds: Feeds) -> Results:
        """Runs the model as it is now: with running statistics, without Dropout, in f32.

        Args:
            feeds: arrays by the names of inputs. What depends on others is not computed: without labels there is no
                loss.

        Returns:
            The outputs of the graph that these inputs give, and the loss among them where it is one.

        Raises:
            ArgumentError: they give no output.
        """
        arrays = self._arrays(feeds)
        return self._evaluation(frozenset(arrays))(dict(arrays))

    def validate(
        self, batches: Iterable[Feeds], metrics: Mapping[str, Metric] | None = None
    ) -> dict[str, float]:
        """Means over batches, of the model as `evaluate` runs it. Of several processes all call it, each with its part.

        Args:
            batches: feeds, with all that the loss depends on.
            metrics: functions by name. Each gets the outputs of a batch and its feeds, both by name, and returns one
                number for each example, in an array, or one for the batch; the mean of all is told. See `Accuracy`.

        Returns:
            The mean of the loss, in which a batch counts as often as its first array is long, under `loss`; and that of
            each metric.

        Raises:
            ArgumentError: there are no batches, or they lack what the loss depends on.
        """
        wanted = dict(metrics or {})
        if "loss" in wanted:
            raise ArgumentError("validate: a metric can't be called 'loss', which is told anyway; rename it")
        means = Means(["loss", *wanted])
        with meeting(self._comm, "Trainer.validate") as brought:
            brought.value = tuple(wanted)
            for feeds in batches:
                arrays = self._arrays(feeds)
                found = self._evaluation(frozenset(arrays))(dict(arrays))
                if self._loss not in found:
                    raise ArgumentError(
                        f"validate: the loss depends on more inputs than {', '.join(map(repr, sorted(arrays)))}; the "
                        f"graph takes {', '.join(map(repr, self._graph.input_names))}"
                    )
                means.add("loss", found[self._loss], batch_size(arrays.values()))
                for name, metric in wanted.items():
                    means.add(name, metric(found, arrays))
        return dict(means.found(None if self._comm is None else self._comm.mean))

    def model(self, outputs: Sequence[str | LogicalTensor] | None = None) -> Graph:
        """The model as it is now, to be compiled, saved or written as ONNX; training may go on meanwhile.

        Args:
            outputs: see `Graph.for_inference`, which it is made by.

        Raises:
            ArgumentError, ArgumentTypeError, UnsupportedError: see `Graph.for_inference`.
        """
        return self._graph.for_inference(outputs)

    def _evaluation(self, names: frozenset[str]) -> CompiledGraph:
        if names not in self._evaluations:
            graph = evaluated(self._graph, self._loss, names)
            self._evaluations[names] = graph.compile(**self._options)
        return self._evaluations[names]

    # --- files ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters, the optimizer's state, the number of steps and the seed to one safetensors file.

        What steps still try in turn is settled by what is known so far, and nothing is tried from here on: the ways
        that weight gradients go are in the file too, so that what goes on from there computes the same bits as this
        trainer.

        Of several processes all call it, and process 0 writes; its ways become those of all. Where it can't, all raise.

        A file of that name is replaced when the new one is complete on the disk. Needs the package safetensors, the
        extra `weights`.

        Raises:
            GraphFileError: it can't be written.
            UnsupportedError: the package is not installed.
        """
        self._choices.settle()
        self._share_choices()
        with meeting(self._comm, "Trainer.save"):
            if self._leads:
                write_checkpoint(path, self._contents())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes up what `save` wrote; training then goes on as if it had never stopped, bit for bit.

        That holds on the same machine, library and number of threads, and nothing is tried in turn any more.

        Of several processes all call it, and process 0 reads: the others need no disk of its.

        Raises:
            GraphFileError: it can't be read, or is of another model or optimizer; nothing is changed then.
            UnsupportedError: the package safetensors is not installed.
        """
        with meeting(self._comm, "Trainer.load"):
            if self._leads:
                numbers, ways, arrays = read_checkpoint(path, self._contents())
                for parameter, array in arrays:
                    parameter.write(array)
                self.steps, self.skipped, self.seed = numbers["steps"], numbers["skipped"], numbers["seed"]
                self._choices.take_over(ways)
        self._share_choices()
        self._take_over()

    def _share_choices(self) -> None:
        """Has the weight gradients of all processes go the ways of process 0."""
        if self._comm is not None:
            self._choices.take_over(of_first(self._comm, self._choices.settled))

    @property
    def _leads(self) -> bool:
        """Whether this process is the one that reads and writes files."""
        return self._comm is None or self._comm.rank == 0

    def export_state_dict(self) -> dict[str, Any]:
        """The state of the module that the graph came from by `from_torch`, for its `load_state_dict`.

        Returns:
            Tensors of torch under the module's names, with their shapes and types, copied: parameters and running
            statistics as they are now, what was not trained as it was, and each name of what has several. Of another
            graph the parameters. Without torch, `graph.state` has the arrays.

        Raises:
            UnsupportedError: torch is not installed.
        """
        return state_dict(self._graph.state)

    def _contents(self) -> Contents:
        """All that a file holds."""
        found = {f"parameter/{name}": one for name, one in self._parameters.items()}
        for name, states in self._states.items():
            kinds = self._optimizers[name].states
            found |= {f"{what}/{name}": one for what, one in zip(kinds, states, strict=True)}
        return Contents(
            parameters=found,
            optimizers={name: type(one).__name__ for name, one in self._optimizers.items()},
            numbers={"steps": self.steps, "skipped": self.skipped, "seed": self.seed},
            ways=self._choices.settled,
        )

    def __repr__(self) -> str:
        return f"Trainer({len(self._states)} parameters, {self.optimizer}, {self.steps} steps)"


def _mixed(*numbers: int) -> int:
    """A seed of 63 bits made of several numbers, which differs a lot where one of them differs a little.

    Source: the finalizer of SplitMix64, Steele et al., Fast splittable pseudorandom number generators (OOPSLA 2014).
    """
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) % (1 << 64)
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % (1 << 64)
        state ^= state >> 31
    return state & WORD
