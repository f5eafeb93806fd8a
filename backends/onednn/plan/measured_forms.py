"""In which form a product takes weights that are integers in groups, where times were measured.

Each form is a product of its own, so that other things are compared here than implementations of one primitive, which
`measured.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ....graph.compile.options import CompileOptions, Tune
from ..library import fork
from ..library.descriptors import Descriptor
from ..library.primitive import NativeEngine, PrimitiveDesc, implementations
from ..quarantine import refused
from ..rules.features import Features
from ..tuning_cache import remember, remembered
from .measured import by_turns, frame_of, key_of

NEAR = 1.1
"""What takes no more than so many times the least time, and less memory, is taken."""


class Form(Enum):
    """How weights in groups are given to a product: two to a byte, with a byte each, or as real numbers."""

    halves = "halves"
    bytes = "bytes"
    real = "real"


def measures(options: CompileOptions) -> bool:
    """Whether times decide about the form."""
    return options.tune in (Tune.cached, Tune.measure)


def fastest_form(
    engine: NativeEngine, rivals: Mapping[Form, Descriptor], options: CompileOptions
) -> Form | None:
    """The form with the least memory of those that are as good as the fastest; None where nothing is known.

    Args:
        rivals: a product for each form; some the library may have no kernel for.
    """
    found = {form: _on_a_kernel(engine, one) for form, one in rivals.items()}
    offered = {form: desc for form, desc in found.items() if desc is not None}
    if not offered:
        return None
    keys = {form.value: key_of(Features(rivals[form], desc)) for form, desc in offered.items()}
    key: dict[str, Any] = {"forms": keys}
    times = remembered(key)
    if not times and options.tune is Tune.measure:
        times = fork.run(_measured, rivals, offered, options.tune_seconds)
        remember(key, times)
    least = min(times.values(), default=0.0)
    return next((form for form in Form if times.get(form.value, least * NEAR + 1) <= least * NEAR), None)


def _on_a_kernel(engine: NativeEngine, rival: Descriptor) -> PrimitiveDesc | None:
    first = rival.described(engine)
    offered = () if first is None else implementations(first)
    return next((desc for desc in offered if refused(Features(rival, desc)) is None), None)


def _measured(
    rivals: Mapping[Form, Descriptor], offered: Mapping[Form, PrimitiveDesc], seconds: float
) -> dict[str, float]:
    """The time of each form, run by turns: the mean of the least and the median."""
    frames = {form.value: frame_of(desc, Features(rivals[form], desc)) for form, desc in offered.items()}
    return by_turns(frames, seconds)
