"""What a profile has measured: a table for notebooks, and a page with a flame chart that needs nothing else."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from typing import Any

from ...ops.values import counted
from ..runtime.profiling import BESIDE, Event, EventKind, Line, Recording
from ..runtime.text_files import save_text
from .html import filled_page
from .memory import memory_data

COLUMNS = ("", "calls", "total ms", "mean ms", "share", "implementation", "tensors")
NUMBERS = range(1, 5)
"""Columns that hold numbers."""
BESIDE_THREADS = 1 << 24
"""Numbers of rows that are no threads begin here, above every thread's."""
NOTHING = "Nothing was executed while the profile was open."
STYLE = (
    "<style>.ogp{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".ogp th,.ogp td{padding:2px 9px;text-align:left;vertical-align:top;border-bottom:1px solid #8883}"
    ".ogp .n{text-align:right;white-space:nowrap}.ogp .p{font-weight:600}.ogp .s{padding-left:2em}"
    ".ogp .b{display:block;height:3px;background:#e8760c}.ogp .copy{color:#b03a86}</style>"
)


def save_flames(profile: Recording, path: str | os.PathLike[str]) -> None:
    """See `Profile.to_html`."""
    save_text(flame_page(profile), path)


def flame_page(profile: Recording) -> str:
    """The page: a chart of what ran when, on each thread, and the table below it."""
    count = counted(len(profile.events), "event")
    title = f"Profile: {profile.seconds * 1e3:.3f} ms in partitions, {count}"
    return filled_page(
        "flames.html",
        scripts=("words.js", "memory.js", "flames.js"),
        library=False,
        title=html.escape(title),
        data=flames(profile),
        table=profile_table(profile),
    )


def flames(profile: Recording) -> dict[str, Any]:
    """The events as data: each names its line of `lines` by number, and has start and length in microseconds."""
    lines: dict[tuple[object, ...], int] = {}
    threads: dict[int, int] = {}
    drawn: list[tuple[int, float, float, int]] = []
    rows, names = rows_of(profile.events)
    for event, row in sorted(rows, key=lambda one: (one[0].start, one[0].kind is not EventKind.partition)):
        key = (
            event.name,
            event.implementation,
            event.kind.value,
            event.tensors,
            event.partition,
            event.label,
            event.op,
        )
        number = lines.setdefault(key, len(lines))
        thread = threads.setdefault(row, len(threads))
        drawn.append((number, round(event.start * 1e6, 2), round(event.seconds * 1e6, 2), thread))
    fields = ("name", "implementation", "kind", "tensors", "partition", "label", "op")
    return {
        "lines": [dict(zip(fields, key, strict=True)) for key in lines],
        "threads": list(threads),
        "names": [names.get(row, "") for row in threads],
        "events": drawn,
        "memory": memory_data(profile.memory) if profile.memory.stages else None,
    }


def rows_of(events: Iterable[Event]) -> tuple[list[tuple[Event, int]], dict[int, str]]:
    """In which row each event is drawn: that of its thread, or one of what runs beside threads, where none overlap.

    Returns:
        Events with their rows, in order of their starts; and the names of rows that are no threads.
    """
    free: dict[EventKind, list[tuple[float, int]]] = {kind: [] for kind in BESIDE}
    found: list[tuple[Event, int]] = []
    names: dict[int, str] = {}
    for event in sorted(events, key=lambda event: event.start):
        if event.kind not in BESIDE:
            found.append((event, event.thread))
            continue
        rows = free[event.kind]
        place = next((n for n, (end, _) in enumerate(rows) if end <= event.start), len(rows))
        row = rows[place][1] if place < len(rows) else BESIDE_THREADS + len(names)
        rows[place : place + 1] = [(event.start + event.seconds, row)]
        names[row] = f"{event.kind.value} {place + 1}" if place else event.kind.value
        found.append((event, row))
    return found, names


def profile_table(profile: Recording) -> str:
    """A table of partitions, with the steps of each below it, the most expensive first."""
    if not profile.events:
        return f"<p>{NOTHING}</p>"
    total = profile.seconds
    known: set[tuple[int | None, str]] = set()
    rows = [
        "".join(f'<th scope="col"{_class("n", i in NUMBERS)}>{name}</th>' for i, name in enumerate(COLUMNS))
    ]
    timeless = [partition for partition in profile.partitions if not partition.seconds]
    for partition in profile.partitions:
        known.add((partition.partition, partition.label))
        if not partition.seconds:
            continue
        rows.append(_row(partition, total))
        rows += [
            _row(line, total)
            for line in profile.steps
            if (line.partition, line.label) == (partition.partition, partition.label)
        ]
    rows += [_row(line, total) for line in profile.steps if (line.partition, line.label) not in known]
    if timeless:
        names = ", ".join(dict.fromkeys(partition.name for partition in timeless))
        many = counted(len(timeless), "partition")
        rows.append(
            f'<td class="p" colspan="{len(COLUMNS)}">{many} without time of their own, views or done with others: '
            f"{html.escape(names)}</td>"
        )
    share = profile.copy_seconds / total if total else 0.0
    return (
        f'{STYLE}<table class="ogp"><thead><tr>{rows[0]}</tr></thead><tbody>'
        f"{''.join(f'<tr>{row}</tr>' for row in rows[1:])}</tbody></table>"
        f"<p>Reorders and conversions: {profile.copy_seconds * 1e3:.3f} ms, {share:.0%} of {total * 1e3:.3f} ms</p>"
    )


def _class(name: str, holds: bool) -> str:
    return f' class="{name}"' if holds else ""


def _row(line: Line, total: float) -> str:
    whole = line.kind is EventKind.partition
    name = f"partition {line.partition}: {line.name}" if whole else line.name
    style = "p" if whole else "s copy" if line.kind is EventKind.copy else "s"
    share = line.seconds / total if total else 0.0
    numbers = (
        str(line.calls),
        f"{line.seconds * 1e3:.3f}",
        f"{line.seconds / line.calls * 1e3:.3f}",
        f"{share:.0%}" if total else "",
    )
    bar = f'<span class="b" style="width:{min(share, 1):.1%}"></span>'
    return "".join(
        [
            f'<td class="{style}">{html.escape(name)}</td>',
            *[
                f'<td class="n">{text}{bar if i == len(numbers) - 1 else ""}</td>'
                for i, text in enumerate(numbers)
            ],
            f"<td>{html.escape(line.implementation)}</td>",
            f"<td>{html.escape(', '.join(line.tensors))}</td>",
        ]
    )
