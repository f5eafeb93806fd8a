"""Which implementation a convolution or a matrix product runs on: preferences, measurements and what is remembered."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.implementations import earlier_name, is_called
from onednn_graph.backends.onednn.library.primitive import implementations
from onednn_graph.backends.onednn.plan import measured, preference
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.backends.onednn.rules.rule import Rule
from rows import each
from strategies import has_isa

pytestmark = pytest.mark.usefixtures("onednn")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "tuned"))
    return tmp_path / "tuned"


def network(channels=16, dtype="f32"):
    """A convolution over an image, a depthwise one, and a product."""
    graph = og.Graph()
    window = {
        "strides": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 1],
        "data_format": "NCX",
    }
    x = graph.input("x", dtype, [2, 3, 8, 8])
    first = graph.input("first", dtype, [channels, 3, 3, 3], property_type="constant")
    depthwise = graph.input("depthwise", dtype, [channels, 1, 3, 3], property_type="constant")
    matrix = graph.input("matrix", dtype, [8 * 8 * channels, 10], property_type="constant")
    y = graph.op("ReLU", graph.op("Convolution", x, first, weights_format="OIX", **window))
    y = graph.op(
        "ReLU", graph.op("Convolution", y, depthwise, weights_format="OIX", groups=channels, **window)
    )
    y = graph.op("StaticReshape", y, shape=[2, -1], special_zero=False)
    graph.output(graph.op("MatMul", y, matrix, name="y"))
    return graph


def feeds_of(graph):
    rng = np.random.default_rng(3)
    return {t.name: rng.integers(-2, 3, t.dims).astype(np.float32) for t in graph.inputs}


def names(model):
    return {step.implementation for one in model.explain().values() for step in one.steps if not step.host}


def exact(graph, model):
    feeds = feeds_of(graph)
    want = network().compile(backend="numpy")(feeds)["y"]
    assert np.array_equal(model(feeds)["y"], want)


def test_every_preference_names_implementations_that_a_fuzzer_has_covered():
    from onednn_graph.backends.onednn.proven import PROVEN

    for entry in preference.TABLE:
        covered = PROVEN[3, 2][entry.function]
        assert any(name.startswith(entry.implementation) for name in covered)
        assert any(name.startswith(entry.over) for name in covered)


@each(
    ("name", "earlier"),
    [
        ("brg_matmul:avx512_core", "brg:avx512_core"),
        ("brg_matmul:avx10_1_512_amx", "brg:avx512_core_amx"),
        (
            "brg_conv_bwd:avx10_1_512+brg_conv_fwd:avx10_1_512",
            "brg_fwd:avx512_core_fp16+brgconv:avx512_core_fp16",
        ),
        ("conv:any+jit:avx10_1_512_amx_fp16", "conv:any+jit:avx512_core_amx_fp16"),
        ("jit_uni_ncsp:conv+brg_conv_fwd:avx2", "jit_uni_ncsp:conv+brgconv:avx2"),
        ("brgconv_1x1:avx2", "brgconv_1x1:avx2"),
        ("brg:avx512_core", "brg:avx512_core"),
    ],
)
def test_names_of_later_versions_are_those_of_earlier_ones(name, earlier):
    """What was measured and found under one name holds under the other."""
    assert earlier_name(name) == earlier
    assert is_called(name, earlier)
    assert is_called(name, name)
    assert is_called(name, earlier.rpartition(":")[0])


def test_rules_hold_for_implementations_that_later_versions_call_otherwise():
    rule = Rule(
        name="any", implementation="brgconv:avx512_core_amx", condition="", applies=lambda _: True, seen=""
    )
    for name, barred in (("brg_conv_fwd:avx10_1_512_amx", True), ("brg_conv_fwd:avx10_1_512", False)):
        assert rule.bars(SimpleNamespace(implementation=name, kernel=name)) is barred


def test_preferred_implementations_run_and_are_exact():
    graph = network()
    model = graph.compile()
    exact(graph, model)
    if any("avx512_core" in name for name in names(model)):
        assert any(name.startswith("jit_dw") for name in names(model))
        assert not any(name.startswith("brgdmm_dw") for name in names(model))


@each(
    ("dtype", "window", "image", "taken"),
    [
        ("bf16", 3, 8, "jit_dw"),
        ("bf16", 5, 8, "brdgmm_dw"),
        ("int8", 3, 56, "jit_int8"),
        ("int8", 3, 28, "brdgmm_dw"),
    ],
)
def test_depthwise_windows_run_on_what_is_faster_for_their_type_and_size(dtype, window, image, taken):
    """And give what NumPy does."""
    graph = og.Graph()
    pads = [window // 2] * 2
    how = {"strides": [1, 1], "pads_begin": pads, "pads_end": pads, "dilations": [1, 1], "groups": 32}
    x = graph.input("x", "f32", [1, 32, image, image])
    weights = np.random.default_rng(0).integers(-2, 3, (32, 1, window, window))
    if dtype == "int8":
        data = graph.dequantize(
            graph.quantize(x, scales=[1.0], zps=[0], output_type="u8"), scales=[1.0], zps=[0]
        )
        w = graph.dequantize(graph.constant(weights.astype(np.int8)), scales=[1.0], zps=[0])
    else:
        data = graph.type_cast(x, output_type="bf16")
        w = graph.type_cast(graph.constant(weights.astype(np.float32)), output_type="bf16")
    y = graph.convolution(data, w, **how, data_format="NCX", weights_format="OIX")
    y = (
        graph.quantize(y, scales=[1.0], zps=[0], output_type="u8")
        if dtype == "int8"
        else graph.type_cast(y, output_type="f32")
    )
    graph.output(y, name="y")
    x = np.random.default_rng(1).integers(-3, 4, (1, 32, image, image)).astype(np.float32)
    model = graph.compile()
    np.testing.assert_array_equal(model(x)["y"], graph.compile(backend="numpy")(x)["y"])
    if has_isa("avx512_core_vnni" if dtype == "int8" else "avx512_core_bf16"):
        assert any(name.startswith(taken) for name in names(model)), names(model)


@each(
    ("rows", "columns", "turned", "constant", "taken"),
    [
        (512, 2304, False, False, "gemm:jit"),
        (512, 2304, False, True, "brg"),  # in a layout of the library's own
        (512, 2304, True, False, "brg"),
        (512, 2288, False, False, "brg"),
        (496, 2304, False, False, "brg"),
    ],
)
def test_products_by_long_rows_run_on_what_reads_these_faster(rows, columns, turned, constant, taken):
    """And give what NumPy does."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((8, rows), (rows, columns)))
    given = np.ascontiguousarray(w.T) if turned else w
    graph = og.Graph()
    weights = graph.constant(given) if constant else graph.input("w", "f32", given.shape)
    graph.op("MatMul", graph.input("x", "f32", x.shape), weights, transpose_b=turned, name="y")
    model = graph.compile(tune="off")
    feeds = {"x": x} if constant else {"x": x, "w": given}
    np.testing.assert_array_equal(model(feeds)["y"], x @ w)
    if has_isa("avx512_core"):
        assert all(name.startswith(taken) for name in names(model)), names(model)


def test_tuning_measures_every_implementation_once_and_programs_take_the_fastest(folder, monkeypatch):
    graph = network()
    graph.tune(0.2)
    files = sorted(folder.glob("*.json"))
    assert len(files) == 3  # two convolutions and a product
    contents = [json.loads(file.read_text()) for file in files]
    assert all(content["seconds"] and min(content["seconds"].values()) > 0 for content in contents)
    monkeypatch.setattr(measured, "measure", lambda case, seconds: pytest.fail("measured again"))
    exact(graph, graph.compile(tune="measure"))
    exact(graph, graph.compile(tune="cached"))


def test_what_was_remembered_decides(folder):
    graph = network()
    graph.tune(0.05)
    taken = {}
    for file in folder.glob("*.json"):
        content = json.loads(file.read_text())
        name = max(content["seconds"])  # one or another, whatever its time was
        content["seconds"] = dict.fromkeys(content["seconds"], 1.0) | {name: 0.5}
        file.write_text(json.dumps(content))
        taken[content["key"]["primitive"]] = name
    model = graph.compile(tune="cached")
    exact(graph, model)
    assert set(taken.values()) <= names(model)


def test_a_remembered_implementation_that_may_not_run_is_passed_over(folder, monkeypatch):
    graph = network()
    graph.tune(0.05)
    for file in folder.glob("*.json"):
        content = json.loads(file.read_text())
        content["seconds"] = {"ref:any": 1e-9}
        file.write_text(json.dumps(content))
    model = graph.compile(tune="cached")
    assert not any(name.startswith("ref") for name in names(model))
    exact(graph, model)


def test_without_tuning_nothing_is_measured_or_read(folder, monkeypatch):
    monkeypatch.setattr(measured, "remembered", lambda key: pytest.fail("read"))
    network().compile()
    assert not list(
        folder.glob("*.json")
    )  # verdicts may be kept beside them, of a library that no sweep has covered


@pytest.mark.parametrize("function", ["convolution_forward", "convolution_backward_data"])
def test_what_was_never_measured_runs_as_it_does_without_tuning(function, monkeypatch):
    """Nothing is remembered of the one, and the other is never measured."""
    graph = og.Graph()
    window = {name: [1, 1] for name in ("pads_begin", "pads_end", "dilations")}
    if function == "convolution_forward":
        kind, dtype, step = "Convolution", "f32", [1, 1]
    else:
        kind, dtype, step = "ConvolutionBackwardData", "bf16", [2, 2]
    x = graph.input("x", dtype, [2, 32, 8, 8])
    w = graph.input("w", dtype, [32, 1, 3, 3], property_type="constant")
    graph.op(kind, x, w, **window, strides=step, data_format="NCX", weights_format="OIX", groups=32, name="y")
    seen = []
    usual = measured.preferred
    monkeypatch.setattr(measured, "preferred", lambda case: seen.append(case.desc.function) or usual(case))
    assert names(graph.compile(tune="cached")) == names(graph.compile())
    assert function in seen


def test_times_depend_on_what_a_primitive_is_described_by(folder):
    network(16).tune(0.05)
    before = len(list(folder.glob("*.json")))
    network(16).tune(0.05)
    assert len(list(folder.glob("*.json"))) == before
    network(32).tune(0.05)
    assert len(list(folder.glob("*.json"))) == 2 * before


def test_integers_are_measured_with_scales_and_zero_points(folder):
    graph = og.Graph()
    x = graph.input("x", "u8", [4, 64])
    w = graph.input("w", "s8", [64, 32], property_type="constant")
    a = graph.op("Dequantize", x, scales=[0.5], zps=[3], qtype="per_tensor")
    b = graph.op("Dequantize", w, scales=[0.25] * 32, zps=[0] * 32, qtype="per_channel", axis=1)
    graph.output(
        graph.op("Quantize", graph.op("MatMul", a, b), scales=[2.0], zps=[0], qtype="per_tensor", name="y")
    )
    graph.tune(0.05)
    rng = np.random.default_rng(1)
    feeds = {
        "x": rng.integers(0, 9, (4, 64)).astype(np.uint8),
        "w": rng.integers(-2, 3, (64, 32)).astype(np.int8),
    }
    want = graph.compile(backend="numpy")(feeds)["y"]
    assert np.array_equal(graph.compile(tune="cached")(feeds)["y"], want)


def test_an_implementation_is_taken_only_if_it_may_run():
    """A wish for one that is barred, or that the library lacks, leaves the first that may run."""
    from onednn_graph.backends.onednn.library.descriptors import MatMul
    from onednn_graph.backends.onednn.library.engines import native_engine
    from onednn_graph.backends.onednn.library.memory import MemoryDesc
    from onednn_graph.backends.onednn.library.primitive import PrimitiveAttributes

    engine = native_engine(og.Engine("cpu"))
    desc = MemoryDesc.strided(engine.lib, (8, 8), og.DataType.f32, (8, 1))
    product = MatMul(src=desc, weights=desc, bias=None, dst=desc, attributes=PrimitiveAttributes(engine.lib))
    usual = Chooser(engine).find(product).desc
    first = product.described(engine)
    assert usual is not None
    assert first is not None
    every = [one.implementation for one in implementations(first)]
    for wish in (*every, "nothing of this name"):
        taken = Chooser(engine, wanted=lambda case, wish=wish: wish).find(product).desc
        assert taken is not None
        refused = wish.startswith("ref") or wish not in every
        assert taken.implementation == (usual.implementation if refused else wish)


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_with_constant_weights_is_not_verified(dtype, transposed):
    """A transformer has fifty of them: verified each, it takes minutes to compile where others need the processor."""
    if dtype == "bf16" and not has_isa("avx512_core"):
        pytest.skip("the library has no products in bf16 here")
    graph = og.Graph()
    x = graph.input("x", dtype, [4, 197, 96])
    weights = graph.input("w", dtype, [384, 96] if transposed else [96, 384], property_type="constant")
    graph.output(graph.op("GELU", graph.op("MatMul", x, weights, transpose_b=transposed)))
    model = graph.compile()
    assert names(model)
    assert not any(one.verified for one in model.explain().values())
