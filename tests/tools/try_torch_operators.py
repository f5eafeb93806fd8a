"""Runs torch's own tests of operators through `torch.compile`'s backend, and writes the table of what passes.

    python tests/tools/try_torch_operators.py --write                    # the page of the documentation
    python tests/tools/try_torch_operators.py add nn.functional.conv2d   # all samples of some operators
    python tests/tools/try_torch_operators.py --layout permuted --limit 3

What does not agree with eager torch is printed. Needs the extra `test-oracles`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pages" / "coming-from" / "torch-operators.md"
sys.path[:0] = [str(ROOT / "tests" / "support")]
TYPES = {"float32": 8, "bfloat16": 3, "int64": 3}
"""Type → samples of each operator that --write takes; evenly spread where there are more."""
HEAD = """# Torch's operators

Which of torch's operators `torch.compile(model, backend="onednn_graph")` computes itself, and how that was tested: by
torch's own sample inputs (`torch.testing._internal.common_methods_invocations.op_db`), against eager torch, forward and
backward. An element must agree to the tolerances of `torch.testing.assert_close`, or no element may be farther from
double precision than eager's worst; shapes, types, strides and shared memory must be eager's.

An operator is here if one of the ATen ops that it falls into has a translation. *In regions* are calls of ATen ops that
ran as ops of oneDNN Graph, *by torch* those that torch's kernels did within the same program: empty tensors, types and
arguments that have no translation, random numbers. What an operator without a row does is torch's altogether.

Torch {torch}; {samples} samples: {limits}.

| operator | f32 | gradients | bf16 | gradients | s64 | in regions | by torch |
|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="names as torch has them; all if none is given")
    parser.add_argument("--dtype", default="float32", choices=TYPES)
    parser.add_argument(
        "--limit", type=int, help="samples of each operator; all if left out, some for --write"
    )
    parser.add_argument("--layout", default="plain", help="how inputs lie: plain, offset, permuted, expanded")
    parser.add_argument("--inplace", action="store_true", help="the forms that write into their input")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes for --write")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th operator from the k-th on")
    parser.add_argument("--out", type=Path, help="where outcomes go as JSON lines")
    given = parser.parse_args()
    if given.write:
        return write(given.jobs, {dtype: given.limit or limit for dtype, limit in TYPES.items()})
    return run(given)


def run(given: argparse.Namespace) -> int:
    """Trials in this process; how many failed decides what it returns."""
    import torch
    import torch_operators

    torch.set_num_threads(1)
    part, parts = map(int, given.part.split("/"))
    start, ran, failed = time.perf_counter(), 0, 0
    with open(given.out or "/dev/null", "w", encoding="utf-8") as out:
        for op in torch_operators.named(*given.operators)[part::parts]:
            dtype = getattr(torch, given.dtype)
            for trial in torch_operators.trials(op, dtype, given.limit, given.layout, given.inplace):
                outcome = torch_operators.ran(trial)
                if not outcome.ran:
                    continue
                ran += 1
                failed += bool(outcome.failures)
                for failure in outcome.failures:
                    print(f"{trial.name}: {failure}", flush=True)
                line = [op.formatted_name, given.dtype, outcome.forward, outcome.backward]
                counts = [outcome.regions.total(), outcome.torch.total(), outcome.mapped]
                print(json.dumps([*line, *counts]), file=out, flush=True)
    print(f"{ran} samples, {failed} of them not as eager torch, in {time.perf_counter() - start:.0f} s")
    return int(bool(failed))


def write(jobs: int, limits: dict[str, int]) -> int:
    """All of it in child processes, and the page."""
    with tempfile.TemporaryDirectory() as folder:
        return _write(jobs, limits, folder)


def _write(jobs: int, limits: dict[str, int], folder: str) -> int:
    import torch

    lines: list[list[Any]] = []
    worst = 0
    for dtype, limit in limits.items():
        outs = [Path(folder) / f"{dtype}_{job}.jsonl" for job in range(jobs)]
        command = [sys.executable, __file__, "--dtype", dtype, "--limit", str(limit)]
        children = [
            subprocess.Popen([*command, "--part", f"{job}/{jobs}", "--out", str(out)])
            for job, out in enumerate(outs)
        ]
        worst = max(worst, *(abs(child.wait()) for child in children))
        lines += [json.loads(line) for out in outs for line in out.read_text(encoding="utf-8").splitlines()]
    PAGE.write_text(page(lines, torch.__version__, limits), encoding="utf-8")
    return worst


def page(lines: list[list[Any]], version: str, limits: dict[str, int]) -> str:
    """The page of outcomes: operator, type, forward, backward, counts, whether there are translations."""
    rows: dict[str, dict[str, Counter[str]]] = {}
    for name, dtype, forward, backward, regions, by_torch, mapped in lines:
        row = rows.setdefault(name, {dtype: Counter() for dtype in (*TYPES, "calls")})
        row["calls"].update(regions=regions, torch=by_torch, mapped=int(mapped))
        row[dtype].update(
            all=1, forward=int(forward), gradients=int(backward is not None), backward=int(bool(backward))
        )
    mapped = {name: row for name, row in sorted(rows.items()) if row["calls"]["mapped"]}
    text = HEAD.format(
        torch=version.split("+")[0],
        samples=sum(row[dtype]["all"] for row in mapped.values() for dtype in TYPES),
        limits=", ".join(f"up to {limit} of {dtype} for each operator" for dtype, limit in limits.items()),
    )
    for name, row in mapped.items():
        cells: list[str] = [f"`{name}`"]
        for dtype in TYPES:
            counts = row[dtype]
            cells.append(_share(counts["forward"], counts["all"]))
            if dtype != "int64":
                cells.append(_share(counts["backward"], counts["gradients"]))
        text += f"| {' | '.join([*cells, str(row['calls']['regions']), str(row['calls']['torch'])])} |\n"
    return text


def _share(passed: int, count: int) -> str:
    return "" if not count else str(count) if passed == count else f"**{passed} of {count}**"


if __name__ == "__main__":
    raise SystemExit(main())
