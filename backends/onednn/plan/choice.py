"""Which of the library's implementations a primitive runs on, of those that the quarantine does not bar.

Every primitive but the weight gradients, whose candidates `weight_gradients/draft.py` lists, is
chosen here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float, c_void_p

from ..library.enumerators import FpmathMode
from ..library.implementations import is_called
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine, PrimitiveAttributes, PrimitiveDesc, described, implementations
from ..proven import is_proven
from ..quarantine import Case, refused, unaskable
from .preference import preferred


def chosen(
    engine: NativeEngine,
    function: str,
    *arguments: object,
    reasons: list[str] | None = None,
    references: bool = False,
    proven_only: bool = False,
    wanted: Callable[[Case], str | None] | None = None,
) -> PrimitiveDesc | None:
    """A primitive descriptor on the first implementation that may run, or on a better one that may.

    Args:
        function: what `dnnl_…_primitive_desc_create` makes it.
        arguments: of that function, the attributes last.
        reasons: receives why implementations were passed over.
        references: whether the library's reference loops may run.
        proven_only: whether implementations stay out that no fuzzer has covered.
        wanted: the name of the implementation that should run instead of the first; `preferred` by default.

    Returns:
        None where the library has none, or none that may run.
    """
    passed = [] if reasons is None else reasons
    reason = unaskable(function, arguments)
    if reason is not None:
        passed.append(reason)
        return None
    first = described(engine, function, *arguments)
    if first is None:
        return None
    case = Case(first, arguments)
    better = preferred(case) if wanted is None else wanted(case)
    if better is None and _kept_out(case, references, proven_only) is None:
        return first
    usable: PrimitiveDesc | None = None
    for desc in implementations(first):
        reason = _kept_out(Case(desc, arguments), references, proven_only)
        if reason is not None:
            passed.append(reason)
        elif better is None or is_called(desc.implementation, better):
            return desc
        else:
            usable = usable or desc
    return usable


def _kept_out(case: Case, references: bool, proven_only: bool) -> str | None:
    """Why an implementation may not run, or None."""
    reason = refused(case, references=references)
    name = case.desc.implementation
    if reason is None and proven_only and not is_proven(case.desc.engine.lib, case.desc.function, name):
        return f"no fuzzer has covered {name} of {case.desc.function}"
    return reason


def reorder(
    engine: NativeEngine,
    source: MemoryDesc,
    target: MemoryDesc,
    scales: Mapping[int, int] | None = None,
    zero_points: Mapping[int, int] | None = None,
    reasons: list[str] | None = None,
    *,
    proven_only: bool = False,
) -> PrimitiveDesc | None:
    """A copy between layouts and data types, with scales as in `PrimitiveAttributes`; None where there is none."""
    attributes = PrimitiveAttributes(engine.lib, FpmathMode.strict, (), scales, zero_points)
    return chosen(
        engine,
        "reorder",
        source,
        engine,
        target,
        engine,
        attributes,
        reasons=reasons,
        proven_only=proven_only,
    )


def matmul(
    engine: NativeEngine,
    a: MemoryDesc,
    b: MemoryDesc,
    c: MemoryDesc,
    fpmath: FpmathMode = FpmathMode.strict,
) -> PrimitiveDesc | None:
    """C = a · b over the last two axes, the others being batches; None where the library has none."""
    attributes = PrimitiveAttributes(engine.lib, fpmath)
    return chosen(engine, "matmul", engine, a, b, None, c, attributes)


def add(
    engine: NativeEngine,
    terms: Sequence[MemoryDesc],
    total: MemoryDesc,
    factors: Sequence[float] | None = None,
) -> PrimitiveDesc | None:
    """The sum of tensors of one shape, each times its factor; None where the library has none."""
    attributes = PrimitiveAttributes(engine.lib)
    count = len(terms)
    return chosen(
        engine,
        "sum",
        engine,
        total,
        count,
        (c_float * count)(*(factors or [1.0] * count)),
        (c_void_p * count)(*[term.handle for term in terms]),
        attributes,
    )
