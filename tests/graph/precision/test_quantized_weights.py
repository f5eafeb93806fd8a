"""Weights in 8 and 4 bits: integers and scales by their formulas, and graphs against their own weights in f64."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.graph.precision.weights import group_of, integers_of
from onednn_graph.ops.data_types import DataType

TYPES = {"s8": (-127, 127), "u8": (0, 255), "s4": (-7, 7), "u4": (0, 15)}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(w, *, turned=False, data_type="f32"):
    graph = og.Graph()
    k = w.shape[-1 if turned else -2]
    x = graph.input("x", data_type, [3, k])
    graph.output(graph.matmul(x, graph.constant(w, name="w"), transpose_b=turned), name="y")
    return graph


def parts_of(graph, name="w"):
    """Integers, scales and zero points of the weights of a graph, in f64."""
    held = graph.constants
    made = next(one for one in TYPES if f"{name}.{one}" in held)
    zps = held.get(f"{name}.zps")
    return [
        None if one is None else np.asarray(one).astype(np.float64)
        for one in (held[f"{name}.{made}"], held[f"{name}.scales"], zps)
    ]


def expanded(graph, axis, name="w"):
    """The weights that a graph multiplies by, by the formula."""
    q, scales, zps = parts_of(graph, name)
    times = q.shape[axis] // scales.shape[axis]
    scales = scales.repeat(times, axis)
    return (q if zps is None else q - zps.repeat(times, axis)) * scales


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("data_type", TYPES)
def test_products_are_those_with_the_weights_of_the_formula(data_type, turned):
    w = drawn(96, 40)
    graph = product(w.T.copy() if turned else w, turned=turned)
    made = graph.quantize_weights(data_type, group=32)
    real = expanded(made, 1 if turned else 0)
    real = real.T if turned else real
    low, high = TYPES[data_type]
    q, scales, _ = parts_of(made)
    assert scales.shape == ((40, 3) if turned else (3, 40))
    assert low <= q.min() < q.max() <= high
    by_column = scales.T if turned else scales
    assert (np.abs(real - w) <= 0.501 * by_column.repeat(32, 0) + 1e-9).all()  # the nearest
    x = drawn(3, 96, seed=1)
    for options in ({}, {"backend": "numpy"}):
        np.testing.assert_allclose(made.compile(**options)(x)["y"], x.astype("f8") @ real, atol=2e-5)
    assert graph.constants.keys() == {"w"}  # the graph is as it was


@given(st.data())
def test_integers_are_the_nearest(data):
    name = data.draw(st.sampled_from([*TYPES]))
    group, groups, columns = (data.draw(st.integers(1, 6)) for _ in range(3))
    numbers = st.floats(-1e3, 1e3, width=32)
    size = group * groups * columns
    w = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)), np.float32)
    axis = data.draw(st.integers(0, 1))
    shape = (group * groups, columns) if axis == 0 else (columns, group * groups)
    w = w.reshape(shape)
    made = integers_of(w, axis, group, DataType(name), DataType.f32)
    scales = made.scales.astype("f8").repeat(group, axis)
    zps = 0 if made.zps is None else made.zps.astype("f8").repeat(group, axis)
    back = (made.values.astype("f8") - zps) * scales
    # A zero point is rounded too, which may push the last step beyond the range.
    assert (np.abs(back - w) <= scales * (0.501 if made.zps is None else 1.001)).all()
    assert (back[w == 0] == 0).all()


def test_sizes_of_groups():
    assert group_of(256, None) == 256
    assert group_of(256, 512) == 256
    assert group_of(256, 64) == 64
    assert group_of(96, 64) == 48
    assert group_of(100, 32) == 25
    assert group_of(97, 32) is None
    assert group_of(2 * 97, 64) is None


def test_weights_that_no_group_divides_stay():
    graph = product(drawn(97, 8))
    with pytest.raises(
        og.ArgumentError, match=r"group 32 divides the columns of no weights, as of 'w' of shape \[97, 8\]"
    ):
        graph.quantize_weights("s4", group=32)
    assert graph.quantize_weights("s4").constants.keys() == {"w.s4", "w.scales"}
    other = graph.constant(drawn(8, 64), name="other")
    third = graph.constant(drawn(64, 8), name="third")
    graph.output(graph.matmul(graph.matmul(graph.tensor("y"), other), third), name="z")
    assert graph.quantize_weights("s4", group=32).constants.keys() == {
        "w",  # no size near 32 divides 97
        *("other.s4", "other.scales", "third.s4", "third.scales"),
    }


@pytest.mark.parametrize("size", [1e-5, 1e-4, 1.0])
def test_small_weights_in_f16_keep_their_digits(size):
    """Scales in f16 would be subnormal, and some 24 % off."""
    w = (drawn(64, 8) * size).astype(np.float16)
    graph = og.Graph()
    x = graph.input("x", "f16", [64, 64])
    graph.output(graph.matmul(x, graph.constant(w, name="w")), name="y")
    made = graph.quantize_weights("s8", group=32)
    assert made.constants["w.scales"].dtype == np.float32
    back = made.compile(backend="numpy")(np.eye(64, dtype=np.float16))["y"].astype("f8")
    step = np.abs(w.astype("f8")).max() / 127
    assert np.abs(back - w).max() <= 0.51 * step + float(np.spacing(np.abs(w).max()))


def test_weights_in_f64_are_not_meant():
    graph = og.Graph()
    x = graph.input("x", "f64", [2, 8])
    graph.output(graph.matmul(x, graph.constant(np.ones((8, 4)), name="w")), name="y")
    with pytest.raises(og.ArgumentError, match="as its second factor, of f32, bf16 or f16"):
        graph.quantize_weights("s8")


def test_what_holds_them_may_turn_them_and_others_may_read_them():
    """An embedding whose table is the last product's weights too."""
    graph, table = og.Graph(), drawn(50, 32)
    w = graph.constant(table, name="table")
    x = graph.op("HostGather", w, graph.input("rows", "s64", [4]), axis=0)
    graph.output(graph.matmul(x, graph.op("StaticTranspose", w, order=[1, 0])), name="y")
    made = graph.quantize_weights("s8", group=16)
    assert {"table", "table.s8", "table.scales"} == made.constants.keys()
    assert not [op for op in made.ops if op.kind == "StaticTranspose"]
    rows = np.array([3, 0, 49, 7])
    want = table[rows].astype("f8") @ expanded(made, 0, "table")
    np.testing.assert_allclose(made.compile()(rows)["y"], want, atol=1e-5)


def test_weights_of_several_products_are_held_once():
    graph = og.Graph()
    w = graph.constant(drawn(32, 32), name="w")
    x = graph.input("x", "f32", [2, 32])
    graph.output(graph.matmul(graph.relu(graph.matmul(x, w)), w), name="y")
    made = graph.quantize_weights("u4", group=8)
    assert sorted(made.constants) == ["w.scales", "w.u4", "w.zps"]
    assert [op.kind for op in made.ops].count("DynamicDequantize") == 1


def test_bf16_graphs_have_scales_of_bf16():
    graph = product(drawn(64, 16)).to("bf16").quantize_weights("s8", group=32)
    (scales,) = (array for name, array in graph.constants.items() if name.endswith("scales"))
    assert scales.dtype == ml_dtypes.bfloat16
    x = drawn(3, 64, seed=3)
    want = product(drawn(64, 16)).compile()(x)["y"]
    np.testing.assert_allclose(graph.compile()(x)["y"], want, atol=0.2)


@pytest.mark.parametrize("data_type", TYPES)
def test_bf16_may_come_before_or_behind(data_type):
    """Products are bf16 both times, of integers that stay; scales of f32 are rounded with the weights, once."""
    graph = product(drawn(64, 16))
    y = graph.relu(graph.outputs[0])
    graph.output(graph.matmul(y, graph.constant(drawn(16, 8, seed=5), name="head")), name="z")
    x = drawn(3, 64, seed=3)
    orders = {
        "behind": graph.quantize_weights(data_type, group=8).to("bf16"),
        "before": graph.to("bf16").quantize_weights(data_type, group=8),
    }
    for name, made in orders.items():
        products = [op for op in made.ops if op.kind == "MatMul"]
        assert [t.data_type.value for op in products for t in op.inputs] == ["bf16"] * 4, name
        held = {name: str(array.dtype) for name, array in made.constants.items() if not name.endswith("zps")}
        integers = {"s8": "int8", "u8": "uint8", "s4": "int4", "u4": "uint4"}[data_type]
        scales = {"behind": "float32", "before": "bfloat16"}[name]
        assert held == {f"{w}.{data_type}": integers for w in ("w", "head")} | {
            f"{w}.scales": scales for w in ("w", "head")
        }
        model = made.compile()
        steps = [step for told in model.explain().values() for step in told.steps if not step.prepared]
        again = [step.name for step in steps if "w." in step.name or "head" in step.name]
        assert not again, "weights are converted in each run"
        exact = np.maximum(x.astype("f8") @ expanded(made, 0), 0) @ expanded(made, 0, "head")
        np.testing.assert_allclose(model(x)["z"], exact, atol=0.02 * np.abs(exact).max())


def test_what_is_kept_stays():
    graph = product(drawn(32, 8))
    y = graph.outputs[0]
    graph.output(graph.matmul(y, graph.constant(drawn(8, 4), name="head")), name="z")
    assert "head" in graph.quantize_weights("s8", keep=["head"]).constants
    with pytest.raises(
        og.ArgumentError, match=r"no matmul with constant weights .* but for those that are kept"
    ):
        graph.quantize_weights("s8", keep=["MatMul"])


def test_a_saved_graph_holds_the_integers(tmp_path):
    graph = product(drawn(64, 30)).quantize_weights("s4", group=16)
    graph.save(tmp_path / "model.json", weights=True)
    again, x = og.Graph.load(tmp_path / "model.json"), drawn(3, 64, seed=4)
    np.testing.assert_array_equal(again.compile()(x)["y"], graph.compile()(x)["y"])


def test_mistakes():
    graph = product(drawn(32, 8))
    with pytest.raises(og.ArgumentError, match="data_type must be one of s8, u8, s4, u4, got 'bf16'"):
        graph.quantize_weights("bf16")
    with pytest.raises(
        og.ArgumentError, match="^quantize_weights: data_type must be one of s8, u8, s4, u4, got 's5'$"
    ):
        graph.quantize_weights("s5")
    assert "w.s8" in graph.quantize_weights("int8").constants
    for group in (0, -1, 1.5, "many"):
        with pytest.raises(og.ArgumentError, match="group must be None or an integer from 1 on"):
            graph.quantize_weights("s8", group=group)
    empty = og.Graph()
    empty.output(empty.relu(empty.input("x", "f32", [2])), name="y")
    with pytest.raises(og.ArgumentError, match="found no matmul with constant weights"):
        empty.quantize_weights()
    broken = drawn(32, 8)
    broken[3, 3] = np.nan
    with pytest.raises(og.ArgumentError, match="'w' has NaN or infinities.*keep"):
        product(broken).quantize_weights("s4")
