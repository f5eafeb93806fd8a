"""The cost data fitted to the user's own machine, by `onednn-graph tune --machine`.

What is kept are factors: how much longer a kind of primitive takes here than the data that come with the package tell.
They are a file of the tuning cache, of this CPU, library, instruction set and number of threads, and of these very
cost data: after an update of the package they are not used any more, and have to be measured again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....graph.runtime.cache_folder import cache_folder
from ....ops.records import frozen
from ..library.loading import Library
from ..plan.work import Work
from ..tuning_cache import forget, remember, remembered
from .cost import CostModel, content

FORMAT = 1
"""Of the files; raised when older ones mean something else."""
DOUBT = 3
"""A kind's factor counts for as much as its measurements, and that of its family for so many."""


@frozen
class MachineCost:
    """A cost model, and what differs from it here.

    Attributes:
        factors: `family kind` → how many times longer it takes; `family *` for every other kind.
    """

    model: CostModel
    factors: Mapping[str, float]

    def seconds(self, works: Iterable[Work]) -> float:
        """The estimated time of these steps together."""
        if not self.factors:
            return self.model.seconds(works)
        return sum(self._factor(work) * self.model.seconds((work,)) for work in works)

    def _factor(self, work: Work) -> float:
        own = self.factors.get(_name(work.family, work.kind))
        return self.factors.get(_name(work.family, "*"), 1.0) if own is None else own


def _name(family: str, kind: str) -> str:
    return f"{family} {kind}"


def key_of(lib: Library) -> dict[str, Any]:
    """Everything that factors depend on."""
    return {**lib.machine, "format": FORMAT, "data": _data_digest()}


@functools.cache
def _data_digest() -> str:
    return hashlib.sha256(content()).hexdigest()[:16]


def factors_of(lib: Library) -> Mapping[str, float]:
    """What is known of this machine; empty where it was not measured. Files are read once."""
    return _read(json.dumps(key_of(lib)), cache_folder())


@functools.lru_cache(maxsize=16)
def _read(key: str, folder: Path | None) -> Mapping[str, float]:
    del folder  # another one has other files
    return remembered(json.loads(key))


def fitted(lib: Library, model: CostModel) -> MachineCost:
    """The model as it holds here."""
    return MachineCost(model, factors_of(lib))


def keep(lib: Library, factors: Mapping[str, float]) -> None:
    """Has compilations from now on, of this process and of others, go by these factors."""
    remember(key_of(lib), dict(factors))
    _read.cache_clear()


def drop(lib: Library) -> bool:
    """Forgets what is known of this machine; whether there was something."""
    _read.cache_clear()
    return forget(key_of(lib))


def fit(model: CostModel, steps: Sequence[tuple[Work, float]]) -> dict[str, float]:
    """The factors of steps that were timed: medians, a kind with few measurements near to its family's.

    Args:
        steps: what was done, and the seconds that it took.
    """
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for work, seconds in steps:
        estimated = model.seconds((work,))
        if estimated > 0 and seconds > 0:
            logs[work.family, work.kind].append(math.log(seconds / estimated))
    families = {
        family: statistics.median([one for (f, _), found in logs.items() if f == family for one in found])
        for family in {family for family, _ in logs}
    }
    factors = {_name(family, "*"): math.exp(one) for family, one in families.items()}
    for (family, kind), found in logs.items():
        count = len(found)
        mean = (count * statistics.median(found) + DOUBT * families[family]) / (count + DOUBT)
        factors[_name(family, kind)] = math.exp(mean)
    return factors
