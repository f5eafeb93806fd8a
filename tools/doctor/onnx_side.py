"""The answers of onnxruntime: how it runs a model, node by node, and how far that is from double precision."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.runtime.arrays import Array
from ...graph.runtime.libraries import library
from ...ops.errors import UnsupportedError
from ...ops.values import one_line
from .onnx_model import OnnxModel
from .records import Call, Departure
from .threads import openmp_files
from .timing import times_of

RUNS = 5
OPTIMIZED = "optimized.onnx"
TOLERANCES = {"float32": 1e-3, "float16": 2e-2, "float64": 1e-9}
"""How far a value may be off, of its largest element."""
QUANTIZED = 0.1
"""The same in a model that rounds to integers: one that lies half-way goes either way."""
QUANTIZERS = ("QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DequantizeLinear")


class OnnxSide:
    """What a worker asks; each method is a stage.

    Args:
        folder: of this worker.
        task: see `Subject.task`.
    """

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self._folder, self._task = folder, task
        self._model: OnnxModel | None = None
        self._session: Any = None
        self._inputs: dict[str, Array] = {}
        self._covered: list[set[str]] = []
        self._optimized: Any = None

    @property
    def model(self) -> OnnxModel:
        """What is examined, once it is loaded."""
        if self._model is None:
            raise UnsupportedError("the model is not loaded")
        return self._model

    def load(self) -> dict[str, Any]:
        """Reads the model and makes a session."""
        self._model = OnnxModel.at(self._task["path"])
        self._inputs, made = self._model.inputs(self._task)
        ort = onnxruntime()
        self._session = self._made(ort)
        return {"version": ort.__version__, "made_up": made}

    def _made(self, ort: Any, **more: Any) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        if self._task["threads"]:
            options.intra_op_num_threads = self._task["threads"]
        for name, value in more.items():
            setattr(options, name, value)
        return ort.InferenceSession(self._task["path"], options, providers=["CPUExecutionProvider"])

    def first(self) -> dict[str, Any]:
        """Runs it."""
        self._session.run(None, self._inputs)
        return {"threads": self._task["threads"], "runtimes": openmp_files(), "fingerprint": ""}

    def trace(self) -> dict[str, Any]:
        """Each node that it runs, with its time."""
        ort = onnxruntime()
        onnx = library("onnx", "onnx", "doctor")
        notes: list[str] = []
        file = self._folder / OPTIMIZED
        settings: dict[str, Any] = {
            "enable_profiling": True,
            "profile_file_prefix": str(self._folder / "run"),
        }
        try:
            session = self._made(ort, optimized_model_filepath=str(file), **settings)
            self._optimized = onnx.load(str(file))
        except Exception as error:  # larger than a protobuf may be, say
            notes.append(f"the model as onnxruntime optimizes it can't be written: {one_line(error)}")
            session = self._made(ort, **settings)
        for _ in range(RUNS):
            session.run(None, self._inputs)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        nodes = [] if self._optimized is None else list(self._optimized.graph.node)
        self._covered = self.model.covered(nodes)
        calls = self._calls(events, nodes)
        return {
            "calls": calls,
            "onednn": None,
            "isa": "",
            "notes": notes,
            "modules": [],
            "groups": self._groups(),
            "order": list(self.model.titles.values()),
        }

    def _groups(self) -> list[list[str]]:
        titles = self.model.titles
        return [[title for first, title in titles.items() if first in mine] for mine in self._covered]

    def _items(self, nodes: list[Any]) -> dict[str, str]:
        """The item of each node by its name; a copy that stands for nothing is of what reads it, or what it reads."""
        titles = self.model.titles
        found: dict[str, str] = {}
        of_value: dict[str, str] = {}
        for node, mine in zip(nodes, self._covered, strict=True):
            items = [title for first, title in titles.items() if first in mine]
            if items:
                found[node.name] = items[-1]
                of_value.update(dict.fromkeys((*node.input, *node.output), items[-1]))
        for node in reversed(nodes):
            if node.name not in found:
                near = [of_value[name] for name in (*node.output, *node.input) if name in of_value]
                found[node.name] = near[0] if near else f"{node.op_type} {node.name}".strip()
                if near:
                    of_value.update(dict.fromkeys(node.input, near[0]))
        return found

    def _calls(self, events: list[Any], nodes: list[Any]) -> list[Call]:
        """The shortest time of each node, in the order in which they run."""
        item_of = self._items(nodes)
        kept = {node.name for node in self.model.proto.graph.node}
        best: dict[tuple[str, str], Call] = {}
        for event in events:
            name = str(event.get("name", ""))
            if event.get("cat") != "Node" or not name.endswith("_kernel_time"):
                continue
            node, told = name.removesuffix("_kernel_time"), event.get("args", {})
            kinds = [next(iter(one.items())) for one in told.get("input_type_shape", ()) if one]
            own = told.get("op_name") == "Cast" and bool(item_of) and node not in kept
            call = Call(
                item=item_of.get(node, node),
                op=str(told.get("op_name", "")),
                seconds=float(event.get("dur", 0)) / 1e6,
                types=tuple(dict.fromkeys(kind for kind, _ in kinds)),
                shapes=tuple(tuple(shape) for _, shape in kinds),
                note="inserted" if own else str(told.get("provider", "")),
            )
            key = (node, str(told.get("node_index", "")))
            if key not in best or call.seconds < best[key].seconds:
                best[key] = call
        return list(best.values())

    def time(self, seconds: float) -> list[float]:
        """Times of the whole model, for so long."""
        return times_of(lambda: self._session.run(None, self._inputs), seconds)

    def check(self, seconds: float, expected: str) -> dict[str, Any]:
        """Values of the optimized model against those in double precision, in order.

        Args:
            seconds: not used; a run takes as long as it takes.
            expected: a file of arrays by name of the value.
        """
        del seconds
        onnx = library("onnx", "onnx", "doctor")
        ort = onnxruntime()
        wanted: Any = np.load(expected)
        outputs = [one.name for one in self._session.get_outputs()]
        got = dict(zip(outputs, self._session.run(None, self._inputs), strict=True))
        if self._optimized is not None:
            proto = onnx.ModelProto()
            proto.CopyFrom(self._optimized)
            made = [name for node in proto.graph.node for name in node.output]
            values = {self.model.value(name): name for name in made}
            inner = {
                value: name for value, name in values.items() if value in wanted and value not in outputs
            }
            proto.graph.output.extend(
                onnx.helper.make_empty_tensor_value_info(name) for name in inner.values()
            )
            file = self._folder / "tapped.onnx"
            onnx.save(proto, str(file))
            options = ort.SessionOptions()
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 3
            session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            if inner:
                ran = session.run(list(inner.values()), self._inputs)
                got |= dict(zip(inner, ran, strict=True))
        quantized = any(node.op_type in QUANTIZERS for node in self.model.proto.graph.node)
        found: list[Departure] = []
        for first, title in self.model.titles.items():
            value = got.get(first)
            if value is None or first not in wanted or value.dtype.kind != "f" or not value.size:
                continue
            if value.shape != wanted[first].shape:
                continue
            allowed = QUANTIZED if quantized else TOLERANCES.get(value.dtype.name, 0.5)
            found.append(
                Departure(
                    item=title,
                    op="",
                    error=apart(value, wanted[first]),
                    allowed=allowed,
                    data_type=value.dtype.name.replace("float", "f"),
                )
            )
        whole = [apart(got[name], wanted[name]) for name in outputs if name in wanted and got[name].size]
        return {"departures": found, "unchecked": "", "whole": max(whole, default=None)}


def onnxruntime() -> Any:
    """The package.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        return import_module("onnxruntime")
    except ModuleNotFoundError:
        raise UnsupportedError("the package onnxruntime is not installed") from None


def apart(got: Array, wanted: Array) -> float:
    """The largest difference over the largest element; infinite where one is finite and the other is not."""
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    if got.shape != wanted.shape or not np.array_equal(np.isfinite(got), finite):
        return float("inf")
    if not finite.any():
        return 0.0
    scale, difference = np.abs(wanted[finite]).max(), np.abs(got - wanted)[finite].max()
    return float(difference / scale if scale else difference)
