"""Torch's answers: how it runs the module, op by op, and how far that is from double precision."""

from __future__ import annotations

import copy
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from attrs import evolve

from ...ops.errors import UnsupportedError
from ...ops.values import one_line
from .records import Call, Departure
from .threads import openmp_files
from .timing import times_of
from .torch_calls import apart, departures, inside_ops, least, timed_ops, traced
from .torch_subject import TorchSubject, fingerprint, load_torch

RUNS = 5
"""Of the model for the times of its ops, at least one."""
SLOW_RUN = 2.0
"""Seconds of a run from which on it is run once only for that."""
Placed = TypeVar("Placed", Call, Departure)
EXPECTED = "expected.npz"
"""The outputs in double precision, for ours."""


class TorchSide:
    """What a worker asks; each method is a stage.

    Args:
        folder: of this worker.
        task: see `Subject.task`.
    """

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self._folder, self._task = folder, task
        self._made: TorchSubject | None = None
        self._first: list[Any] = []
        self._seconds = 0.0

    @property
    def subject(self) -> TorchSubject:
        """The module, once it is loaded."""
        if self._made is None:
            raise UnsupportedError("the model is not loaded")
        return self._made

    def load(self) -> dict[str, Any]:
        """Executes the user's code."""
        self._made = load_torch(self._task)
        if self._task["threads"]:
            self._made.torch.set_num_threads(self._task["threads"])
        return {"version": self._made.torch.__version__.split("+")[0], "made_up": self._made.made_up}

    def first(self) -> dict[str, Any]:
        """Runs it twice."""
        subject = self.subject
        torch = subject.torch
        with torch.no_grad():
            self._first = [one.clone() for one in subject.tensors(subject.run())]
            begin = time.perf_counter()
            subject.run()
            self._seconds = time.perf_counter() - begin
        return {
            "threads": torch.get_num_threads(),
            "runtimes": openmp_files(),
            "fingerprint": fingerprint(subject),
            "capability": torch.backends.cpu.get_cpu_capability(),
        }

    def trace(self) -> dict[str, Any]:
        """Each op, with its time, its primitives and what it calls."""
        subject = self.subject
        printed = self._folder / "printed"
        calls, library = traced(subject, printed)
        calls = least(calls, traced(subject, printed)[0])
        timed = timed_ops(subject, 1 if self._seconds > SLOW_RUN else RUNS)
        notes: list[str] = []
        if [(call.item, call.op) for call in calls] == [one[:2] for one in timed]:
            calls = [evolve(call, seconds=one[2]) for call, one in zip(calls, timed, strict=True)]
        else:
            notes.append(
                "the model runs other ops each time: the times of its layers are those of oneDNN alone"
            )
            calls = [evolve(call, seconds=sum(one.seconds for one in call.primitives)) for call in calls]
        try:
            inside = inside_ops(subject)
        except RuntimeError as error:  # where a profiler of the user's own is at work, say
            notes.append(f"torch's profiler does not run: {one_line(error)}")
            inside = []
        if len(inside) == len(calls):
            calls = [evolve(call, inside=names) for call, names in zip(calls, inside, strict=True)]
        return {
            "calls": _placed(subject, calls),
            "onednn": library.version,
            "isa": library.isa,
            "notes": notes,
            "modules": [path for path, _ in subject.module.named_modules()],
        }

    def time(self, seconds: float) -> list[float]:
        """Times of the whole model, for so long."""
        subject = self.subject
        with subject.torch.no_grad():
            return times_of(subject.run, seconds)

    def check(self, seconds: float) -> dict[str, Any]:
        """Each op and the whole in double precision."""
        subject = self.subject
        torch = subject.torch
        found, unchecked = departures(subject, seconds)
        answer: dict[str, Any] = {
            "departures": _placed(subject, found),
            "unchecked": unchecked,
            "whole": None,
        }
        try:
            wide = self._wide()
            with torch.no_grad():
                expected = wide.tensors(wide.run())
        except Exception as error:  # whatever a module raises that has types of its own in it
            answer["unchecked"] = "; ".join(
                filter(
                    None, [unchecked, f"the whole model can't run in double precision ({one_line(error)})"]
                )
            )
            return answer
        pairs = [
            (got, wanted)
            for got, wanted in zip(self._first, expected, strict=False)
            if got.dtype.is_floating_point and got.numel()
        ]
        if pairs:
            answer["whole"] = max(apart(torch, got, wanted) for got, wanted in pairs)
        arrays = {str(n): one.detach().numpy() for n, one in enumerate(expected) if not one.is_complex()}
        np.savez(self._folder / EXPECTED, **arrays)  # pyright: ignore[reportArgumentType] -- its own parameters have names
        return answer

    def _wide(self) -> TorchSubject:
        subject = self.subject
        torch = subject.torch

        def widened(value: Any) -> Any:
            wide = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
            return value.double() if wide else value

        args, kwargs = torch.utils._pytree.tree_map(widened, (subject.args, subject.kwargs))
        module = copy.deepcopy(subject.module).double()
        return TorchSubject(torch=torch, module=module, args=args, kwargs=kwargs)


def _placed(subject: TorchSubject, found: list[Placed]) -> list[Placed]:
    """What a module with submodules does itself is an item of its own for each op: `layer1.0.add`.

    A model that is one module has one item, by the name of its class.
    """
    if not any(path for path, _ in subject.module.named_modules()):
        return [evolve(one, item=type(subject.module).__name__) for one in found]
    outer = {path.rpartition(".")[0] for path, _ in subject.module.named_modules() if path}
    inner = {path for path, _ in subject.module.named_modules()} - outer
    counts: Counter[str] = Counter()
    placed: list[Placed] = []
    for one in found:
        if one.item in inner or _again(one.item) in inner:
            placed.append(one)
            continue
        item = own_item(one.item, one.op)
        counts[item] += 1
        placed.append(evolve(one, item=item if counts[item] == 1 else f"{item}.{counts[item]}"))
    return placed


def _again(item: str) -> str:
    """The module of an item of a later call."""
    return re.sub(r"\.[0-9]+$", "", item)


def own_item(path: str, op: str) -> str:
    """The item of an op that a module does itself: the name that the importer gives it, if it is the same op."""
    name = op.removeprefix("aten.").partition(".")[0].strip("_")
    return f"{path}.{name}" if path else name
