"""What was made of a torch model: who does what, and how long it takes."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ...ops.errors import ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value
from ..compile.record import Placed, told
from .framework import torch
from .run.steps import Program, RegionCall
from .tensors import memory_of_all


@frozen
class FunctionReport:
    """One ATen graph.

    Attributes:
        role: `forward`, `backward` or `inference`.
        programs: how many there are, for different sizes.
        compile_seconds: that making them took.
        calls: how often the latest program has run.
        regions: how many graphs of oneDNN Graph the latest program has.
        ops: backend → how many of their ops it runs, of the latest program as all that follows.
        on_numpy: which ops NumPy runs, a line for each kind and reason.
        torch_steps: ATen op → how many calls of torch the latest program has, views apart.
        reasons: ATen op → why it is torch's; several reasons are joined.
        handed: error of ours → how often it came; torch did the ops then.
        compared: results of regions that were held against torch's under the option `compare`, all calls together;
            None without it.
        differing: result of a region → how far it is from torch's, as a part of its norm, under the option `compare`.
        seconds: mean time of a call, but for the first one, without comparisons: of regions under `regions`, of views
            under `views`, of torch's ops under their names.
    """

    role: str
    programs: int
    compile_seconds: float
    calls: int
    regions: int
    ops: dict[str, int]
    on_numpy: tuple[str, ...]
    torch_steps: dict[str, int]
    reasons: dict[str, str]
    handed: dict[str, int]
    compared: int | None
    differing: dict[str, float]
    seconds: dict[str, float]

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        ops = ", ".join(f"{count} {_BACKENDS.get(name, name)}" for name, count in sorted(self.ops.items()))
        lines = [
            f"{self.role}: {_counted(self.programs, 'program')}, compiled in {self.compile_seconds:.2f} s; "
            f"{'' if self.programs == 1 else 'the latest: '}{_counted(self.calls, 'call')} of {total * 1e3:.2f} ms",
            _line(
                self.seconds.get("regions", 0.0),
                total,
                f"{_counted(self.regions, 'region')}, ops: {ops or 'none'}",
            ),
        ]
        lines += [f"{' ' * 17}  NumPy: {line}" for line in self.on_numpy]
        for name, count in sorted(self.torch_steps.items(), key=lambda pair: -self.seconds.get(pair[0], 0.0)):
            why = f": {self.reasons[name]}" if self.reasons.get(name) else ""
            lines.append(_line(self.seconds.get(name, 0.0), total, f"torch: {name} ×{count}{why}"))
        lines += [f"  handed to torch ×{count}: {reason}" for reason, count in self.handed.items()]
        if self.compared is not None:
            differing = len(self.differing) or "none"
            verb = "differ" if len(self.differing) > 1 else "differs"
            lines.append(
                f"  {_counted(self.compared, 'result')} compared with torch's, of which {differing} {verb}"
            )
        lines += [
            f"  differs from torch's by {by:.1e} of its norm: {name}" for name, by in self.differing.items()
        ]
        return "\n".join(lines)


_BACKENDS = {"onednn": "on oneDNN", "numpy": "on NumPy"}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _line(seconds: float, total: float, text: str) -> str:
    return f"  {seconds * 1e3:9.2f} ms {seconds / total if total else 0:4.0%}  {text}"


@frozen
class Report:
    """What was made of a model. Print it.

    Attributes:
        functions: its ATen graphs, in the order in which they were compiled.
        graph_breaks: where torch's own tracing has cut a model: reason → how often, in all models since the process
            began or torch's counters were cleared.
        advice: what to do where nothing was compiled.
    """

    functions: tuple[FunctionReport, ...]
    graph_breaks: dict[str, int]
    advice: str = "call the model first"

    def __str__(self) -> str:
        if not self.functions:
            return f"nothing was compiled yet; {self.advice}"
        breaks = [
            f"graph break ×{count}: {' '.join(reason.split())}" for reason, count in self.graph_breaks.items()
        ]
        return "\n".join([*map(str, self.functions), *breaks])


_compiled: list[weakref.ref[Any]] = []


def remember(function: Any) -> None:
    """Has reports know an ATen graph that was compiled, as long as torch keeps it."""
    _compiled[:] = [one for one in _compiled if one() is not None]
    _compiled.append(weakref.ref(function))


def alive() -> Iterator[Any]:
    """The ATen graphs that were compiled and that torch still keeps."""
    for one in _compiled:
        function = one()
        if function is not None:
            yield function


def report(model: Any = None) -> Report:
    """What was made of a model that torch.compile has compiled with this backend.

    Args:
        model: the module, compiled or as it was, or a method of it; all that was compiled in this process if None.
            Graphs belong to it by the parameters that they were called with; what has none is told of in every report,
            and the report of a function, which has none either, has all.

    Returns:
        A report; times are means over the calls so far.

    Raises:
        ArgumentTypeError: nothing that torch compiles.
    """
    wanted = _weights_of(model)
    functions = list(alive())
    groups = {function.group: set[int | None]() for function in functions}
    for function in functions:
        groups[function.group] |= function.weights()
    found = tuple(
        _told(function)
        for function in functions
        if wanted is None or not groups[function.group] or wanted & groups[function.group]
    )
    counters = torch._dynamo.utils.counters
    return Report(found, dict(counters["graph_break"]), _advice(model))


def _advice(model: Any) -> str:
    """How a model gets compiled."""
    owner = getattr(model, "__self__", model)
    if isinstance(owner, torch.nn.Module) and callable(getattr(owner, "generate", None)):
        return (
            "call the model first, and for generate(), which calls the module as it was and not what torch.compile "
            'returned, write model.forward = torch.compile(model.forward, backend="onednn_graph")'
        )
    return "call the model first"


def _weights_of(model: Any) -> set[int] | None:
    """The memory by which a model's graphs are known; None for all graphs."""
    owner = getattr(model, "__self__", model)
    if isinstance(owner, torch.nn.Module):
        return memory_of_all(owner)
    if model is None or callable(model):
        return None
    raise ArgumentTypeError(
        f"report takes the module that was compiled, or nothing for all, got {format_value(model)} of type "
        f"{type(model).__name__}"
    )


def _told(function: Any) -> FunctionReport:
    programs: Sequence[Program] = list(function.programs.values())
    latest = programs[-1].steps if programs else ()
    record: list[Placed] = []
    calls: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    reasons: dict[str, dict[str, None]] = {}
    regions = 0
    for step in latest:
        if isinstance(step, RegionCall):
            regions += 1
            record += step.region.record
            seconds["regions"] += step.timing.mean
        elif step.is_view:
            seconds["views"] += step.timing.mean
        else:
            calls[step.name] += 1
            reasons.setdefault(step.name, {})[step.reason] = None
            seconds[step.name] += step.timing.mean
    return FunctionReport(
        role=function.role,
        programs=len(programs),
        compile_seconds=function.seconds,
        calls=max((step.timing.calls for step in latest), default=0),
        regions=regions,
        ops=dict(Counter(str(one.backend) for one in record)),
        on_numpy=tuple(told(record)),
        torch_steps=dict(calls),
        reasons={name: "; ".join(one for one in given if one) for name, given in reasons.items()},
        handed=dict(function.mishaps.noted),
        compared=function.differences.compared if function.differences.asked else None,
        differing=dict(function.differences.noted),
        seconds=dict(seconds),
    )
