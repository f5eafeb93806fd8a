"""A folder of checkpoints: the last ones and the best one, from which training goes on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ...ops.errors import ArgumentError
from ...ops.values import format_value, integer
from ..runtime.replacing import replacing
from ..runtime.text_files import file_error, reason_of
from .callbacks import Best, Callback, Epoch, Mode, StepDone, steps

NAME = re.compile(r"step-(\d{10,})\.safetensors")
BEST = "best.safetensors"


class Saved(Protocol):
    """A `Trainer`, for `Checkpoints`."""

    @property
    def steps(self) -> int: ...

    @property
    def skipped(self) -> int: ...

    @property
    def leads(self) -> bool: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...

    def load(self, path: str | os.PathLike[str]) -> object: ...


class Checkpoints(Callback):
    """Writes `trainer.save` files to a folder, after each epoch or more often, and keeps the last ones and the best.

    They are called `step-0000001200.safetensors`, by the number of steps, so that their names sort; the best one is
    there as `best.safetensors` too, and `trainer.load_newest(folder)` takes up the newest. An old one is removed when
    the new one is whole and on the disk. Where that can't be written, as on a full disk, the error ends `fit`, the old
    ones stay, and the state in memory is whole.

    Of several processes all have this callback, and process 0 writes and reads.

    Args:
        trainer: that is trained.
        folder: made where it is not there.
        keep: how many of the last ones stay; None for all.
        best: the mean by which the best one is known, see `Epoch.values`; None keeps none.
        mode: `min` where small values of it are better, `max` where large ones are.
        every: after how many steps one is written; 0 for after each epoch. With `best`, one is written after each epoch
            as well.

    Raises:
        ArgumentError, ArgumentTypeError: an argument does not fit.
    """

    last = True

    def __init__(
        self,
        trainer: Saved,
        folder: str | os.PathLike[str],
        *,
        keep: int | None = 3,
        best: str | None = None,
        mode: Mode | str = Mode.min,
        every: int = 0,
    ) -> None:
        self._trainer = trainer
        self.folder = Path(folder)
        self._keep = None if keep is None else steps(keep, "Checkpoints: keep")
        self.monitor, self._mode = best, mode
        self._best = None if best is None else Best(best, mode)
        number = None if isinstance(every, bool) else integer(every)
        if number is None or number < 0:
            raise ArgumentError(f"Checkpoints: every must be a number of steps, got {format_value(every)}")
        self.every = number

    def load_best(self) -> None:
        """Loads the best one.

        Raises:
            GraphFileError: there is none, or it is of another model.
        """
        self._trainer.load(self.folder / BEST)

    def begin(self, told: Sequence[Epoch], resumed: int | None) -> None:
        if self._trainer.leads:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise file_error(f"{self.folder}: can't be made: {reason_of(error)}", error) from error
        if self.monitor is not None:
            self._best = Best(self.monitor, self._mode)
            for epoch in told:
                self._best.take(epoch)

    def step(self, done: StepDone) -> None:
        self._write()

    def __call__(self, epoch: Epoch) -> None:
        better = self._best is not None and self._best.take(epoch)
        if not self.every or better:
            self._write(best=better)

    def _write(self, *, best: bool = False) -> None:
        path = self.folder / f"step-{self._trainer.steps + self._trainer.skipped:010d}.safetensors"
        # The best one first: should this end in between, training goes on from before, and writes it again.
        self._trainer.save(self.folder / BEST if best else path)
        if not self._trainer.leads:
            return
        if best:
            _give_name(self.folder / BEST, path)
        if self._keep is not None:
            older = [one for one in checkpoints(self.folder) if number_of(one) < number_of(path)]
            for one in older[self._keep - 1 :]:
                with suppress(OSError):  # it is gone already, or may not be removed: no reason to stop
                    one.unlink()


def number_of(path: Path) -> int:
    """The number of steps in a file's name; -1 where it is none of these."""
    found = NAME.fullmatch(path.name)
    return int(found[1]) if found else -1


def checkpoints(folder: Path) -> list[Path]:
    """The files of a folder, the newest first."""
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if number_of(one) >= 0), key=number_of, reverse=True)


def _give_name(path: Path, name: Path) -> None:
    """Another name for a file, in the place of what has it: without a copy where the disk knows such."""
    beside = name.with_name(f".{name.name}.{os.getpid()}.part")
    try:
        beside.unlink(missing_ok=True)
        os.link(path, beside)
        os.replace(beside, name)
    except OSError:
        try:
            with path.open("rb") as source, replacing(name) as (file,):
                shutil.copyfileobj(source, file)
        except (OSError, ValueError) as error:
            raise file_error(f"{name}: can't be written: {reason_of(error)}", error) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
