"""What a build of oneDNN is, found out in a child process: a file that is none may take the process with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...backends.onednn.library.finding import VARIABLE
from ...ops.records import frozen
from ...ops.values import one_line
from ..ending import signal_name

TIME_LIMIT = 120.0
"""Seconds that a file may take to load; a busy machine stops a process for a while."""
TAG = "onednn-graph library: "


@frozen(kw_only=True)
class Build:
    """A build that loads, or why it doesn't.

    Attributes:
        problem: why it can't be used; empty where it can.
        version: `3.13.1`, say.
        commit: of its source.
        threads: what it runs on, in words.
        swept: how much of it is proven, in words, with what was taken for what.
        has, lacks: what there is beyond 3.2, and what isn't.
    """

    problem: str = ""
    version: str = ""
    commit: str = ""
    threads: str = ""
    swept: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


def probe(path: Path, *, alone: bool = False) -> Build:
    """What a child process finds when it loads a file.

    Args:
        alone: without LD_LIBRARY_PATH, as a program that knows nothing of it.
    """
    environment = {**os.environ, VARIABLE: str(path)}
    if alone:
        environment.pop("LD_LIBRARY_PATH", None)
    # Without the folder that we are in: a json.py there would be imported instead of Python's.
    command = [sys.executable, "-P", "-m", "onednn_graph.tools.library.probing"]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Build(problem=f"{path} did not load within {TIME_LIMIT:.0f} seconds")
    told = [line.removeprefix(TAG) for line in done.stdout.splitlines() if line.startswith(TAG)]
    if done.returncode == 0 and told:
        found: dict[str, Any] = json.loads(told[-1])
        found |= {name: tuple(found.get(name, ())) for name in ("has", "lacks")}
        return Build(**found)
    if done.returncode < 0:
        return Build(problem=f"{path} ends the process that loads it by {signal_name(-done.returncode)}")
    return Build(problem=f"{path} can't be loaded: {one_line(done.stderr.strip()[-200:])}")


def _told() -> dict[str, Any]:
    """In the child: what is loaded."""
    from ...backends.onednn.library.capabilities import SINCE
    from ...backends.onednn.library.loading import load
    from ...backends.onednn.proven import extrapolated, swept
    from ...ops.errors import LibraryError

    try:
        library = load()
    except LibraryError as error:
        return {"problem": str(error).removeprefix(f"{VARIABLE} names ")}
    there = {"oneDNN Graph"} if library.capabilities.graph_api else set[str]()
    there |= library.capabilities.later
    other = extrapolated(library)
    return {
        "version": ".".join(map(str, library.version)),
        "commit": str(library.build[3]) if len(library.build) > 3 else "",
        "threads": library.runtime.name,
        "swept": swept(library).value + (f" (taken: {other})" if other else ""),
        "has": sorted(there),
        "lacks": sorted({"oneDNN Graph", *SINCE} - there),
    }


if __name__ == "__main__":
    print(TAG + json.dumps(_told()), flush=True)
