"""Native oneDNN Graph of the same library, through ctypes: the yardstick of `wgrad.py` and `fusion.py`.

The C API aborts the process on some inconsistent ops, so it is given only graphs of ops that `onednn_graph.Op` has
accepted, and `trial` runs a graph in a child process first. Source of numbers and prototypes: `dnnl_graph.h`,
`dnnl_graph_types.h`, version 3.2.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint8, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
from attrs import frozen
from onednn_graph.backends.onednn.library import DATA_TYPES, MAX_NDIMS, STATUSES, load
from onednn_graph.backends.onednn.primitive import NativeEngine
from onednn_graph.graph.arrays import address
from onednn_graph.graph.serialization import read_graph, write_graph
from onednn_graph.graph.tensor import allocate
from onednn_graph.tools.filling import fill

KINDS: dict[str, int] = {kind: number for number, kind in enumerate("""
    Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormTrainingBackward BatchNormForwardTraining BatchNormInference
    BiasAdd BiasAddBackward Clamp ClampBackward Concat Convolution ConvolutionBackwardData ConvolutionBackwardWeights
    ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights Dequantize Divide DynamicDequantize
    DynamicQuantize Elu EluBackward End Exp GELU GELUBackward HardSwish HardSwishBackward Interpolate
    InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul Maximum MaxPool
    MaxPoolBackward Minimum Mish MishBackward Multiply PReLU PReLUBackward Quantize Reciprocal ReduceL1 ReduceL2
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLUBackward Reorder Round Sigmoid SigmoidBackward SoftMax
    SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape StaticTranspose
    Subtract Tanh TanhBackward TypeCast Wildcard HardSigmoid HardSigmoidBackward Select Pow
    """.split())}  # fmt: skip # noqa: SIM905 -- a list would take 83 lines
"""`dnnl_graph_op_kind_t`, which counts from 0."""

ATTRIBUTES: dict[str, int] = {
    "alpha": 1, "beta": 2, "epsilon": 3, "max": 4, "min": 5, "momentum": 6, "scales": 32, "axis": 48,
    "begin_norm_axis": 49, "groups": 50, "axes": 64, "dilations": 65, "dst_shape": 66, "kernel": 67, "order": 68,
    "output_padding": 69, "pads_begin": 70, "pads_end": 71, "shape": 72, "sizes": 73, "src_shape": 74, "strides": 75,
    "weights_shape": 76, "zps": 77, "exclude_pad": 96, "keep_dims": 97, "keep_stats": 98, "per_channel_broadcast": 99,
    "special_zero": 100, "transpose_a": 101, "transpose_b": 102, "use_affine": 103, "use_dst": 104,
    "auto_broadcast": 128, "auto_pad": 129, "coordinate_transformation_mode": 130, "data_format": 131, "mode": 132,
    "qtype": 133, "rounding_type": 134, "weights_format": 135,
}  # fmt: skip
"""`dnnl_graph_op_attr_t`."""

NEWER = {
    "ConvTransposeBackwardWeights": ("output_padding",), "DynamicDequantize": ("group_shape",), "GELU": ("mode",),
    "GELUBackward": ("mode",), "MatMul": ("accumulation_mode",),
}  # fmt: skip
"""Attributes that 3.2 does not know, and that it must not be given."""
IGNORED = {"SoftMax": ("mode",)}
"""Others of the kind, which matter only in rows of nothing but -inf: a comparison of results tells."""

PROPERTIES = {
    og.PropertyType.undef: 0,
    og.PropertyType.variable: 1,
    og.PropertyType.constant: 2,
}
LAYOUT_ANY, CPU, FUSION = 1, 1, 1
FPMATH_MODES = {"strict": 0, "bf16": 1, "f16": 2, "any": 3}
TRIAL_SECONDS = 300
ANSWER, SECOND_RUN = "answer: ", "second run"


class NativeError(RuntimeError):
    """The library can't run the graph, or must not be given it."""


class _LogicalTensor(ctypes.Structure):
    _fields_ = (
        ("id", c_size_t),
        ("ndims", c_int),
        ("dims", c_int64 * MAX_NDIMS),
        ("data_type", c_int),
        ("property", c_int),
        ("layout_type", c_int),
        ("strides", c_int64 * MAX_NDIMS),
    )


class _InplacePair(ctypes.Structure):
    _fields_ = (("input_id", c_size_t), ("output_id", c_size_t))


_TENSOR, _TENSORS, _OUT = POINTER(_LogicalTensor), POINTER(POINTER(_LogicalTensor)), POINTER(c_void_p)
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "logical_tensor_init_with_dims": (_TENSOR, c_size_t, c_int, c_int, POINTER(c_int64), c_int, c_int),
    "logical_tensor_init_with_strides": (
        _TENSOR, c_size_t, c_int, c_int, POINTER(c_int64), POINTER(c_int64), c_int,
    ),
    "logical_tensor_get_mem_size": (_TENSOR, POINTER(c_size_t)),
    "op_create": (_OUT, c_size_t, c_int, c_char_p),
    "op_destroy": (c_void_p,),
    "op_add_input": (c_void_p, _TENSOR),
    "op_add_output": (c_void_p, _TENSOR),
    "op_set_attr_s64": (c_void_p, c_int, POINTER(c_int64), c_size_t),
    "op_set_attr_f32": (c_void_p, c_int, POINTER(c_float), c_size_t),
    "op_set_attr_bool": (c_void_p, c_int, POINTER(c_uint8), c_size_t),
    "op_set_attr_str": (c_void_p, c_int, c_char_p, c_size_t),
    "graph_create_with_fpmath_mode": (_OUT, c_int, c_int),
    "graph_destroy": (c_void_p,),
    "add_op": (c_void_p, c_void_p),
    "graph_finalize": (c_void_p,),
    "graph_filter": (c_void_p, c_int),
    "graph_get_partition_num": (c_void_p, POINTER(c_size_t)),
    "graph_get_partitions": (c_void_p, c_size_t, _OUT),
    "partition_destroy": (c_void_p,),
    "partition_is_supported": (c_void_p, POINTER(c_uint8)),
    "partition_get_op_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_ops": (c_void_p, c_size_t, POINTER(c_size_t)),
    "partition_get_input_ports_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_input_ports": (c_void_p, c_size_t, _TENSOR),
    "partition_get_output_ports_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_output_ports": (c_void_p, c_size_t, _TENSOR),
    "compiled_partition_create": (_OUT, c_void_p),
    "compiled_partition_destroy": (c_void_p,),
    "partition_compile": (c_void_p, c_void_p, c_size_t, _TENSORS, c_size_t, _TENSORS, c_void_p),
    "compiled_partition_query_logical_tensor": (c_void_p, c_size_t, _TENSOR),
    "compiled_partition_get_inplace_ports": (c_void_p, POINTER(c_size_t), POINTER(POINTER(_InplacePair))),
    "compiled_partition_execute": (c_void_p, c_void_p, c_size_t, _OUT, c_size_t, _OUT),
    "tensor_create": (_OUT, _TENSOR, c_void_p, c_void_p),
    "tensor_destroy": (c_void_p,),
    "set_constant_tensor_cache": (c_int,),
    "set_compiled_partition_cache_capacity": (c_int,),
}  # fmt: skip


def _call(function: str, *arguments: Any, what: str = "") -> None:
    """Calls `dnnl_graph_<function>` and raises NativeError unless it succeeds."""
    status = _functions()[function](*arguments)
    if status:
        name = STATUSES[status] if 0 < status < len(STATUSES) else f"status {status}"
        raise NativeError(f"dnnl_graph_{function} failed with '{name}'{what and f' for {what}'}")


@functools.cache
def _functions() -> dict[str, Any]:
    """The library's functions with prototypes. What depends on constants is kept; nothing compiled is shared."""
    functions: dict[str, Any] = {}
    for name, argtypes in PROTOTYPES.items():
        functions[name] = getattr(load().c, f"dnnl_graph_{name}")
        functions[name].argtypes = argtypes
        functions[name].restype = c_int
    functions["set_constant_tensor_cache"](1)
    functions["set_compiled_partition_cache_capacity"](0)
    return functions


def _described(tensor: og.LogicalTensor, layout_any: bool = False) -> _LogicalTensor:
    """The library's description of a tensor whose sizes are known."""
    if tensor.data_type not in DATA_TYPES:
        raise NativeError(f"3.2 has no data type {tensor.data_type}, that of {tensor}")
    if tensor.property_type not in PROPERTIES:
        raise NativeError(f"3.2 has no property type {tensor.property_type}, that of {tensor}")
    if len(tensor.dims) > MAX_NDIMS:
        raise NativeError(f"{tensor} has more than {MAX_NDIMS} axes")
    made = _LogicalTensor()
    front = (byref(made), tensor.id, DATA_TYPES[tensor.data_type], len(tensor.dims))
    dims = (c_int64 * MAX_NDIMS)(*tensor.dims)
    last = PROPERTIES[tensor.property_type]
    if layout_any:
        _call("logical_tensor_init_with_dims", *front, dims, LAYOUT_ANY, last, what=str(tensor))
    else:
        strides = (c_int64 * MAX_NDIMS)(*tensor.element_strides)
        _call("logical_tensor_init_with_strides", *front, dims, strides, last, what=str(tensor))
    return made


def _set_attribute(handle: c_void_p, op: og.Op, spec: og.AttributeSpec, value: Any) -> None:
    if spec.name in IGNORED.get(op.kind, ()):
        return
    if spec.name in NEWER.get(op.kind, ()):
        if value != spec.default:
            raise NativeError(f"{op}: 3.2 does not know {spec.name}, which is {value!r}")
        return
    if spec.name in ("pads_begin", "pads_end") and not value:  # an empty list stands for zeros
        value = (0,) * (len(op.inputs[0].dims) - 2)
    code, what = ATTRIBUTES[spec.name], f"{spec.name} of {op}"
    match spec.type:
        case og.AttributeType.string:
            text = str(value).encode()
            _call("op_set_attr_str", handle, code, text, len(text), what=what)
        case og.AttributeType.bool:
            _call("op_set_attr_bool", handle, code, (c_uint8 * 1)(value), 1, what=what)
        case _:
            values = value if isinstance(value, tuple) else (value,)
            kind, function = (
                (c_int64, "op_set_attr_s64")
                if spec.type.value.startswith("s64")
                else (c_float, "op_set_attr_f32")
            )
            _call(function, handle, code, (kind * len(values))(*values), len(values), what=what)


def _check_known(op: og.Op) -> None:
    if op.kind not in KINDS:
        raise NativeError(f"{op}: 3.2 has no op {op.kind}")
    for port, tensor in zip(op.input_ports, op.inputs, strict=True):
        if port.shape_operand:
            raise NativeError(f"{op}: 3.2 does not read {tensor}, whose values decide a shape")


class _Stage:
    """One partition: its handles, and its ports by id."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        self.compiled = c_void_p()
        self.ops = self._op_ids()
        self.inputs = self._ports("input")
        self.outputs = self._ports("output")

    def _count(self, function: str) -> int:
        count = c_size_t()
        _call(function, self.handle, byref(count))
        return count.value

    def _op_ids(self) -> tuple[int, ...]:
        ids = (c_size_t * self._count("partition_get_op_num"))()
        _call("partition_get_ops", self.handle, len(ids), ids)
        return tuple(ids)

    def _ports(self, side: str) -> tuple[int, ...]:
        ports = (_LogicalTensor * self._count(f"partition_get_{side}_ports_num"))()
        _call(f"partition_get_{side}_ports", self.handle, len(ports), ports)
        return tuple(port.id for port in ports)

    @property
    def supported(self) -> bool:
        """Whether the library can compile it."""
        answer = c_uint8()
        _call("partition_is_supported", self.handle, byref(answer))
        return bool(answer.value)

    def inplace(self) -> list[tuple[int, int]]:
        """Inputs and outputs that may share memory."""
        count, pairs = c_size_t(), POINTER(_InplacePair)()
        _call("compiled_partition_get_inplace_ports", self.compiled, byref(count), byref(pairs))
        return [(pairs[i].input_id, pairs[i].output_id) for i in range(count.value)]


class NativeGraph:
    """A graph partitioned by native oneDNN Graph's fusion policy, and compiled.

    Args:
        graph: finalized, with all shapes known.
        free_layouts: whether the library chooses how tensors between partitions lie, as its documents advise;
            row-major otherwise.

    Attributes:
        partitions: the ids of the ops of each, in order of execution.

    Raises:
        NativeError: an op or a partition that 3.2 doesn't support.
    """

    def __init__(self, graph: og.Graph, *, free_layouts: bool = True) -> None:
        for op in graph.ops:
            _check_known(op)
        self._inputs, self._outputs = graph.inputs, graph.outputs
        self._engine = NativeEngine()
        self._tensors = {t.id: t for op in graph.ops for t in (*op.inputs, *op.outputs)}
        self._readers: dict[int, int] = {}
        with ExitStack() as stack:
            self._stages = self._ordered([s for s in self._partitioned(graph, stack) if s.outputs])
            self.partitions = tuple(stage.ops for stage in self._stages)
            self._layouts = {t.id: _described(t) for t in (*graph.inputs, *graph.outputs)}
            for stage in self._stages:
                self._compile(stage, free_layouts, stack)
            self._resources = stack.pop_all()

    def __del__(self) -> None:
        if hasattr(self, "_resources"):
            self._resources.close()

    def _created(self, stack: ExitStack, what: str, function: str, *arguments: Any) -> c_void_p:
        """A new handle, which is destroyed with the graph."""
        handle = c_void_p()
        _call(function, byref(handle), *arguments)
        stack.callback(_call, f"{what}_destroy", handle)
        return handle

    def _partitioned(self, graph: og.Graph, stack: ExitStack) -> list[_Stage]:
        mode = FPMATH_MODES.get(graph.fpmath_mode.value)
        if mode is None:
            raise NativeError(f"3.2 has no fpmath mode {graph.fpmath_mode.value}")
        native = self._created(stack, "graph", "graph_create_with_fpmath_mode", CPU, mode)
        for op in graph.ops:
            self._add(native, stack, op)
        # Without an End, the library may keep an output to itself that an op reads too.
        ended = {t.id for op in graph.ops if not op.outputs for t in op.inputs}
        read = {t.id for op in graph.ops for t in op.inputs} - ended
        number = 1 + max(op.id for op in graph.ops)
        for tensor in graph.outputs:
            if tensor.id in read and tensor.id not in ended:
                self._add(native, stack, og.Op(number, "End", [tensor], []))
                number += 1
        _call("graph_finalize", native)
        _call("graph_filter", native, FUSION)
        count = c_size_t()
        _call("graph_get_partition_num", native, byref(count))
        handles = (c_void_p * count.value)()
        _call("graph_get_partitions", native, count.value, handles)
        for handle in handles:
            stack.callback(_call, "partition_destroy", c_void_p(handle))
        stages = [_Stage(c_void_p(handle)) for handle in handles]
        for stage in stages:
            if stage.outputs and not stage.supported:
                kinds = ", ".join(str(op) for op in graph.ops if op.id in stage.ops)
                raise NativeError(f"3.2 does not support the partition of {kinds}")
        return stages

    def _add(self, native: c_void_p, stack: ExitStack, op: og.Op) -> None:
        handle = self._created(
            stack, "op", "op_create", op.id, KINDS[op.kind], (op.name or f"op_{op.id}").encode()
        )
        for spec in op.schema.attributes:
            if spec.name in op.attributes:
                _set_attribute(handle, op, spec, op.attributes[spec.name])
        for function, tensors in (("op_add_input", op.inputs), ("op_add_output", op.outputs)):
            for tensor in tensors:
                _call(function, handle, byref(_described(tensor)), what=str(op))
        _call("add_op", native, handle, what=str(op))

    def _ordered(self, stages: Sequence[_Stage]) -> list[_Stage]:
        """The partitions in an order in which they can run."""
        known = {t.id for t in self._inputs}
        waiting, ordered = list(stages), list[_Stage]()
        while waiting:
            ready = next((s for s in waiting if known.issuperset(s.inputs)), None)
            if ready is None:
                raise NativeError("the library's partitions wait for each other")
            waiting.remove(ready)
            ordered.append(ready)
            known.update(ready.outputs)
            for number in set(ready.inputs):
                self._readers[number] = self._readers.get(number, 0) + 1
        missing = [t for t in self._outputs if t.id not in known]
        if missing:
            raise NativeError(f"no partition of the library gives out {missing[0]}")
        return ordered

    def _compile(self, stage: _Stage, free_layouts: bool, stack: ExitStack) -> None:
        given = {t.id for t in (*self._inputs, *self._outputs)}
        ins = [self._layouts[number] for number in stage.inputs]
        outs = [
            self._layouts[n]
            if n in given
            else _described(self._tensors[n], free_layouts and self._tensors[n].strides is None)
            for n in stage.outputs
        ]
        stage.compiled = self._created(stack, "compiled_partition", "compiled_partition_create", stage.handle)
        _call(
            "partition_compile", stage.handle, stage.compiled, len(ins),
            (_TENSOR * len(ins))(*map(ctypes.pointer, ins)), len(outs),
            (_TENSOR * len(outs))(*map(ctypes.pointer, outs)), self._engine.handle,
        )  # fmt: skip
        for number in stage.outputs:
            chosen = _LogicalTensor()
            _call("compiled_partition_query_logical_tensor", stage.compiled, number, byref(chosen))
            self._layouts[number] = chosen

    def bind(self, inputs: Mapping[int, np.ndarray], outputs: Mapping[int, np.ndarray]) -> Callable[[], None]:
        """A callable that runs the graph on these arrays, by tensor id, which have the tensors' layouts.

        Tensors between partitions are allocated here; where the library offers to compute in place, they share memory.
        """
        arrays = {**inputs, **outputs}
        pointers = {number: address(array) for number, array in arrays.items()}
        for stage in reversed(self._stages):
            shared: set[int] = set()
            for source, target in stage.inplace():
                apart = source in arrays or self._readers[source] > 1 or target in shared
                if not apart and target in pointers and self._bytes(source) <= self._bytes(target):
                    pointers[source] = pointers[target]
                    shared.add(target)
            for number in stage.inputs:
                if number not in pointers:
                    arrays[number] = np.empty(self._bytes(number), np.uint8)
                    pointers[number] = address(arrays[number])
        for stage in self._stages:  # what is given out and read by no one
            for number in stage.outputs:
                if number not in pointers:
                    arrays[number] = np.empty(self._bytes(number), np.uint8)
                    pointers[number] = address(arrays[number])
        execute, stream = _functions()["compiled_partition_execute"], c_void_p(self._engine.stream)
        steps: list[tuple[Any, ...]] = []
        with ExitStack() as stack:
            memories = {
                number: self._created(
                    stack, "tensor", "tensor_create", byref(self._layouts[number]), self._engine.handle, pointer,
                )
                for number, pointer in pointers.items() if number in self._layouts
            }  # fmt: skip
            for stage in self._stages:
                ins, outs = ([memories[n] for n in ports] for ports in (stage.inputs, stage.outputs))
                steps.append((
                    stage.compiled, stream, c_size_t(len(ins)), (c_void_p * len(ins))(*ins),
                    c_size_t(len(outs)), (c_void_p * len(outs))(*outs),
                ))  # fmt: skip
            resources = stack.pop_all()
        return _Bound(self, arrays, resources, steps, execute)

    def _bytes(self, number: int) -> int:
        size = c_size_t()
        _call("logical_tensor_get_mem_size", byref(self._layouts[number]), byref(size))
        return size.value


class _Bound:
    """What `NativeGraph.bind` returns; it keeps alive what the library points to."""

    def __init__(
        self,
        graph: NativeGraph,
        arrays: dict[int, np.ndarray],
        resources: ExitStack,
        steps: Sequence[tuple[Any, ...]],
        execute: Callable[..., int],
    ) -> None:
        self._kept = (graph, arrays)
        self._resources = resources
        self._steps = tuple(steps)
        self._execute = execute

    def __call__(self) -> None:
        execute = self._execute
        for step in self._steps:
            status = execute(*step)
            if status:
                raise NativeError(f"execution failed with '{STATUSES[status]}'")

    def __del__(self) -> None:
        self._resources.close()


def bound_call(
    kind: str, attributes: dict[str, Any], src: np.ndarray, diff_dst: np.ndarray, out: np.ndarray
) -> Callable[[], None]:
    """A callable that runs native oneDNN Graph's compiled partition of one weight gradient on these arrays."""
    arrays = (src, diff_dst, out)
    tensors = [og.LogicalTensor(i, array.dtype, array.shape) for i, array in enumerate(arrays)]
    graph = og.Graph()
    graph.add_op(og.Op(0, kind, tensors[:2], tensors[2:], **attributes))
    graph.finalize()
    return NativeGraph(graph).bind({0: src, 1: diff_dst}, {2: out})


# --- the first run of a graph, in a process of its own --------------------------------------------------


def placed_inputs(graph: og.Graph, seed: int = 0) -> dict[int, np.ndarray]:
    """Data for all inputs of a graph in the tensors' own layouts, by id; the same for the same seed."""
    arrays = fill(graph, seed)
    for tensor in graph.inputs:
        placed = allocate(tensor)
        placed[...] = arrays[tensor.id]
        arrays[tensor.id] = placed
    return arrays


@frozen
class Trial:
    """How the first run went.

    Attributes:
        free_layouts: whether it runs with layouts of the library's choice between partitions; with row-major ones only
            otherwise.
        kernels: the primitives that the library executed, in order, as its verbose mode tells.
    """

    free_layouts: bool
    kernels: tuple[str, ...]


def trial(graph: og.Graph) -> Trial:
    """Runs a graph natively in a child process.

    Raises:
        NativeError: it is not supported, or it crashed.
    """
    try:
        child = subprocess.run(
            [sys.executable, __file__], input=write_graph(graph), capture_output=True, text=True,
            timeout=TRIAL_SECONDS, check=False, cwd=Path(__file__).parent,
            env={**os.environ, "ONEDNN_VERBOSE": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NativeError(f"it ran longer than {TRIAL_SECONDS} s") from error
    said = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    if child.returncode < 0:
        raise NativeError(f"CRASH, {signal.Signals(-child.returncode).name}: {said}")
    lines = child.stdout.splitlines()
    answers = [line for line in lines if line.startswith(ANSWER)]
    if child.returncode or not answers:
        raise NativeError(said)
    answer: dict[str, Any] = json.loads(answers[-1].removeprefix(ANSWER))
    if "error" in answer:
        raise NativeError(answer["error"])
    executed = [
        line.split(",") for line in lines[lines.index(SECOND_RUN) :] if line.startswith("onednn_verbose,exec")
    ]
    return Trial(bool(answer["free_layouts"]), tuple(f"{fields[3]} ({fields[4]})" for fields in executed))


def _child() -> None:
    """Reads a graph, runs it twice, and says how that went."""
    graph = read_graph(text=sys.stdin.read())
    graph.finalize()
    inputs = placed_inputs(graph)
    outputs = {t.id: allocate(t) for t in graph.outputs}
    problem = ""
    for free_layouts in (True, False):
        try:
            call = NativeGraph(graph, free_layouts=free_layouts).bind(inputs, outputs)
            call()
            _say(SECOND_RUN)
            call()
        except NativeError as error:
            problem = problem or str(error)
        else:
            _say(ANSWER + json.dumps({"free_layouts": free_layouts}))
            return
    _say(ANSWER + json.dumps({"error": problem}))


def _say(line: str) -> None:
    """Prints between what the library prints."""
    load().c.fflush(None)
    print(line, flush=True)


if __name__ == "__main__":
    _child()
