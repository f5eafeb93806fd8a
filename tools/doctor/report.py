"""What was found, as text for people and as data for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .checks import ORDER
from .examination import Case, Examined
from .judging import times
from .records import Layer, Timed

SCHEMA = 1
"""Changes where a key of the data changes its meaning or goes away; new keys may come."""
ROWS = 15
"""Layers that are shown, of those that take most time."""
KERNELS = 3
"""Names of kernels in a cell."""
NAMED = 4
"""Layers that a finding names."""


def as_data(examined: Examined) -> dict[str, Any]:
    """For JSON; docs/pages/guides/doctor.md says what the keys are."""
    case = examined.case
    peer, ours = case.peer, case.ours
    return {
        "schema": SCHEMA,
        "ok": examined.ok,
        "subject": {"text": case.subject.text, "kind": case.subject.kind, "made_up": list(case.made_up)},
        "machine": case.machine.as_data(),
        "peer": {
            "name": peer.name,
            "version": peer.version or None,
            "onednn": None if peer.onednn is None else ".".join(map(str, peer.onednn)),
            "threads": peer.threads,
            "openmp": list(peer.runtimes),
            "seconds": _seconds(peer.timed),
            "error": peer.whole,
            "problem": peer.problem or None,
            "crashed": peer.crashed,
            "unchecked": peer.unchecked or None,
            "notes": list(peer.notes),
        },
        "ours": {
            "way": ours.way or None,
            "threads": ours.threads,
            "seconds": _seconds(ours.timed),
            "error": ours.error,
            "problem": ours.problem or None,
            "crashed": ours.crashed,
            "notes": list(ours.notes),
        },
        "speedup": case.speedup,
        "layers": [_layer(case, layer) for layer in case.layers],
        "findings": [finding.as_data() for finding in examined.findings],
    }


def _seconds(timed: Timed | None) -> dict[str, float] | None:
    return None if timed is None else {"min": timed.least, "median": timed.median, "runs": timed.runs}


def _layer(case: Case, layer: Layer) -> dict[str, Any]:
    errors = [one.error for one in case.peer.departures or () if one.item in layer.items]
    return {
        "name": layer.name,
        "items": list(layer.items),
        "peer": {
            "seconds": layer.peer_seconds if layer.calls else None,
            "ops": [call.op for call in layer.calls],
            "kernels": [
                f"{one.kind} ({one.implementation})" for call in layer.calls for one in call.primitives
            ],
            "inside": sorted({name for call in layer.calls for name in call.inside}),
            "types": sorted({kind for call in layer.calls for kind in call.types}),
            "error": max(errors, default=None),
        },
        "ours": {
            "seconds": layer.our_seconds,
            "partitions": {
                str(number): case.ours.partitions.get(number, "")
                for number in dict.fromkeys(step.partition for step in layer.steps)
            },
            "kernels": [f"{step.name} ({step.implementation})" for step in layer.steps],
        },
    }


Table = Callable[..., None]


def print_report(examined: Examined, say: Callable[[str], None], table: Table, *, everything: bool) -> None:
    """Writes it for people.

    Args:
        examined: what was found.
        say: writes a line.
        table: as `console.table`.
        everything: whether all layers are shown.
    """
    case = examined.case
    for line in _head(case):
        say(line)
    _print_layers(case, table, say, everything=everything)
    if not examined.findings:
        say("nothing to complain of")
    for number, finding in enumerate(examined.findings, 1):
        where = _some(finding.layers)
        gain = f" (−{_ms(finding.gain)} ms)" if finding.gain is not None else ""
        say(f"{number}. {finding.severity}{gain}: {f'{where}: ' if where else ''}{finding.what}")
        if finding.why:
            say(f"   why: {finding.why}")
        if finding.do:
            say(f"   do: {finding.do}")
    counts = {kind: sum(one.severity == kind for one in examined.findings) for kind in ORDER}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    say(f"findings: {told or 'none'}")


def _head(case: Case) -> Iterable[str]:
    peer, ours, machine = case.peer, case.ours, case.machine
    library = f", oneDNN {'.'.join(map(str, peer.onednn))} in it" if peer.onednn else ""
    isa = f" on {peer.isa}" if peer.isa else ""
    yield f"{case.subject.text}: {peer.name} {peer.version}{library}{isa}".rstrip()
    if case.made_up:
        yield f"made up: {', '.join(case.made_up)}"
    cpus = f"{machine.allowed} CPUs" + (f", time for {machine.quota:g}" if machine.quota else "")
    threads = f"{peer.threads or 'its own number'} in {peer.name}, {ours.threads or 'none'} here"
    if peer.threads != ours.threads and not (peer.problem or ours.problem):
        threads += " (--threads gives both the same)"
    yield f"threads: {threads}; {cpus}"
    for name, timed, error in (
        (peer.name, peer.timed, peer.whole),
        (f"ours ({ours.way})", ours.timed, ours.error),
    ):
        if timed is None:
            continue
        off = "" if error is None else f", {error:.1e} of the largest element off double precision"
        yield f"{name}: {_ms(timed.least)} ms at best, {_ms(timed.median)} as a median of {timed.runs} runs{off}"
    speed = case.speedup
    if speed is not None:
        yield (
            f"ours is {times(speed)} times as fast"
            if speed >= 1
            else f"ours takes {times(1 / speed)} times as long"
        )
    for note in (*peer.notes, *ours.notes):
        yield f"note: {note}"
    if peer.unchecked:
        yield f"not compared with double precision: {peer.unchecked}"


def _print_layers(case: Case, table: Table, say: Callable[[str], None], *, everything: bool) -> None:
    if not case.layers:
        return
    rows = list(case.layers)
    if not everything:
        most = sorted(rows, key=lambda one: -max(one.peer_seconds, one.our_seconds or 0.0))[:ROWS]
        rows = [one for one in rows if one in most]
    table(
        f"layers, in the order in which they run; times of single ops and steps, in ms, {case.peer.name}'s and ours",
        ("layer", case.peer.name, "ours", "×", f"{case.peer.name} runs", "ours runs"),
        [
            (
                layer.name,
                _ms(layer.peer_seconds) if layer.calls else "",
                "" if layer.our_seconds is None else _ms(layer.our_seconds),
                _ratio(layer),
                _theirs(layer),
                _mine(layer),
            )
            for layer in rows
        ],
        right=(case.peer.name, "ours", "×"),
        wide=everything,
    )
    left = [one for one in case.layers if one not in rows]
    if left:
        theirs, mine = sum(one.peer_seconds for one in left), sum(one.our_seconds or 0.0 for one in left)
        say(
            f"… and {len(left)} more layers, {_ms(theirs)} ms there and {_ms(mine)} ms here; --all shows them"
        )


def _ratio(layer: Layer) -> str:
    mine = layer.our_seconds
    if not mine or not layer.calls:
        return ""
    return times(layer.peer_seconds / mine)


def _theirs(layer: Layer) -> str:
    names: dict[str, None] = {}
    copies = 0
    for call in layer.calls:
        slow = next((name for name in call.inside if "slow_conv" in name), "")
        copies += sum(one.kind == "reorder" for one in call.primitives)
        kernels = [f"{one.kind} ({one.implementation})" for one in call.primitives if one.kind != "reorder"]
        names.update(
            dict.fromkeys(kernels or [(slow or call.op).removeprefix("aten.").removeprefix("aten::")])
        )
    return _cell(names, copies)


def _mine(layer: Layer) -> str:
    copies = [step for step in layer.steps if step.name.startswith("reorder")]
    names = dict.fromkeys(f"{one.name} ({one.implementation})" for one in layer.steps if one not in copies)
    return _cell(names, len(copies))


def _cell(names: Iterable[str], copies: int) -> str:
    told = f"{copies} reorder{'s' if copies > 1 else ''}" if copies else ""
    return "; ".join(filter(None, [_some(names, KERNELS), told]))


def _some(names: Iterable[str], most: int = NAMED) -> str:
    listed = list(names)
    more = f", … ({len(listed)})" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _ms(seconds: float) -> str:
    number = seconds * 1e3
    if number < 1e-3:
        return f"{number:.0e}" if number else "0"
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
