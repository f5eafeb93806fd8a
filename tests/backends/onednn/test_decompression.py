"""Products by integers in groups with a scale each: exact on integers, whichever way the library takes them."""

import itertools

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering import decompression
from onednn_graph.backends.onednn.plan import measured_forms
from onednn_graph.backends.onednn.plan.measured_forms import Form
from rows import each
from strategies import has_isa

pytestmark = pytest.mark.usefixtures("onednn")

TYPES = {
    "s8": (np.int8, -128, 127),
    "u8": (np.uint8, 0, 255),
    "s4": (ml_dtypes.int4, -8, 7),
    "u4": (ml_dtypes.uint4, 0, 15),
}
TAKEN = "matmul that decompresses"
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
    feeds = {"x": x.astype(HALVES.get(data_type, np.float32))}

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
        w = graph.type_cast(w, output_type="bf16")
    given_x = graph.input("x", data_type, x.shape)
    y = graph.matmul(given_x, w, transpose_b=turned)
    want = x.astype(np.float64) @ real
    if bias:
        b = rng.integers(-9, 10, n).astype(np.float32)
        y, want = graph.add(y, graph.constant(b, name="b")), want + b
    if relu:
        y, want = graph.relu(y), np.maximum(want, 0)
    graph.output(y, name="y")
    return graph, feeds, want


HALVES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
TYPE_OF = {"int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4", "float32": "f32", "bfloat16": "bf16"}


def check(*args, taken=None, tune="off", **how):
    """Holds a product against f64; and where that is said, which way it goes."""
    graph, feeds, want = made(*args, **how)
    model = graph.compile(tune=tune)
    got = np.asarray(model(feeds)["y"]).astype(np.float64)
    if "data_type" in how:
        np.testing.assert_allclose(got, want, atol=2**-7 * np.abs(want).max())
    else:
        np.testing.assert_array_equal(got, want)
    told = " ".join(map(str, model.explain().values()))
    if taken is not None:
        assert (TAKEN in told) is taken, told
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


SHAPES = {
    "one row": ((1,), 512, 96, 32),
    "many rows": ((512,), 128, 64, 64),
    "odd columns": ((5,), 96, 33, 32),
    "odd rows and columns": ((5,), 99, 31, 33),
    "few columns": ((3,), 64, 2, 16),
    "groups of one": ((3,), 12, 20, 1),
    "three axes": ((2, 3), 128, 40, 32),
    "four axes": ((2, 1, 3), 128, 40, 64),
    "one batch": ((1, 1), 160, 40, 80),
    "a vector": ((), 128, 40, 32),
    "one column": ((4,), 64, 1, 32),
    "long sums": ((1,), 4096, 24, 128),
}


@each("rows, k, n, group", [*SHAPES.values()], ids=[*SHAPES])
@each("kind", list(TYPES))
@each("bias, relu", [(False, False), (True, True)], ids=["alone", "bias and relu"])
def test_shapes_and_what_goes_along(rows, k, n, group, kind, bias, relu):
    links = {} if rows == () else {"bias": bias, "relu": relu}  # of a vector nothing goes along
    points = kind if bias else None
    check(rows, k, n, kind, group, points=points, turned=relu, **links)


@each("points", ["s8", "u8", "s4", "u4"])
@each("kind", list(TYPES))
def test_zero_points_of_another_type(kind, points):
    check((3,), 64, 24, kind, 32, points=points)


@each("scale_type", [ml_dtypes.bfloat16, np.float16], ids=["bf16", "f16"])
def test_scales_of_halves(scale_type):
    kind = "bf16" if scale_type is ml_dtypes.bfloat16 else "f16"
    check((3,), 64, 24, "s4", 32, data_type=kind, scale_type=scale_type)


@each("scale_type", [ml_dtypes.bfloat16, np.float32], ids=["scales of bf16", "scales of f32"])
@each("kind", list(TYPES))
def test_activations_in_bf16(kind, scale_type):
    check((3,), 64, 24, kind, 32, data_type="bf16", scale_type=scale_type)


@each("kind", list(TYPES))
@each("turned", [False, True], ids=["ab", "ba"])
def test_weights_that_are_no_constants(kind, turned):
    model = check((3,), 64, 24, kind, 32, points=kind, turned=turned, held=False)
    assert not any(one.prepared for one in model.explain().values())


def test_groups_that_do_not_divide_are_an_error():
    graph = og.Graph()
    q = graph.constant(np.ones((100, 8), np.int8), name="q")
    scales = graph.constant(np.ones((3, 8), np.float32), name="scales")
    with pytest.raises(og.errors.ShapeError, match="must fit qtype 'per_group' for shape"):
        graph.op("DynamicDequantize", q, scales, qtype="per_group", group_shape=[32, 1])


def test_what_nothing_decompresses_is_expanded_once_and_said():
    model = made((3,), 64, 24, "s4", 32)[0].compile()
    told = " ".join(map(str, model.explain().values()))
    if TAKEN in told:
        assert "DynamicDequantize" not in told  # it is no step
        return
    assert "DynamicDequantize (numpy)" in told  # what is prepared
    assert "no product that takes such weights as they are" in told or "which are expanded instead" in told


@newer
@pytest.mark.usefixtures("decompressing")
def test_what_is_kept_of_the_weights_is_a_quarter():
    (told,) = made((1,), 1024, 512, "s8", 128)[0].compile().explain().values()
    assert told.prepared_bytes < 1.1 * (1024 * 512 + 8 * 512 * 4)


def prefer(monkeypatch, form):
    """From now on this form counts as the fastest of all."""

    def fastest(engine, rivals, options):
        assert set(rivals) >= {Form.bytes, Form.real}
        return form

    monkeypatch.setattr(decompression, "fastest_form", fastest)


@newer
@pytest.mark.usefixtures("decompressing")
@pytest.mark.parametrize("form", Form)
@each("turned", [False, True], ids=["ab", "ba"])
@each("kind", ["s4", "u4"])
@each("k, n, group", [(96, 24, 32), (96, 33, 32), (99, 24, 0)])
def test_each_form_of_weights_of_4_bits_is_exact(monkeypatch, form, turned, kind, k, n, group):
    prefer(monkeypatch, form)
    taken = form is not Form.real
    model = check((5,), k, n, kind, group, points=kind, turned=turned, taken=taken, tune="measure")
    told = " ".join(map(str, model.explain().values()))
    assert (f"decompresses {kind} weights in" in told) is (form is Form.halves)


@newer
@pytest.mark.usefixtures("decompressing")
def test_measured_times_are_remembered(monkeypatch):
    measured = []
    monkeypatch.setattr(measured_forms, "remember", lambda key, times: measured.append(times))
    check((5,), 96, 24, "s4", 32, tune="measure")
    assert set(measured[0]) == {form.value for form in Form}
    assert all(one > 0 for one in measured[0].values())
