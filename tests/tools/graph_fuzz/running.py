"""Runs a case in this process and says what is wrong with what came out."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
from guarded import GuardedArray
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.graph.runtime.tensor import Tensor

from .case import TYPES, Case, build, build_assigning, build_holding, build_open, varied
from .data import array_of
from .oracle import HALF_STEP, expected

FRAMES: weakref.WeakSet[Frame] = weakref.WeakSet()
"""The frames of all plans that were made; their arenas have guards of their own."""


@dataclass
class Outcome:
    """What came out of a case.

    Attributes:
        status: `ok`; or `wrong`, `guard`, `gap`, `input`, `arena`, `unequal`, `error:…`, `signal:…`, `hang`.
        detail: what was seen.
        kernels: names of what ran, by partition.
        judged: share of the elements that could be judged.
        producer: kind of the op whose output is wrong.
    """

    status: str = "ok"
    detail: str = ""
    kernels: list[str] = field(default_factory=list)
    judged: float = 1.0
    producer: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def watch_arenas() -> None:
    """Switches guards and poison on in arenas, and remembers their frames."""
    GUARDS.switch_on()
    original = Frame.__init__

    def remembered(self: Frame, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        FRAMES.add(self)

    Frame.__init__ = remembered  # pyright: ignore[reportAttributeAccessIssue]


NOTES: list[Callable[[list[str]], None]] = []
"""Are told the kernels of what is about to run, for whoever looks at what crashed."""


class _Wrong(Exception):  # noqa: N818 -- ends a run
    def __init__(self, status: str, detail: str, producer: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.producer = status, detail, producer


def run_case(case: Case) -> Outcome:
    """Runs a case with all its variants."""
    outcome = Outcome()
    FRAMES.clear()
    try:
        _Session(case, outcome).run()
    except _Wrong as wrong:
        outcome.status, outcome.detail, outcome.producer = wrong.status, wrong.detail, wrong.producer
    except (og.errors.OutOfMemoryError, MemoryError):
        if case.run.called:
            outcome.status = "error:OutOfMemoryError"
    except Exception as error:
        outcome.status = f"error:{type(error).__name__}"
        outcome.detail = _first_line(error)
    return outcome


def _first_line(error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = frames[-1]
    return f"{' '.join(str(error).split())[:300]} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"


class _Session:
    """One graph, compiled and called as the case says."""

    def __init__(self, case: Case, outcome: Outcome) -> None:
        self.case, self.outcome = case, outcome
        self.judged: list[tuple[int, int]] = []
        self.graph: og.Graph | None = None

    def run(self) -> None:
        case = self.case
        unknown = any(wire.unknown for wire in case.wires.values())
        call = self.compiled(case, unknown)
        if not case.run.called:
            return
        self.check(case, call, 0)
        for variant in case.run.variants:
            other = varied(case, variant)
            if variant.layouts is not None:
                call = self.compiled(other, unknown)
            self.check(other, call, variant.fill)
        total = sum(count for _, count in self.judged)
        self.outcome.judged = sum(n for n, _ in self.judged) / total if total else 1.0

    # --- compiling ---------------------------------------------------------------------------------------

    def compiled(self, case: Case, unknown: bool) -> Callable[..., dict[int, np.ndarray]]:
        """A function from input and output arrays by wire to the outputs."""
        if case.assigned:
            return self._assigning(case)
        graph = build_open(case) if unknown else build(case)
        if case is self.case and not unknown:
            self.graph = graph
        run = case.run
        if run.whole or unknown:
            model = _as_asked(case, graph, unknown).compile(
                policy=run.policy, backend=run.backend, scratch_limit=0 if run.blocks else None
            )
            self.note(list(model.explain().values()))

            def call(inputs: dict[int, Any], outputs: dict[int, Any]) -> dict[int, np.ndarray]:
                results = model({t.id: inputs[t.id] for t in model.inputs}, outputs or None)
                self.note(list(model.explain().values()))
                return {t.id: results[t.id] for t in model.outputs}

            return call
        return self._by_partitions(graph, case)

    def _assigning(self, case: Case) -> Callable[..., dict[int, np.ndarray]]:
        """With parameters in the place of some inputs, whose next values are what they hold afterwards."""
        graph = build_assigning(case)
        model = graph.compile(policy=case.run.policy, backend=case.run.backend)
        self.note(list(model.explain().values()))
        asked = {t.id for t in model.outputs}

        def call(inputs: dict[int, Any], outputs: dict[int, Any]) -> dict[int, np.ndarray]:
            graph.set_parameters({parameter: inputs[parameter] for parameter, _ in case.assigned})
            given = {t.id: inputs[t.id] for t in model.inputs}
            results = model(given, {n: array for n, array in outputs.items() if n in asked} or None)
            held = {v: np.array(graph.parameters[str(parameter)]) for parameter, v in case.assigned}
            return {t.id: results[t.id] for t in model.outputs} | held

        return call

    def _by_partitions(self, graph: og.Graph, case: Case) -> Callable[..., dict[int, np.ndarray]]:
        run = case.run
        ends = {t.id for t in graph.outputs}
        known: dict[int, og.LogicalTensor] = {}
        compiled: list[Any] = []
        for part in graph.get_partitions(run.policy, backend=run.backend):
            ins = [known.get(t.id, t) for t in part.input_ports]
            outs = [
                og.LogicalTensor(t.id, t.data_type, t.shape, layout_type="any")
                if run.opaque and t.id not in ends and not part.shape_operands
                else t
                for t in part.output_ports
            ]
            one = part.compile(ins, outs)
            for tensor in one.outputs:
                known[tensor.id] = tensor
            compiled.append(one)
        self.note([one.explanation for one in compiled])

        def call(inputs: dict[int, Any], outputs: dict[int, Any]) -> dict[int, np.ndarray]:
            at: dict[int, Any] = dict(inputs)
            for one in compiled:
                ins = [at[t.id] for t in one.inputs]
                wanted = [outputs.get(t.id) for t in one.outputs]
                if run.bound and all(w is not None for w in wanted):
                    one.bind(ins, wanted)()
                    results = wanted
                else:
                    results = one.execute(None, ins, wanted)
                for tensor, array in zip(one.outputs, results, strict=True):
                    opaque = tensor.layout_type is og.LayoutType.opaque
                    at[tensor.id] = Tensor.from_opaque(tensor, array, one.engine) if opaque else array
            return {t.id: at[t.id] for t in graph.outputs}

        return call

    def note(self, explanations: list[Any]) -> None:
        self.outcome.kernels = [
            f"{e.backend}[{e.strategy}]: " + ", ".join(e.implementations)
            for e in explanations
            if e is not None
        ]
        for tell in NOTES:
            tell(self.outcome.kernels)

    # --- checking ----------------------------------------------------------------------------------------

    def check(self, case: Case, call: Callable[..., dict[int, np.ndarray]], fill: int) -> None:
        """Calls it twice and holds the results against the oracle's."""
        run, graph = case.run, self.graph if case is self.case and self.graph is not None else build(case)
        arrays = {t.id: array_of(case, t.id, fill) for t in graph.inputs}
        ideal = expected(graph, arrays)
        ins: dict[int, GuardedArray] = {}
        for number, array in arrays.items():
            wire = case.wires[number]
            ins[number] = GuardedArray(TYPES[wire.type], wire.dims, wire.strides, run.fill, run.shift)
            ins[number].put(array)
        made = {t.id for t in graph.outputs} - set(arrays)
        outs = {}
        for number in made if run.given else ():
            wire = case.wires[number]
            outs[number] = GuardedArray(TYPES[wire.type], wire.dims, wire.strides, run.fill, run.shift)
        first: dict[int, np.ndarray] = {}
        for again in (False, True):
            for target in outs.values():
                target.poison()
            got = call({i: g.array for i, g in ins.items()}, {i: g.array for i, g in outs.items()})
            self._memory(case, ins, outs)
            for number in sorted(made):
                self._values(graph, case, number, got[number], ideal[number])
                if again and not np.array_equal(_bytes(first[number]), _bytes(got[number])):
                    raise _Wrong(
                        "unequal", f"wire {number} differs between two calls", _producer(case, number)
                    )
                first[number] = np.array(got[number])

    def _memory(self, case: Case, ins: dict[int, GuardedArray], outs: dict[int, GuardedArray]) -> None:
        for number, one in outs.items():
            if one.guards_written():
                raise _Wrong("guard", f"beyond output {number}", _producer(case, number))
            if one.gaps_written():
                raise _Wrong("gap", f"between the elements of output {number}", _producer(case, number))
        for number, one in ins.items():
            if one.guards_written():
                raise _Wrong("guard", f"beyond input {number}")
            if one.changed():
                raise _Wrong("input", f"input {number} was written to")
        for frame in list(FRAMES):
            if not frame.intact():
                raise _Wrong("arena", "beyond the temporaries of a plan")

    def _values(
        self, graph: og.Graph, case: Case, number: int, got: np.ndarray, ideal: tuple[np.ndarray, np.ndarray]
    ) -> None:
        value, bound = ideal
        producer = _producer(case, number)
        kind = case.wires[number].type
        if got.shape != value.shape or got.dtype != np.dtype(TYPES[kind]):
            raise _Wrong("wrong", f"{got.dtype} {got.shape} in the place of {kind} {value.shape}", producer)
        if not got.size:
            return
        with np.errstate(all="ignore"):
            judged = (
                np.isfinite(bound) & np.isfinite(value) if value.dtype.kind == "f" else np.isfinite(bound)
            )
            difference = np.abs(got.astype(np.float64) - value.astype(np.float64))
            wrong = judged & ~(difference <= bound)
        self.judged.append((int(judged.sum()), judged.size))
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            excess = np.where(wrong, difference / np.maximum(bound, 1e-30), 0)
            typical = (
                np.sqrt(np.mean(np.square(value[judged].astype(np.float64)))) if kind in HALF_STEP else 1
            )
            raise _Wrong(
                "wrong",
                f"{int(wrong.sum())} of {wrong.size} of wire {number}, the first at {list(place)}: got "
                f"{float(got[place]):.9g}, expected {float(value[place]):.9g} ± {float(bound[place]):.3g}; most "
                f"{float(np.nanmax(excess)):.3g} bounds, {float(np.nanmax(np.where(wrong, difference, 0))):.3g} "
                f"where {float(typical):.3g} is typical",
                producer,
            )


def _as_asked(case: Case, graph: og.Graph, unknown: bool) -> og.Graph:
    """The graph of a case, with arrays that it holds, from files, or as it is."""
    held = [i for i in case.inputs if case.wires[i].constant and not unknown] if case.run.held else []
    if held:
        graph = build_holding(case, {i: array_of(case, i) for i in held})
    if not case.run.filed:
        return graph
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"graph.{case.seed % 100}"
        try:
            graph.save(path, weights=True)
        except og.UnsupportedError:  # ops that files have no place for
            return graph
        return og.Graph.load(path, weights=True)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _producer(case: Case, wire: int) -> str:
    return next((node.kind for node in case.nodes if wire in node.outputs), "")


OTHERS: dict[str, dict[str, Any]] = {
    "numpy": {"backend": "numpy"},
    "debug": {"policy": "debug"},
    "native": {"backend": "native", "opaque": False},
}
"""Who else is asked about a case: NumPy, our ops one by one, the library's own Graph API; and what to change for it."""


def verdict(case: Case, other: str) -> str:
    """What another one makes of a case: its status."""
    changed = case.copy()
    for name, value in OTHERS[other].items():
        setattr(changed.run, name, value)
    outcome = run_case(changed)
    return "can't run it" if outcome.status == "error:UnsupportedError" else outcome.status


__all__ = ["NOTES", "OTHERS", "Outcome", "run_case", "verdict", "watch_arenas"]
