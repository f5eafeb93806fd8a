"""What goes on from step to step, and the files that keep it."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from attrs import evolve

from ...ops.errors import ArgumentError, CheckpointWarning, GraphFileError
from ..compile.trials import Choices
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.callers import outside
from ..runtime.interrupts import held_back
from ..runtime.locking import Lock
from ..runtime.parameter import Parameter
from .checkpoint import EMA, PARAMETER, SUMS, Contents, read_checkpoint, write_checkpoint
from .checkpoint_folder import checkpoints
from .meeting import meeting
from .optimizers import Optimizer
from .plateau import plateaus
from .progress import Progress, progress_of
from .settings import Settings
from .sharding import DividesState, Shards
from .ways import of_first


class State:
    """All that one step leaves to the next: what it starts from is the same in all processes.

    Args:
        parameters: of the graph, by name.
        trained: those of them that are trained.
        optimizers: by the parameter's name, of those that have one.

    Raises:
        ArgumentError: an optimizer calls a state as something else is called in files.

    Attributes:
        parameters: by name.
        optimizers: by the parameter's name.
        kept: what the optimizer keeps of each parameter, in the order of `Optimizer.states`.
        averages: of the parameters that are trained, by name, where there are to be some.
        sums: of the gradients since the last update, by the parameter's name, where several steps are one.
        summed: the names of those that have had a gradient since then; others stay as they are in the next update.
        totals: how many examples those count, and the sum of their losses.
        pending: how many steps have been summed up since the last update.
        steps: how many updates are done.
        skipped: how many were skipped.
        batches: how many steps were taken.
        seed: of random numbers.
        choices: the ways that weight gradients go.
        shards: parts of this process, where the optimizer's state is divided.
        progress: of `Trainer.fit` that is under way, was interrupted, or is to go on; None where there is none.
        loaded: whether that is from a file, and `fit` has not gone on yet.
        lock: held by what reads or changes all of it, a step say: other threads wait for its end.
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
        for one in optimizers.values():
            _check_names(one, averaged=settings.ema is not None)
        comm = settings.comm
        self.shards = (
            comm.shards(self.parameters, self.optimizers) if isinstance(comm, DividesState) else None
        )
        self.kept: dict[str, tuple[Parameter, ...]] = {
            name: tuple(self._zeros(shapes[name]) for _ in one.states) for name, one in optimizers.items()
        }
        self.averages: dict[str, Parameter] = {}
        if settings.ema is not None:
            self.averages = {name: copy.copy(self.parameters[name]) for name in optimizers}
        self.sums: dict[str, Parameter] = {}
        self.summed: set[str] = set()
        self.totals = Parameter(np.zeros(2), np.dtype(np.float64))
        self.pending: int = 0
        self.steps: int = 0
        self.skipped: int = 0
        self.batches: int = 0
        self.seed = settings.seed
        self.choices = Choices()
        self.progress: Progress | None = None
        self.loaded = False
        self.lock = Lock()
        self._settings = settings
        self.take_over()

    # --- sums ---

    def sum_of(self, name: str) -> Parameter:
        """The sum of the gradients of a parameter."""
        if name not in self.sums:
            shape = self.parameters[name].array.shape
            self.sums[name] = Parameter(np.zeros(shape, np.float32), np.dtype(np.float32))
        return self.sums[name]

    def take(self, size: int, loss: float, names: Iterable[str]) -> None:
        """A step has been summed up, with gradients of the parameters of these names."""
        self.pending += 1
        self.summed.update(names)
        if size:
            self.totals.write(self.totals.array + np.array([size, size * loss]))

    def drop_sums(self) -> None:
        """Begins sums anew, whatever is in them: a step that broke off may have added some of its gradients."""
        for one in (self.totals, *self.sums.values()):
            one.write(np.zeros_like(one.array))
        self.pending = 0
        self.summed.clear()

    @property
    def _pending(self) -> dict[str, Parameter]:
        """What a file holds of sums, where some are under way."""
        names = (name for name in self.optimizers if name in self.summed)
        return {"accumulated": self.totals} | {f"accumulated/{name}": self.sum_of(name) for name in names}

    # --- files ---

    @property
    def state_bytes(self) -> int:
        """What the optimizer keeps in this process."""
        return sum(one.array.nbytes for states in self.kept.values() for one in states)

    @property
    def contents(self) -> Contents:
        """All that a file holds."""
        found = {f"parameter/{name}": one for name, one in self.parameters.items()}
        for name, states in self.kept.items():
            kinds = self.optimizers[name].states
            found |= {f"{what}/{name}": one for what, one in zip(kinds, states, strict=True)}
        found |= {f"ema/{name}": one for name, one in self.averages.items()}
        if self.pending:
            found |= self._pending
        found |= {f"plateau/{n}": one.memory for n, one in enumerate(plateaus(self.optimizers.values()))}
        return Contents(
            parameters=found,
            optimizers={name: type(one).__name__ for name, one in self.optimizers.items()},
            numbers={"steps": self.steps, "skipped": self.skipped, "seed": self.seed},
            later={"batches": self.batches, "pending": self.pending},
            ways=self.choices.settled,
            fit="" if self.progress is None else self.progress.text,
        )

    def take_over(self) -> None:
        """Has all processes go on from where process 0 is."""
        comm = self._settings.comm
        if comm is None:
            return
        numbers = np.array([self.steps, self.skipped, self.seed % (1 << 64), self.batches], np.uint64)
        states = () if self.shards is None else self.kept.values()
        own = {id(one) for each in states for one in each}  # parts, which differ
        own |= {id(one) for one in (self.totals, *self.sums.values())}  # each process has its own
        contents = [one for one in self.contents.parameters.values() if id(one) not in own]
        comm.broadcast([numbers, *(one.array for one in contents)])
        for one in contents:
            one.changed()
        if comm.rank:
            self.steps, self.skipped, self.seed, self.batches = map(int, numbers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """See `Trainer.save`."""
        if self.pending and self._settings.comm is not None:
            raise ArgumentError(
                f"Trainer.save: {self.pending} steps since the last update have been summed up by each process on its "
                "own, which a file can't hold; save behind an update, or call flush() before"
            )
        with self.lock:
            self.choices.settle()
            self._share_choices()
            contents = self._with_wholes(self._gathered)
            with meeting(self._settings.comm, "Trainer.save"):
                if self._settings.leads:
                    write_checkpoint(path, contents)

    def load(self, *paths: str | os.PathLike[str]) -> Path:
        """See `Trainer.load`."""
        with self.lock:
            found = self._load(lambda: paths)
        if found is None:
            raise ArgumentError("Trainer.load takes a file, got none")
        return found

    def load_newest(self, folder: str | os.PathLike[str]) -> Path | None:
        """See `Trainer.load_newest`."""
        with self.lock:
            return self._load(lambda: checkpoints(Path(folder)))

    def _load(self, find: Callable[[], Sequence[str | os.PathLike[str]]]) -> Path | None:
        """Takes up the first file that is whole of those that process 0 finds; None where it finds none."""
        name, fit = "", ""
        contents = self._with_wholes(self._unread)
        with meeting(self._settings.comm, "Trainer.load"):
            if self._settings.leads:
                name, fit = self._load_first(find(), contents)
                if not name:
                    self.progress = None
        self._spread(contents)
        self._share_choices()
        self.take_over()
        comm = self._settings.comm
        if comm is not None:
            shared = of_first(comm, {"name": name, "fit": fit})
            name = shared["name"]
            self.progress = progress_of(name, shared["fit"])
            if comm.rank and name:  # process 0 has done so before it took what the file has
                self.drop_sums()
        self.loaded = self.progress is not None
        return Path(name) if name else None

    def _zeros(self, shape: tuple[int, ...]) -> Parameter:
        """A state of a parameter of that shape, or this process's part of it."""
        if self.shards is not None:
            return self.shards.part(math.prod(shape))
        return Parameter(np.zeros(shape, np.float32), np.dtype(np.float32))

    def _kept_names(self) -> dict[str, tuple[str, Parameter]]:
        """The parameter that each state is of, and what is kept of it here, by its name in files."""
        return {
            f"{what}/{name}": (name, one)
            for name, states in self.kept.items()
            for what, one in zip(self.optimizers[name].states, states, strict=True)
        }

    def _with_wholes(self, whole: Callable[[Shards, str, Parameter], Parameter]) -> Contents:
        """What a file holds, on process 0; the others have their parts. All processes call it.

        Args:
            whole: makes what stands for a state that is divided, of its parameter's name and the part of this process.
        """
        contents, wholes = self.contents, dict[str, Parameter]()
        if self.shards is None:
            return contents
        for key, (name, part) in self._kept_names().items():
            made = whole(self.shards, name, part)
            if self._settings.leads:  # the others have room for their parts alone
                wholes[key] = made
        return evolve(contents, parameters={**contents.parameters, **wholes})

    def _gathered(self, shards: Shards, name: str, part: Parameter) -> Parameter:
        return shards.whole(shards.shape(name), part)

    def _unread(self, shards: Shards, name: str, part: Parameter) -> Parameter:
        """Room for a state that process 0 reads."""
        shape = shards.shape(name) if self._settings.leads else (0,)
        return Parameter(np.zeros(shape, np.float32), np.dtype(np.float32))

    def _spread(self, contents: Contents) -> None:
        """Gives each process its parts of the states that process 0 has read."""
        if self.shards is not None:
            for key, (name, part) in self._kept_names().items():
                self.shards.spread(contents.parameters[key] if self._settings.leads else None, name, part)

    def _load_first(self, paths: Sequence[str | os.PathLike[str]], contents: Contents) -> tuple[str, str]:
        """Takes up the first file that is whole; its name, and how far `fit` was."""
        for path in paths:
            name = os.fsdecode(path)
            try:
                numbers, ways, fit, arrays = read_checkpoint(path, self._expected(contents))
                self._check_pending(name, numbers.get("pending", 0))
                progress_of(name, fit)
            except GraphFileError as error:
                if path == paths[-1]:
                    raise
                warnings.warn(f"{error}; an older file is taken", CheckpointWarning, stacklevel=outside())
                continue
            with held_back():  # half a file is no state to go on from
                self.drop_sums()
                for parameter, array in arrays:
                    parameter.write(array)
                self.steps, self.skipped, self.seed = numbers["steps"], numbers["skipped"], numbers["seed"]
                self.batches = numbers.get("batches", self.steps + self.skipped)
                self.pending = numbers.get("pending", 0)
                self.summed = {
                    name for name in self.optimizers if any(self.sums.get(name) is p for p, _ in arrays)
                }
                self.choices.take_over(ways)
                self.progress = progress_of(name, fit)
                self.loaded = self.progress is not None
            return name, fit
        return "", ""

    def _expected(self, here: Contents) -> Contents:
        """What a file must hold, and what it may."""
        sums = {"accumulated": self.totals} | {
            f"accumulated/{name}": self.sum_of(name) for name in self.optimizers
        }
        kept = {key: one for key, one in here.parameters.items() if key not in sums}
        return evolve(here, parameters=kept, partial=sums if self._settings.accumulate > 1 else {})

    def _check_pending(self, name: str, pending: int) -> None:
        """Whether sums that a file has can be gone on with."""
        several = self._settings.comm is not None
        most = 0 if several or self._settings.accumulate == 1 else self._settings.accumulate
        if not 0 <= pending <= most:
            other = "several processes" if several else f"accumulate={self._settings.accumulate}"
            raise GraphFileError(
                f"{name}: was written {pending} steps behind an update, with the sums of their gradients, from which "
                f"{other} can't go on; load it as it was trained, call flush(), and save again"
            )

    def snapshot(self) -> Callable[[], None]:
        """See `Trainer.snapshot`."""
        with self.lock:
            numbers = self.steps, self.skipped, self.seed, self.batches, self.pending
            summed = set(self.summed)
            arrays = [(one, one.array.copy()) for one in self.contents.parameters.values()]

        def put_back() -> None:
            with self.lock, held_back():
                self.drop_sums()
                for parameter, array in arrays:
                    parameter.write(array)
                self.steps, self.skipped, self.seed, self.batches, self.pending = numbers
                self.summed = set(summed)
                self.progress = None

        return put_back

    def _share_choices(self) -> None:
        """Has the weight gradients of all processes go the ways of process 0."""
        if self._settings.comm is not None:
            self.choices.take_over(of_first(self._settings.comm, self.choices.settled))


def _check_names(optimizer: Optimizer, *, averaged: bool) -> None:
    """Sees to it that in files each state of an optimizer has a name of its own."""
    taken = [one.rstrip("/") for one in (PARAMETER, SUMS, *((EMA,) if averaged else ()))]
    names = list(optimizer.states)
    for name in names:
        if name in taken or names.count(name) > 1:
            what = "has twice" if names.count(name) > 1 else "must not have"
            raise ArgumentError(
                f"{type(optimizer).__name__}.states {what} {name!r}: files keep each state under its name, beside "
                f"{', '.join(map(repr, taken))}, which are there for others; call it otherwise"
            )
