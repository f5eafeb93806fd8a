"""Checks of what is wrong: a side that fails, numbers, kernels that are known for it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .examination import Case
from .judging import hits_of, names_of
from .kernels import Hit
from .records import Departure, Finding
from .verbose import Primitive

ALIKE = 3.0
"""How many times as far as the peer's our outputs may be off: what both lose is lost by the model's types."""
SMALLEST = 2.0**-14
"""The smallest normal number of f16."""


def failures(case: Case) -> Iterator[Finding]:
    """A side that has not run the model."""
    peer, ours = case.peer, case.ours
    if peer.problem:
        code = "peer-crashes" if peer.crashed else "peer-fails"
        missing = "is not installed" in peer.problem
        yield Finding(
            code="peer-missing" if missing else code,
            severity="note" if missing else "wrong",
            what=f"{peer.name} does not run it: {peer.problem}",
            do=f"pip install {peer.name}, to have it examined" if missing else "",
        )
    if ours.problem:
        yield Finding(
            code="ours-crashes" if ours.crashed else "ours-fails",
            severity="wrong",
            what=f"ours does not run it: {ours.problem}",
        )


def numbers(case: Case) -> Iterator[Finding]:
    """Results of the peer that roundings don't explain, by where they come first."""
    wrong = [one for one in case.peer.departures or () if one.is_wrong]
    if wrong:
        first = wrong[0]
        items = list(dict.fromkeys(one.item for one in wrong))
        more = f"; then also in {len(items) - 1} further layers" if len(items) > 1 else ""
        what = f"{case.peer.name}'s result of {_place(first)} {_error(first)}{more}"
        yield Finding(
            code="wrong-result",
            severity="wrong",
            layers=names_of(case, items),
            what=what,
            why=_why_wrong(case, first),
            do=_do_wrong(first),
        )
    whole = case.peer.whole
    if whole is not None and not wrong and not whole <= _allowed(case):
        yield Finding(
            code="wrong-whole",
            severity="wrong",
            what=f"{case.peer.name}'s outputs {_off(whole)} double precision, and no layer alone does",
            why="small errors of many layers add up, or an op that was not compared is wrong",
            do="look at the model's conditioning, or run it in a wider type",
        )
    error = case.ours.error
    if error is not None and not error <= max(_allowed(case), ALIKE * (whole or 0.0)):
        yield Finding(
            code="wrong-ours",
            severity="wrong",
            what=f"our outputs {_off(error)} {case.ours.against}",
            do="please report it with this output",
        )


def _place(one: Departure) -> str:
    return f"{one.item} ({one.op})" if one.op else one.item


def _off(error: float) -> str:
    if math.isinf(error) or math.isnan(error):
        return "are infinite or NaN where they are finite in"
    return f"are {error:.2g} of the largest element away from"


def _error(one: Departure) -> str:
    if math.isinf(one.error) or math.isnan(one.error):
        return f"is infinite or NaN in {one.data_type} where it is finite in double precision"
    return (
        f"is {one.error:.2g} of its largest element away from double precision, in {one.data_type}, "
        f"where roundings explain {one.allowed:g}"
    )


def _allowed(case: Case) -> float:
    """Of the outputs: of the coarsest type on the way, with room for what adds up."""
    seen = [one.allowed for one in case.peer.departures or ()]
    return 5 * max(seen, default=1e-3)


def _why_wrong(case: Case, first: Departure) -> str:
    if first.data_type == "f16" and math.isinf(first.error):
        return "f16 has no numbers above 65504"
    if first.data_type == "f16" and first.largest is not None and first.largest < SMALLEST:
        return (
            f"its largest element, {first.largest:.2g}, is below the smallest number that f16 has with all digits, "
            f"{SMALLEST:.1g}"
        )
    barred = [hit for call in case.peer.calls if call.item == first.item for _, hit in hits_of(case, call)]
    if barred:
        return f"its kernel falls under what is known to be wrong: {barred[0].rule.condition}"
    return "the op was computed on the same inputs in double precision"


def _do_wrong(first: Departure) -> str:
    if first.data_type in ("f16", "bf16"):
        return "compute this layer in f32, or scale what goes into it"
    return "run this layer in another library or layout, and report it to its makers"


def rules(case: Case) -> Iterator[Finding]:
    """Kernels of the peer's oneDNN that are known to be wrong."""
    version = case.peer.onednn
    if version is None:
        return
    found: dict[tuple[str, str, str], tuple[Hit, list[str], Primitive]] = {}
    for call in case.peer.calls:
        for ran, hit in hits_of(case, call):
            if hit.table == "slow":
                continue
            key = (ran.kind, hit.rule.name, ran.implementation)
            found.setdefault(key, (hit, [], ran))[1].append(call.item)
    named = ".".join(map(str, version))
    for hit, items, ran in found.values():
        checked = [one for one in case.peer.departures or () if one.item in items]
        wrong = any(one.is_wrong for one in checked)
        right = "its numbers are wrong here" if wrong else "its numbers were right on these inputs"
        yield Finding(
            code=f"known-{hit.table}",
            severity="wrong" if wrong and hit.table == "wrong" else "risk",
            layers=names_of(case, items),
            what=f"oneDNN {named} in {case.peer.name} runs {ran.kind} by {ran.implementation}, which is known to be "
            f"{hit.table} when {hit.rule.condition}; {right if checked else 'its numbers were not checked'}",
            why=f"{hit.rule.seen}; {hit.told(version)}",
            do="ours does not choose it; other shapes or another layout avoid it there",
        )
