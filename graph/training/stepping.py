"""Steps: programs by the shapes of inputs, run on the state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ops.errors import ArgumentError, ResourceError, ShapeError, SkippedStepWarning
from ...ops.values import one_line
from ..compile.options import Tune
from ..compile.signature import Results
from ..model.logical_tensor import label
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from ..runtime.callers import outside
from ..runtime.interrupts import held_back
from .accumulation import LOSS, TOTAL, numbers
from .agreement import agree
from .batch_checks import check_batch, telling_lengths, unequal
from .diagnosis import cause
from .ema import Averages
from .hyperparameters import learning_rate
from .meeting import Meeting, meeting
from .program import PREFIX, Feeds, Program, Shapes, arrays_by_name, batch_size, ids_read
from .settings import Precision, Settings
from .source import Source
from .state import State
from .step import Step, outputs_of, training_step
from .updating import update_step

END = "the end of a skipped step"
"""Where processes meet once more when a step was not done."""
WORD = (1 << 63) - 1
Seen = Callable[[Results, Mapping[str, Array], bool], None]
"""Takes the outputs of the model in a step, what was fed, and whether the step was skipped."""
Updated = Callable[[float, bool], None]
"""Takes the mean loss of what was summed up for an update, and whether it was skipped."""


class Stepping:
    """Does steps of training.

    Args:
        source: of the graphs, which stay as they are.
        state: what steps change.

    Attributes:
        programs: by the shapes of inputs, and whether they give the outputs of the model too.
    """

    def __init__(self, source: Source, state: State, settings: Settings) -> None:
        self._source, self._state, self._settings = source, state, settings
        if settings.comm is not None:
            agree(settings.comm, source.graph, source.loss, state.optimizers, settings.common)
        tune = Tune.off if settings.deterministic else Tune.online
        self._options: dict[str, Any] = {**settings.compile_options, "tune": tune, "choices": state.choices}
        self._broken: Exception | None = None
        self._averages: Averages | None = None
        self.programs: BoundedCache[tuple[Shapes, bool], tuple[Step, Program]] = BoundedCache(
            settings.kept_shapes, settings.again
        )
        self._updates: BoundedCache[tuple[str, ...], tuple[Step, Program]] = BoundedCache(
            settings.kept_shapes
        )
        """By the names of the parameters that they move: batches of other sizes may have gradients of others."""

    def step(
        self, feeds: Feeds, seen: Seen | None = None, updated: Updated | None = None, *, outputs: bool = False
    ) -> float:
        """See `Trainer.step`.

        Args:
            seen: called with what the step has found before anything can interrupt; what it is given is the step's own.
            updated: called likewise where an update is done.
            outputs: whether `seen` is given the outputs of the model, as the forward pass has computed them.
        """
        with (
            self._state.lock
        ):  # arrays of a batch are copied to where another thread's step would put its own
            return self._step(feeds, seen, updated, outputs=outputs)

    def _step(self, feeds: Feeds, seen: Seen | None, updated: Updated | None, *, outputs: bool) -> float:
        state, limit = self._state, self._settings.accumulate
        if state.pending >= limit > 1:  # something has interrupted it before its update
            self.update(updated)
        with self._meeting() as brought:
            arrays = arrays_by_name(self._source.graph, feeds)
            check_batch(self._source.inputs, arrays)
            size, sizes = self.examples(arrays), {name: a.shape for name, a in arrays.items()}
            told = "" if size else unequal(self._source.inputs, sizes)
            if told:
                raise ShapeError(told)
            if not size and self._settings.comm is None and limit == 1:  # else others may have some
                raise ArgumentError(
                    "Trainer.step: the batch has no examples, so that its loss is the mean of nothing; leave it out"
                )
            shapes = tuple(sorted(sizes.items()))
            with telling_lengths(self._source, sizes):
                step, program = self.programs.get((shapes, outputs), lambda: self.program(shapes, outputs))
            given = self._numbers(step) | ({} if step.update is not None else numbers(size))
            program.take(arrays, given)
            brought.value, brought.weight = _compared(step, given), size
            brought.needed = step.update is not None or bool(step.exchanged)
        with held_back():  # parameters and the optimizer's state change together
            results = self._run(step, program)
            loss = float(results[label(step.loss)].reshape(()))
            state.batches += 1
            skipped = self._done(step, results) if step.update is not None else False
            if step.update is None:
                state.take(size, loss, step.summed)
            if seen is not None:
                found = {name: results[label(tensor)].copy() for name, tensor in step.outputs.outputs}
                seen(Results(found, step.outputs), arrays, skipped)
            if step.update is not None and updated is not None:
                updated(loss, skipped)
        if skipped:
            self._warn(step, results, loss, arrays)
        return self.update(updated) if state.pending >= limit > 1 else loss

    def examples(self, arrays: Mapping[str, Array]) -> int:
        """How many examples a batch has."""
        return batch_size(self._source.inputs, arrays)

    def update(self, updated: Updated | None = None) -> float:
        """Moves the parameters by the mean of what has been summed up.

        Returns:
            The mean of the losses.
        """
        with self._state.lock:
            return self._update(updated)

    def _update(self, updated: Updated | None) -> float:
        state = self._state
        with self._meeting() as brought:
            names = tuple(name for name in state.optimizers if name in state.summed)
            step, program = self._updates.get(names, lambda: self._update_of(names))
            count, losses = state.totals.array.tolist()
            loss = losses / count if count else 0.0
            given = self._numbers(step) | {TOTAL: max(count, 1.0), LOSS: loss}
            program.take({}, given)
            brought.value, brought.weight = _compared(step, given), count
        with held_back():
            results = self._run(step, program)
            skipped = self._done(step, results)
            state.drop_sums()
            if self._settings.comm is not None:
                loss = float(results[label(step.loss)].reshape(()))
            if updated is not None:
                updated(loss, skipped)
        if skipped:
            self._warn(step, results, loss, {})
        return loss

    def _update_of(self, names: Sequence[str]) -> tuple[Step, Program]:
        state = self._state
        sums = {name: state.sum_of(name) for name in names}
        step = update_step(
            sums, state.parameters, state.optimizers, state.kept, self._settings.comm, state.shards
        )
        return step, Program(step.graph, self._settings.compile_options)

    @contextmanager
    def _meeting(self) -> Generator[Meeting]:
        """See `meeting`; where one of several processes can't go on, what all have summed up is dropped."""
        try:
            with meeting(self._settings.comm, "Trainer.step") as brought:
                if self._settings.comm is not None and self._broken is not None:
                    raise ResourceError(
                        "a step broke off here when the other processes had all they need to do it: "
                        f"{one_line(self._broken)}; go on in a new trainer, from a checkpoint"
                    )
                yield brought
        except Exception:
            if self._settings.comm is not None:
                self._state.drop_sums()
            raise

    def _run(self, step: Step, program: Program) -> Mapping[str, Array]:
        """Runs a step. Where it breaks off on this process, the others skip it, or hear of it at the next one."""
        comm = self._settings.comm
        shards = self._state.shards
        try:
            if shards is not None and step.update is not None:
                shards.take()
            return program.run()
        except Exception as error:
            self._state.drop_sums()
            if comm is not None and step.update is None and not step.owed:
                comm.meet("Trainer.step", failure=error)  # with the others when they are there
            elif comm is not None and comm.abandon(step.owed):
                comm.meet(END, failure=error)
            else:
                self._broken = error
            raise

    def _done(self, step: Step, results: Mapping[str, Array]) -> bool:
        """Counts an update, and whether it was skipped; averages follow."""
        state, ema = self._state, self._settings.ema
        skipped = not np.isfinite(_norm(step, results))
        if skipped and self._settings.comm is not None:  # on all alike; one may have broken off
            self._settings.comm.meet(END)
        if state.shards is not None and not skipped:
            state.shards.give()
        state.skipped += skipped
        state.steps += not skipped
        if ema is not None and not skipped:
            if self._averages is None:
                self._averages = Averages(state.averages, state.parameters, self._settings.compile_options)
            self._averages.follow(ema.stays(state.steps))
        return skipped

    def _warn(
        self, step: Step, results: Mapping[str, Array], loss: float, feeds: Mapping[str, Array]
    ) -> None:
        done = self._state.steps + self._state.skipped - 1
        why = cause(self._source.graph, self._source.loss, feeds, self._state.parameters, loss)
        warnings.warn(
            f"step {done} was skipped: the norm of its gradients is {_norm(step, results)}, and its loss {loss}; {why}",
            SkippedStepWarning,
            stacklevel=outside(),
        )

    def _numbers(self, step: Step) -> dict[str, float]:
        """Values of the inputs that training has added, for the next step."""
        state, comm, found = self._state, self._settings.comm, dict[str, float]()
        if step.update is not None:
            found = {
                label(rate): learning_rate(one.rate(state.steps), one) for one, rate in step.update.rates
            }
            found[label(step.update.step)] = state.steps + 1
        own = [comm.rank] if comm is not None and comm.rank else []
        seeds = {
            label(t): _mixed(state.seed, state.batches, place, *own) for place, t in enumerate(step.seeds)
        }
        return found | seeds

    def program(self, shapes: Shapes, outputs: bool = False) -> tuple[Step, Program]:
        """A program for inputs of these shapes.

        Args:
            outputs: whether it gives those of the model too that these inputs are enough for.

        Raises:
            ArgumentError: an input is missing.
        """
        names = {name for name, _ in shapes}
        graph, loss = self._source.at(dict(shapes))
        step = training_step(
            graph,
            loss,
            self._state.optimizers,
            self._state.kept,
            shards=self._state.shards,
            comm=self._settings.comm,
            bf16=self._settings.precision is Precision.bf16,
            outputs=outputs_of(graph, loss, names) if outputs else {},
            recompute=self._settings.recompute,
            sums=self._state.sum_of if self._settings.accumulate > 1 else None,
        )
        read = ids_read(step.graph)  # the seed of a model's own is not any more
        wanted = [label(t) for t in step.graph.inputs if t.id in read]
        missing = [n for n in wanted if n not in names and not n.startswith(PREFIX)]
        if missing:
            raise ArgumentError(
                f"input {missing[0]!r} is missing, which the loss or what is assigned depends on; got "
                f"{', '.join(map(repr, sorted(names))) or 'none'}"
            )
        return step, Program(step.graph, self._options)


def _compared(step: Step, numbers: Mapping[str, float]) -> str:
    """What must be the same on all processes, in words: a difference is told to people."""
    rates = [] if step.update is None else [numbers[label(rate)] for _, rate in step.update.rates]
    return f"learning rates {rates} and gradients {step.exchanged}"


def _norm(step: Step, results: Mapping[str, Array]) -> float:
    return float("nan") if step.update is None else float(results[label(step.update.norm)])


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
