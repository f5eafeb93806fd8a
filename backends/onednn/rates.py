"""What products of matrices do here in each number format: CPUs with instructions for bf16 can be slower in it."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ...graph.compile.backend import Backend, CompileRequest
from ...graph.compile.building import build
from ...graph.compile.options import CompileOptions
from ...graph.model.logical_tensor import LogicalTensor, PropertyType
from ...graph.model.op import Op
from ...graph.runtime.arrays import numpy_type
from ...graph.runtime.cache_folder import cache_folder
from ...graph.runtime.engine import Engine
from ...ops.data_types import DataType
from .library.loading import Library, load
from .tuning_cache import remember, remembered

FORMAT = 2
"""Of what is remembered; raised when it is measured otherwise."""
ROWS, INNER, COLUMNS = 256, 1024, 1024
ROUNDS = 7
F32, BF16, U8, S8 = DataType.f32, DataType.bf16, DataType.u8, DataType.s8


def rates(backend: Backend) -> Mapping[DataType, float]:
    """Floating-point operations per second of a product with constant weights, by the type of its activations.

    They are measured once for a CPU, library, instruction set and number of threads (some tens of milliseconds), all in
    turn, and remembered in the tuning cache. 8-bit integers stand under `u8`.
    """
    return _rates(backend, json.dumps(_key(load())), cache_folder())


def _key(lib: Library) -> dict[str, object]:
    """Everything that they depend on."""
    return {**lib.machine, "format": FORMAT, "products": [ROWS, INNER, COLUMNS]}


@functools.lru_cache(maxsize=16)
def _rates(backend: Backend, key: str, folder: Path | None) -> Mapping[DataType, float]:
    del folder  # another one has other files
    seconds = remembered(json.loads(key))
    if seconds.keys() != {F32.value, BF16.value, U8.value}:
        seconds = _measured(backend)
        remember(json.loads(key), seconds)
    operations = 2.0 * ROWS * INNER * COLUMNS
    return MappingProxyType({DataType(name): operations / least for name, least in seconds.items()})


def _measured(backend: Backend) -> dict[str, float]:
    """The shortest time of each type; they are run in turn, for the speed of a machine changes."""
    calls = {data_type.value: _product(backend, data_type) for data_type in (F32, BF16, U8)}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: min(found) for name, found in times.items()}


def _product(backend: Backend, data_type: DataType) -> Callable[[], None]:
    """A product in that type, warm and bound to its arrays."""
    integers = data_type is U8
    x = LogicalTensor(0, data_type, (ROWS, INNER))
    w = LogicalTensor(1, S8 if integers else data_type, (INNER, COLUMNS), property_type=PropertyType.constant)
    y = LogicalTensor(2, F32 if integers else data_type, (ROWS, COLUMNS))
    if integers:
        wide_x, wide_w = LogicalTensor(3, F32, x.dims), LogicalTensor(4, F32, w.dims)
        ops = (
            Op(1, "Dequantize", [x], [wide_x], scales=[0.25], zps=[0]),
            Op(2, "Dequantize", [w], [wide_w], scales=[0.5], zps=[0]),
            Op(0, "MatMul", [wide_x, wide_w], [y]),
        )
    else:
        ops = (Op(0, "MatMul", [x, w], [y]),)
    request = CompileRequest(
        ops=ops,
        inputs=(x, w),
        outputs=(y,),
        engine=Engine(),
        fpmath_mode="strict",
        values={},
        forced=False,
        options=CompileOptions(),
        described=(x, w),
    )
    executable = build(request, (backend,), asked=True, parts=()).executable
    inputs = [np.ones(t.dims, numpy_type(t.data_type)) for t in (x, w)]
    call = executable.bind(inputs, [np.empty(y.dims, numpy_type(y.data_type))])
    call()
    return call
