"""Native oneDNN Graph of the same library, through ctypes: the yardstick of `wgrad.py`.

Only what one weight-gradient op needs. The C API aborts the process on inconsistent ops, so it is given only ops that
`onednn_graph.Op` has accepted. Source of numbers and prototypes: `dnnl_graph.h`, `dnnl_graph_types.h`, version 3.2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.library import DATA_TYPES, load
from onednn_graph.backends.onednn.primitive import NativeEngine
from onednn_graph.graph.arrays import address

KINDS = {"ConvolutionBackwardWeights": 15, "ConvTransposeBackwardWeights": 18}
STRIDED, UNDEF_PROPERTY, CPU, FUSION = 2, 0, 1, 1
S64_ATTRIBUTES = {"groups": 50, "dilations": 65, "pads_begin": 70, "pads_end": 71, "strides": 75,
                  "weights_shape": 76}  # fmt: skip
STRING_ATTRIBUTES = {"auto_pad": 129, "data_format": 131, "weights_format": 135}
MAX_NDIMS = 12


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


def bound_call(
    kind: str, attributes: dict[str, Any], src: np.ndarray, diff_dst: np.ndarray, out: np.ndarray
) -> Callable[[], None]:
    """A callable that runs native oneDNN Graph's compiled partition on these arrays."""
    engine = NativeEngine()
    lib = load()
    c = lib.c

    def check(status: int, what: str) -> None:
        lib.check(status, what)

    def tensor_of(number: int, array: np.ndarray) -> _LogicalTensor:
        name = "bf16" if array.dtype.name == "bfloat16" else f"f{array.itemsize * 8}"
        tensor = _LogicalTensor()
        check(
            c.dnnl_graph_logical_tensor_init_with_dims(
                byref(tensor), c_size_t(number), DATA_TYPES[og.DataType(name)], array.ndim,
                (c_int64 * MAX_NDIMS)(*array.shape), STRIDED, UNDEF_PROPERTY,
            ),
            "logical tensor",
        )  # fmt: skip
        return tensor

    arrays = (src, diff_dst, out)
    tensors = [tensor_of(number, array) for number, array in enumerate(arrays)]
    op, graph = c_void_p(), c_void_p()
    check(c.dnnl_graph_op_create(byref(op), c_size_t(0), KINDS[kind], b"op"), "op")
    for name, code in S64_ATTRIBUTES.items():
        value = attributes[name]
        values = [value] if isinstance(value, int) else list(value)
        check(
            c.dnnl_graph_op_set_attr_s64(op, code, (c_int64 * len(values))(*values), c_size_t(len(values))),
            name,
        )
    for name, code in STRING_ATTRIBUTES.items():
        text = str(attributes.get(name, "None")).encode()
        check(c.dnnl_graph_op_set_attr_str(op, code, text, c_size_t(len(text))), name)
    for tensor in tensors[:2]:
        check(c.dnnl_graph_op_add_input(op, byref(tensor)), "input")
    check(c.dnnl_graph_op_add_output(op, byref(tensors[2])), "output")
    check(c.dnnl_graph_graph_create(byref(graph), CPU), "graph")
    check(c.dnnl_graph_add_op(graph, op), "add_op")
    check(c.dnnl_graph_graph_finalize(graph), "finalize")
    check(c.dnnl_graph_graph_filter(graph, FUSION), "filter")
    partition, compiled = c_void_p(), c_void_p()
    check(c.dnnl_graph_graph_get_partitions(graph, c_size_t(1), byref(partition)), "partitions")
    check(c.dnnl_graph_compiled_partition_create(byref(compiled), partition), "compiled partition")
    pointers = POINTER(_LogicalTensor)
    check(
        c.dnnl_graph_partition_compile(
            partition, compiled, c_size_t(2), (pointers * 2)(*map(ctypes.pointer, tensors[:2])), c_size_t(1),
            (pointers * 1)(ctypes.pointer(tensors[2])), c_void_p(engine.handle),
        ),
        "compile",
    )  # fmt: skip
    memories = []
    for tensor, array in zip(tensors, arrays, strict=True):
        memory = c_void_p()
        check(
            c.dnnl_graph_tensor_create(
                byref(memory), byref(tensor), c_void_p(engine.handle), c_void_p(address(array))
            ),
            "tensor",
        )
        memories.append(memory)
    ins = (c_void_p * 2)(memories[0], memories[1])
    outs = (c_void_p * 1)(memories[2])
    execute, stream = c.dnnl_graph_compiled_partition_execute, c_void_p(engine.stream)
    two, one = c_size_t(2), c_size_t(1)

    def call(keep_alive: tuple[Any, ...] = (engine, arrays, tensors)) -> None:
        del keep_alive
        check(execute(compiled, stream, two, ins, one, outs), "execute")

    return call
