"""Products by integers in groups with a scale each: exact on integers, whichever way the library takes them."""

import itertools

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from rows import each
from strategies import has_isa

pytestmark = pytest.mark.usefixtures("onednn")

TYPES = {
    "s8": (np.int8, -128, 127),
    "u8": (np.uint8, 0, 255),
    "s4": (ml_dtypes.int4, -8, 7),
    "u4": (ml_dtypes.uint4, 0, 15),
}
TAKEN = "decompressed by the product"
newer = pytest.mark.library("3.13")


def integers(rng, shape, kind):
    """Any numbers of a type."""
    dtype, low, high = TYPES[kind]
    return rng.integers(low, high + 1, shape).astype(dtype)


def made(
    rows,
    k,
    n,
    kind,
    group,
    *,
    points=None,
    turned=False,
    bias=False,
    relu=False,
    data_type="f32",
    scale_type=np.float32,
    held=True,
):
    """A graph, what it is fed, and what comes out in f64: all that is computed is exact in f32.

    Args:
        rows: sizes of the data but for the last.
        group: how many rows share a scale; None for one scale in all, 0 for one a column.
        points: the type of zero points; None without any.
        held: whether the weights are constants.
    """
    rng = np.random.default_rng(k + n + len(rows))
    graph = og.Graph()
    x = rng.integers(-3, 4, (*rows, k)).astype(np.float32)
    q = integers(rng, (k, n), kind)
    groups = {None: (1, 1), 0: (1, n)}.get(group, (k // (group or k), n))
    scales = 2.0 ** rng.integers(-3, 1, groups)
    zps = None if points is None else integers(rng, groups, points)
    real = q.astype(np.float64)
    if zps is not None:
        real = real - zps.astype(np.float64).repeat(k // groups[0], 0)
    real = real * scales.repeat(k // groups[0], 0)
    how = {"qtype": "per_tensor"}
    if group == 0:
        how = {"qtype": "per_channel", "axis": 0 if turned else 1}
    elif group is not None:
        how = {"qtype": "per_group", "group_shape": [1, group] if turned else [group, 1]}
    feeds = {"x": x.astype(ml_dtypes.bfloat16) if data_type == "bf16" else x}

    def weights(name, array):
        array = np.ascontiguousarray(array.T) if turned else array
        array = array.reshape(-1) if name != "q" and group in (None, 0) else array
        if held:
            return graph.constant(array, name=name)
        feeds[name] = array
        return graph.input(name, TYPE_OF[array.dtype.name], array.shape)

    given = [weights("q", q), weights("scales", scales.astype(scale_type))]
    if zps is not None:
        given.append(weights("zps", zps))
    w = graph.op("DynamicDequantize", *given, **how)
    if data_type == "bf16" and scale_type is np.float32:
        w = graph.typecast(w, output_type="bf16")
    y = graph.matmul(graph.input("x", data_type, x.shape), w, transpose_b=turned)
    want = x.astype(np.float64) @ real
    if bias:
        b = rng.integers(-9, 10, n).astype(np.float32)
        y, want = graph.add(y, graph.constant(b, name="b")), want + b
    if relu:
        y, want = graph.relu(y), np.maximum(want, 0)
    graph.output(y, name="y")
    return graph, feeds, want


TYPE_OF = {"int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4", "float32": "f32", "bfloat16": "bf16"}


def check(*args, taken=None, **how):
    """Holds a product against f64; and where that is said, which way it goes."""
    graph, feeds, want = made(*args, **how)
    model = graph.compile()
    got = np.asarray(model(feeds)["y"]).astype(np.float64)
    if how.get("data_type") == "bf16":
        np.testing.assert_allclose(got, want, atol=2**-7 * np.abs(want).max())
    else:
        np.testing.assert_array_equal(got, want)
    told = " ".join(one.strategy for one in model.explain().values())
    if taken is not None:
        assert (TAKEN in told) is taken, str(model.explain().values())
    return model


@pytest.fixture
def decompressing():
    """Skips a test where no kernel of a newer library decompresses."""
    if not has_isa("avx2"):
        pytest.skip("the library decompresses by loops alone below AVX2")


LAYOUTS = {
    f"{kind} {'ba' if turned else 'ab'} group {group} points {points}": (kind, turned, group, points)
    for kind, turned, group, points in itertools.product(
        TYPES, (False, True), (None, 0, 32, 64, 128), (None, "same")
    )
}


@each("kind, turned, group, points", [*LAYOUTS.values()], ids=[*LAYOUTS])
def test_products_are_exact(kind, turned, group, points):
    check((7,), 256, 48, kind, group, points=points and kind, turned=turned)


@newer
@pytest.mark.usefixtures("decompressing")
@each("kind, turned, group, points", [*LAYOUTS.values()], ids=[*LAYOUTS])
def test_a_newer_library_decompresses(kind, turned, group, points):
    for rows in ((1,), (7,), (2, 5)):
        check(rows, 256, 48, kind, group, points=points and kind, turned=turned, taken=True)
