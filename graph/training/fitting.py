"""Steps over batches, again and again, and what is told of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from itertools import islice
from operator import length_hint
from time import perf_counter
from typing import cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, CheckpointWarning, nearest
from ...ops.values import format_value, integer
from ..compile.signature import Results
from ..runtime.arrays import Array
from ..runtime.callers import outside
from ..runtime.progress import bar
from .batch_checks import check_batches
from .callbacks import Callback, Epoch, Listener, StepDone
from .evaluation import Evaluation
from .meeting import meeting
from .metrics import Metric
from .prefetching import close
from .program import Feeds
from .progress import Progress
from .settings import Settings
from .state import State
from .stepping import Stepping

Batches = Iterable[Feeds] | Callable[[int], Iterable[Feeds]]
"""The feeds of each step, gone through once an epoch; or a function from the number of the epoch to them."""
END: Feeds = {}
"""Stands for no batch, by its identity."""


class Fitting:
    """Does epochs; all processes of several do it together.

    Args:
        stepping, evaluation, state, settings: of the trainer.
    """

    def __init__(self, stepping: Stepping, evaluation: Evaluation, state: State, settings: Settings) -> None:
        self._stepping, self._evaluation, self._state = stepping, evaluation, state
        self._comm, self._leads = settings.comm, settings.leads

    def fit(
        self,
        batches: Batches,
        epochs: int,
        first: int | None,
        validation: Batches | None,
        metrics: Mapping[str, Metric],
        training_metrics: Mapping[str, Metric],
        callbacks: Sequence[Listener],
        ema: bool,
    ) -> list[Epoch]:
        """See `Trainer.fit`."""
        with meeting(self._comm, "Trainer.fit") as brought:
            for what, given in (("batches", batches), ("validation", validation)):
                if given is not None and not callable(
                    given
                ):  # what goes wrong here needs no epoch to be seen
                    check_batches(given, what, self._evaluation.input_names)
            count = _count(epochs, "epochs")
            start = None if first is None else _count(first, "first")
            _check_metrics("metrics", metrics)
            _check_metrics("training_metrics", training_metrics)
            _check_callbacks(callbacks)
            if metrics and validation is None:
                raise ArgumentError(
                    "fit: metrics are of validation data; give validation=… too, or training_metrics"
                )
            if "loss" in metrics or "loss" in training_metrics:
                raise ArgumentError("fit: a metric can't be called 'loss', which is told anyway; rename it")
            self._evaluation.check_metrics("fit: metrics", metrics)
            self._evaluation.check_metrics("fit: training_metrics", training_metrics)
            if ema:
                if validation is None:
                    raise ArgumentError("fit: ema=True is of validation data; give validation=… too")
                self._evaluation.graph(ema=True)
            _check_monitors(callbacks, metrics, training_metrics, validation is not None)
            brought.value = count, start, validation is None, tuple(metrics), tuple(training_metrics), ema
        state = self._state
        if start is not None or not state.loaded or state.progress is None:
            state.progress, state.loaded = Progress(first=start or 0, epoch=start or 0), False
        resumed = state.progress.epoch if state.loaded else None
        state.loaded = False
        progress = state.progress
        end = progress.first + count
        if count and progress.epoch >= end:
            warnings.warn(
                f"fit: the file that was loaded was written after {progress.epoch - progress.first} epochs of {count}, "
                "and nothing is left to do; fit(…, first=0) begins anew",
                CheckpointWarning,
                stacklevel=outside(),
            )
        heard = [
            one for one in callbacks if self._leads or not (isinstance(one, Callback) and one.leads_only)
        ]
        heard.sort(key=lambda one: isinstance(one, Callback) and one.last)
        done = len(progress.told)
        with ExitStack() as ends:
            stop = self._all_hear(
                [partial(_begin, one, tuple(progress.told), resumed, ends) for one in heard]
            )
            every = self._common_intervals(heard)
            while progress.epoch < end and not stop:
                if self._steps(batches, progress, end, training_metrics, heard, every):
                    return progress.told[done:]  # it can go on from within the epoch
                epoch = self._told(progress, validation, metrics, training_metrics, ema)
                progress.done(epoch)
                stop = self._all_hear([partial(one, epoch) for one in heard])
            if not stop:
                state.progress = None
        return progress.told[done:]

    # --- an epoch ---

    def _steps(
        self,
        batches: Batches,
        progress: Progress,
        end: int,
        metrics: Mapping[str, Metric],
        heard: Sequence[Listener],
        every: Sequence[int],
    ) -> bool:
        """The rest of the epoch; whether a callback has ended it before."""
        with self._telling():
            feeding = batches_of(batches, progress.epoch, "batches", self._evaluation.input_names)
            known = length_hint(feeding, -1)
            iterator = _from(feeding, progress.batch)
        begun, before, stop = perf_counter(), progress.seconds, False

        def updated(loss: float, skipped: bool) -> None:
            if not skipped:
                progress.means.add("loss", loss)

        def seen(outputs: Results, feeds: Mapping[str, Array], skipped: bool) -> None:
            progress.batch += 1
            progress.steps += 1
            progress.seconds = before + perf_counter() - begun
            if metrics and not skipped and self._stepping.examples(feeds):
                with self._telling():
                    for name, metric in metrics.items():
                        progress.means.add(name, metric(outputs, feeds))

        what = f"epoch {progress.epoch} ({progress.epoch - progress.first + 1} of {end - progress.first})"
        try:
            with bar(what, known if known >= 0 else None, shown=self._leads) as show:
                for feeds in self._drawn(iterator):
                    skipped = self._state.skipped
                    loss = self._stepping.step(feeds, seen, updated, outputs=bool(metrics))
                    show(progress.batch, f"loss {loss:.4g}")
                    done = StepDone(
                        epoch=progress.epoch,
                        batch=progress.batch - 1,
                        number=progress.steps,
                        loss=loss,
                        skipped=self._state.skipped != skipped,
                    )
                    with self._telling():
                        for one in heard:
                            if isinstance(one, Callback) and one.every and not progress.steps % one.every:
                                stop |= _stops(partial(one.step, done))
                    if stop and self._comm is None:
                        return True
                    if any(not progress.steps % one for one in every) and self._agreed(stop):
                        return True
        finally:
            close(iterator, None if callable(batches) else batches)
        with meeting(self._comm, "the end of an epoch") as brought:
            if not progress.batch:
                raise ArgumentError(
                    f"epoch {progress.epoch} has no batches; give a list, or a function that makes them for each epoch"
                )
            brought.value = self._state.pending
        if self._state.pending:  # what is left of an accumulation is an update too
            self._stepping.update(updated)
        return self._agreed(stop)

    def _drawn(self, iterator: Iterator[Feeds]) -> Iterator[Feeds]:
        """The batches; where this process can't make one, those that wait for its step hear of it."""
        while True:
            with self._telling():
                feeds = next(iterator, END)
            if feeds is END:
                return
            yield feeds

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Has the others, who come to their next step, hear of what fails in what the user gave to this process."""
        try:
            yield
        except Exception as error:
            if self._comm is not None:
                self._comm.meet("Trainer.step", failure=error)
            raise

    def _told(
        self,
        progress: Progress,
        validation: Batches | None,
        metrics: Mapping[str, Metric],
        training_metrics: Mapping[str, Metric],
        ema: bool,
    ) -> Epoch:
        found: Mapping[str, float] = {}
        if validation is not None:
            feeding = batches_of(validation, progress.epoch, "validation", self._evaluation.input_names)
            found = self._evaluation.validate(feeding, metrics, ema=ema)
        mean = None if self._comm is None else self._comm.mean
        return Epoch(
            number=progress.epoch,
            loss=progress.means.found(["loss"], None)["loss"],  # each step's is that of all processes
            steps=progress.batch,
            seconds=progress.seconds,
            training=progress.means.found(training_metrics, mean),
            validation=found,
        )

    # --- together ---

    def _all_hear(self, calls: Sequence[Callable[[], object]]) -> bool:
        """Calls all of these; whether one of them ends the training, in any process."""
        with meeting(self._comm, "the callbacks of Trainer.fit"):
            stop = [_stops(call) for call in calls]
        return self._agreed(any(stop))

    def _agreed(self, stop: bool) -> bool:
        if self._comm is None:
            return stop
        self._comm.meet("the question whether training ends")
        return self._comm.mean(float(stop)) > 0

    def _common_intervals(self, heard: Sequence[Listener]) -> list[int]:
        """After how many steps, each, processes ask each other whether a callback ends the training.

        Those of the callbacks of the first process: what the others have need not be known.
        """
        if self._comm is None:
            return []
        own = sorted({one.every for one in heard if isinstance(one, Callback) and one.every})
        size = np.array([len(own)], np.int64)
        self._comm.broadcast([size])
        intervals = np.array(own if self._leads else np.zeros(int(size[0])), np.int64)
        self._comm.broadcast([intervals])
        return intervals.tolist()


def _check_metrics(what: str, metrics: object) -> None:
    if not isinstance(metrics, Mapping):
        raise ArgumentTypeError(
            f"fit: {what} must be a mapping from names to functions, {{'accuracy': Accuracy(…)}}, got "
            f"{format_value(metrics)}"
        )


def _check_callbacks(callbacks: object) -> None:
    if not isinstance(callbacks, Sequence):
        raise ArgumentTypeError(
            f"fit: callbacks must be a list, got {format_value(callbacks)}; write [callback] for one"
        )
    for one in cast("Sequence[object]", callbacks):
        if not callable(one) or (isinstance(one, type) and issubclass(one, Callback)):
            raise ArgumentTypeError(
                f"fit: a callback must be a Callback or a function of an Epoch, got {format_value(one)}"
            )


def _check_monitors(
    callbacks: Sequence[Listener],
    metrics: Mapping[str, Metric],
    training_metrics: Mapping[str, Metric],
    validated: bool,
) -> None:
    """Sees to it that the means that callbacks read will be told, before an epoch is gone."""
    validation = ["loss", *metrics] if validated else []
    told = ["loss", *training_metrics, *(f"validation {name}" for name in validation)]
    for one in callbacks:
        name = one.monitor if isinstance(one, Callback) else None
        if isinstance(name, str) and name not in told:
            way_out = "" if validated else "; give fit(…, validation=…) for what is of validation data"
            raise ArgumentError(
                f"fit: {type(one).__name__} reads {format_value(name)}, which is not told{nearest(name, told)}; each "
                f"epoch has {', '.join(map(repr, told))}{way_out}"
            )


def _begin(callback: Listener, told: Sequence[Epoch], resumed: int | None, ends: ExitStack) -> None:
    if isinstance(callback, Callback):
        ends.callback(callback.end)
        callback.begin(told, resumed)


def _stops(call: Callable[[], object]) -> bool:
    try:
        call()
    except StopIteration:
        return True
    return False


def _from(batches: Iterable[Feeds], done: int) -> Iterator[Feeds]:
    """The batches of an epoch behind those that are done."""
    if isinstance(batches, Sequence):
        return iter(batches[done:] if done else batches)
    iterator = iter(batches)
    next(islice(iterator, done, done), None)  # they are drawn, and left
    return iterator


def batches_of(batches: Batches, number: int, what: str, names: Sequence[str] = ()) -> Iterable[Feeds]:
    """The batches of an epoch.

    Args:
        what: the argument, for errors.
        names: of the inputs, for errors.

    Raises:
        ArgumentTypeError: they are none, or one alone.
    """
    if callable(batches):
        try:
            signature(batches).bind(number)
        except ValueError:  # it has none that could be looked at
            pass
        except TypeError as error:
            raise ArgumentTypeError(
                f"{what} must be a function of the number of the epoch, lambda epoch: …, got {format_value(batches)} "
                f"({error})"
            ) from None
    found = cast("object", batches(number) if callable(batches) else batches)
    check_batches(found, what, names)
    return cast("Iterable[Feeds]", found)


def _count(value: int, what: str) -> int:
    number = integer(value)
    if number is None or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an integer, got {format_value(value)}")
    if number < 0:
        raise ArgumentError(f"{what} must be 0 or more, got {number}")
    return number
