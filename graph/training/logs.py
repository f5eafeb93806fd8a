"""What `Trainer.fit` tells, in files: a table of epochs, and curves for TensorBoard."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ...ops.errors import GraphFileError
from ..runtime.libraries import library
from ..runtime.replacing import replacing
from ..runtime.text_files import file_error, reason_of
from .callbacks import Callback, Epoch, StepDone, steps


class CsvLog(Callback):
    """Writes a line of a CSV file for each epoch: its number, all of `Epoch.values`, steps and seconds.

    A file that is there is continued; what it says of epochs that are done once more, as the file that training goes on
    from is older, is taken out. Of several processes, process 0 writes.

    Args:
        path: of the file.

    Raises:
        GraphFileError: while training, it can't be written, or has other columns.
    """

    leads_only = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def begin(self, told: Sequence[Epoch], resumed: int | None) -> None:
        if resumed is None or not self.path.exists():
            return
        try:
            head, *rows = self.path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
            kept = [row for row in rows if row.endswith("\n") and _before(row, resumed)]
            if kept != rows:
                with replacing(self.path) as (file,):
                    file.write("".join([head, *kept]).encode())
        except (OSError, ValueError) as error:
            raise file_error(f"{self.path}: can't be continued: {reason_of(error)}", error) from error

    def __call__(self, epoch: Epoch) -> None:
        row: dict[str, float] = {"epoch": epoch.number, **epoch.values}
        row |= {"steps": epoch.steps, "seconds": round(epoch.seconds, 3)}
        try:
            with self.path.open("a+", encoding="utf-8", newline="") as file:
                file.seek(0)
                there = next(csv.reader([file.readline()]), list[str]())
                if there and there != list(row):
                    raise GraphFileError(
                        f"{self.path}: has the columns {', '.join(there)}, and epoch {epoch.number} has "
                        f"{', '.join(row)}; give a log of other metrics another file"
                    )
                lines = StringIO(newline="")
                writer = csv.writer(lines, lineterminator="\n")
                if not there:
                    writer.writerow(row)
                writer.writerow(row.values())
                file.write(lines.getvalue())  # in one piece, with the end of the file
        except (OSError, ValueError) as error:
            if isinstance(error, GraphFileError):
                raise
            raise file_error(f"{self.path}: can't be written: {reason_of(error)}", error) from error


def _before(row: str, epoch: int) -> bool:
    number = row.partition(",")[0]
    return number.isdigit() and int(number) < epoch


class TensorBoardLog(Callback):
    """Writes curves for TensorBoard over the number of steps: `training/loss`, `validation/loss`, and each metric.

    Needs the package tensorboardX, the extra `tensorboard`. Of several processes, process 0 writes.

    Args:
        folder: in which each training makes a file. Of one that goes on from a file, TensorBoard shows the curves that
            are there up to where it goes on.
        every: after how many steps the loss of one is written as `training/step_loss`; 0 for never.

    Raises:
        UnsupportedError: the package is not installed.
    """

    leads_only = True

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 0) -> None:
        self.folder = Path(folder)
        self.every = steps(every, "TensorBoardLog: every") if every else 0
        self._make: Any = library("tensorboardX", "tensorboard", "TensorBoardLog").SummaryWriter
        self._writer: Any = None
        self._steps = 0

    def begin(self, told: Sequence[Epoch], resumed: int | None) -> None:
        self._steps = sum(epoch.steps for epoch in told)

    def step(self, done: StepDone) -> None:
        self._write({"training/step_loss": done.loss}, done.number)

    def __call__(self, epoch: Epoch) -> None:
        told: dict[str, float] = {"training/loss": epoch.loss}
        told |= {f"training/{name}": value for name, value in epoch.training.items()}
        told |= {f"validation/{name}": value for name, value in epoch.validation.items()}
        self._steps += epoch.steps
        self._write(told, self._steps)
        self._writer.flush()

    def _write(self, values: Mapping[str, float], step: int) -> None:
        if self._writer is None:  # what was written of later steps before is hidden
            # Names of files are of seconds, and one of the same second would be written over.
            suffix = f".{step:010d}"
            self._writer = self._make(str(self.folder), purge_step=step, filename_suffix=suffix)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
