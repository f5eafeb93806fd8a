"""Runs torch's own tests of operators through `torch.compile`'s backend, and writes the table of what passes.

    python tests/tools/try_torch_operators.py --write                    # the page of the documentation
    python tests/tools/try_torch_operators.py add nn.functional.conv2d   # all samples of some operators
    python tests/tools/try_torch_operators.py --layout permuted --limit 3

What does not agree with eager torch is printed. Needs the extra `test-oracles`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pages" / "coming-from" / "torch-operators.md"
sys.path[:0] = [str(ROOT / "tests" / "support")]
TYPES = ("float32", "bfloat16", "int64")
"""What the page is about."""
LONGEST = 900
"""Seconds for the samples of one operator in one type."""
Line = tuple[str, str, dict[str, int]]
"""Operator, type, and how many samples did what."""
HEAD = """# Torch's operators

Which of torch's operators `torch.compile(model, backend="onednn_graph")` computes itself, and how that was tested: by
torch's own sample inputs (`torch.testing._internal.common_methods_invocations.op_db`), against eager torch, forward and
backward. An element must agree to the tolerances of `torch.testing.assert_close`, or no element may be farther from
double precision than twice eager's worst, for these inputs or for such that are a rounding away; shapes, types, strides
and shared memory must be eager's.

An operator is here if one of the ATen ops that it falls into has a translation. *In regions* are calls of ATen ops that
ran as ops of oneDNN Graph, *by torch* those that torch's kernels did within the same program: empty tensors, types and
arguments that have no translation, random numbers. What an operator without a row does is torch's altogether.

Torch {torch}; all samples, {samples} of them.

| operator | f32 | gradients | bf16 | gradients | s64 | in regions | by torch |
|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="names as torch has them; all if none is given")
    parser.add_argument(
        "--dtypes", nargs="*", default=TYPES, help=f"of tensors; {' '.join(TYPES)} if left out"
    )
    parser.add_argument("--limit", type=int, help="samples of each operator; all if left out")
    parser.add_argument("--layout", default="plain", help="how inputs lie: plain, offset, permuted, expanded")
    parser.add_argument("--inplace", action="store_true", help="the forms that write into their input")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--resume", type=Path, help="file of outcomes, JSON lines: what is there is not run again"
    )
    given = parser.parse_args()
    outcomes = run(given)
    if given.write:
        import torch

        PAGE.write_text(page([one for one, _ in outcomes], torch.__version__), encoding="utf-8")
    return int(any(told for _, told in outcomes))


def run(given: argparse.Namespace) -> list[tuple[Line, list[str]]]:
    """Trials in child processes, operator by operator: what came of each, and what is not as eager.

    Raises:
        RuntimeError: a child was ended, by a kernel say.
    """
    start = time.perf_counter()
    known: dict[tuple[str, str], tuple[Line, list[str]]] = {}
    if given.resume and given.resume.exists():
        for text in given.resume.read_text(encoding="utf-8").splitlines():
            line, told = json.loads(text)
            known[line[0], line[1]] = (tuple(line), told)
    context = multiprocessing.get_context("spawn")
    with (
        open(given.resume or os.devnull, "a", encoding="utf-8") as kept,
        ProcessPoolExecutor(given.jobs, context, _alone) as pool,
    ):
        names = pool.submit(_names, given.operators).result()
        wanted = [(name, dtype) for dtype in given.dtypes for name in names]
        tried = {
            pool.submit(_tried, *one, given.limit, given.layout, given.inplace): one
            for one in wanted
            if one not in known
        }
        for future in as_completed(tried):
            one = tried[future]
            try:
                known[one] = future.result()
            except BrokenProcessPool as error:
                raise RuntimeError(f"{one}, or what ran at that time, ended its process") from error
            print(json.dumps(known[one]), file=kept, flush=True)
            for failure in known[one][1]:
                print(failure, flush=True)
    outcomes = [known[one] for one in wanted]
    ran, failed = sum(line[2]["all"] for line, _ in outcomes), sum(len(told) for _, told in outcomes)
    print(f"{ran} samples, {failed} of them not as eager torch, in {time.perf_counter() - start:.0f} s")
    return outcomes


def _alone() -> None:
    """In each child: one thread."""
    import torch

    torch.set_num_threads(1)


def _names(operators: Sequence[str]) -> list[str]:
    import torch_operators

    return list(dict.fromkeys(op.formatted_name for op in torch_operators.named(*operators)))


def _tried(name: str, dtype: str, limit: int | None, layout: str, inplace: bool) -> tuple[Line, list[str]]:
    """An operator in a type: what came of it, and what is not as eager."""
    import torch
    import torch_operators

    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    counts = Counter[str](all=0)
    told: list[str] = []
    try:
        for op in torch_operators.formatted(name):
            given = list(torch_operators.trials(op, getattr(torch, dtype), limit, layout, inplace))
            for trial, outcome in zip(given, torch_operators.ran_unless_unmapped(given), strict=True):
                counts.update(
                    all=outcome.ran,
                    forward=bool(outcome.forward),
                    gradients=outcome.backward is not None,
                    backward=bool(outcome.backward),
                    regions=outcome.regions.total(),
                    torch=outcome.torch.total(),
                    mapped=outcome.mapped,
                )
                if outcome.failures:
                    told.append(f"{trial.name}: {'; '.join(outcome.failures)}")
    except TimeoutError as error:
        told.append(f"{name} {dtype}: {error}")
    finally:
        signal.alarm(0)
    return (name, dtype, dict(counts)), told


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"not done after {LONGEST} s")


def page(lines: Sequence[Line], version: str) -> str:
    """The page of outcomes."""
    rows: dict[str, dict[str, Counter[str]]] = {}
    for name, dtype, counts in lines:
        rows.setdefault(name, {one: Counter() for one in TYPES})[dtype].update(counts)
    mapped = {name: row for name, row in sorted(rows.items()) if _sum(row, "mapped")}
    text = HEAD.format(
        torch=version.split("+")[0], samples=f"{sum(_sum(row, 'all') for row in mapped.values()):,}"
    )
    for name, row in mapped.items():
        cells: list[str] = [f"`{name}`"]
        for dtype in TYPES:
            counts = row[dtype]
            cells.append(_share(counts["forward"], counts["all"]))
            if dtype != "int64":
                cells.append(_share(counts["backward"], counts["gradients"]))
        text += f"| {' | '.join([*cells, str(_sum(row, 'regions')), str(_sum(row, 'torch'))])} |\n"
    return text


def _sum(row: dict[str, Counter[str]], what: str) -> int:
    return sum(counts[what] for counts in row.values())


def _share(passed: int, count: int) -> str:
    return "" if not count else str(count) if passed == count else f"**{passed} of {count}**"


if __name__ == "__main__":
    raise SystemExit(main())
