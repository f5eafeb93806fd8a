"""How long a plan takes, without running it: a linear model, fitted to measurements.

Each step of a plan has a `Work`: its kind, and amounts such as multiplications and bytes. The model has seconds per
unit for each kind, so that the cost of a plan is a sum of products. The numbers are data, made by
`benchmarks/fit_cost.py` on the machine that they name, in `cost_data.json`; run it on yours to refit. They
know no layer and no network: only kinds of primitives.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from attrs import frozen

from ..plan.work import Work


@frozen(kw_only=True)
class CostModel:
    """Seconds per unit of work.

    Attributes:
        isa, threads: what it was measured with.
        coefficients: family → kind → seconds per unit of each amount. The kind `*` stands for every other.
    """

    isa: str
    threads: int
    coefficients: Mapping[str, Mapping[str, Sequence[float]]]

    def seconds(self, works: Iterable[Work]) -> float:
        """The estimated time of these steps together."""
        total = 0.0
        for work in works:
            kinds = self.coefficients[work.family]
            per_unit = kinds.get(work.kind) or kinds["*"]
            total += sum(a * b for a, b in zip(work.amounts, per_unit, strict=True))
        return total


@functools.cache
def measured() -> tuple[CostModel, ...]:
    """All models of the data file."""
    text = resources.files(__name__.rpartition(".")[0]).joinpath("cost_data.json").read_text(encoding="utf-8")
    return tuple(
        CostModel(isa=entry["isa"], threads=entry["threads"], coefficients=entry["coefficients"])
        for entry in json.loads(text)["models"]
    )


def model_for(isa: str, threads: int, ordered_isas: Sequence[str]) -> CostModel:
    """The model of this instruction set and number of threads, or of the nearest measured ones.

    Args:
        isa: as the library names it.
        threads: that kernels may use.
        ordered_isas: all names from the weakest to the strongest.
    """

    def rank(name: str) -> int:
        return ordered_isas.index(name) if name in ordered_isas else len(ordered_isas)

    return min(measured(), key=lambda model: (abs(rank(model.isa) - rank(isa)), abs(model.threads - threads)))
