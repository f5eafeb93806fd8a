"""Two or more builds of oneDNN on the same weight gradients, each in processes of its own, in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from affinity import anywhere
from attrs import frozen

ROUNDS = 4
"""How often each build has its turn: what is slow in one round of the machine's is not in all."""
Times = dict[tuple[str, str, str], float]
"""Layer, format and type → least seconds."""


@frozen
class Comparison:
    """What was measured.

    Attributes:
        facts: of the machine and the first build.
        names: of the builds. times: of each.
    """

    facts: Mapping[str, object]
    names: Sequence[str]
    times: Sequence[Times]

    @property
    def ratios(self) -> list[list[float]]:
        """Of each build but the first: its time ÷ the first one's, of each layer."""
        first, *others = self.times
        return [[one[key] / seconds for key, seconds in first.items()] for one in others]

    @property
    def columns(self) -> list[str]:
        """Names of these ratios."""
        return [f"{name} ÷ {self.names[0]}" for name in self.names[1:]]

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        rows = zip(self.times[0].items(), zip(*self.ratios, strict=True), strict=True)
        return [
            f"ms of {self.names[0]}, {', '.join(self.columns)}",
            *(
                f"{' '.join(key):44} {1e3 * t:9.3f}  {'  '.join(f'{r:.2f}' for r in each)}"
                for (key, t), each in rows
            ),
            f"{'geometric mean':54}  {'  '.join(f'{statistics.geometric_mean(one):.2f}' for one in self.ratios)}",
        ]

    def markdown(self, command: str) -> str:
        """For a page of results."""
        head = ["layer", "format", "dtype", f"ms of {self.names[0]}", *self.columns]
        text = ["## Weight gradients by builds", "", f"`{command}`", ""]
        text += [", ".join(f"{name} {value}" for name, value in self.facts.items()) + ".", ""]
        text += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for (key, seconds), each in zip(self.times[0].items(), zip(*self.ratios, strict=True), strict=True):
            text.append(f"| {' | '.join((*key, f'{1e3 * seconds:.3f}', *(f'{one:.2f}' for one in each)))} |")
        return "\n".join([*text, "", "Shortest times; above 1 the first build is faster.", ""])


def compare(libraries: Sequence[str], options: Sequence[str]) -> Comparison:
    """Measures builds in turn.

    Args:
        libraries: paths of libdnnl; empty for the wheel's.
        options: of `wgrad.py`, for each of them.

    Raises:
        subprocess.CalledProcessError: a build can't be used, or is wrong.
    """
    times: list[Times] = [{} for _ in libraries]
    facts: list[dict[str, object]] = [{} for _ in libraries]
    for _ in range(ROUNDS):
        for index, library in enumerate(libraries):
            found = _measured(library, options)
            facts[index] = found["environment"]
            for row in found["rows"]:
                key = (row["layer"], row["format"], row["dtype"])
                least = row["seconds"]["ours"]["min"]
                times[index][key] = min(times[index].get(key, least), least)
    return Comparison(facts[0], [f"oneDNN {str(one['oneDNN']).split()[0]}" for one in facts], times)


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
