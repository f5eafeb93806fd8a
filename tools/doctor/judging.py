"""What checks have in common: sums over a case, names of its rows, and what is known of its kernels."""

from __future__ import annotations

from collections.abc import Iterable

from .examination import Case
from .kernels import Hit, hits
from .records import Call
from .verbose import Primitive

PART = 0.05
"""Of the whole time, below which nothing is said of what is only slow."""
FASTER = 1.15
"""How many times as long something takes, from which on it counts as slower: times vary."""
SHOWN = 5
"""Layers of which a finding says something one by one."""


def total_of(case: Case) -> float:
    """Seconds of the peer's ops together, or of the whole where that is less than nothing."""
    return sum(call.seconds for call in case.peer.calls)


def names_of(case: Case, items: Iterable[str]) -> tuple[str, ...]:
    """Rows that some items are in, in order."""
    wanted = set(items)
    return tuple(layer.name for layer in case.layers if wanted.intersection(layer.items))


def gain_of(case: Case, items: Iterable[str]) -> float | None:
    """What ours would save in the rows of some items; None where nothing is known, or nothing would be saved."""
    wanted = set(items)
    saved = 0.0
    for layer in case.layers:
        ours = layer.our_seconds
        if ours is not None and wanted.intersection(layer.items):
            saved += layer.peer_seconds - ours
    return saved if saved > 0 else None


def items_of(calls: Iterable[Call]) -> list[str]:
    """What calls belong to, each once."""
    return list(dict.fromkeys(call.item for call in calls))


def ms(seconds: float) -> str:
    """For a sentence."""
    return f"{seconds * 1e3:.3g} ms"


def times(ratio: float) -> str:
    """For a sentence."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}"


def run_here(case: Case, gain: float | None) -> str:
    """How to run it here, where that is worth it."""
    if gain is None or not case.ours.way or case.ours.problem:
        return ""
    return f"run it here, which takes {ms(gain)} less in these layers"


def hits_of(case: Case, call: Call) -> list[tuple[Primitive, Hit]]:
    """Primitives of a call that fall under a rule of ours, with it."""
    version = case.peer.onednn
    if version is None:
        return []
    return [
        (ran, hit)
        for ran in call.primitives
        for hit in hits(ran, version, case.peer.isa, case.peer.threads) or ()
    ]
