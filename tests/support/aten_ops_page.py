"""The page of the documentation with a table of ATen's ops."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from onednn_graph.backends.onednn.lowering.table import LOWERED
from onednn_graph.graph.aten.table import AUTOGRAD, TABLE, TRAINING
from onednn_graph.graph.torch_compile.plan.table import INEXACT, LEFT_TO_TORCH, VIEWS
from onednn_graph.graph.torch_compile.plan.table import TABLE as COMPILED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pages" / "guides" / "aten-ops.md"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
TORCH = next(one for one in EXTRAS["test-oracles"] if one.startswith("torch==")).removeprefix("torch==")
"""The version whose samples the page tells of: they become other ops in another one."""
HEAD = """# Ops of ATen

What becomes of each ATen op that has a translation, in [from_torch](from-torch.md) and in
[torch.compile](../coming-from/torch.md). [Torch's operators](../coming-from/torch-operators.md) tells of its tests.

* *Becomes* are the ops of a graph that samples of it became, by torch's own tests of operators: for real numbers, and
  for integers and booleans. Which ones a call becomes depends on its arguments. **Bold** ones oneDNN runs where it can
  and NumPy elsewhere ([Who runs what](../ops/who-runs.md)), the others NumPy runs. Those that begin with `Host` are
  beyond oneDNN's set. A dash is no computation: a view, or an op that only says something. Nothing is said where no
  sample was taken.
* *from_torch*: by default, or *in training* only. What is not here torch decomposes into such that are, or it is
  refused by name. Ops of gradients it does not meet, for it makes [its own](gradients.md).
* *torch.compile*: a *region* is compiled together with its neighbours, a *view* looks at memory in another way,
  *torch*'s kernel runs what is left to it: for its random numbers, errors and order among equals (*as torch*), or for
  more digits than oneDNN's logarithms have (*exact*). What is not here is torch's.

An op without an overload stands for all of its overloads that are not here.

| op | real becomes | whole becomes | from_torch | torch.compile |
|---|---|---|---|---|
"""
ROW = re.compile(r"^\| `([^`]*)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.M)
NAMES = sorted({*TABLE, *TRAINING, *AUTOGRAD} - {name for name in AUTOGRAD if not name.startswith("aten.")})


def page(kinds: Mapping[str, Mapping[str, set[str]]]) -> str:
    """The whole page, of what ops become."""
    lines = [HEAD.rstrip("\n")]
    for name in NAMES:
        cells = (
            _becomes(kinds, name, "real"),
            _becomes(kinds, name, "whole"),
            imported(name),
            compiled(name),
        )
        lines.append(f"| `{name.removeprefix('aten.')}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read(text: str) -> dict[str, tuple[set[str], set[str], str, str]]:
    """The rows of a page: kinds, and the other columns."""
    return {
        f"aten.{name}": (*(set(re.findall(r"`(\w+)`", one)) for one in (real, whole)), where, there)
        for name, real, whole, where, there in ROW.findall(text)
    }


def imported(name: str) -> str:
    """The column of from_torch."""
    for table, told in ((TABLE, "yes"), (TRAINING, "in training")):
        if name in table or name.rpartition(".")[0] in table:
            return told
    return ""


def compiled(name: str) -> str:
    """The column of torch.compile."""
    if any(one == name or one.startswith(f"{name}.") for one in VIEWS):
        return "view"
    for names, why in ((LEFT_TO_TORCH, "as torch"), (INEXACT, "exact")):
        if any(name == left or name.startswith(f"{left}.") for left in names):
            return f"torch, {why}"
    return "region" if name in COMPILED or name.rpartition(".")[0] in COMPILED else "torch"


def _becomes(kinds: Mapping[str, Mapping[str, set[str]]], name: str, numbers: str) -> str:
    found = kinds.get(name, {}).get(numbers)
    if found is None:
        return ""
    names = [f"**`{kind}`**" if kind in LOWERED else f"`{kind}`" for kind in sorted(found)]
    return ", ".join(names) or "–"
