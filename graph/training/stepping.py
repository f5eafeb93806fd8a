"""Steps: programs by the shapes of inputs, run on the state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.errors import ArgumentError, ResourceError, SkippedStepWarning
from ...ops.values import one_line
from ..compile.options import Tune
from ..compile.signature import Results
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from ..runtime.interrupts import held_back
from .agreement import agree
from .meeting import meeting
from .metrics import batch_size
from .program import Feeds, Program, Shapes, arrays_by_name
from .settings import Precision, Settings
from .state import State
from .step import PREFIX, Step, outputs_of, training_step

END = "the end of a skipped step"
"""Where processes meet once more when a step was not done."""
WORD = (1 << 63) - 1
Seen = Callable[[float, bool, Results, Mapping[str, Array]], None]
"""Takes the loss of a step, whether it was skipped, the outputs of the model, and what was fed."""


class Stepping:
    """Does steps of training.

    Args:
        graph: open; it stays as it is.
        loss: one number, of the graph.
        state: what steps change.

    Attributes:
        programs: by the shapes of inputs, and whether they give the outputs of the model too.
    """

    def __init__(self, graph: Graph, loss: LogicalTensor, state: State, settings: Settings) -> None:
        self._graph, self._loss, self._state, self._settings = graph, loss, state, settings
        if settings.comm is not None:
            agree(settings.comm, graph, loss, state.optimizers, settings.precision.value)
        tune = Tune.off if settings.deterministic else Tune.online
        self._options: dict[str, Any] = {**settings.compile_options, "tune": tune, "choices": state.choices}
        self._broken: Exception | None = None
        kept = settings.kept_shapes
        self.programs: BoundedCache[tuple[Shapes, bool], tuple[Step, Program]] = BoundedCache(
            kept,
            f"Trainer compiles shapes again that it had compiled before, for it keeps {kept}; pad or group batches so "
            f"that they have fewer shapes, or give Trainer(…, kept_shapes={2 * kept})",
        )

    def step(self, feeds: Feeds, seen: Seen | None = None, *, outputs: bool = False) -> float:
        """See `Trainer.step`.

        Args:
            seen: called with what the step has found before anything can interrupt; what it is given is the step's own.
            outputs: whether it is given the outputs of the model, as the forward pass of the step has computed them.
        """
        state, comm = self._state, self._settings.comm
        done = state.steps + state.skipped
        with meeting(comm, "Trainer.step") as brought:
            if comm is not None and self._broken is not None:
                raise ResourceError(
                    "a step broke off here when the other processes had all they need to do it: "
                    f"{one_line(self._broken)}; go on in a new trainer, from a checkpoint"
                )
            arrays = arrays_by_name(self._graph, feeds)
            shapes = tuple(sorted((name, a.shape) for name, a in arrays.items()))
            step, program = self.programs.get((shapes, outputs), lambda: self.program(shapes, outputs))
            numbers = self._numbers(step, done)
            program.take(arrays, numbers)
            rates = [numbers[label(rate)] for _, rate in step.rates]
            brought.value, brought.weight = (step.exchanged, rates), batch_size(arrays.values())
        with held_back():  # parameters and the optimizer's state change together
            results = self._run(step, program)
            loss = float(results[label(step.loss)].reshape(()))
            norm = float(results[label(step.norm)])
            skipped = not np.isfinite(norm)
            if skipped and comm is not None:  # on all alike; one may have broken off
                comm.meet(END)
            state.skipped += skipped
            state.steps += not skipped
            if seen is not None:
                found = {name: results[label(tensor)].copy() for name, tensor in step.outputs.outputs}
                seen(loss, skipped, Results(found, step.outputs), arrays)
        if skipped:
            warnings.warn(
                f"step {done} was skipped: the norm of its gradients is {norm}, and its loss {loss}",
                SkippedStepWarning,
                stacklevel=3,
            )
        return loss

    def _run(self, step: Step, program: Program) -> Mapping[str, Array]:
        """Runs a step. Where it breaks off on this process, the others skip it, or hear of it at the next one."""
        comm = self._settings.comm
        try:
            return program.run()
        except Exception as error:
            if comm is not None and comm.abandon(step.owed):
                comm.meet(END, failure=error)
            else:
                self._broken = error
            raise

    def _numbers(self, step: Step, done: int) -> dict[str, float]:
        """Values of the inputs that training has added, for the step after so many."""
        state, comm = self._state, self._settings.comm
        numbers: dict[str, float] = {label(rate): one.rate(state.steps) for one, rate in step.rates}
        own = [comm.rank] if comm is not None and comm.rank else []
        seeds = {label(t): _mixed(state.seed, done, place, *own) for place, t in enumerate(step.seeds)}
        return numbers | {label(step.step): state.steps + 1} | seeds

    def program(self, shapes: Shapes, outputs: bool = False) -> tuple[Step, Program]:
        """A program for inputs of these shapes.

        Args:
            outputs: whether it gives those of the model too that these inputs are enough for.

        Raises:
            ArgumentError: an input is missing.
        """
        names = {name for name, _ in shapes}
        step = training_step(
            self._graph.with_shapes(dict(shapes)),
            self._loss,
            self._state.optimizers,
            self._state.kept,
            comm=self._settings.comm,
            bf16=self._settings.precision is Precision.bf16,
            outputs=outputs_of(self._graph, self._loss, names) if outputs else {},
        )
        read = {t.id for op in step.graph.ops for t in op.inputs}  # the seed of a model's own is not any more
        wanted = [label(t) for t in step.graph.inputs if t.id in read]
        missing = [n for n in wanted if n not in names and not n.startswith(PREFIX)]
        if missing:
            raise ArgumentError(
                f"input {missing[0]!r} is missing, which the loss depends on; got "
                f"{', '.join(map(repr, sorted(names))) or 'none'}"
            )
        return step, Program(step.graph, self._options)


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
