"""Runs real graphs and judges their results: what `onednn-graph check` does."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from ...graph.compile.signature import Key
from ...graph.files import to_graph
from ...graph.graph import Graph
from ...graph.io.document_reader import read_bytes
from ...graph.io.serialization import Document, from_graph, load
from ...graph.io.weights import Weights
from ...graph.model.logical_tensor import LogicalTensor, may_overlap
from ...graph.model.numpy_types import itemsize
from ...graph.onnx.staged_graph import StagedGraph
from ...graph.runtime.arrays import Array, numpy_type
from ...graph.runtime.libraries import library
from ...graph.runtime.tensor import allocate
from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, OneDNNGraphError, OutOfMemoryError, UnsupportedError
from ...ops.records import frozen
from ...ops.values import one_line
from ..graph_files import GraphFile, with_shapes
from .cases import Case
from .filling import fill
from .options import parse
from .reference import Expected, reference
from .rewriting import rewrite, unused
from .tolerances import Comparison, compare, rule_for

MEMORY_SHARE = 0.7
"""Share of the machine's free memory that a case may take."""
REFERENCE_BYTES = 8
"""Bytes of an element in the reference."""
DENSITIES = (1 / 8, 1 / 64)
"""Quantized factors are filled as thinly where results would not fit into their types."""
TEMPORARIES = 5
"""How many tensors as large as the largest are held while errors are made and results compared."""


class State(StrEnum):
    """How a case ended."""

    passed = "PASSED"
    failed = "FAILED"
    skipped = "SKIPPED"


@frozen(kw_only=True)
class Outcome:
    """What came out of one case.

    Attributes:
        case: the case.
        state: how it ended.
        reason: why it failed or was skipped, else empty.
        notes: what is worth knowing, but no failure.
        partitions: how many partitions the graph has, None if it did not come so far.
        expected_partitions: how many benchdnn expects, 0 for any number.
        difference: the largest relative difference of an output from what was expected.
        comparisons: of each tensor that was compared.
        seconds: time that the case took.
    """

    case: Case
    state: State
    reason: str = ""
    notes: tuple[str, ...] = ()
    partitions: int | None = None
    expected_partitions: int = 1
    difference: float = 0.0
    comparisons: tuple[Comparison, ...] = ()
    seconds: float = 0.0

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "case": str(self.case),
            "state": self.state.lower(),
            "reason": self.reason or None,
            "notes": list(self.notes),
            "partitions": self.partitions,
            "expected_partitions": self.expected_partitions or None,
            "difference": self.difference,
            "seconds": self.seconds,
            "tensors": [
                {"id": one.tensor, "ok": one.ok, "wrong": one.wrong, "difference": one.difference}
                for one in self.comparisons
            ],
        }

    @property
    def line(self) -> str:
        """The outcome in one line, with the options that make it happen again."""
        told = [f"partitions {self.partitions}"] if self.partitions is not None else []
        if self.partitions is not None and self.expected_partitions not in (0, self.partitions):
            told[0] += f", benchdnn expects {self.expected_partitions}"
        if self.comparisons:
            told.append(f"largest difference {self.difference:.3g}")
        told += self.notes
        if self.reason:
            told.append(self.reason)
        return f"{self.state} ({1000 * self.seconds:.0f} ms; {'; '.join(told)}) __REPRO: {self.case}"


class _Skipped(Exception):  # noqa: N818 -- no error
    """The case can't be run here."""


def run_case(case: Case, *, verbose: bool = False, seed: int = 0, backend: str | None = None) -> Outcome:
    """Runs one graph and judges its outputs.

    Args:
        case: the graph and its settings.
        verbose: judge the tensors inside the graph too, which become outputs.
        seed: of the inputs' data.
        backend: the only backend to run on; None for the usual choice.

    Returns:
        The outcome; an exception is one too, and none is raised.
    """
    started = time.perf_counter()
    run = _CaseRun(case, verbose=verbose, seed=seed, backend=backend)
    state, reason = State.passed, ""
    try:
        run.run()
        wrong = [c for c in run.comparisons if not c.ok]
        if wrong:
            state, reason = State.failed, "; ".join(f"tensor {c.tensor}: {c.message}" for c in wrong)
    except (_Skipped, OutOfMemoryError) as error:
        state, reason = State.skipped, one_line(error)
    except UnsupportedError as error:
        state, reason = State.skipped, f"not supported: {one_line(error)}"
    except OneDNNGraphError as error:
        state, reason = State.failed, f"{type(error).__name__}: {error}"
    except MemoryError:
        state, reason = State.skipped, "not enough memory"
    except Exception as error:  # a defect of one op must not hide how all other cases end
        state, reason = State.failed, f"defect in onednn_graph, {type(error).__name__}: {one_line(error)}"
    return Outcome(
        case=case,
        state=state,
        reason=reason,
        notes=tuple(run.notes),
        partitions=run.partitions,
        expected_partitions=case.expected_partitions,
        difference=max((c.relative for c in run.comparisons), default=0.0),
        comparisons=tuple(run.comparisons),
        seconds=time.perf_counter() - started,
    )


@frozen(eq=False)
class _Source:
    """What the graph of a case is made of.

    Attributes:
        document: as files have it.
        model: of an ONNX file, which holds its weights; None for JSON, whose inputs are all filled.
    """

    document: Document
    model: Graph | None


@lru_cache(maxsize=64)
def _loaded(file: Path, changed: float, content: bytes | None) -> _Source:
    found = GraphFile.at(file) if content is None else GraphFile(str(file), None, content)
    if not found.is_onnx:
        return _Source(load(file) if content is None else read_bytes(content, str(file)), None)
    try:
        library("onnx", "onnx", "an ONNX model")
    except UnsupportedError as error:  # what can't be done is skipped, but this can
        raise ArgumentError(str(error)) from None
    graph = found.graph()
    if isinstance(graph, StagedGraph):
        raise _Skipped(
            "it runs in stages, for parts of it have no ops or sizes that depend on values, and so has no results in "
            "double precision; onednn-graph run runs it"
        )
    model = with_shapes(graph, {}, str(file))
    return _Source(evolve(from_graph(model), source=str(file)), model)


def _with_values(document: Document, model: Graph) -> Graph:
    """A rewritten document as a graph with the constants of the model, of those that kept their shape.

    The others are inputs, which are filled.
    """
    graph = to_graph(document)
    tensors = {t.id: t for t in graph.inputs}
    known = model.held_constants
    kept = [
        (tensors[i], array.astype(numpy_type(tensors[i].data_type)))
        for i, array in known.items()
        if i in tensors and tensors[i].shape == array.shape
    ]
    weights = Weights(
        source=document.source,
        names={},
        inputs=tuple(t for t in graph.inputs if t.id not in {c.id for c, _ in kept}),
        constants=tuple(kept),
        parameters=(),
        assigned=(),
        outputs=tuple((None, t.id) for t in graph.outputs),
    )
    return to_graph(document, weights)


class _CaseRun:
    """The steps of one case, and what each of them found."""

    def __init__(self, case: Case, *, verbose: bool, seed: int, backend: str | None) -> None:
        self._case = case
        self._verbose = verbose
        self._seed = seed
        self._backend = backend
        self.notes: list[str] = []
        self.partitions: int | None = None
        self.comparisons: list[Comparison] = []

    def run(self) -> None:
        graph = self._graph()
        self.partitions = len(graph.get_partitions(backend=self._backend))
        _check_memory(graph)
        model = graph.compile(backend=self._backend)
        arrays, expected = self._filled(graph)
        placed: dict[Key, object] = {t.id: _placed(t, arrays[t.id]) for t in graph.inputs}
        got = model(placed)
        for tensor in graph.outputs:
            result = compare(
                tensor.id,
                tensor.data_type,
                expected[tensor.id],
                got[tensor],
                rule_for(graph, tensor.id, expected[tensor.id]),
            )
            self.comparisons.append(result)
            if result.mistrusted:
                self.notes.append(f"tensor {tensor.id}: {result.zeros:.0f} % zeros say little")

    def _filled(self, graph: Graph) -> tuple[dict[int, Array], dict[int, Expected]]:
        """Inputs, and what is expected of the outputs."""
        wanted = [t.id for t in graph.outputs]
        arrays = fill(graph, self._seed)
        expected = reference(graph, arrays, wanted)
        for density in DENSITIES:
            if not any(_saturated(expected[t.id].value, t.data_type) for t in graph.outputs):
                break
            arrays = fill(graph, self._seed, density)
            expected = reference(graph, arrays, wanted)
        return arrays, expected

    def _graph(self) -> Graph:
        case = self._case
        changed = case.file.stat().st_mtime if case.content is None else 0.0
        source = _loaded(case.file, changed, case.content)
        if source.model is not None and not case.rewrites and not self._verbose:
            return source.model
        document = source.document
        ignored = unused(document, case)
        if ignored:
            self.notes.append(
                f"--in-shapes names {', '.join(map(str, ignored))}, which the graph does not have"
            )
        rewritten = rewrite(document, case)
        graph = to_graph(rewritten) if source.model is None else _with_values(rewritten, source.model)
        read = {t.id for op in graph.ops for t in op.inputs}
        for op in graph.ops:
            # End only marks outputs, and so would whoever asks for all tensors.
            marked = op.inputs if op.kind == "End" else op.outputs if self._verbose else ()
            for tensor in marked:
                if tensor.id in read and tensor.id not in {t.id for t in graph.inputs}:
                    graph.output(graph.tensor(tensor.id))
        graph.finalize()
        return graph


def _saturated(array: Array, data_type: DataType) -> bool:
    """Whether most elements are at an end of the type's range, where they say nothing; 0 is no end."""
    if data_type not in (DataType.s8, DataType.u8) or not array.size:
        return False
    limits = np.iinfo(array.dtype)
    ends = np.count_nonzero(array == limits.max)
    if limits.min:
        ends += np.count_nonzero(array == limits.min)
    return bool(ends > array.size / 2)


def _placed(tensor: LogicalTensor, array: Array) -> Array:
    """The array in the tensor's own layout."""
    if tensor.strides is None or may_overlap(tensor.dims, tensor.strides):
        return array
    placed = allocate(tensor)
    placed[...] = array
    return placed


def _check_memory(graph: Graph) -> None:
    """Skips what does not fit: all tensors in their types, and what the reference holds at a time in f64."""
    ends = (*graph.inputs, *graph.outputs)  # of inputs some may be read by no op
    tensors = {t.id: t for t in (*ends, *(t for op in graph.ops for t in (*op.inputs, *op.outputs)))}
    sizes = {i: math.prod(t.dims) for i, t in tensors.items()}
    last = {t.id: op.id for op in graph.ops for t in op.inputs}
    live = {t.id for t in ends}
    most = 0
    for op in graph.ops:
        live |= {t.id for t in op.outputs}
        most = max(most, sum(sizes[i] for i in live))
        live -= {t.id for t in op.inputs if last[t.id] == op.id}
    needed = sum(sizes[i] * itemsize(t.data_type) for i, t in tensors.items())
    needed += REFERENCE_BYTES * (most + TEMPORARIES * max(sizes.values()))
    free = _free_memory()
    if free is not None and needed > MEMORY_SHARE * free:
        raise _Skipped(f"needs about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free")


def _free_memory() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not every system tells
        return None


Working = Callable[[str], AbstractContextManager[None]]
"""Takes what is being done, and says so for as long as that lasts."""


def check(
    arguments: Sequence[str],
    show: Callable[[str], None] = print,
    working: Working = lambda what: nullcontext(),
    emit: Callable[[Any], None] = print,
) -> int:
    """Runs all cases of a command line, and shows a line for each and a summary; or writes data, for `--json`.

    Args:
        arguments: see `options.parse`.
        show: takes each line.
        working: see there.
        emit: takes the data.

    Returns:
        1 if a case failed, else 0.

    Raises:
        ArgumentError: see `options.parse`; no file is named.
    """
    with working("reading standard input"):
        line = parse(arguments)
    if not line.named:
        raise ArgumentError(
            "check takes a FILE, --case=FILE or --batch=FILE, or - for standard input; none is named"
        )
    counts = dict.fromkeys(State, 0)
    data: list[dict[str, Any]] = []
    for number, case in enumerate(line.cases):
        with working(f"case {number + 1} of {len(line.cases)}, {case.path}"):
            outcome = run_case(case, verbose=line.verbose > 0, seed=line.seed, backend=line.backend)
        counts[outcome.state] += 1
        if line.json:
            data.append(outcome.as_data())
            continue
        show(f"{number}:{outcome.line}")
        if line.verbose:
            for found in outcome.comparisons:
                show(_details(found))
    if line.json:
        emit({"cases": data, **{state.lower(): count for state, count in counts.items()}})
        return 1 if counts[State.failed] else 0
    show(
        f"tests:{len(line.cases)} passed:{counts[State.passed]} skipped:{counts[State.skipped]} "
        f"failed:{counts[State.failed]}"
    )
    return 1 if counts[State.failed] else 0


def _details(found: Comparison) -> str:
    return (
        f"    tensor {found.tensor}: {'ok' if found.ok else 'wrong'}, {found.points} elements, {found.wrong} beyond "
        f"the thresholds, difference {found.difference:.3g}, relative {found.relative:.3g}, zeros {found.zeros:.0f} %"
    )
