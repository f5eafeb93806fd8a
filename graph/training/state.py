"""What goes on from step to step, and the files that keep it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...ops.errors import ArgumentError, CheckpointWarning, GraphFileError
from ..compile.trials import Choices
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.parameter import Parameter
from .checkpoint import Contents, read_checkpoint, write_checkpoint
from .checkpoint_folder import checkpoints
from .meeting import meeting
from .optimizers import Optimizer
from .plateau import plateaus
from .progress import Progress, progress_of
from .settings import Settings
from .ways import of_first


class State:
    """All that one step leaves to the next: what it starts from is the same in all processes.

    Args:
        parameters: of the graph, by name.
        trained: those of them that are trained.
        optimizers: by the parameter's name, of those that have one.

    Attributes:
        parameters: by name.
        optimizers: by the parameter's name.
        kept: what the optimizer keeps of each parameter, in the order of `Optimizer.states`.
        steps: how many are done.
        skipped: how many were skipped.
        seed: of random numbers.
        choices: the ways that weight gradients go.
        progress: of `Trainer.fit` that is under way, was interrupted, or is to go on; None where there is none.
        loaded: whether that is from a file, and `fit` has not gone on yet.
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        trained: Sequence[LogicalTensor],
        optimizers: Mapping[str, Optimizer],
        settings: Settings,
    ) -> None:
        shapes = {label(t): t.dims for t in trained}
        self.parameters = dict(parameters)
        self.optimizers = dict(optimizers)
        self.kept: dict[str, tuple[Parameter, ...]] = {
            name: tuple(
                Parameter(np.zeros(shapes[name], np.float32), np.dtype(np.float32)) for _ in one.states
            )
            for name, one in optimizers.items()
        }
        self.steps: int = 0
        self.skipped: int = 0
        self.seed = settings.seed
        self.choices = Choices()
        self.progress: Progress | None = None
        self.loaded = False
        self._settings = settings
        self.take_over()

    @property
    def contents(self) -> Contents:
        """All that a file holds."""
        found = {f"parameter/{name}": one for name, one in self.parameters.items()}
        for name, states in self.kept.items():
            kinds = self.optimizers[name].states
            found |= {f"{what}/{name}": one for what, one in zip(kinds, states, strict=True)}
        found |= {f"plateau/{n}": one.memory for n, one in enumerate(plateaus(self.optimizers.values()))}
        return Contents(
            parameters=found,
            optimizers={name: type(one).__name__ for name, one in self.optimizers.items()},
            numbers={"steps": self.steps, "skipped": self.skipped, "seed": self.seed},
            ways=self.choices.settled,
            fit="" if self.progress is None else self.progress.text,
        )

    def take_over(self) -> None:
        """Has all processes go on from where process 0 is."""
        comm = self._settings.comm
        if comm is None:
            return
        numbers = np.array([self.steps, self.skipped, self.seed % (1 << 64)], np.uint64)
        contents = list(self.contents.parameters.values())
        comm.broadcast([numbers, *(one.array for one in contents)])
        for one in contents:
            one.changed()
        if comm.rank:
            self.steps, self.skipped, self.seed = map(int, numbers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """See `Trainer.save`."""
        self.choices.settle()
        self._share_choices()
        with meeting(self._settings.comm, "Trainer.save"):
            if self._settings.leads:
                write_checkpoint(path, self.contents)

    def load(self, *paths: str | os.PathLike[str]) -> Path:
        """See `Trainer.load`."""
        found = self._load(lambda: paths)
        if found is None:
            raise ArgumentError("Trainer.load takes a file, got none")
        return found

    def load_newest(self, folder: str | os.PathLike[str]) -> Path | None:
        """See `Trainer.load_newest`."""
        return self._load(lambda: checkpoints(Path(folder)))

    def _load(self, find: Callable[[], Sequence[str | os.PathLike[str]]]) -> Path | None:
        """Takes up the first file that is whole of those that process 0 finds; None where it finds none."""
        name, fit = "", ""
        with meeting(self._settings.comm, "Trainer.load"):
            if self._settings.leads:
                name, fit = self._load_first(find())
                self.progress = progress_of(name, fit)
        self._share_choices()
        self.take_over()
        comm = self._settings.comm
        if comm is not None:
            shared = of_first(comm, {"name": name, "fit": fit})
            name = shared["name"]
            self.progress = progress_of(name, shared["fit"])
        self.loaded = self.progress is not None
        return Path(name) if name else None

    def _load_first(self, paths: Sequence[str | os.PathLike[str]]) -> tuple[str, str]:
        """Takes up the first file that is whole; its name, and how far `fit` was."""
        for path in paths:
            name = os.fsdecode(path)
            try:
                numbers, ways, fit, arrays = read_checkpoint(path, self.contents)
                progress_of(name, fit)
            except GraphFileError as error:
                if path == paths[-1]:
                    raise
                warnings.warn(f"{error}; an older file is taken", CheckpointWarning, stacklevel=4)
                continue
            for parameter, array in arrays:
                parameter.write(array)
            self.steps, self.skipped, self.seed = numbers["steps"], numbers["skipped"], numbers["seed"]
            self.choices.take_over(ways)
            return name, fit
        return "", ""

    def snapshot(self) -> Callable[[], None]:
        """See `Trainer.snapshot`."""
        numbers = self.steps, self.skipped, self.seed
        arrays = [(one, one.array.copy()) for one in self.contents.parameters.values()]

        def put_back() -> None:
            for parameter, array in arrays:
                parameter.write(array)
            self.steps, self.skipped, self.seed = numbers
            self.progress = None

        return put_back

    def _share_choices(self) -> None:
        """Has the weight gradients of all processes go the ways of process 0."""
        if self._settings.comm is not None:
            self.choices.take_over(of_first(self._settings.comm, self.choices.settled))
