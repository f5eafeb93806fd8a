"""Graph.to("bf16"): what becomes bf16, what stays f32, and what comes out."""

import random

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from error_bounds import bounded, check
from onednn_graph.ops.schema import ANY
from op_calls import EXAMPLES
from random_graphs import ANCHORS, arrays_for, random_graph
from rows import each

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
IMAGES = {**CONV, "data_format": "NCX", "weights_format": "OIX"}


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def in_bf16(array):
    """Numbers of bf16, in the array's own type."""
    return array.astype(ml_dtypes.bfloat16).astype(np.float32) if array.dtype == np.float32 else array


def types(graph):
    return {t.name: t.data_type.value for op in graph.ops for t in op.outputs}


def casts(graph):
    return [op for op in graph.ops if op.kind == "TypeCast"]


def checked(graph):
    """Every op made anew, so that its types are held against its schema."""
    for op in graph.ops:
        og.Op(op.id, op.kind, op.inputs, op.outputs, name=op.name, **dict(op.attributes))
    return graph


def block():
    """Convolution, ReLU, convolution, and the sum with what came in."""
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 16, 8, 8])
    w = [graph.constant(whole(16, 16, 3, 3, seed=n), name=f"w{n}") for n in (1, 2)]
    b = graph.constant(whole(16, seed=3), name="b")
    first = graph.relu(graph.convolution(x, w[0], b, **IMAGES, name="first"), name="relu")
    second = graph.convolution(first, w[1], **IMAGES, name="second")
    graph.relu(graph.add(second, x, name="sum"), name="y")
    return graph


# --- every op, every family ------------------------------------------------------------------------------


@each("kind", sorted(EXAMPLES))
def test_every_op(kind):
    """What its schema has in bf16 becomes bf16; names, inputs and outputs stay; it runs, and is near."""
    for example in EXAMPLES[kind]:
        graph = og.Graph()
        graph.add_op(example.op())
        narrow = checked(graph.to("bf16", ports=False))
        assert not casts(narrow) or kind == "TypeCast"
        (op,) = narrow.ops
        schema = op.schema
        for port, old, new in zip(
            [*op.input_ports, *op.output_ports],
            [*graph.ops[0].inputs, *graph.ops[0].outputs],
            [*op.inputs, *op.outputs],
            strict=True,
        ):
            if new.data_type != old.data_type:
                assert (old.data_type, new.data_type) == ("f32", "bf16")
                assert port.type == ANY or "bf16" in schema.types[port.type]
        first = graph.ops[0].inputs[0] if graph.ops[0].inputs else None
        takes = (
            first is not None
            and first.data_type == "f32"
            and "bf16" in schema.types[op.input_ports[0].type]
            and op.outputs
            and kind not in ("DynamicDequantize", "Wildcard")
        )
        scalar = kind.startswith("Reduce") and np.prod(example.outputs[0]) == 1
        if takes and not scalar:
            assert op.inputs[0].data_type == "bf16", example
        ported = checked(graph.to("bf16"))
        assert [t.data_type for t in ported.inputs] == [t.data_type for t in graph.inputs]
        assert [t.data_type for t in ported.outputs] == [t.data_type for t in graph.outputs]
        assert [t.id for t in ported.outputs] == [t.id for t in graph.outputs]
        if not op.outputs or kind in ("Dropout", "Wildcard"):  # draws by the bits; is not defined
            continue
        arrays = [in_bf16(array) for array in example.arrays()]
        expected = graph.compile(backend="numpy")(*arrays).values()
        for backend in ("numpy", None):
            got = ported.compile(backend=backend)(*arrays).values()
            for have, want in zip(got, expected, strict=True):
                assert have.dtype == want.dtype
                if have.dtype == np.float32:
                    np.testing.assert_allclose(have, want, atol=0.06 * max(np.abs(want).max(initial=0), 1))


@pytest.mark.no_cover
@each("seed", range(12))
@each("kind", ANCHORS)
def test_random_graphs(kind, seed):
    """The same numbers in double precision, and in bf16 within what its roundings may do."""
    graph, y = random_graph(random.Random(seed), kind, "f32")
    graph.output(y)
    narrow = checked(graph.to("bf16", ports=False))
    arrays = arrays_for(graph, seed)
    exact = bounded_value(graph, arrays, y.id)
    value, bound = bounded(narrow, arrays)[y.id]
    np.testing.assert_allclose(value, exact, rtol=1e-13, atol=0)
    given = {t.name: arrays[t.name].astype(DTYPES[t.data_type]) for t in narrow.inputs}
    check(narrow.compile()(given)[narrow.output_names[-1]], value, bound)


DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def bounded_value(graph, arrays, number):
    graph.finalize()
    return bounded(graph, arrays)[number][0]


# --- borders, names, constants -----------------------------------------------------------------------------


def test_names_types_and_ids_at_the_border_stay():
    graph = block()
    before = str(graph)
    narrow = checked(graph.to("bf16"))
    assert str(graph) == before
    assert not narrow.finalized
    assert (narrow.input_names, narrow.output_names) == (graph.input_names, graph.output_names)
    assert [(t.id, t.data_type) for t in narrow.inputs] == [(t.id, "f32") for t in graph.inputs]
    assert [(t.id, t.data_type) for t in narrow.outputs] == [(t.id, "f32") for t in graph.outputs]
    assert [op.inputs[0].name for op in casts(narrow)] == ["x", "y.bf16"]
    assert {k: v.dtype for k, v in narrow.constants.items()} == dict.fromkeys(
        ("w1", "w2", "b"), ml_dtypes.bfloat16
    )
    assert types(narrow)["first"] == types(narrow)["sum"] == "bf16"
    data = whole(1, 16, 8, 8)
    expected = block().compile(backend="numpy")(data)["y"]
    got = narrow.compile()(data)["y"]
    assert got.dtype == np.float32
    assert np.linalg.norm(got - expected) <= 2**-7 * np.linalg.norm(expected)


def test_a_finalized_graph_will_do():
    graph = block()
    graph.finalize()
    assert types(checked(graph.to("bf16"))) == types(block().to("bf16"))


def test_ports_may_go_along():
    narrow = checked(block().to("bf16", ports=False))
    assert not casts(narrow)
    assert [t.data_type for t in (*narrow.inputs, *narrow.outputs)] == ["bf16", "bf16"]
    assert narrow.compile()(whole(1, 16, 8, 8).astype(ml_dtypes.bfloat16))["y"].dtype == ml_dtypes.bfloat16


def test_it_fuses_as_f32_does():
    """No cast, copy or host step that f32 has not, but one at each border."""
    wide, narrow = block().compile(), block().to("bf16").compile()

    def fused(model):
        steps = [s for e in model.explain().values() for s in e.steps if not s.prepared]
        assert not any(s.host for s in steps)
        return [s.fused for s in steps if s.fused]

    assert [kinds.removesuffix("+TypeCast") for kinds in fused(narrow)] == fused(wide)


def test_several_outputs_and_inner_ones():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    inner = graph.relu(x, name="inner")
    graph.output(graph.tanh(inner, name="end"), name="last")
    graph.output(inner)
    graph.output(x, name="as it is")
    graph.abs(inner, name="other")
    narrow = checked(graph.to("bf16"))
    assert narrow.output_names == graph.output_names == ("last", "inner", "as it is", "other")
    data = np.array([[1.0, 1 + 2**-12, -3], [4, -5, 6]], np.float32)
    got = narrow.compile()(data)
    assert all(a.dtype == np.float32 for a in got.values())
    np.testing.assert_array_equal(got["as it is"], data)
    np.testing.assert_array_equal(got["inner"], np.maximum(data, 0).astype(ml_dtypes.bfloat16))


def test_what_leaves_is_not_rounded_again():
    """A matmul may have f32 results of bf16 factors."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 4])
    graph.matmul(x, graph.constant(whole(4, 3)), name="y")
    narrow = checked(graph.to("bf16"))
    assert types(narrow)["y"] == "f32"
    data = np.array([[257, 1, 0, 0], [0, 0, 3, 1]], np.float32)
    rounded = data.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(narrow.compile()(data)["y"], rounded @ whole(4, 3))


def test_masks_stay_finite():
    """The smallest f32 is no number of bf16, and 0 · ∞ is none at all."""
    lowest = np.finfo(np.float32).min
    graph = og.Graph()
    x, m = graph.input("x", "f32", [2, 3]), graph.input("m", "f32", [2, 3])
    mask = graph.multiply(m, graph.constant(np.full((2, 3), lowest)))
    graph.softmax(graph.add(x, mask), axis=1, name="y")
    got = graph.to("bf16").compile()(whole(2, 3), np.array([[0, 0, 1], [1, 0, 0]], np.float32))["y"]
    assert np.isfinite(got).all()
    assert got[0, 2] == got[1, 0] == 0


def test_infinite_constants_stay_infinite():
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    graph.maximum(x, graph.constant(np.array([-np.inf, np.inf, np.nan], np.float32), name="c"), name="y")
    held = graph.to("bf16").constants["c"].astype(np.float32)
    np.testing.assert_array_equal(held, np.array([-np.inf, np.inf, np.nan], np.float32))


def test_a_constant_may_be_read_in_both_types():
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    c = graph.constant(np.full(4, 1 + 2**-12, np.float32), name="c")
    graph.output(graph.maximum(x, c, name="narrow"))
    graph.output(graph.minimum(x, c, name="wide"))
    narrow = checked(graph.to("bf16", keep=["wide"]))
    assert sorted((k, str(v.dtype)) for k, v in narrow.constants.items()) == [
        ("c", "float32"),
        ("c.bf16", "bfloat16"),
    ]
    got = narrow.compile()(np.full(4, 2.0, np.float32))
    np.testing.assert_array_equal(got["wide"], np.float32(1 + 2**-12))


# --- what stays f32 -------------------------------------------------------------------------------------------


def test_parameters_of_normalisations():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    gamma, beta = graph.constant(whole(8), name="gamma"), graph.constant(whole(8, seed=1), name="beta")
    graph.relu(graph.layer_norm(x, gamma, beta, keep_stats=False, name="n"))
    narrow = checked(graph.to("bf16"))
    assert types(narrow)["n"] == "bf16"
    assert {v.dtype for v in narrow.constants.values()} == {np.dtype(np.float32)}
    assert len(casts(narrow)) == 2


def test_scalars_beside_data():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    graph.relu(graph.multiply(x, graph.constant(np.float32(0.1), name="scale"), name="scaled"))
    narrow = checked(graph.to("bf16"))
    assert narrow.constants["scale"].dtype == np.float32
    assert types(narrow)["scaled"] == "bf16"
    assert len(casts(narrow)) == 2


def test_losses():
    graph = og.Graph()
    x, w = graph.input("x", "f32", [4, 8]), graph.constant(whole(8, 3))
    target = graph.input("target", "f32", [4, 3])
    logs = graph.log_softmax(graph.matmul(x, w, name="logits"), axis=1, name="logs")
    loss = graph.reduce_mean(graph.multiply(logs, target, name="product"), axes=[0, 1], name="loss")
    graph.multiply(loss, graph.constant(np.float32(-3)), name="scaled")
    made = types(checked(graph.to("bf16")))
    assert [made[name] for name in ("logs", "product", "loss", "scaled")] == ["f32"] * 4
    # A reduction that leaves more than one number is none of a loss.
    graph = og.Graph()
    graph.relu(graph.reduce_mean(graph.input("x", "f32", [4, 8]), axes=[1], name="means"))
    assert types(graph.to("bf16"))["means"] == "bf16"


def test_losses_that_change_their_shape_on_the_way():
    """As torch's do, which gathers along an axis and squeezes it."""
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [8, 16]), graph.input("labels", "s64", [8, 1])
    logits = graph.matmul(x, graph.constant(np.ones((16, 4), np.float32)), name="logits")
    logs = graph.log_softmax(
        graph.static_reshape(logits, shape=[8, 4], special_zero=False), axis=1, name="logs"
    )
    hits = graph.op("HostGatherElements", logs, labels, axis=1, name="hits")
    flat = graph.static_reshape(hits, shape=[8], special_zero=False, name="flat")
    turned = graph.static_transpose(
        graph.static_reshape(flat, shape=[2, 4], special_zero=False), order=[1, 0]
    )
    graph.reduce_mean(turned, axes=[0, 1], name="loss")
    made = {op.outputs[0].name: op.outputs[0].data_type for op in graph.to("bf16", ports=False).ops}
    assert [made[name] for name in ("logs", "hits", "flat", "loss")] == ["f32"] * 4
    assert made["logits"] == "bf16"


def test_positions():
    """Integers up to 2²⁴ are numbers of f32, of bf16 only up to 256."""
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 600])
    places = graph.op("HostCast", graph.input("places", "s32", [1, 600]), output_type="f32", name="as f32")
    odd = graph.op("HostSin", graph.multiply(places, graph.constant(np.float32(0.5))), name="sine")
    graph.relu(graph.add(x, odd, name="sum"), name="y")
    made = types(checked(graph.to("bf16")))
    assert (made["as f32"], made["sine"], made["sum"]) == ("f32", "f32", "bf16")
    counted = np.arange(600, dtype=np.int32)[None]
    got = graph.to("bf16").compile()(np.zeros((1, 600), np.float32), counted)["y"]
    expected = np.maximum(np.sin(counted * np.float32(0.5)), 0)
    np.testing.assert_allclose(got, expected, atol=2**-8)


def test_indices_are_untouched():
    graph = og.Graph()
    table = graph.constant(whole(10, 4), name="table")
    found = graph.op("HostGather", table, graph.input("i", "s64", [3]), axis=0, name="rows")
    graph.relu(found, name="y")
    narrow = checked(graph.to("bf16"))
    assert (types(narrow)["rows"], narrow.inputs[0].data_type) == ("bf16", "s64")
    got = narrow.compile()(np.array([1, 9, 0]))["y"]
    np.testing.assert_array_equal(got, np.maximum(whole(10, 4), 0)[[1, 9, 0]])


def test_integers_stay_integers():
    """A graph with Quantize and Dequantize has the same convolutions of integers afterwards."""
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 8, 6, 6])
    q = graph.dequantize(graph.quantize(x, scales=[0.5], zps=[0], output_type="s8"), scales=[0.5], zps=[0])
    w = graph.dequantize(graph.constant(whole(8, 8, 3, 3).astype(np.int8)), scales=[1.0], zps=[0])
    graph.relu(graph.convolution(q, w, **IMAGES, name="c"), name="y")
    narrow = checked(graph.to("bf16"))
    assert types(narrow)["c"] == "f32"
    data = whole(1, 8, 6, 6)
    np.testing.assert_array_equal(narrow.compile()(data)["y"], graph.compile()(data)["y"].astype("bfloat16"))


def test_casts_that_do_nothing_go():
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    low = graph.type_cast(graph.relu(x), output_type="bf16")
    graph.abs(graph.type_cast(low, output_type="f32"), name="y")
    assert len(casts(checked(graph.to("bf16")))) == 2


def test_other_types_are_left_alone():
    graph = og.Graph()
    x = graph.input("x", "f64", [3])
    graph.type_cast(graph.relu(x, name="wide"), output_type="f32", name="y")
    made = types(checked(graph.to("bf16")))
    assert (made["wide"], made["y"]) == ("f64", "f32")


# --- keep --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "wide"),
    [
        ([], set()),
        (["second"], {"second"}),
        ("second", {"second"}),
        (["Convolution"], {"first", "second"}),
        (["SoftMax"], set()),
        (["relu"], {"relu"}),
        (["w1"], {"first"}),
        (["x"], {"first", "sum"}),
        ({"first", "ReLU"}, {"first", "relu", "y"}),
    ],
)
def test_keep(keep, wide):
    narrow = checked(block().to("bf16", keep=keep))
    made = {name: t for name, t in types(narrow).items() if name in ("first", "relu", "second", "sum")}
    made["y"] = "bf16" if "y.bf16" in types(narrow) else "f32"
    assert {name for name, data_type in made.items() if data_type == "f32"} == wide
    data = whole(1, 16, 8, 8)
    expected = block().compile(backend="numpy")(data)["y"]
    assert np.linalg.norm(narrow.compile()(data)["y"] - expected) <= 2**-7 * np.linalg.norm(expected)


def test_all_may_be_kept():
    """Then it is a copy."""
    kept = block().to("bf16", keep=["Convolution", "ReLU", "Add"])
    assert str(kept) == str(block())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.to("f16"), og.ArgumentError, "bf16, got 'f16'; f16 has neither the range"),
        (lambda g: g.to("u8"), og.ArgumentError, r"graph.quantize_static\(feeds\) writes 8-bit integers"),
        (lambda g: g.to("bf61"), og.ArgumentError, "data_type must be one of .*did you mean 'bf16'"),
        (lambda g: g.to(16), og.ArgumentTypeError, "data_type must be one of"),
        (lambda g: g.to("bf16", keep=["frist"]), og.ArgumentError, "keep has 'frist'.*did you mean 'first'"),
        (lambda g: g.to("bf16", keep=[3]), og.ArgumentTypeError, "keep must be a name, .* got 3 in"),
        (lambda g: g.to("bf16", keep=3), og.ArgumentTypeError, "keep must be a name, a pattern"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(block())


def test_saved_and_loaded(tmp_path):
    narrow = block().to("bf16")
    narrow.save(tmp_path / "m.json", weights=True)
    loaded = og.Graph.load(tmp_path / "m.json")
    data = whole(1, 16, 8, 8)
    np.testing.assert_array_equal(loaded.compile()(data)["y"], narrow.compile()(data)["y"])
