"""Trainer: steps of training, evaluation, and files to go on from."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ...ops.errors import ArgumentTypeError, GraphError
from ..compile.signature import Results
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..open_graph import OpenGraph
from ..precision.inference import for_inference
from ..runtime.engine import Engine
from .callbacks import Epoch, Listener
from .ema import EMA
from .evaluation import Evaluation
from .fitting import Batches, Fitting
from .groups import Choice, Patterns, chosen
from .metrics import Metric
from .optimizers import Optimizer
from .program import Feeds
from .settings import Precision, Settings
from .source import LossOf, TemplateSource, served, source_of
from .state import State
from .state_dict import state_dict
from .step import Communicator, check_trainable
from .stepping import Stepping


class Trainer:
    """Trains the parameters of a graph, in their place: the graph, and what is compiled from it, shares them.

    One step, forward, backward and update, is one program. It is made at the first step, once for each set of input
    shapes. What the graph assigns itself, running statistics say, is assigned at each step and is not differentiated.
    The seed of each Dropout comes from `seed` and the number of the step. A step whose gradients are not finite, in one
    process or in all, changes nothing and warns. Threads that call one trainer at once wait for each other.

    Args:
        graph: with parameters; it stays as it is, but for their values. An `OpenGraph`, whose ops depend on sizes that
            are open, is made anew for the sizes of each batch, with the same parameters.
        loss: one number, of the graph; or a function that adds it to a graph, with inputs for labels, and returns it,
            as an `OpenGraph` needs it.
        optimizer: `SGD`, `Adam`, `AdamW`, or another one that does what `Optimizer` says; or several: a mapping from
            patterns of names, as `fnmatch` has them, of which the first that fits counts, or a function from a
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
        accumulate: how many steps are one update, by the mean of their gradients, in which each counts as often as its
            batch is long. Processes exchange no gradients but for an update. Running statistics follow each step.
        ema: the share of exponential moving averages of the parameters that stays at each update, or an `EMA`; None for
            no averages. `evaluate`, `validate`, `model` and `export_state_dict` take `ema=True`. Running statistics are
            those of the model.
        recompute: patterns of names, as `fnmatch` has them, of ops and tensors that the backward pass computes again so
            that they need not be kept: less memory for more time. Numbers are the same.

    Attributes:
        optimizer: as it was given.

    Raises:
        ArgumentError, ArgumentTypeError, ShapeError: an argument does not fit; there is nothing to train.
    """

    def __init__(
        self,
        graph: Graph | OpenGraph,
        loss: LogicalTensor | LossOf,
        optimizer: Optimizer | Choice | Patterns,
        *,
        comm: Communicator | None = None,
        precision: Precision | str = Precision.f32,
        seed: int = 0,
        engine: Engine | None = None,
        threads: int | None = None,
        deterministic: bool = False,
        kept_shapes: int = 16,
        accumulate: int = 1,
        ema: float | EMA | None = None,
        recompute: Sequence[str] = (),
    ) -> None:
        self._settings = Settings(
            comm=comm,
            precision=precision,
            seed=seed,
            engine=engine,
            threads=threads,
            deterministic=deterministic,
            kept_shapes=kept_shapes,
            accumulate=accumulate,
            ema=ema,
            recompute=recompute,
        )
        self.optimizer = optimizer
        self._source = source_of(graph, loss)
        trained = check_trainable(self._source.graph, self._source.loss)
        self._state = State(
            self._source.parameters,
            trained,
            chosen(optimizer, trained),
            self._settings,
        )
        self._stepping = Stepping(self._source, self._state, self._settings)
        self._evaluation = Evaluation(self._source, self._settings, self._state.averages, self._state.lock)

    @property
    def steps(self) -> int:
        """How many updates are done, one for each step unless some accumulate."""
        return self._state.steps

    @property
    def skipped(self) -> int:
        """How many updates were skipped."""
        return self._state.skipped

    @property
    def seed(self) -> int:
        """Of random numbers; that of the file after `load`."""
        return self._state.seed

    @property
    def state_bytes(self) -> int:
        """What the optimizer keeps in this process, in bytes; with `shard_optimizer` its part."""
        return self._state.state_bytes

    @property
    def precision(self) -> Precision:
        """In what the forward and backward passes compute."""
        return self._settings.precision

    @property
    def deterministic(self) -> bool:
        """Whether two runs of the same steps compute the same bits."""
        return self._settings.deterministic

    @property
    def leads(self) -> bool:
        """Whether this is the one process, of those that train together, that writes files and shows things."""
        return self._settings.leads

    # --- steps ---------------------------------------------------------------------------------------

    def step(self, feeds: Feeds) -> float:
        """One step: forward, backward, update.

        Args:
            feeds: arrays by the names of the inputs.

        Returns:
            The loss before the update. With `accumulate`, a step that updates returns the mean of all that are one with
            it, in all processes, and the others their own.

        Raises:
            ArgumentError, DataTypeError, ShapeError: an input is missing, unknown, or does not fit; nothing is changed.
        """
        return self._stepping.step(feeds)

    def flush(self) -> float | None:
        """Updates by the steps since the last update, where fewer than `accumulate` are to be one.

        `fit` does so at the end of each epoch. Of several processes all call it, behind as many steps.

        Returns:
            The mean of their losses; None where there are none, and nothing is changed.
        """
        return self._stepping.update() if self._state.pending else None

    def fit(
        self,
        batches: Batches,
        epochs: int = 1,
        *,
        first: int | None = None,
        validation: Batches | None = None,
        metrics: Mapping[str, Metric] | None = None,
        training_metrics: Mapping[str, Metric] | None = None,
        callbacks: Sequence[Listener] = (),
        ema: bool = False,
    ) -> list[Epoch]:
        """Steps over batches, again and again.

        After `load` of a file that was written while `fit` was under way, the same call does what was left of it, from
        the batch on that came next. Ctrl-C comes out as a KeyboardInterrupt between two steps; the state is whole then,
        and `save` keeps it with the place to go on from.

        A bar on the terminal says how far it is, where rich is installed (the extra `cli`), and a plain line otherwise.

        Args:
            batches: feeds of each step, gone through once an epoch; or a function from the number of the epoch to them.
            epochs: how many times.
            first: number of the first epoch. None goes on where the file that was loaded was written, `epochs` being
                counted from where that training began; or begins with 0.
            validation: batches of other data, which `validate` runs over after each epoch.
            metrics: of the validation data, see `validate`.
            training_metrics: of the training batches, from the outputs that the forward pass of each step computes
                anyway: with the batch's statistics, with Dropout, and before the update. Steps that were skipped do not
                count.
            callbacks: called after each epoch, as `print` may be, or derived from `Callback`. StopIteration from one
                ends the training early, for all processes, when all callbacks have been called; any other exception
                goes on to the caller, and ends the others.
            ema: whether validation is of the averages of the parameters, see `validate`.

        Returns:
            What was told of each epoch that this call has done.

        Raises:
            ArgumentError: there are no batches, as where an iterator is used up; metrics without validation data;
                a metric or a callback goes by a name that there is not.
            ArgumentTypeError: batches are none.
            ResourceError: another process has failed, or has other arguments.
        """
        fitting = Fitting(self._stepping, self._evaluation, self._state, self._settings)
        return fitting.fit(
            batches, epochs, first, validation, metrics or {}, training_metrics or {}, callbacks, ema
        )

    # --- evaluation ----------------------------------------------------------------------------------

    def evaluate(self, feeds: Feeds, *, ema: bool = False) -> Results:
        """Runs the model as it is now: with running statistics, without Dropout, in f32.

        Args:
            feeds: arrays by the names of inputs. What depends on others is not computed: without labels there is no
                loss.
            ema: whether with averages in the place of the parameters.

        Returns:
            The outputs of the graph that these inputs give, and the loss among them where it is one.

        Raises:
            ArgumentError: they give no output.
        """
        return self._evaluation.evaluate(feeds, ema=ema)

    def validate(
        self, batches: Iterable[Feeds], metrics: Mapping[str, Metric] | None = None, *, ema: bool = False
    ) -> dict[str, float]:
        """Means over batches, of the model as `evaluate` runs it. Of several processes all call it, each with its part.

        Args:
            batches: feeds, with all that the loss depends on.
            metrics: functions by name. Each gets the outputs of a batch and its feeds, both by name, and returns one
                number for each example, in an array, or one for the batch; the mean of all is told. See `Accuracy`.
            ema: whether with averages in the place of the parameters.

        Returns:
            The mean of the loss under `loss`, and that of each metric. A batch counts as often as it has examples,
            along the first axis of the first input of the graph for which that size is open; where the loss is a
            weighted mean, by `class_weights` or `ignore_index`, as much as its weights are, so that the mean is that of
            all examples, however they are put into batches.

        Raises:
            ArgumentError: there are no batches, or they lack what the loss depends on.
        """
        return self._evaluation.validate(batches, metrics, ema=ema)

    def model(
        self,
        outputs: Sequence[str | LogicalTensor] | None = None,
        *,
        fold_batch_norm: bool = False,
        ema: bool = False,
    ) -> Graph:
        """The model as it is now, to be compiled, saved or written as ONNX; training may go on meanwhile.

        Args:
            outputs, fold_batch_norm: see `Graph.for_inference`, which it is made by. The loss is an output only where
                it is named as one.
            ema: whether with averages in the place of the parameters.

        Raises:
            ArgumentError, ArgumentTypeError, UnsupportedError: see `Graph.for_inference`.
            GraphError: an `OpenGraph` is trained, which `open_model` gives.
        """
        if self._source.template is not None:
            raise GraphError(
                "Trainer.model: the model's ops depend on sizes that are open; take it for some sizes, "
                "trainer.open_model().with_shapes({…}), or run it for any, trainer.open_model().compile()"
            )
        with self._state.lock:
            graph = self._evaluation.graph(ema=ema)
            return for_inference(graph, outputs, folded=fold_batch_norm, loss=self._source.loss)

    def open_model(
        self,
        outputs: Sequence[str | LogicalTensor] | None = None,
        *,
        fold_batch_norm: bool = False,
        ema: bool = False,
    ) -> OpenGraph:
        """The same where an `OpenGraph` is trained.

        Args:
            outputs, fold_batch_norm, ema: see `model`.

        Raises:
            ArgumentError, ArgumentTypeError, UnsupportedError: see `Graph.for_inference`.
            GraphError: a graph is trained, which `model` gives.
        """
        source = self._source
        if not isinstance(source, TemplateSource):
            raise GraphError(
                "Trainer.open_model: a graph is trained, not an OpenGraph; trainer.model() gives it"
            )
        with self._state.lock:
            now = {name: copy.copy(one) for name, one in self._state.parameters.items()}
            now |= {name: copy.copy(one) for name, one in self._evaluation.parameters(ema=ema).items()}
        return served(source, now, outputs, fold_batch_norm)

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
        self._state.save(path)

    def load(self, path: str | os.PathLike[str], *older: str | os.PathLike[str]) -> Path:
        """Takes up what `save` wrote; training then goes on as if it had never stopped, bit for bit.

        That holds on the same machine, library and number of threads, and nothing is tried in turn any more.

        Of several processes all call it, and process 0 reads: the others need no disk of its.

        Args:
            older: files to be taken, in their order, where one can't be read or is damaged, which a `CheckpointWarning`
                says.

        Returns:
            The file that was taken, as process 0 has it.

        Raises:
            GraphFileError: none can be read, or the last is of another model or optimizer; nothing is changed then.
            UnsupportedError: the package safetensors is not installed.
        """
        return self._state.load(path, *older)

    def load_newest(self, folder: str | os.PathLike[str]) -> Path | None:
        """Takes up the newest file of a folder that `Checkpoints` writes to; `fit` then goes on from there.

        One that is damaged is passed over with a `CheckpointWarning`. Of several processes all call it, and process 0
        reads.

        Returns:
            The file, as process 0 has it; None where there is none, or no such folder.

        Raises:
            GraphFileError: there are files, but none that is whole and of this model and optimizer.
            UnsupportedError: the package safetensors is not installed.
        """
        return self._state.load_newest(folder)

    def snapshot(self) -> Callable[[], None]:
        """Copies parameters, the optimizer's state and the number of steps in memory.

        Returns:
            A function that puts them back.
        """
        return self._state.snapshot()

    def export_state_dict(self, *, ema: bool = False) -> dict[str, Any]:
        """The state of the module that the graph came from by `from_torch`, for its `load_state_dict`.

        Args:
            ema: whether with averages in the place of the parameters.

        Returns:
            Tensors of torch under the module's names, with their shapes and types, copied: parameters and running
            statistics as they are now, what was not trained as it was, and each name of what has several. Of another
            graph the parameters. Without torch, `graph.state` has the arrays.

        Raises:
            UnsupportedError: torch is not installed.
        """
        with self._state.lock:
            return state_dict(self._evaluation.graph(ema=ema).state)

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a Trainer can't be copied or pickled: its programs belong to one process; save(path) and load(path) in "
            "another Trainer go on from where it is, snapshot() goes back there, and model() is a graph, which can be"
        )

    def __repr__(self) -> str:
        return f"Trainer({len(self._state.kept)} parameters, {self.optimizer}, {self.steps} steps)"
