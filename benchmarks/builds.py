"""Two or more builds of oneDNN on the same weight gradients, each in processes of its own, in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from affinity import anywhere

ROUNDS = 2
"""How often each build has its turn: what is slow in one round of the machine's is not in all."""
Times = dict[tuple[str, str, str], float]
"""Layer, format and type → least seconds."""


def compare(libraries: Sequence[str], options: Sequence[str]) -> list[str]:
    """Lines of a table: seconds with the first build, and how much faster each other one is.

    Args:
        libraries: paths of libdnnl; empty for the wheel's.
        options: of `wgrad.py`, for each of them.

    Raises:
        subprocess.CalledProcessError: a build can't be used, or is wrong.
    """
    times: list[Times] = [{} for _ in libraries]
    names: list[str] = list(libraries)
    for _ in range(ROUNDS):
        for index, library in enumerate(libraries):
            found = _measured(library, options)
            names[index] = found["environment"]["oneDNN"]
            for row in found["rows"]:
                key = (row["layer"], row["format"], row["dtype"])
                least = row["seconds"]["ours"]["min"]
                times[index][key] = min(times[index].get(key, least), least)
    first, *others = times
    lines = [f"{names[0]} in ms, and how many times as fast are {', '.join(names[1:])}"]
    for key, seconds in first.items():
        ratios = "  ".join(f"{seconds / one[key]:.2f}" for one in others)
        lines.append(f"{' '.join(key):44} {seconds * 1e3:9.3f}  {ratios}")
    means = [statistics.geometric_mean([first[key] / one[key] for key in first]) for one in others]
    return [*lines, f"{'geometric mean':44} {'':9}  {'  '.join(f'{mean:.2f}' for mean in means)}"]


def _measured(library: str, options: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "times.json"
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("wgrad.py")), *options, "--json", str(target)],
            env={**os.environ, "ONEDNN_GRAPH_LIBRARY": library},
            stdout=subprocess.DEVNULL,
            preexec_fn=anywhere,
            check=True,
        )
        return json.loads(target.read_text(encoding="utf-8"))
