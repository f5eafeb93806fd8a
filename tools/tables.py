"""What the commands show to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..graph.graph import Graph
from ..graph.model.logical_tensor import PropertyType, label
from ..graph.open_graph import OpenGraph
from ..graph.pictures.decisions import DescribedDecision, DescribedPartitioning
from ..graph.pictures.description import DescribedOp, DescribedPartition, GraphDescription
from ..graph.pictures.profile import Profile
from ..graph.runtime.profiling import Line
from ..ops.registry import REGISTRY
from ..ops.values import counted
from .bench import Benchmark
from .compare import Compared, ComparedOutput
from .console import console, milliseconds, table
from .ending import say

KINDS = 6
"""Of ops, that a line names."""
NAMES = 5
"""Of inputs, that a message names."""
NOISY = 1.5
"""How many times the shortest time the median may be before a benchmark is remarked on."""


def print_graph(graph: GraphDescription, *, whole: bool = True, partitioning: bool = False) -> None:
    """Ops, tensors, and partitions with who runs them and why.

    Args:
        partitioning: whether to print the partitioner's steps as well.
        whole: whether to print all rows, and lines of any length where no terminal shows them.
    """
    tensors = {tensor.id: tensor for tensor in graph.tensors}

    def told(op: DescribedOp) -> dict[str, object]:
        return REGISTRY.resolve(op.kind)[0].not_by_default(op.attributes)

    table(
        _census("op", Counter(op.kind for op in graph.ops)),
        ("id", "op", "name", "inputs", "outputs", "attributes", "partition"),
        [
            (
                op.id,
                op.kind,
                op.name,
                ", ".join(f"{port}={tensors[t].name}" for port, t in op.inputs),
                ", ".join(f"{port}={tensors[t].name}" for port, t in op.outputs),
                ", ".join(f"{name}={short(value)}" for name, value in told(op).items()),
                op.partition,
            )
            for op in graph.ops
        ],
        whole=whole,
        wide=whole,
    )
    table(
        counted(len(tensors), "tensor"),
        ("id", "name", "type and shape", "strides", "property", "role"),
        [
            (
                t.id,
                t.name,
                t.text,
                "" if t.strides is None else short(t.strides),
                "" if t.property_type == "undef" else t.property_type,
                t.role,
            )
            for t in graph.tensors
        ],
        whole=whole,
        wide=whole,
    )
    if partitioning and graph.partitioning is not None:
        _print_partitioning(graph.partitioning, graph, whole)
    table(
        _census("partition", Counter(p.backend or "nobody" for p in graph.partitions)),
        ("id", "ops", "backend", "how", "kernels", "scratch", "why no other"),
        [
            (
                p.id,
                p.label if whole else _first_kinds(p.label),
                p.backend or "none",
                p.problem or p.strategy,
                "\n".join(s.name for s in p.steps),
                "" if p.scratch_bytes is None else f"{p.scratch_bytes / 2**10:,.0f} KiB",
                _reasons(p),
            )
            for p in graph.partitions
        ],
        whole=whole,
        wide=whole,
    )


def _print_partitioning(told: DescribedPartitioning, graph: GraphDescription, whole: bool) -> None:
    """What the partitioner asked, step by step, and the answers."""
    names = {op.id: f"{op.kind} {op.name}".rstrip() for op in graph.ops}

    def ops(step: DescribedDecision) -> str:
        shown = step.ops if whole else step.ops[:KINDS]
        more = [f"{len(step.ops) - len(shown)} more"] if len(shown) < len(step.ops) else []
        return ", ".join([*(names[op] for op in shown), *more])

    table(
        _census("step", Counter(_answer(step) for step in told.steps)),
        ("step", "backend", "pattern", "answer", "ops", "partition", "why"),
        [
            (
                number,
                step.backend or "none",
                step.pattern,
                _answer(step),
                ops(step),
                "" if step.partition is None else step.partition,
                step.reason or step.ends,
            )
            for number, step in enumerate(told.steps, 1)
        ],
        whole=whole,
        wide=whole,
    )


def _answer(step: DescribedDecision) -> str:
    return "refused" if step.partition is None else "took"


def _census(what: str, counts: Counter[str]) -> str:
    """`5 ops: 3 ReLU, 2 Add`."""
    total = counted(counts.total(), what)
    if len(counts) < 2:
        return total
    most = [f"{number} {name}" for name, number in counts.most_common(KINDS)]
    rest = len(counts) - len(most)
    return f"{total}: {', '.join(most)}{f' and {rest} other kinds' if rest else ''}"


def _first_kinds(label: str) -> str:
    kinds = label.split("+")
    return label if len(kinds) <= KINDS + 1 else f"{'+'.join(kinds[:KINDS])} + {len(kinds) - KINDS} more"


def say_made_up(graph: Graph | OpenGraph, names: Sequence[str], seed: int, *, given: bool = True) -> None:
    """Says on standard error which inputs have no data of the user's, weights before all.

    Args:
        graph: whose inputs they are.
        names: of the inputs.
        seed: that the data are of.
        given: whether the command takes arrays.
    """
    constant = {label(t) for t in graph.inputs if t.property_type is PropertyType.constant}
    weights = [name for name in names if name in constant]
    others = [name for name in names if name not in constant]
    told = [
        f"{what} {', '.join(some[:NAMES])}{f' and {len(some) - NAMES} more' if some[NAMES:] else ''}"
        for what, some in (("weights", weights), ("inputs", others))
        if some
    ]
    say(f"made up from seed {seed}: {'; '.join(told)}{'; --inputs takes arrays for them' if given else ''}")


def short(value: object) -> str:
    """A value in a cell; x stands between the elements of a list."""
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def _reasons(partition: DescribedPartition) -> str:
    """What rules others out; that they only come later goes without saying."""
    return "\n".join(
        f"{name}: {reason}"
        for name, reason in partition.why_not.items()
        if not reason.startswith("it can, but")
    )


def print_benchmark(result: Benchmark) -> None:
    """Times, rates and shares, and where the time goes."""
    data, timing = result.as_data(), result.timing

    def share(key: str) -> str:
        value = data[key]
        return "" if value is None else f"{value:.0%} of what this machine was seen to do"

    rows = [
        (
            "time",
            f"{timing.least * 1e3:.3f} / {timing.median * 1e3:.3f} / {timing.most * 1e3:.3f} ms",
            f"min / median / max of {timing.runs} runs",
        ),
        ("GFLOP/s", f"{data['flops_per_second'] / 1e9:.1f}", share("share_of_peak_flops")),
        ("GB/s", f"{data['bytes_per_second'] / 1e9:.1f}", share("share_of_peak_bandwidth")),
    ]
    table("", ("", "best run", ""), [row for row in rows if row[0] != "GFLOP/s" or result.flops])
    print_profile(result.profile)
    if timing.median > NOISY * timing.least:
        say(
            f"the median is {timing.median / timing.least:.1f} times the minimum: something else is running, or the "
            "clock changes; measure again on a quiet machine"
        )


def print_profile(profile: Profile) -> None:
    """Where the time goes, partition by partition; types and layouts of tensors where there is room for them."""
    lines = str(profile).split("\n")
    if max(map(len, lines)) > console.width:
        rows: list[tuple[object, ...]] = []
        for partition in profile.partitions:
            steps = [line for line in profile.steps if _belongs(line, partition)]
            rows += [
                _timed(partition, profile.seconds, ""),
                *(_timed(s, profile.seconds, "· ") for s in steps),
            ]
        heads = ("step", "calls", "mean ms", "share", "implementation")
        table("", heads, rows, right=heads[1:4])
        del lines[:-1]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _belongs(step: Line, partition: Line) -> bool:
    return (step.partition, step.label) == (partition.partition, partition.label)


def _timed(line: Line, total: float, mark: str) -> tuple[object, ...]:
    name = line.name if mark else f"partition {line.partition}: {_first_kinds(line.name)}"
    share = f"{line.seconds / total:.0%}" if total else ""
    return (mark + name, line.calls, milliseconds(line.seconds / line.calls), share, line.implementation)


def print_compared(result: Compared) -> None:
    """Partitions, kernels, differences and times of ours and native's."""
    native = result.native
    mine, theirs = (
        {i: number for number, ids in enumerate(partitions) for i in ids}
        for partitions in (result.partitions, native.partitions)
    )
    table(
        f"partitions: {len(result.partitions)} by us, {len(native.partitions) or '–'} by native",
        ("op", "kind", "our partition", "native's"),
        [(i, kind, mine.get(i), theirs.get(i)) for i, kind in result.kinds.items()],
    )
    table("our kernels", ("partition", "kernels"), list(enumerate(result.told)))
    if native.kernels:
        table("native's kernels", ("kernel",), [(kernel,) for kernel in native.kernels])
    table(
        "largest differences",
        ("output", "ours − native", "ours − reference", "native − reference", "verdict"),
        [
            (
                label(o.tensor),
                _largest(o.apart),
                _largest(o.ours and o.ours.difference),
                _largest(o.native and o.native.difference),
                _verdict(o),
            )
            for o in result.outputs
        ],
        right=("ours − native", "ours − reference", "native − reference"),
    )
    rows = [
        (who, milliseconds(t.least), milliseconds(t.median), t.runs)
        for who, t in (("ours", result.ours), ("native", native.native))
        if t is not None
    ]
    if result.ratios is not None:
        rows.append(("native ÷ ours", f"{result.ratios[0]:.2f}", f"{result.ratios[1]:.2f}", 0))
    table(
        "",
        ("ms", "min", "median", "runs"),
        [(*row[:3], row[3] or "") for row in rows],
        right=("min", "median", "runs"),
    )
    for problem in (
        f"native: {native.problem}" if native.problem else "",
        result.unjudged and f"no reference: {result.unjudged}",
    ):
        if problem:
            console.print(problem, markup=False, highlight=False)


def _largest(difference: float | None) -> str:
    return "" if difference is None else f"{difference:.3g}"


def _verdict(output: ComparedOutput) -> str:
    wrong = [
        f"{who} is wrong: {found.message}"
        for who, found in (("ours", output.ours), ("native", output.native))
        if found is not None and not found.ok
    ]
    if output.ours is None:
        return "no reference"
    return "\n".join(wrong) or "right"


def lines_of(value: object) -> str:
    """A value, or one line for each of several."""
    if not isinstance(value, dict):
        return str(value)
    return "\n".join(f"{key}: {one}" for key, one in value.items()) or "none"  # pyright: ignore[reportUnknownVariableType]
