"""Products on integers that activations become as they come, held against the formula: sums of integers are exact."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import has_isa

F32 = np.float32
TINY = np.finfo(F32).tiny
ANYWHERE = [{}, {"backend": "numpy"}]


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def by_formula(x, w):
    """x (…, K) · w (K, N), each row and column in 127 steps of its own: sums of integers, then two factors in f32."""
    columns = np.maximum(np.abs(w).astype("f8").max(0) / 127, TINY).astype(F32)
    columns[np.abs(w).max(0) == 0] = 1
    rows = np.abs(x).max(-1, keepdims=True) * F32(1 / 127) + TINY
    sums = np.rint(x / rows).astype("i8") @ np.rint(w.astype("f8") / columns).astype("i8")
    return sums.astype(F32) * columns * rows


def product(w, shape, *, turned=False, bias=None, data_type="f32"):
    graph = og.Graph()
    x = graph.input("x", data_type, shape)
    y = graph.matmul(x, graph.constant(w.T.copy() if turned else w, name="w"), transpose_b=turned)
    graph.output(y if bias is None else graph.add(y, graph.constant(bias)), name="y")
    return graph


def check(graph, x, want, w, **limits):
    """What a graph makes of activations and weights; where f32 is summed in the place of integers, it is rounded."""
    made = graph.quantize_dynamic()
    assert made.constants["w.s8"].dtype == np.int8
    terms = np.abs(x.astype("f8")) @ np.abs(w.astype("f8"))
    for options in ANYWHERE:
        got = made.compile(**options)(x)["y"]
        off = np.abs(got.astype("f8") - want.astype("f8")) - limits.get("atol", 1e-37)
        assert (off <= limits.get("rtol", 0) * np.abs(want.astype("f8")) + 2.0**-21 * terms).all()
    return made


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(96,), (1, 96), (5, 96), (2, 3, 96), (2, 1, 3, 96)])
def test_rows_and_columns_have_steps_of_their_own(shape, turned):
    w, x = drawn(96, 40), drawn(*shape, seed=1) * F32(3.7)
    graph = product(w, shape, turned=turned)
    check(graph, x, by_formula(x, w), w)
    assert graph.constants.keys() == {"w"}  # the graph is as it was
    half_steps = np.abs(x).max(-1, keepdims=True) / 254, np.abs(w).max(0) / 254
    apart = half_steps[0] * np.abs(w).sum(0) + np.abs(x).sum(-1, keepdims=True) * half_steps[1]
    assert (
        np.abs(by_formula(x, w) - x @ w) <= 1.01 * apart.reshape(*shape[:-1], 40)
    ).all()  # and near the product


@given(st.data())
@settings(max_examples=25)
def test_any_rows(data):
    rows, inner, columns = (data.draw(st.integers(1, 9)) for _ in range(3))
    numbers = st.floats(-(2**40), 2**40, width=32)
    x, w = (
        np.array(data.draw(st.lists(numbers, min_size=a * b, max_size=a * b)), F32).reshape(a, b)
        for a, b in ((rows, inner), (inner, columns))
    )
    check(product(w, [-1, inner]), x, by_formula(x, w), w)


def test_a_bias_is_added_in_f32_and_what_follows_follows():
    w, b, x = drawn(64, 24), drawn(24, seed=2), drawn(7, 64, seed=1)
    check(product(w, [-1, 64], bias=b), x, by_formula(x, w) + b, w, atol=1e-6)
    graph = og.Graph()
    y = graph.op("MatMul", graph.input("x", "f32", [7, 64]), graph.constant(w, name="w"), graph.constant(b))
    graph.output(graph.relu(y), name="y")
    made = check(graph, x, np.maximum(by_formula(x, w) + b, 0), w, atol=1e-6)
    assert [len(op.inputs) for op in made.ops if op.kind == "MatMul"] == [2]


@pytest.mark.parametrize("data_type", ["bf16", "f16"])
def test_halves_come_and_go_as_they_are(data_type):
    kind = ml_dtypes.bfloat16 if data_type == "bf16" else np.float16
    w, b = drawn(64, 24).astype(kind), drawn(24, seed=2).astype(kind)
    x = drawn(5, 64, seed=1).astype(kind)
    want = by_formula(x.astype(F32), w.astype(F32))
    graph = product(w, [5, 64], data_type=data_type)
    check(graph, x, want.astype(kind), w, rtol=2.0**-7 if data_type == "bf16" else 2.0**-10)
    assert graph.quantize_dynamic().compile()(x)["y"].dtype == kind
    graph = og.Graph()
    y = graph.op(
        "MatMul", graph.input("x", data_type, [5, 64]), graph.constant(w, name="w"), graph.constant(b)
    )
    graph.output(y, name="y")
    check(graph, x, (want + b.astype(F32)).astype(kind), w, rtol=2.0**-6)


def test_rows_of_zeros_and_of_the_smallest_numbers():
    w, x = drawn(32, 16), drawn(6, 32, seed=1)
    x[0] = 0
    x[1] *= F32(1e-38)
    x[2] = 0
    x[2, 3] = TINY / 2
    x[3] *= F32(1e30)
    w[:, 2] = 0
    made = check(product(w, [6, 32]), x, by_formula(x, w), w, atol=2e-37)
    assert not made.compile()(x)["y"][0].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_no_number(bad):
    w, x = np.abs(drawn(32, 16)) + F32(0.1), drawn(4, 32, seed=1)
    x[2, 5] = bad
    made = product(w, [4, 32]).quantize_dynamic()
    for options in ANYWHERE:
        got = made.compile(**options)(x)["y"]
        assert not np.isfinite(got[2]).any()
        others = [0, 1, 3]
        np.testing.assert_allclose(got[others], by_formula(x[others], w), rtol=1e-5, atol=1e-5)


def layers():
    """Three products of one tensor, a table that is looked up and multiplied by, and a stack of matrices."""
    graph = og.Graph()
    ids = graph.input("ids", "s64", [5])
    table = graph.constant(drawn(50, 32), name="table")
    x = graph.op("HostGather", table, ids, axis=0)
    heads = [
        graph.matmul(x, graph.constant(drawn(32, 32, seed=n), name=f"w{n}"), name=f"h{n}") for n in range(3)
    ]
    y = graph.add(graph.add(heads[0], heads[1]), heads[2])
    stack = graph.constant(drawn(2, 32, 32, seed=9), name="stack")
    graph.output(graph.matmul(y, stack), name="many")
    graph.output(graph.matmul(y, table, transpose_b=True, name="logits"))
    return graph


def test_activations_become_integers_once_for_all_that_read_them():
    graph = layers()
    made = graph.quantize_dynamic()
    assert sum(op.kind == "Quantize" for op in made.ops) == 2  # of the rows of the table, and of the sum
    assert made.constants.keys() >= {"table", "stack", "table.s8", "w0.s8", "w1.s8", "w2.s8"}
    ids = np.array([3, 1, 4, 1, 5])
    exact, near = graph.compile()(ids), made.compile()(ids)
    for name, value in exact.items():
        np.testing.assert_allclose(near[name], value, atol=0.06 * np.abs(value).max())


def test_what_is_kept_stays():
    made = layers().quantize_dynamic(keep=["w[01]", "logits"])
    assert {name for name in made.constants if name.endswith(".s8")} == {"w2.s8"}
    with pytest.raises(og.ArgumentError, match="keep has 'nothing'"):
        layers().quantize_dynamic(keep="nothing")


def test_mistakes():
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [3, 4])), name="y")
    with pytest.raises(og.ArgumentError, match="quantize_dynamic found no matmul with constant weights"):
        graph.quantize_dynamic()
    stack = product(drawn(2, 8, 8), [2, 3, 8])
    with pytest.raises(
        og.ArgumentError, match=r"weights that are matrices.*'w' of shape \[2, 8, 8\]; take quantize"
    ):
        stack.quantize_dynamic()
    w = drawn(8, 8)
    w[1, 1] = np.inf
    with pytest.raises(og.ArgumentError, match="quantize_dynamic: 'w' has NaN or infinities"):
        product(w, [3, 8]).quantize_dynamic()
    turned = og.Graph()
    x = turned.input("x", "f32", [8, 3])
    turned.output(turned.matmul(x, turned.constant(drawn(8, 4), name="w"), transpose_a=True), name="y")
    with pytest.raises(og.ArgumentError, match="not transposed"):
        turned.quantize_dynamic()


def test_a_parameter_becomes_a_constant_and_state_goes_on():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 16])
    total = graph.parameter(np.zeros((2, 8), F32), name="total")
    y = graph.matmul(x, graph.parameter(drawn(16, 8), name="w"))
    graph.assign(total, graph.output(graph.add(y, total), name="y"))
    model = graph.quantize_dynamic().compile()
    array = drawn(2, 16, seed=1)
    once = model(array)["y"]
    np.testing.assert_allclose(model(array)["y"], 2 * once, rtol=1e-6)
    assert list(model.state) == ["total"]


def test_products_run_on_integers_where_the_cpu_has_instructions_for_them(onednn):
    del onednn
    model = product(drawn(256, 128), [16, 256]).quantize_dynamic().compile()
    steps = [step.name for told in model.explain().values() for step in told.steps if not step.prepared]
    if not has_isa("avx512_core_vnni"):
        pytest.skip("this CPU has no VNNI")
    x, w = drawn(16, 256, seed=1), drawn(256, 128)
    np.testing.assert_array_max_ulp(model(x)["y"], by_formula(x, w), 2)  # sums are exact
    assert any("matmul" in name and ("vnni" in name or "amx" in name) for name in steps), steps
    assert not any("dequantize" in name for name in steps), steps


def test_files_make_the_same(tmp_path):
    w, x = drawn(64, 24), drawn(5, 64, seed=1)
    made = product(w, [5, 64], bias=drawn(24, seed=2)).quantize_dynamic()
    want = made.compile()(x)["y"]
    made.save(tmp_path / "m.json", weights=True)
    np.testing.assert_array_equal(og.Graph.load(tmp_path / "m.json").compile()(x)["y"], want)
    pytest.importorskip("onnx", reason="files of ONNX need the extra 'onnx'")
    made.to_onnx(tmp_path / "m.onnx")
    np.testing.assert_allclose(
        og.from_onnx(tmp_path / "m.onnx").compile()(x)["y"], want, rtol=1e-5, atol=1e-5
    )
    ort = pytest.importorskip(
        "onnxruntime", reason="the oracle is onnxruntime; install the extra 'test-oracles'"
    )
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # no sums that saturate at 16 bits
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": x})
    np.testing.assert_allclose(theirs, want, rtol=1e-5, atol=1e-5)
