"""What was made of a torch model: who does what, and how long it takes."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from .framework import torch
from .steps import Program, RegionCall, TorchCall


@frozen
class FunctionReport:
    """One ATen graph.

    Attributes:
        role: `forward`, `backward` or `inference`.
        programs: how many there are, for different sizes.
        compile_seconds: that making them took.
        regions: how many graphs of oneDNN Graph the latest program has.
        ops: backend → how many of their ops it runs.
        torch_steps: ATen op → how many calls of torch the latest program has, views apart.
        reasons: ATen op → why it is torch's.
        seconds: mean time of a call: of regions under `regions`, of torch's ops under their names.
    """

    role: str
    programs: int
    compile_seconds: float
    regions: int
    ops: dict[str, int]
    torch_steps: dict[str, int]
    reasons: dict[str, str]
    seconds: dict[str, float]

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        ops = ", ".join(f"{count} on {name}" for name, count in self.ops.items()) or "none"
        lines = [
            f"{self.role}: {self.programs} program{'' if self.programs == 1 else 's'}, compiled in "
            f"{self.compile_seconds:.2f} s; {total * 1e3:.2f} ms a call",
            f"  {self.regions} region{'' if self.regions == 1 else 's'}, "
            f"{self.seconds.get('regions', 0.0) * 1e3:.2f} ms; ops: {ops}",
        ]
        for name, count in sorted(self.torch_steps.items(), key=lambda pair: -self.seconds.get(pair[0], 0.0)):
            why = f": {self.reasons[name]}" if self.reasons.get(name) else ""
            lines.append(f"  torch: {name} ×{count}, {self.seconds.get(name, 0.0) * 1e3:.2f} ms{why}")
        return "\n".join(lines)


@frozen
class Report:
    """What was made of a model. Print it.

    Attributes:
        functions: its ATen graphs, in the order in which they were compiled.
        graph_breaks: where torch's own tracing has cut the model: reason → how often, since the process began.
    """

    functions: tuple[FunctionReport, ...]
    graph_breaks: dict[str, int]

    def __str__(self) -> str:
        if not self.functions:
            return "nothing was compiled yet; call the model first"
        breaks = [f"graph break ×{count}: {reason}" for reason, count in self.graph_breaks.items()]
        return "\n".join([*map(str, self.functions), *breaks])


_compiled: list[weakref.ref[Any]] = []


def remember(function: Any) -> None:
    """Has reports know an ATen graph that was compiled, as long as torch keeps it."""
    _compiled[:] = [one for one in _compiled if one() is not None]
    _compiled.append(weakref.ref(function))


def _alive() -> Iterator[Any]:
    for one in _compiled:
        function = one()
        if function is not None:
            yield function


def report(model: Any = None) -> Report:
    """What was made of a model that torch.compile has compiled with this backend.

    Args:
        model: the module, compiled or as it was; all that was compiled in this process if None. Graphs belong to it
            by the parameters that they were called with; what has none is told of in every report.

    Returns:
        A report; times are means over the calls so far.
    """
    wanted = None if model is None else {id(one) for one in (*model.parameters(), *model.buffers())}
    functions = list(_alive())
    groups = {function.group: set[int]() for function in functions}
    for function in functions:
        groups[function.group] |= function.weights
    found = tuple(
        _told(function)
        for function in functions
        if wanted is None or not groups[function.group] or wanted & groups[function.group]
    )
    counters = torch._dynamo.utils.counters
    return Report(found, dict(counters["graph_break"]))


def _told(function: Any) -> FunctionReport:
    programs: Sequence[Program] = list(function.programs.values())
    latest = programs[-1].steps if programs else ()
    ops: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    seconds: dict[str, float] = {}
    regions = 0
    for step in latest:
        mean = step.timing.seconds / max(step.timing.calls, 1)
        if isinstance(step, RegionCall):
            regions += 1
            ops.update(step.region.ops_by_backend())
            seconds["regions"] = seconds.get("regions", 0.0) + mean
        elif isinstance(step, TorchCall) and step.is_view:
            seconds["views"] = seconds.get("views", 0.0) + mean
        else:
            calls[step.name] += 1
            reasons.setdefault(step.name, step.reason)
            seconds[step.name] = seconds.get(step.name, 0.0) + mean
    return FunctionReport(
        role=function.role,
        programs=len(programs),
        compile_seconds=function.seconds,
        regions=regions,
        ops=dict(ops),
        torch_steps=dict(calls),
        reasons=reasons,
        seconds=seconds,
    )
