"""Copies between layouts and types, with scales and zero points: what the library gets wrong must not show."""

import os

import attrs
import ml_dtypes
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.library.enumerators import Arg
from onednn_graph.backends.onednn.library.loading import DATA_TYPES, dims
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.backends.onednn.plan.emitter import Emitter
from onednn_graph.backends.onednn.plan.layouts import Layouts
from onednn_graph.backends.onednn.plan.steps import Buffer
from onednn_graph.backends.onednn.plan.unfit import Unfit
from onednn_graph.ops.data_types import DataType
from rows import each

SCALE, POINT = 0.5, 130
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "u8": np.uint8, "s8": np.int8}
GAP = 99


def ramp(shape, dtype="f32"):
    """Small integers, each different from its neighbours on every axis."""
    return (np.arange(np.prod(shape)) % 61 - (0 if dtype == "u8" else 30)).reshape(shape).astype(TYPES[dtype])


def placed(shape, strides, dtype):
    """An array with these strides, in elements, in memory full of one number; and all of that memory."""
    room = np.full(1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True)), GAP, TYPES[dtype])
    steps = [s * room.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(room, shape, steps), room


def made(kind, array, strides, types, out_strides, **attributes):
    """What one op makes of an array that lies so; all of the memory of the result."""
    shape = array.shape
    graph = og.Graph()
    tensors = [
        og.LogicalTensor(number, dtype, shape, strides=steps)
        for number, (dtype, steps) in enumerate(zip(types, (strides, out_strides), strict=True))
    ]
    graph.add_op(og.Op(0, kind, tensors[:1], tensors[1:], **attributes))
    graph.finalize()
    (partition,) = graph.get_partitions()
    compiled = partition.compile()
    x, _ = placed(shape, strides, types[0])
    x[...] = array
    y, room = placed(shape, out_strides, types[1])
    compiled.execute(None, [x], [y])
    return y, room


def quantized(array, dtype="u8", scale=SCALE, point=POINT):
    low, high = (0, 255) if dtype == "u8" else (-128, 127)
    return np.clip(np.rint(array.astype(np.float64) / scale) + point, low, high)


def last(shape):
    """Strides of channels-last memory, for (N, C, X) tensors."""
    strides, step = [0] * len(shape), 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis], step = step, step * shape[axis]
    return strides


def rows(shape):
    return [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


@each("size", range(1, 16))
@each("channels", [3, 16, 64, 128])
@each("dtype", ["u8", "s8"])
def test_quantize_of_channels_last_data_keeps_its_zero_point(onednn, dtype, channels, size):
    shape = (1, channels, size, size)
    x = ramp(shape)
    point = POINT if dtype == "u8" else -5
    attributes = {"scales": [SCALE], "zps": [point], "qtype": "per_tensor"}
    for source, target in (
        (last(shape), rows(shape)),
        (rows(shape), last(shape)),
        (last(shape), last(shape)),
    ):
        y, _ = made("Quantize", x, source, ("f32", dtype), target, **attributes)
        np.testing.assert_array_equal(y, quantized(x, dtype, point=point))


@pytest.mark.parametrize("size", [1, 5, 7, 8])
@pytest.mark.parametrize("channels", [3, 16, 64, 128])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_dequantize_into_another_layout_keeps_its_zero_point(onednn, dtype, channels, size):
    shape = (2, channels, size, size)
    x = ramp(shape, dtype)
    attributes = {"scales": [SCALE], "zps": [7], "qtype": "per_tensor"}
    for source, target in (
        (last(shape), rows(shape)),
        (rows(shape), last(shape)),
        (last(shape), last(shape)),
    ):
        y, _ = made("Dequantize", x, source, (dtype, "f32"), target, **attributes)
        np.testing.assert_array_equal(y, (x.astype(np.float64) - 7) * SCALE)


@pytest.mark.parametrize("out", ["rows", "last"])
@pytest.mark.parametrize("types", [("bf16", "f16"), ("f16", "bf16")], ids="-".join)
@pytest.mark.parametrize("shape", [(3, 5), (2, 64, 7, 7), (1, 16, 40, 40)], ids=str)
def test_a_half_is_cast_to_the_other_half(onednn, shape, types, out):
    strides = rows(shape) if out == "rows" or len(shape) < 3 else last(shape)
    x = ramp(shape, types[0])
    for source in (rows(shape), strides, [3 * s for s in strides]):
        for target in (strides, [4 * s for s in strides]):
            y, room = made("TypeCast", x, source, types, target)
            np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))
            y[...] = GAP
            assert (room == GAP).all()


def test_the_result_of_a_fused_chain_is_cast_from_one_half_to_the_other(onednn):
    graph = og.Graph()
    x, w = graph.input("x", "bf16", (6, 8)), graph.input("w", "bf16", (8, 5))
    y = graph.op("TypeCast", graph.op("ReLU", graph.op("MatMul", x, w)), output_type="f16")
    graph.output(y)
    a, b = (np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32) for shape in ((6, 8), (8, 5)))
    (got,) = graph.compile()({"x": a.astype(TYPES["bf16"]), "w": b.astype(TYPES["bf16"])}).values()
    np.testing.assert_array_equal(got, np.maximum(a @ b, 0))  # small enough for every type to hold


@each("step", [2, 3, 4, 8])
@each("shape", [(6145,), (97, 103), (3, 7, 11, 43), (20_001,), (4, 8)], ids=str)
@each("dtype", ["f32", "bf16", "f16"])
def test_a_copy_into_gaps_writes_every_element_and_nothing_else(onednn, dtype, shape, step):
    x = ramp(shape, dtype)
    strides = [step * s for s in rows(shape)]
    y, room = made("Reorder", x, rows(shape), (dtype, dtype), strides)
    np.testing.assert_array_equal(y, x)
    y[...] = GAP
    assert (room == GAP).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_a_result_into_gaps_is_whole(onednn, dtype):
    shape = (97, 103)
    x = ramp(shape, dtype)
    strides = [4 * 103 + 8, 4]
    y, room = made("Abs", x, rows(shape), (dtype, dtype), strides)
    np.testing.assert_array_equal(y, np.abs(x))
    y[...] = GAP
    assert (room == GAP).all()


def blocked(engine, dtype, channels=16):
    """A layout (1, channels, 2, 2) in blocks of channels; formats have no names in the library, so it is sought."""
    shape = dims((1, channels, 2, 2))
    for number in range(2, 400):
        try:
            made = engine.lib.new("dnnl_memory_desc_create_with_tag", 4, shape, DATA_TYPES[dtype], number)
        except og.errors.LibraryError:
            continue
        desc = MemoryDesc(engine.lib, made)
        if desc.describe() == "aBcd16b":
            return desc
    raise AssertionError


def test_a_copy_that_has_no_way_round_is_the_library_s(onednn):
    engine = NativeEngine()
    emitter = Emitter.on(engine)
    source = Layouts(engine.lib).temporary((1, 16, 2, 2), DataType.f16)
    emitter.copy("x", source, Buffer(blocked(engine, DataType.s8)))
    (step,) = emitter.steps
    assert step.implementation


def test_a_copy_that_nothing_makes_is_refused_with_the_reasons(onednn, monkeypatch):
    engine = NativeEngine()
    chooser, layouts = Chooser(engine), Layouts(engine.lib)
    source, target = layouts.temporary((1, 16, 2, 2), DataType.s8), Buffer(blocked(engine, DataType.s8))
    nothing = attrs.evolve(
        chooser.reorder(source.desc, target.desc), desc=None, passed_over=("this is barred", "that is slow")
    )
    monkeypatch.setattr(Chooser, "reorder", lambda *_: nothing)
    with pytest.raises(Unfit, match="no reorder from abcd to aBcd16b; this is barred; that is slow"):
        Emitter(layouts, chooser).copy("x", source, target)


def test_what_lies_right_is_its_own_copy_with_the_strides_that_are_asked_for(onednn):
    engine = NativeEngine()
    emitter = Emitter.on(engine)
    stray, usual = (
        MemoryDesc.strided(engine.lib, (2, 1, 3), DataType.f32, strides) for strides in ((3, 1, 1), (3, 3, 1))
    )
    source = Buffer(usual)
    assert emitter.bring("x", source, usual) is source
    other = emitter.bring("x", source, stray)
    assert other.desc.strides == (3, 1, 1)  # kernels have read them for axes of one element
    assert other.root is source
    assert not emitter.steps


@pytest.mark.parametrize("types", [(DataType.f32, DataType.s8), (DataType.u8, DataType.f32)], ids=str)
def test_a_zero_point_and_another_layout_are_two_copies_of_the_library(onednn, types):
    """The type changes where the elements have the layout of the wider side."""
    engine = NativeEngine()
    emitter, layouts = Emitter.on(engine), Layouts(engine.lib)
    shape = (2, 16, 4, 4)
    source, target = layouts.temporary(shape, types[0]), Buffer(layouts.channels_last(shape, types[1]))
    side = Arg.DST if types[0] is DataType.f32 else Arg.SRC
    point = layouts.constant(np.array([3], np.int32))
    emitter.copy_scaled("x", source, target, {side: (0, layouts.ones(1))}, {side: point})
    roles = [step.role for step in emitter.steps]
    assert roles == (["x", "reorder x"] if side == Arg.DST else ["reorder x", "x"])


@pytest.mark.parametrize(("shape", "strides"), [((2, 4, 1, 1), (4, 1, 4, 4)), ((1, 4, 1, 3), (12, 1, 12, 4))])
def test_images_of_one_element_have_the_strides_of_channels_that_are_last(onednn, shape, strides):
    assert Layouts(NativeEngine().lib).channels_last(shape, DataType.f32).strides == strides


HALVES = """
import json
import ml_dtypes
import numpy as np
import onednn_graph as og

bits = np.random.default_rng(0).integers(0, 2**32, (8, 40, 30), np.uint32)
x = bits.view(np.float32)
x = np.where(np.isfinite(x), x, np.float32(1))
graph = og.Graph()
cast = graph.type_cast(graph.input("x", "f32", x.shape), output_type="bf16", name="bf16")
moved = graph.static_transpose(cast, order=[2, 0, 1])
graph.output(graph.static_reshape(moved, shape=[240, 40], special_zero=False), name="moved")
graph.type_cast(graph.input("h", "bf16", x.shape), output_type="f32", name="wide")
model = graph.compile()
h = x.astype(ml_dtypes.bfloat16)
with og.profile() as profile:
    got = model({"x": x, "h": h})
want = {"moved": h.transpose(2, 0, 1).reshape(240, 40), "wide": h.astype(np.float32)}
right = [np.array_equal(got[n].view("u%d" % w.itemsize), w.view("u%d" % w.itemsize)) for n, w in want.items()]
print(json.dumps([right, str(profile)]))
"""


def test_halves_are_not_copied_one_by_one_where_the_cpu_has_none(onednn):
    """The library's reference loop takes 40 ns for each element, NumPy less than one."""
    right, profile = processes.printed(HALVES, env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"})
    assert right == [True, True]
    assert "simple" not in profile, profile
