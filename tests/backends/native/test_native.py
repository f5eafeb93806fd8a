"""The backend `native`: the library's own Graph API, its numbers, its partitions, and what must not reach it."""

import json
import os
import re
import subprocess
import sys
import threading
from ctypes import c_int, c_size_t

import ml_dtypes
import native_cases
import numpy as np
import onednn_graph as og
import processes
import pytest
from c_headers import enumerators
from native_cases import END, START
from onednn_graph.backends.native import api, limits
from onednn_graph.backends.native import backend as native_backend
from onednn_graph.backends.native.graph import NativeGraph
from onednn_graph.backends.onednn.library import loading
from onednn_graph.backends.onednn.library.enumerators import CpuIsa
from onednn_graph.graph.compile.backend import BACKENDS
from onednn_graph.graph.runtime.tensor import allocate
from strategies import has_isa

needs_library = pytest.mark.usefixtures("onednn")
CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
POOL = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}


def integers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


# --- numbers against the C headers ----------------------------------------------------------------------


def squashed(name):
    return name.replace("_", "").lower()


def test_numbers_are_those_of_the_headers(headers):
    known = {squashed(name): value for name, value in enumerators(headers).items()}
    renamed = {"BatchNormTrainingBackward": "BatchNormBackward"}
    ours = {f"dnnl_graph_op_{renamed.get(kind, kind)}": number for kind, number in api.KINDS.items()}
    ours |= {f"dnnl_graph_op_attr_{name}": number for name, number in api.ATTRIBUTES.items()}
    ours |= {f"dnnl_graph_tensor_property_{p.value}": number for p, number in api.PROPERTIES.items()}
    ours |= {f"dnnl_fpmath_mode_{name}": number for name, number in api.FPMATH_MODES.items()}
    ours |= {
        f"dnnl_{status.replace(' ', '_')}": n
        for n, status in enumerate(loading.STATUSES)
        if status != "last implementation reached"
    }
    ours |= {
        "dnnl_graph_layout_type_any": api.LAYOUT_ANY,
        "dnnl_graph_layout_type_strided": api.LAYOUT_STRIDED,
        "dnnl_graph_partition_policy_fusion": api.POLICY_FUSION,
        "dnnl_cpu": api.ENGINE_CPU,
        "dnnl_graph_partition_policy_debug": api.POLICY_DEBUG,
        "dnnl_out_of_memory": api.OUT_OF_MEMORY,
        "dnnl_invalid_graph_op": api.INVALID_OP,
        "dnnl_graph_op_last_symbol": len(api.KINDS),
    }
    wrong = {
        name: (n, known.get(squashed(name))) for name, n in ours.items() if known.get(squashed(name)) != n
    }
    assert not wrong
    assert f"DNNL_GRAPH_UNKNOWN_NDIMS {api.UNKNOWN_NDIMS}" in headers
    assert "DNNL_GRAPH_UNKNOWN_DIM INT64_MIN" in headers
    assert np.iinfo(np.int64).min == api.UNKNOWN_DIM


INTEGER = r"(int|int32_t|size_t|dnnl_\w*(kind|mode|type|policy|attr|property)_t)\b[^*\[]*$"


def test_prototypes_are_those_of_the_headers(headers):
    for name, argtypes in api.PROTOTYPES.items():
        found = re.search(rf"\bdnnl_graph_{name}\s*\(([^;]*?)\)\s*;", headers, flags=re.DOTALL)
        assert found, name
        parameters = [p.strip() for p in found.group(1).split(",")]
        assert len(parameters) == len(argtypes), name
        for declared, ours in zip(parameters, argtypes, strict=True):
            assert bool(re.match(INTEGER, declared)) == (ours in (c_int, c_size_t)), (name, declared)


# --- what it computes -----------------------------------------------------------------------------------

X, W = integers(2, 6, 5, 4), integers(3, 3, 4, 8)
EXACT = {
    "convolution": lambda b: og.convolution(X, W, integers(8), backend=b, **CONV),
    "convolution in bf16": lambda b: og.convolution(
        X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16), backend=b, **CONV
    ),
    "gradient of data": lambda b: og.convolution_backward_data(
        integers(2, 6, 5, 8), W, dst_shape=[2, 6, 5, 4], backend=b, **CONV
    ),
    "gradient of weights": lambda b: og.convolution_backward_weights(
        X, integers(2, 6, 5, 8), weights_shape=[3, 3, 4, 8], backend=b, **CONV
    ),
    "gradient of weights, shape as an array": lambda b: og.convolution_backward_weights(
        X, integers(2, 6, 5, 8), np.array([3, 3, 4, 8], np.int32), backend=b, **CONV
    ),
    "transposed convolution": lambda b: og.conv_transpose(X, integers(3, 3, 8, 4), backend=b, **CONV),
    "gradient of transposed weights": lambda b: og.conv_transpose_backward_weights(
        X, integers(2, 6, 5, 8), weights_shape=[3, 3, 8, 4], backend=b, **CONV
    ),
    "1-D": lambda b: og.convolution(
        integers(2, 9, 4),
        integers(3, 4, 8),
        strides=[2],
        pads_begin=[],
        pads_end=[],
        dilations=[2],
        backend=b,
    ),
    "product": lambda b: og.matmul(integers(2, 3, 4), integers(4, 5), integers(5), backend=b),
    "product of turned matrices": lambda b: og.matmul(integers(4, 3).T, integers(5, 4).T, backend=b),
    "largest": lambda b: og.max_pool(X, backend=b, **POOL),
    "mean": lambda b: og.avg_pool(X, exclude_pad=True, backend=b, **POOL),
    "sum": lambda b: og.add(X, integers(5, 1), backend=b),
    "relu": lambda b: og.relu(X, backend=b),
    "bias": lambda b: og.bias_add(X, integers(4), backend=b),
    "joined": lambda b: og.concat(X, X, axis=1, backend=b),
    "reduced": lambda b: og.reduce_sum(X, axes=[1, 2], backend=b),
    "reordered": lambda b: og.reorder(X.transpose(0, 3, 1, 2), backend=b),
    "enlarged": lambda b: og.interpolate(X, mode="nearest", sizes=[12, 10], backend=b),
    "quantized": lambda b: og.quantize(X, scales=[0.5], zps=[3], backend=b),
    "quantized without zero points": lambda b: og.quantize(
        X, scales=[0.5, 1, 2, 1], qtype="per_channel", axis=-1, backend=b
    ),
    "gradient of a pooling": lambda b: og.max_pool_backward(
        np.random.default_rng(0).permutation(96).reshape(1, 6, 4, 4).astype("f4"),
        integers(1, 3, 2, 4),
        backend=b,
        **POOL,
    ),
    "gradient of data without its shape": lambda b: og.convolution_backward_data(
        integers(2, 6, 5, 8), W, backend=b, **CONV
    ),
    "dequantized": lambda b: og.dequantize(integers(2, 3, dtype=np.int8), scales=[0.5], zps=[1], backend=b),
    "no letters in its pads": lambda b: og.max_pool(
        X, **POOL | {"pads_begin": [], "pads_end": []}, backend=b
    ),
}


@needs_library
@pytest.mark.parametrize("what", EXACT)
def test_exact_on_integers(what):
    if "bf16" in what and not limits.has_arithmetic(og.DataType.bf16):
        with pytest.raises(og.UnsupportedError, match="is in bf16, .*aborts the process"):
            EXACT[what]("native")
        return
    got, want = EXACT[what]("native"), EXACT[what]("numpy")
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@needs_library
def test_arrays_as_they_lie():
    """Strided inputs and outputs, and a bound call."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 6, 5, 4], strides=[1000, 100, 10, 2])
    graph.op("Abs", x, name="y")
    graph.finalize()
    (partition,) = graph.get_partitions(backend="native")
    (port,) = partition.output_ports
    turned = og.LogicalTensor(port.id, "f32", port.shape, strides=[1, 2, 12, 60])
    compiled = partition.compile(None, [turned])
    source, target = allocate(compiled.inputs[0]), allocate(turned)
    source[...] = X
    compiled.execute(None, [source], [target])
    np.testing.assert_array_equal(target, np.abs(X))
    call = compiled.bind([source], [target])
    source[...] = 7
    call()
    np.testing.assert_array_equal(target, np.full_like(X, 7))
    (any_layout,) = partition.compile(None, [og.LogicalTensor(port.id, "f32", layout_type="any")]).outputs
    assert any_layout.layout_type == "strided"
    engine = og.Engine()
    closed = partition.compile(None, [turned], engine).bind([source], [target])
    engine.close()
    with pytest.raises(og.errors.ResourceError, match="closed"):
        closed()


def block(policy="fusion", **options):
    """Convolution, ReLU, pooling and a softmax, of which the library makes three partitions."""
    graph = og.Graph()
    x, w = (
        graph.input("x", "f32", [2, 6, 6, 4]),
        graph.input("w", "f32", [3, 3, 4, 8], property_type="constant"),
    )
    y = graph.op("ReLU", graph.op("Convolution", x, w, name="conv", **CONV), name="relu")
    graph.op(
        "MaxPool",
        graph.op("Abs", graph.op("MaxPool", y, name="pool", **POOL)),
        name="y",
        **POOL | {"kernel": [3, 3], "strides": [1, 1]},
    )
    return graph, graph.compile(policy=policy, **options)


@needs_library
def test_constants_may_change():
    """The library is not told that they are constant, and must not keep what it made of them."""
    _, model = block(backend="native")
    _, reference = block(backend="numpy")
    for seed in range(3):
        arrays = {"x": integers(2, 6, 6, 4, seed=seed), "w": integers(3, 3, 4, 8, seed=seed)}
        np.testing.assert_array_equal(model(arrays)["y"], reference(arrays)["y"])
        arrays["w"][...] += 1
        np.testing.assert_array_equal(model(arrays)["y"], reference(arrays)["y"])


@needs_library
@pytest.mark.parametrize("free", [None, True, False])
def test_a_whole_graph_at_once(free):
    """Several partitions, tensors between them in layouts of the library's choice or row-major."""
    graph, reference = block(backend="numpy")
    arrays = {"x": integers(2, 6, 6, 4), "w": integers(3, 3, 4, 8)}
    want = reference(arrays)["y"]
    compiled = NativeGraph.of(graph, free_layouts=free)
    assert len(compiled.partitions) > 1
    assert compiled.free_layouts is (free is not False)
    out = np.zeros_like(want)
    call = compiled.bind({t.id: arrays[t.name] for t in graph.inputs}, {graph.outputs[0].id: out})
    for _ in range(2):
        out[...] = 0
        call()
        np.testing.assert_array_equal(out, want)


@needs_library
def test_threads_and_a_forked_child():
    _, model = block(backend="native")
    arrays = {"x": integers(2, 6, 6, 4), "w": integers(3, 3, 4, 8)}
    want = model(arrays)["y"]
    wrong = []

    def work():
        wrong.extend(1 for _ in range(50) if not np.array_equal(model(arrays)["y"], want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    script = """
import os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from test_native import *
_, model = block(backend="native")
arrays = {"x": integers(2, 6, 6, 4), "w": integers(3, 3, 4, 8)}
want = model(arrays)["y"]
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(model(arrays)["y"], want) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    folders = os.pathsep.join(sys.path)
    done = processes.run(["-c", script, folders], env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr


@needs_library
def test_sizes_known_at_execution():
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 6, 6, 4])
    w = graph.input("w", "f32", [3, 3, 4, 8])
    graph.op("ReLU", graph.op("Convolution", x, w, **CONV), name="y")
    model = graph.compile(backend="native")
    assert [p.label for p in model.partitions] == ["Convolution+ReLU"]
    for batch in (1, 3):
        arrays = {"x": integers(batch, 6, 6, 4), "w": integers(3, 3, 4, 8)}
        want = og.relu(og.convolution(arrays["x"], arrays["w"], backend="numpy", **CONV), backend="numpy")
        np.testing.assert_array_equal(model(arrays)["y"], want)
    unknown = og.Graph()
    unknown.op("Abs", unknown.input("x", "f32"), name="y")
    np.testing.assert_array_equal(unknown.compile(backend="native")({"x": X})["y"], np.abs(X))


# --- partitions -----------------------------------------------------------------------------------------


@needs_library
def test_partitions_are_the_librarys():
    _, fused = block(backend="native")
    assert [p.label for p in fused.partitions] == ["Convolution+ReLU", "MaxPool", "Abs", "MaxPool"]
    assert {p.backend for p in fused.partitions} == {"native"}
    assert fused.partitions[0].why_not == {}
    explanation = fused.explain()[0]
    assert (explanation.backend, explanation.implementations) == ("native", ("native:Convolution+ReLU",))
    assert "native oneDNN Graph's choice" in str(explanation)
    _, single = block("debug", backend="native")
    assert [p.label for p in single.partitions] == ["Convolution", "ReLU", "MaxPool", "Abs", "MaxPool"]


@needs_library
def test_only_where_it_is_asked_for():
    assert list(og.list_backends())[-1] == "native"
    assert og.list_backends()["native"] is None
    assert "native" not in {backend.name for backend in BACKENDS.candidates()}
    _, model = block()
    assert "native" not in {p.backend for p in model.partitions}
    assert all("native" not in p.why_not for p in model.partitions)


@needs_library
def test_outputs_that_are_read_inside():
    """The library keeps what nobody marks; marked tensors come out, and End runs as nothing."""
    for marked in ("output", "End"):
        graph = og.Graph()
        y = graph.op("MatMul", graph.input("a", "f32", [2, 4]), graph.input("b", "f32", [4, 3]), name="y")
        graph.output(y) if marked == "output" else graph.op("End", y)
        graph.op("ReLU", y, name="z")
        model = graph.compile(backend="native")
        a, b = integers(2, 4), integers(4, 3)
        results = model({"a": a, "b": b})
        np.testing.assert_array_equal(results["y"], a @ b)
        np.testing.assert_array_equal(results["z"], np.maximum(a @ b, 0))
        end = [p for p in model.partitions if p.label == "End"]
        assert len(end) == (marked == "End")
        for partition in end:
            compiled = partition.compile()
            assert compiled.execute(None, [a @ b]) == ()
            compiled.bind([a @ b], [])()
            assert compiled.explain().only.implementations == ()


@needs_library
def test_debug_does_not_spoil_fusion():
    """What the library leaves alone under one policy it may take under the other."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [2, 4]), graph.input("y", "f32", [4, 3])
    graph.op("Reciprocal", graph.op("MatMul", x, y), name="z")
    graph.finalize()

    def labels(policy):
        try:
            return [p.label for p in graph.get_partitions(policy, backend="native")]
        except og.UnsupportedError as error:
            return str(error)

    first = labels("fusion")
    labels("debug")
    assert labels("fusion") == first


@needs_library
def test_verify():
    graph, model = block(backend="native", verify=True)
    assert all(explanation.verified for explanation in model.explain().values())
    graph = og.Graph()
    y = graph.op("MaxPool", graph.input("x", "f32", [2, 8, 8, 16]), **POOL)
    graph.op("Add", y, graph.input("o", "f32", [2, 4, 4, 16]), name="y")
    graph.finalize()
    (partition,) = graph.get_partitions(backend="native")
    partition.compile()  # native is native
    with pytest.raises(og.UnsupportedError, match=r"failed verification, .* elements .* are wrong"):
        partition.compile(verify=True)


@needs_library
def test_profiles():
    _, model = block(backend="native")
    arrays = {"x": integers(2, 6, 6, 4), "w": integers(3, 3, 4, 8)}
    with og.profile() as prof:
        model(arrays)
    assert [line.label for line in prof.partitions] == [p.label for p in model.partitions]
    assert {line.implementation for line in prof.steps} == {"native oneDNN Graph"}


# --- what must not reach it -----------------------------------------------------------------------------


def one(kind, *shapes, dtype="f32", lying=None, **attributes):
    graph = og.Graph()
    steps = lying or [None] * len(shapes)
    inputs = [
        graph.input(f"x{i}", dtype, s, strides=st)
        for i, (s, st) in enumerate(zip(shapes, steps, strict=True))
    ]
    graph.op(kind, *inputs, **attributes)
    graph.compile(backend="native")


GROUPED = {"groups": 2, "data_format": "NCX", "weights_format": "IOX", **CONV}
BARRED = [
    (
        "has no op GroupNorm",
        lambda: one("GroupNorm", [2, 4, 4], groups=2, use_affine=False, keep_stats=False),
    ),
    ("computes no f64", lambda: one("Abs", [2, 3], dtype="f64")),
    ("is empty", lambda: one("Abs", [0, 3])),
    ("more than 12 axes", lambda: one("Abs", [1] * 13)),
    ("strides that overlap", lambda: one("Abs", [4, 4], lying=[(1, 1)])),
    ("leaves Pow unsupported", lambda: one("Pow", [2, 3], beta=2.0)),
    ("leaves Wildcard unsupported", lambda: wildcard()),
    ("does not know mode", lambda: one("GELU", [2, 3], mode="gelu_tanh")),
    ("begin_norm_axis is 1", lambda: one("LayerNorm", [2, 3, 4], [12], [12], begin_norm_axis=1)),
    ("use_affine=False", lambda: one("LayerNorm", [2, 3, 4], keep_stats=False)),
    (
        "strides with gaps",
        lambda: one("LayerNorm", [2, 3, 4], lying=[(100, 10, 2)], keep_stats=False, use_affine=False),
    ),
    ("nothing to reduce", lambda: one("ReduceSum", [1, 8], axes=[0])),
    ("a vector with a bias", lambda: one("MatMul", [3, 4], [4], [3])),
    (
        "slope of more than one axis",
        lambda: one(
            "PReLUBackward",
            [2, 3, 4, 5],
            [3, 1, 5],
            [2, 3, 4, 5],
            data_format="NCX",
            lying=[(1, 2, 6, 24), None, None],
        ),
    ),
    ("weights of 2 groups", lambda: one("ConvTranspose", [2, 4, 5, 5], [2, 6, 3, 3], **GROUPED)),
    ("weights of 2 groups", lambda: one("ConvTransposeBackwardData", [2, 6, 5, 5], [2, 6, 3, 3], **GROUPED)),
    (
        "weights of 2 groups",
        lambda: one(
            "ConvTransposeBackwardWeights", [2, 4, 5, 5], [2, 6, 5, 5], weights_shape=[2, 6, 3, 3], **GROUPED
        ),
    ),
    (
        "each dilation",
        lambda: one("ConvTransposeBackwardData", [2, 9, 9, 6], [3, 3, 6, 4], **CONV | {"dilations": [2, 2]}),
    ),
    ("never reads 'weights_shape'", lambda: with_operand()),
    ("zero points per channel", lambda: dynamic()),
]


def wildcard():
    graph = og.Graph()
    graph.add_op(og.Op(0, "Wildcard", [og.LogicalTensor(0, "f32", [2])], [og.LogicalTensor(1, "f32", [2])]))
    graph.compile(backend="native")


def with_operand():
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [2, 6, 5, 4]), graph.input("dy", "f32", [2, 6, 5, 8])
    graph.op("ConvolutionBackwardWeights", x, dy, graph.input("shape", "s32", [4]), **CONV)
    graph.compile(backend="native")


def dynamic():
    graph = og.Graph()
    x, scales = graph.input("x", "f32", [2, 3]), graph.input("scales", "f32", [3])
    graph.op("DynamicQuantize", x, scales, graph.input("zps", "s8", [3]), qtype="per_channel")
    graph.compile(backend="native")


@needs_library
@pytest.mark.parametrize(("says", "build"), BARRED, ids=[says for says, _ in BARRED])
def test_barred(says, build):
    with pytest.raises(
        og.UnsupportedError, match=f"'native' was forced.*{re.escape(says)}.*leave backend out"
    ):
        build()


@needs_library
def test_a_mode_that_it_lacks():
    graph = og.Graph(fpmath_mode="tf32")
    graph.op("Abs", graph.input("x", "f32", [2, 3]))
    with pytest.raises(og.UnsupportedError, match="no fpmath mode tf32"):
        graph.compile(backend="native")


@needs_library
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_needs_a_cpu_that_has_it(dtype, monkeypatch):
    """The rule is tried as on an older CPU too; what only moves data is taken everywhere."""
    if limits.has_arithmetic(og.DataType(dtype)):
        monkeypatch.setitem(limits.HALVES, og.DataType(dtype), (CpuIsa.avx512_core_amx_fp16,))
    with pytest.raises(og.UnsupportedError, match=f"is in {dtype}, .*aborts the process"):
        one("ReLU", [2, 3], dtype=dtype)
    if dtype == "bf16" and not has_isa("avx512_core"):
        return  # it has no conversion either, and refuses the graph
    half = integers(2, 3, dtype={"f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype])
    got = og.type_cast(half, output_type="f32", backend="native")
    np.testing.assert_array_equal(got, half.astype(np.float32))


@needs_library
def test_a_fusion_that_would_abort_is_split():
    graph = og.Graph()
    y = graph.op("MatMul", graph.input("a", "f32", [2, 3, 4]), graph.input("b", "f32", [4]))
    graph.op("BiasAdd", y, graph.input("c", "f32", [3]), name="y")
    model = graph.compile(backend="native")
    assert [p.label for p in model.partitions] == ["MatMul", "BiasAdd"]
    a, b, c = integers(2, 3, 4), integers(4), integers(3)
    np.testing.assert_array_equal(model({"a": a, "b": b, "c": c})["y"], a @ b + c)
    with pytest.raises(og.UnsupportedError, match="goes along with a product of a vector"):
        NativeGraph.of(graph)


@needs_library
def test_types_that_its_rules_do_not_allow(monkeypatch):
    monkeypatch.setattr(
        limits, "HALVES", {}
    )  # an older CPU's rule would come first; this op is never compiled
    graph = og.Graph()
    a, b = graph.input("a", "bf16", [2, 4]), graph.input("b", "bf16", [4, 3])
    graph.op("MatMul", a, b, output_type="f32")
    with pytest.raises(og.UnsupportedError, match="'invalid graph op' for MatMul.*whose types or attributes"):
        graph.compile(backend="native")


def test_without_the_library(monkeypatch):
    def missing():
        raise og.errors.LibraryError("it is not here")

    monkeypatch.setattr(native_backend, "load", missing)
    assert og.list_backends()["native"] == "it is not here"
    with pytest.raises(og.UnsupportedError, match="'native' was forced.*it is not here"):
        one("Abs", [2, 3])


@needs_library
def test_failures_of_the_library(monkeypatch):
    graph, _ = block(backend="numpy")
    frame = NativeGraph.of(graph).frame()
    frame._execute = lambda *args: 5
    with pytest.raises(og.errors.LibraryError, match="failed to execute with 'runtime error'"):
        frame()
    with pytest.raises(og.errors.LibraryError, match="failed to execute with 'runtime error'"):
        frame.run_each(lambda label, execute: execute())
    real = api.functions()
    for status, error, says in (
        (1, og.errors.OutOfMemoryError, "out of memory"),
        (3, og.UnsupportedError, "unimplemented"),
    ):
        monkeypatch.setattr(api, "functions", lambda s=status: {**real, "partition_compile": lambda *args: s})
        with pytest.raises(error, match=f"partition_compile failed with '{says}'"):
            NativeGraph.of(graph)
    assert api.status_name(99) == "status 99"


# --- everything, in a process of its own -----------------------------------------------------------------

WRONG = re.compile(
    r"(BatchNormForwardTraining|BatchNormTrainingBackward 1|LayerNorm|LogSoftmax|Quantize 1|"
    r"random (AvgPool|MaxPool|Interpolate|MatMul|ConvTranspose|GELU|BatchNormInference))"
)
"""What native gets wrong among these, by its criteria or because results are NaN."""
STEP = 7


@needs_library
@pytest.mark.long
def test_nothing_crashes():
    """Many small graphs in one child process: none may end it, and most are right."""
    command = [sys.executable, native_cases.__file__, "0", "1000000", str(STEP)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = child.stdout.splitlines()
    started = [line.removeprefix(START) for line in lines if line.startswith(START)]
    ended = [json.loads(line.removeprefix(END)) for line in lines if line.startswith(END)]
    assert child.returncode == 0, f"{started[-1]} ended with {child.returncode}: {child.stderr[-500:]}"
    outcomes = {label: outcome for _, label, outcome in ended}
    assert len(outcomes) == len(started) > 200
    assert not [label for label, outcome in outcomes.items() if outcome.startswith("crash")]
    wrong = [
        f"{label}: {o}" for label, o in outcomes.items() if o.startswith("wrong") and not WRONG.match(label)
    ]
    assert not wrong
    assert sum(outcome == "right" for outcome in outcomes.values()) > len(outcomes) / 3
