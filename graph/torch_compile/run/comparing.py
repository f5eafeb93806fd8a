"""The option `compare`: what regions make, held against what torch makes of the same."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from attrs import field

from ....ops.errors import NAN_GUIDE
from ....ops.records import define
from ..framework import torch

LIMITS = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""How far a result may be from torch's in norm, as a part of it; what is no floating-point number is the same."""
LEAST = 1e-3
"""Part of the largest mean square root among a region's tensors beneath which a result is nothing but rounding, as the
gradient of a bias before a normalisation is."""


class RegionDiffersWarning(UserWarning):
    """Said at the first result of each compiled graph that differs from eager torch's, where that was asked for."""


@define
class Differences:
    """What differs in one compiled graph.

    Attributes:
        asked: whether anything is compared.
        compared: how many results were, all calls together.
        noted: result → by how much, in the order in which they came.
    """

    asked: bool = False
    compared: int = 0
    noted: dict[str, float] = field(factory=dict[str, float])

    def settled(
        self,
        names: Sequence[str],
        given: Sequence[Any],
        made: Sequence[Any],
        torchs: Sequence[Any],
        ops: frozenset[str],
    ) -> list[Any]:
        """Torch's results, so that what differs is not carried on, after a look at ours.

        Args:
            names: of the results, for people.
            given: the region's inputs.
            made, torchs: ours and torch's.
            ops: of the region.
        """
        self.compared += len(made)
        least = LEAST * max([_size(one) for one in (*given, *torchs)], default=0.0)
        for name, ours, wanted in zip(names, made, torchs, strict=True):
            by, limit = _distance(ours, wanted, least), LIMITS.get(wanted.dtype, 0.0)
            if by <= limit or name in self.noted:
                continue
            self.noted[name] = by
            if len(self.noted) == 1:
                others = sorted(ops - {name})
                beside = f", made together with {', '.join(others[:8])}" if others else ""
                warnings.warn(
                    f"{name}{beside}, is the first result that differs from eager torch's: by {by:.1e} of its norm, "
                    f"where {limit:.0e} is allowed; torch's is used{'' if math.isfinite(by) else f', and {NAN_GUIDE}'}",
                    RegionDiffersWarning,
                    stacklevel=4,
                )
        return list(torchs)


def _size(tensor: Any) -> float:
    """The root of the mean square of what is finite."""
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    return tensor.detach().double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt().item()


def _distance(ours: Any, wanted: Any, least: float) -> float:
    """|difference| / |wanted| in norm; infinite where one alone is no number.

    Args:
        ours, wanted: tensors.
        least: beneath which, element by element, what is wanted counts as that.
    """
    if (ours.shape, ours.dtype) != (wanted.shape, wanted.dtype):
        return float("inf")
    if not wanted.is_floating_point():
        return float((ours != wanted).sum()) / max(wanted.numel(), 1)
    a, b = ours.detach().double(), wanted.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    away = torch.linalg.vector_norm((a - b).masked_fill(same, 0.0)).item()
    if not math.isfinite(away):
        return float("inf")
    b = b.nan_to_num(0.0, 0.0, 0.0)
    return away / max(torch.linalg.vector_norm(b).item(), least * wanted.numel() ** 0.5, 1e-30)
