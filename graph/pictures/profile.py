"""Profiles: what a recording has measured, as text, tables, pages and traces.

with og.profile() as prof:
model(inputs)
print(prof)
prof.save_trace("trace.json")  # for chrome://tracing, Perfetto or speedscope
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager

from ...ops.errors import ArgumentError
from ..runtime.profiling import BESIDE, EventKind, Line, Recording, recording
from ..runtime.replacing import replacing
from ..runtime.text_files import reason_of
from .profiles import profile_table, rows_of, save_flames


class Profile(Recording):
    """What `profile()` has measured.

    Attributes:
        events: in the order in which they ended.
    """

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace: JSON that chrome://tracing, Perfetto and speedscope open.

        Raises:
            ArgumentError: the file can't be written.
        """
        rows, names = rows_of(self.events)
        named: list[dict[str, object]] = [
            {"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": row, "args": {"name": name}}
            for row, name in names.items()
        ]
        traced: list[dict[str, object]] = [
            {
                "name": event.name,
                "cat": event.kind.value,
                "ph": "X",
                "ts": event.start * 1e6,
                "dur": event.seconds * 1e6,
                "pid": os.getpid(),
                "tid": row,
                "args": {
                    "implementation": event.implementation,
                    "partition": event.partition,
                    "tensors": list(event.tensors),
                },
            }
            for event, row in sorted(rows, key=lambda one: one[0].start)
        ]
        text = json.dumps({"traceEvents": [*named, *traced], "displayTimeUnit": "ms"}, indent=1)
        try:
            with replacing(path) as (file,):
                file.write(f"{text}\n".encode())
        except (OSError, ValueError) as error:  # a ValueError for a null character in the path
            raise ArgumentError(
                f"the trace can't be written to {os.fspath(path)!r}: {reason_of(error)}"
            ) from error

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Draws a flame chart into one page of HTML: what ran when, on each thread, and a table of sums.

        The page loads nothing from anywhere.

        Raises:
            GraphFileError: the file can't be written.
            ArgumentTypeError: no path.
        """
        save_flames(self, path)

    def _repr_html_(self) -> str:
        """For notebooks: what printing it shows, as a table."""
        return profile_table(self)

    def __str__(self) -> str:
        total = self.seconds
        if not self.events:
            return "nothing was executed while the profile was open"
        rows: list[tuple[str, ...]] = [
            ("", "calls", "total ms", "mean ms", "share", "implementation", "tensors")
        ]
        for partition in self.partitions:
            rows.append(_row(partition, total, ""))
            rows += [
                _row(line, total, "  ")
                for line in self.steps
                if (line.partition, line.label) == (partition.partition, partition.label)
            ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if 0 < column < 5 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        share = self.copy_seconds / total if total else 0.0
        if self.exchanges:
            seconds = {kind: sum(e.seconds for e in self.events if e.kind is kind) for kind in BESIDE}
            lines.append(
                f"with other processes: {seconds[EventKind.exchange] * 1e3:.3f} ms of exchanges under way, "
                f"{seconds[EventKind.wait] * 1e3:.3f} ms of waiting"
            )
        lines.append(
            f"reorders and conversions: {self.copy_seconds * 1e3:.3f} ms, {share:.0%} of {total * 1e3:.3f} ms"
        )
        return "\n".join(lines)


def _row(line: Line, total: float, indent: str) -> tuple[str, ...]:
    name = f"partition {line.partition}: {line.name}" if line.kind is EventKind.partition else line.name
    return (
        indent + name,
        str(line.calls),
        f"{line.seconds * 1e3:.3f}",
        f"{line.seconds / line.calls * 1e3:.3f}",
        f"{line.seconds / total:.0%}" if total else "",
        line.implementation,
        ", ".join(line.tensors),
    )


@contextmanager
def profile() -> Generator[Profile, None, None]:
    """Measures every execution in the process until the block ends, on all threads; profiles nest."""
    opened = Profile()
    with recording(opened):
        yield opened
