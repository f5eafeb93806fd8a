"""How long a plan takes, without running it: a linear model with corrections, fitted to measurements.

Each step of a plan has a `Work`: its kind, amounts such as multiplications and bytes, and traits such as the width of
an image. The model has seconds per unit of each amount for each kind, and small trees on the traits for what is not
proportional to anything: how full a vector is, when a kernel changes its way. The cost of a plan is the sum over its
steps. The numbers are data in `cost_data.bin`, laid out as `cost_file.py` says, made by `benchmarks/fit_cost.py` on the
machines they name; run it on yours to refit. They know no layer and no network: only kinds of primitives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from importlib import resources
from typing import Any

from attrs import field

from ....ops.records import frozen
from ..library.cpu import cpu_family
from ..plan.work import Work
from .cost_file import Tree, sections, unpacked

FILE = "cost_data.bin"
USUAL_FAMILY = "AuthenticAMD 26"
"""Whose data CPUs of families take that were not measured: its vector units are as wide as its vectors, as are those of
most. Where they are half as wide, as in family 25, AVX-512 gains little on AVX2, and more of the choices are others."""


class CpuClass(StrEnum):
    """CPUs whose kernels have much in common: a section of the data."""

    avx2 = "AVX2"
    avx512 = "AVX-512"
    amx = "AMX"

    @classmethod
    def of(cls, isa: str) -> CpuClass:
        """The class of an instruction set, as the library names it; what it does not know counts as AVX-512."""
        if "amx" in isa:
            return cls.amx
        return cls.avx2 if isa.startswith(("sse41", "avx2")) or isa == "avx" else cls.avx512


NEAREST = {
    CpuClass.avx2: (CpuClass.avx2, CpuClass.avx512, CpuClass.amx),
    CpuClass.avx512: (CpuClass.avx512, CpuClass.amx, CpuClass.avx2),
    CpuClass.amx: (CpuClass.amx, CpuClass.avx512, CpuClass.avx2),
}
"""Whose data a class takes, best first."""


@frozen(kw_only=True)
class CostModel:
    """Seconds per unit of work.

    Attributes:
        family, isa, threads: what it was measured with; the family as `cpu_family` tells it.
        coefficients: family → kind → seconds per unit of each amount. The kind `*` stands for every other.
        corrections: family → kind → trees, whose sum is the logarithm of a factor.
    """

    family: str = ""
    isa: str
    threads: int
    coefficients: Mapping[str, Mapping[str, Sequence[float]]]
    corrections: Mapping[str, Mapping[str, Sequence[Tree]]] = field(factory=dict[str, Any])

    def seconds(self, works: Iterable[Work]) -> float:
        """The estimated time of these steps together."""
        return sum(map(self._step, works))

    def _step(self, work: Work) -> float:
        kinds = self.coefficients[work.family]
        kind = work.kind if work.kind in kinds else "*"
        proportional = sum(a * b for a, b in zip(work.amounts, kinds[kind], strict=True))
        trees = self.corrections.get(work.family, {}).get(kind, ())
        return proportional * math.exp(sum(_leaf(tree, work.traits) for tree in trees))


def _leaf(tree: Tree, traits: Sequence[float]) -> float:
    """What a tree says of a step with these traits."""
    while not isinstance(tree, int | float):
        trait, threshold, below, others = tree
        tree = below if traits[trait] < threshold else others
    return tree


@functools.cache
def _sections() -> Sequence[tuple[Mapping[str, Any], bytes]]:
    return sections(content())


@functools.cache
def _read(number: int) -> CostModel:
    told, section = _sections()[number]
    coefficients, corrections = unpacked(section)
    return CostModel(
        family=told["family"],
        isa=told["isa"],
        threads=told["threads"],
        coefficients=coefficients,
        corrections=corrections,
    )


def measured() -> tuple[CostModel, ...]:
    """All models of the data file."""
    return tuple(map(_read, range(len(_sections()))))


def content() -> bytes:
    """The data file."""
    return resources.files(__name__.rpartition(".")[0]).joinpath(FILE).read_bytes()


def cost_data(isa: str, threads: int, family: str | None = None) -> CostModel:
    """The model for a machine: of its class, or of the nearest measured one, of its family, and of the nearest threads.

    Args:
        isa: in effect, as the library names it.
        threads: that kernels may use.
        family: of the CPU, as `cpu_family` tells it; None for this one.
    """
    order = NEAREST[CpuClass.of(isa)]
    families = (cpu_family() if family is None else family, USUAL_FAMILY)

    def distance(number: int) -> tuple[int, int, bool, int]:
        model, _ = _sections()[number]
        return (
            order.index(CpuClass.of(model["isa"])),
            families.index(model["family"]) if model["family"] in families else len(families),
            model["isa"] != isa,
            abs(model["threads"] - threads),
        )

    return _read(min(range(len(_sections())), key=distance))
