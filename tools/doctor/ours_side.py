"""Our answers: how the model runs here, kernel by kernel, and how far it is from double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onednn_graph

from ...graph.compile.compiled_graph import CompiledGraph
from ...graph.graph import Graph
from ...graph.model.logical_tensor import label
from ...graph.onnx import from_onnx
from ...graph.pictures.profile import profile
from ...graph.runtime.arrays import Array
from ...graph.runtime.profiling import EventKind
from ...graph.runtime.threads import get_num_threads, set_num_threads
from ...graph.torch_export import from_torch
from ...ops.errors import OneDNNGraphError, UnsupportedError
from ...ops.values import one_line
from ..benchdnn.reference import evaluate
from ..staging import runnable
from .onnx_model import OnnxModel
from .onnx_side import apart
from .records import OurStep
from .threads import openmp_files
from .timing import times_of
from .torch_subject import TorchSubject, fingerprint, load_torch, tensors_in

RUNS = 5
ELEMENTS = 2e8
"""Of all tensors together, beyond which a model is not computed in double precision here."""


class OurSide:
    """What a worker asks; each method is a stage.

    Args:
        folder: of this worker.
        task: see `Subject.task`.
    """

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        onednn_graph.list_backends()  # which are there
        self._folder, self._task = folder, task
        self._torch: TorchSubject | None = None
        self._onnx: OnnxModel | None = None
        self._feeds: dict[str, Array] = {}
        self._graph: Graph | None = None
        self._call: Callable[[], Any] | None = None
        self._way = ""
        if task["threads"]:
            set_num_threads(task["threads"])

    def load(self) -> dict[str, Any]:
        """Reads or executes what is examined."""
        if self._task["kind"] == "onnx":
            self._onnx = OnnxModel.at(self._task["path"])
            self._feeds, made = self._onnx.inputs(self._task)
            return {"fingerprint": "", "made_up": made}
        self._torch = load_torch(self._task)
        if self._task["threads"]:
            self._torch.torch.set_num_threads(self._task["threads"])
        return {"fingerprint": fingerprint(self._torch), "made_up": self._torch.made_up}

    def make(self) -> dict[str, Any]:
        """Imports and compiles it, and runs it once."""
        notes: list[str] = []
        if self._onnx is not None:
            self._way = "from_onnx"
            shapes = {name: array.shape for name, array in self._feeds.items()}
            self._compiled(runnable(from_onnx(self._task["path"]), shapes, self._task["text"]))
        elif self._torch is not None:
            try:
                self._imported(self._torch)
                self._way = "from_torch"
            except OneDNNGraphError as error:
                notes.append(f"from_torch can't import it, so it runs by torch.compile: {one_line(error)}")
                self._way = "torch.compile"
                self._by_torch_compile(self._torch)
        return {
            "way": self._way,
            "threads": get_num_threads(),
            "runtimes": openmp_files(),
            "notes": notes,
        }

    def _imported(self, subject: TorchSubject) -> None:
        graph = from_torch(subject.module, subject.args, subject.kwargs)
        given = tensors_in(subject.torch, (subject.args, subject.kwargs))
        from ...graph.torch_compile.tensors import as_numpy

        arrays = [as_numpy(one) for one in given]
        if len(arrays) != len(graph.inputs):
            raise UnsupportedError(
                f"the module has {len(arrays)} tensors for inputs, and its graph {len(graph.inputs)}"
            )
        self._feeds = {label(t): array for t, array in zip(graph.inputs, arrays, strict=True)}
        shapes = {name: array.shape for name, array in self._feeds.items()}
        self._compiled(runnable(graph, {} if isinstance(graph, Graph) else shapes, self._task["text"]))

    def _compiled(self, graph: Any) -> None:
        model = graph.compile()
        self._graph = graph if isinstance(graph, Graph) else None
        self._model = model
        self._call = lambda: model(self._feeds)
        self._call()

    def _by_torch_compile(self, subject: TorchSubject) -> None:
        torch = subject.torch
        compiled = torch.compile(subject.module, backend="onednn_graph")

        def call() -> Any:
            with torch.no_grad():
                return compiled(*subject.args, **subject.kwargs)

        call()
        self._model = None
        self._call = call

    @property
    def call(self) -> Callable[[], Any]:
        """Runs the model."""
        if self._call is None:
            raise UnsupportedError("the model is not compiled")
        return self._call

    def profile(self) -> dict[str, Any]:
        """Each kernel, with its shortest time."""
        if self._way == "torch.compile":
            return {"ops": [], "partitions": {}, "steps": self._of_programs(), "outputs": []}
        if not isinstance(self._model, CompiledGraph) or self._graph is None:
            return {"ops": [], "partitions": {}, "steps": [], "outputs": []}
        self.call()
        with profile() as recorded:
            for _ in range(RUNS):
                self.call()
        names = {op.id: op.name or op.kind for op in self._graph.ops}
        partitions = self._model.partitions
        members = {part.id: tuple(names.get(op.id, op.kind) for op in part.ops) for part in partitions}
        own = {op.id: part.id for part in partitions for op in part.ops}
        best: dict[tuple[Any, ...], tuple[float, bool]] = {}
        turns = _turns([e for e in recorded.events if e.kind is not EventKind.partition])
        for key, event in turns:
            before = best.get(key, (float("inf"), False))[0]
            best[key] = (min(before, event.seconds), event.kind is EventKind.host)
        steps: list[OurStep] = []
        for (name, implementation, op, partition, _turn), (seconds, host) in best.items():
            number = own.get(op, partition)
            steps.append(
                OurStep(
                    items=members.get(number, ()) if number is not None else (),
                    partition=-1 if number is None else number,
                    name=str(name),
                    implementation=str(implementation),
                    seconds=seconds,
                    host=host,
                )
            )
        explained = self._model.explain()
        return {
            "ops": list(names.values()),
            "partitions": {part.id: _told(part, explained.get(part.id)) for part in partitions},
            "steps": steps,
        }

    def _of_programs(self) -> list[OurStep]:
        """Kernels of the programs of torch.compile, by their partitions: which layers these are of nobody says."""
        self.call()
        with profile() as recorded:
            for _ in range(RUNS):
                self.call()
        best: dict[tuple[Any, ...], OurStep] = {}
        for key, event in _turns([e for e in recorded.events if e.kind is not EventKind.partition]):
            if key not in best or event.seconds < best[key].seconds:
                best[key] = OurStep(
                    items=(event.label,),
                    partition=-1,
                    name=event.name,
                    implementation=event.implementation,
                    seconds=event.seconds,
                    host=event.kind is EventKind.host,
                )
        return list(best.values())

    def time(self, seconds: float) -> list[float]:
        """Times of the whole model, for so long."""
        return times_of(self.call, seconds)

    def expect(self) -> dict[str, Any]:
        """Computes an ONNX model in double precision, with NumPy; gives the file with its values by name."""
        graph, model = self._graph, self._onnx
        if graph is None or model is None:
            raise UnsupportedError("only graphs from ONNX are computed in double precision here")
        total = sum(float(np.prod(t.dims)) for op in graph.ops for t in op.outputs)
        if total > ELEMENTS:
            raise UnsupportedError(
                f"its {total:.1e} elements are too many to be computed in double precision"
            )
        first = {title: value for value, title in model.titles.items()}
        wanted = {first[op.name]: op.outputs[0].id for op in graph.ops if op.name in first and op.outputs}
        # Several outputs may be one tensor.
        marked = zip(model.proto.graph.output, graph.marked_outputs, strict=True)
        wanted |= {output.name: number for output, (_, number) in marked}
        arrays: dict[int, Array] = {**graph.held_constants}
        arrays |= {t.id: self._feeds[label(t)] for t in graph.inputs}
        values = evaluate(graph, arrays, {*wanted.values()})
        file = self._folder / "expected.npz"
        _save(file, {name: values[number] for name, number in wanted.items() if number in values})
        return {"file": str(file)}

    def check(self, expected: str, names: list[str] | None = None) -> dict[str, Any]:
        """How far the outputs are from those in a file.

        Args:
            expected: arrays by number of the output, or by name.
            names: not used.
        """
        del names
        wanted: Any = np.load(expected)
        results = self._results()
        errors = [
            apart(np.asarray(got), wanted[key])
            for key, got in results.items()
            if key in wanted and np.asarray(got).dtype.kind in "fV" and np.asarray(got).size
        ]
        return {"error": max(errors, default=None)}

    def _results(self) -> Mapping[str, Array]:
        result = self.call()
        if self._onnx is not None:
            return dict(result)
        if self._way == "torch.compile" and self._torch is not None:
            tensors = tensors_in(self._torch.torch, result)
            return {str(n): one.detach().double().numpy() for n, one in enumerate(tensors)}
        return {str(n): np.asarray(one) for n, one in enumerate(dict(result).values())}


def _turns(events: list[Any]) -> list[tuple[tuple[Any, ...], Any]]:
    """Events with what tells one kernel from another, and the same kernel in two places of a run."""
    thread: dict[tuple[Any, ...], int] = {}
    keys = [(e.name, e.implementation, e.op, e.partition) for e in events]
    repeats = {key: max(1, keys.count(key) // RUNS) for key in dict.fromkeys(keys)}
    found: list[tuple[tuple[Any, ...], Any]] = []
    for key, event in zip(keys, events, strict=True):
        count = thread.get(key, 0)
        thread[key] = count + 1
        found.append(((*key, count % repeats[key]), event))
    return found


def _told(partition: Any, explanation: Any) -> str:
    strategy = "" if explanation is None else f": {explanation.strategy}"
    backend = partition.backend if explanation is None else explanation.backend
    return f"{backend}{strategy}"


def _save(file: Path, arrays: Mapping[str, Array]) -> None:
    """As np.savez does, whose own parameters have names that an array can have too."""
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
