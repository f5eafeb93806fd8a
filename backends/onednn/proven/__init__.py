"""Implementations of the library that the fuzzers have covered, so that the quarantine tells all that is known of them.

Every other one, of a CPU or a version that no sweep has run on, say, is verified on integer data when it is first
compiled for a problem. The files beside this one are written by `tests/tools/sweep.py`, one for each version and
runtime that it was run on, and read when the first kernel of such a library is looked up.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from ....graph.runtime.cached import cached
from ....ops.records import frozen
from ..library.loading import Library, Version
from ..library.runtimes import TBB_NAME

GOMP, TBB = "gomp", "tbb"


@frozen(kw_only=True)
class Proofs:
    """What the sweeps of one version have proven.

    Attributes:
        version: that was swept, with its patch.
        complete: whether all that the backend asks for was swept with all of these instruction sets.
        instruction_sets: with which it was.
        extrapolated: in words, to what else it is taken to hold.
        implementations: what made the primitive → names.
    """

    version: tuple[int, int, int]
    complete: bool
    instruction_sets: tuple[str, ...]
    extrapolated: str
    implementations: Mapping[str, frozenset[str]]


class _Shipped(Mapping[Version, Mapping[str, frozenset[str]]]):
    """The files of one runtime by their versions, each read when it is first asked for."""

    def __init__(self, runtime: str) -> None:
        self._runtime = runtime
        self._read: dict[Version, Proofs] = {}

    @cached
    def _versions(self) -> tuple[Version, ...]:
        end = f"-{self._runtime}.json"
        names = [file.name for file in resources.files(__name__).iterdir() if file.name.endswith(end)]
        numbers = sorted(tuple(map(int, name.removesuffix(end).split("."))) for name in names)
        return tuple((major, minor) for major, minor in numbers)

    def proofs(self, version: Version) -> Proofs | None:
        """All that a version's file tells; None where there is none."""
        if version not in self._versions:
            return None
        if version not in self._read:
            name = f"{version[0]}.{version[1]}-{self._runtime}.json"
            told: dict[str, Any] = json.loads(resources.files(__name__).joinpath(name).read_text())
            known = {function: frozenset(names) for function, names in told["implementations"].items()}
            major, minor, patch = told["version"]
            self._read[version] = Proofs(
                version=(major, minor, patch),
                complete=told["complete"],
                instruction_sets=tuple(told["instruction_sets"]),
                extrapolated=told["extrapolated"],
                implementations=known,
            )
        return self._read[version]

    def __getitem__(self, version: Version) -> Mapping[str, frozenset[str]]:
        proofs = self.proofs(version)
        if proofs is None:
            raise KeyError(version)
        return proofs.implementations

    def __iter__(self) -> Iterator[Version]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


SHIPPED = {runtime: _Shipped(runtime) for runtime in (GOMP, TBB)}
"""All files by their runtimes."""
PROVEN: Mapping[Version, Mapping[str, frozenset[str]]] = SHIPPED[GOMP]
"""What made the primitive → names of implementations, by version, each swept for itself with OpenMP."""


def runtime_of(lib: Library) -> str:
    """Whose sweeps hold for a library: TBB divides work otherwise than all others."""
    return TBB if lib.runtime.name == TBB_NAME else GOMP


def is_proven(lib: Library, function: str, implementation: str) -> bool:
    """Whether the fuzzers have covered an implementation of what `function` makes."""
    return implementation in _covered(lib).get(function, ())


class Swept(enum.StrEnum):
    """How much of a library the fuzzers have covered, in words."""

    full = "yes"
    part = "in part: the kernels that are not are verified when they are first compiled"
    none = "no: what runs on it is verified when it is first compiled"


def swept(lib: Library) -> Swept:
    """How much of a library the fuzzers have covered."""
    covered = _covered(lib)
    proofs = SHIPPED[runtime_of(lib)].proofs(lib.version[:2])
    if proofs is not None and proofs.complete and covered is proofs.implementations:
        return Swept.full
    return Swept.part if covered else Swept.none


def extrapolated(lib: Library) -> str | None:
    """In words, what about a library or its CPU is taken to be like what was swept; None where it was swept itself."""
    proofs = SHIPPED[runtime_of(lib)].proofs(lib.version[:2])
    if proofs is None or not _covered(lib):
        return None
    other: list[str] = []
    if lib.version != proofs.version:
        other.append(f"{'.'.join(map(str, lib.version))} for {'.'.join(map(str, proofs.version))}")
    if lib.effective_isa not in proofs.instruction_sets:
        other.append(f"{lib.effective_isa} for {', '.join(proofs.instruction_sets)}")
    return "; ".join(other) or None


def _covered(lib: Library) -> Mapping[str, frozenset[str]]:
    """What the fuzzers have covered of a library's version and runtime."""
    runtime = runtime_of(lib)
    return (PROVEN if runtime == GOMP else SHIPPED[runtime]).get(lib.version[:2], {})
