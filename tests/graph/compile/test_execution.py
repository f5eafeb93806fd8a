"""Executing compiled partitions and graphs: repeatedly, from threads, after fork, into the user's arrays."""

import gc
import multiprocessing
import sys
import threading

import ml_dtypes
import numpy as np
import onednn_graph as og
import psutil
import pytest
from oracle import Problem
from strategies import BACKENDS, check, described, has_isa

PROBLEM = Problem(channels=(16, 32), size=(9, 8), kernel=(3, 3), begin=(1, 1), end=(1, 1))


def partition_of(problem, backend=None, **more):
    src, diff_dst = problem.arrays()
    graph = og.Graph()
    x = og.LogicalTensor(0, problem.dtype, src.shape)
    dy = og.LogicalTensor(1, problem.dtype, diff_dst.shape)
    dw = og.LogicalTensor(2, problem.dtype, **more)
    graph.add_op(
        og.Op(0, problem.kind, [x, dy], [dw], weights_shape=problem.weights_shape, **problem.attributes)
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    return partition


def compiled_for(problem, backend=None, engine=None):
    return partition_of(problem, backend).compile(engine=engine)


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
def test_ten_thousand_executions_keep_no_memory(backend):
    problem = Problem(channels=(3, 4), size=(6, 6))
    compiled = compiled_for(problem, backend)
    arrays = problem.arrays()
    out = np.empty(problem.weights_shape, np.float32)
    stream = og.Stream(compiled.engine)
    bound = compiled.bind(arrays, [out])

    def some(count):
        for _ in range(count):
            compiled.execute(stream, arrays)
            compiled.execute(stream, arrays, [out])
            bound()
        gc.collect()

    # Other things may make memory grow once; a leak of 30 bytes a call shows in every round.
    process = psutil.Process()
    some(500)
    bytes_grown, objects_grown = [], []
    for _ in range(3):
        before, objects = process.memory_info().rss, len(gc.get_objects())
        some(10_000 // 3 + 1)
        bytes_grown.append(process.memory_info().rss - before)
        objects_grown.append(len(gc.get_objects()) - objects)
        if bytes_grown[-1] < 300_000 and objects_grown[-1] < 100:
            break
    assert min(bytes_grown) < 300_000
    assert min(objects_grown) < 100
    check(problem, out)


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiling_again_and_again_keeps_no_memory(backend):
    problem = Problem(channels=(3, 4), size=(6, 6))
    process = psutil.Process()

    def some(count):
        for _ in range(count):
            with og.Engine() as engine:
                compiled_for(problem, backend, engine).execute(None, problem.arrays())
        gc.collect()

    some(50)
    bytes_grown = []
    for _ in range(3):
        before = process.memory_info().rss
        some(100)
        bytes_grown.append(process.memory_info().rss - before)
        if bytes_grown[-1] < 300_000:
            break
    assert min(bytes_grown) < 300_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_threads_on_one_compiled_partition(backend):
    problems = [Problem(channels=(16, 32), size=(9, 8), seed=seed) for seed in range(8)]
    compiled = compiled_for(problems[0], backend)
    ready = threading.Barrier(8)
    failures = []

    def work(problem):
        try:
            arrays, expected = problem.arrays(), problem.expected(fast=True)
            out = np.empty(problem.weights_shape, np.float32)
            bound = compiled.bind(arrays, [out])
            ready.wait(30)
            for _ in range(50):
                (result,) = compiled.execute(None, arrays)
                np.testing.assert_array_equal(result, expected)
                out[...] = -1
                bound()
                np.testing.assert_array_equal(out, expected)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(problem,)) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_eight_threads_compile_eagerly_at_once():
    problems = [Problem(channels=(c, 5), size=(7, 6), seed=c) for c in range(1, 9)]
    results = {}

    def work(problem):
        src, diff_dst = problem.arrays()
        for _ in range(5):
            results[problem] = og.convolution_backward_weights(
                src, diff_dst, weights_shape=problem.weights_shape, **problem.attributes
            )

    threads = [threading.Thread(target=work, args=(problem,)) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 8
    for problem, result in results.items():
        check(problem, result)


def _in_child(queue, compiled, bound, arrays, out):
    (first,) = compiled.execute(None, arrays)
    out[...] = 0
    bound()
    fresh = compiled_for(PROBLEM)
    (second,) = fresh.execute(None, arrays)
    queue.put((first, out.copy(), second))


@pytest.mark.skipif(
    not hasattr(sys, "getwindowsversion") and sys.platform != "linux", reason="fork is Linux's"
)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_computes_too():
    """GNU OpenMP's threads do not survive a fork; the child must neither hang nor give other numbers."""
    compiled = compiled_for(PROBLEM)
    arrays = PROBLEM.arrays()
    out = np.empty(PROBLEM.weights_shape, np.float32)
    bound = compiled.bind(arrays, [out])
    bound()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue, compiled, bound, arrays, out))
    child.start()
    try:
        results = queue.get(timeout=60)
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
    for result in results:
        check(PROBLEM, result, fast=True)
    check(PROBLEM, compiled.execute(None, arrays)[0], fast=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_tensor_as_both_inputs(backend):
    """A pointwise convolution whose output gradient is its input: dW is a Gram matrix."""
    x = np.random.default_rng(0).integers(-3, 4, (2, 4, 5, 3)).astype(np.float32)
    graph = og.Graph()
    t = graph.input("x", "f32", x.shape)
    graph.op(
        "ConvolutionBackwardWeights",
        t,
        t,
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        weights_shape=[1, 1, 3, 3],
        name="gram",
    )
    model = graph.compile(backend=backend)
    expected = np.einsum("nhwi,nhwo->io", x, x)
    np.testing.assert_array_equal(model({"x": x})["gram"][0, 0], expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_output_may_lie_over_an_input(backend):
    problem = Problem(batch=2, channels=(4, 4), size=(4, 4), kernel=(2, 2))
    src, diff_dst = problem.arrays()
    out = src.reshape(-1)[: np.prod(problem.weights_shape)].reshape(problem.weights_shape)
    compiled = compiled_for(problem, backend)
    with pytest.raises(og.ArgumentError, match="share memory"):
        compiled.bind([src, diff_dst], [out])
    compiled.execute(None, [src, diff_dst], [out])
    check(problem, out)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_gives_zeros(backend):
    problem = Problem(batch=0)
    compiled = compiled_for(problem, backend)
    out = np.full(problem.weights_shape, 7, np.float32)
    bound = compiled.bind(problem.arrays(), [out])
    bound()
    assert not out.any()
    assert not compiled.execute(None, problem.arrays())[0].any()
    assert compiled.explain().only.backend == backend


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch", [0, 2])
def test_a_bound_call_stops_with_its_engine(backend, batch):
    problem = Problem(batch=batch)
    engine = og.Engine()
    compiled = compiled_for(problem, backend, engine)
    bound = compiled.bind(problem.arrays(), [np.empty(problem.weights_shape, np.float32)])
    bound()
    engine.close()
    engine.close()
    assert "closed" in repr(engine)
    for call in (
        bound,
        lambda: compiled.execute(None, problem.arrays()),
        lambda: compiled.bind(problem.arrays(), [np.empty(problem.weights_shape, np.float32)]),
        lambda: og.Stream(engine),
        engine.__enter__,
    ):
        with pytest.raises(og.errors.ResourceError, match="closed"):
            call()


def test_the_default_engine_comes_back_after_it_was_closed():
    first = compiled_for(PROBLEM).engine
    first.close()
    second = compiled_for(PROBLEM)
    assert second.engine is not first
    stream = og.Stream(second.engine)
    check(PROBLEM, second.execute(stream, PROBLEM.arrays())[0], fast=True)
    stream.wait()


def test_freeing_an_engine_leaves_its_results():
    engine = og.Engine()
    compiled = compiled_for(PROBLEM, engine=engine)
    (result,) = compiled.execute(None, PROBLEM.arrays())
    del compiled
    engine.close()
    gc.collect()
    check(PROBLEM, result, fast=True)


# --- queries and opaque layouts -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries(backend):
    partition = partition_of(PROBLEM, backend)
    compiled = partition.compile()
    src, _ = PROBLEM.arrays()
    assert compiled.query_logical_tensor(0).shape == src.shape
    assert compiled.query_logical_tensor(2).shape == PROBLEM.weights_shape
    assert compiled.query_logical_tensor(2).layout_type is og.LayoutType.strided
    assert compiled.inplace_ports == ()
    assert [t.id for t in partition.input_ports] == [0, 1]
    assert [t.id for t in partition.output_ports] == [2]
    assert partition.is_supported
    assert partition.backend == backend
    assert backend in repr(partition)
    assert backend in repr(compiled)
    assert str(compiled.explain()).startswith(f"partition 0, {backend}: ")
    with pytest.raises(og.ArgumentError, match="9"):
        compiled.query_logical_tensor(9)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_output_in_the_primitives_own_layout(onednn, dtype):
    """`layout_type="any"` gives an opaque buffer; a Tensor makes it plain again."""
    problem = Problem(
        channels=(16, 32), size=(9, 8), kernel=(3, 3), data_format="NCX", weights_format="OIX", dtype=dtype
    )
    compiled = partition_of(problem, "onednn", layout_type="any").compile()
    opaque = compiled.query_logical_tensor(2)
    if opaque.layout_type is og.LayoutType.strided:
        # A matrix product writes the plain layout itself. It is faster on some CPUs without instructions for the type,
        # and on those with AMX, whose products are faster still.
        assert has_isa("avx512_core_amx") or not has_isa("avx2" if dtype == "f32" else "avx512_core_bf16")
        check(problem, compiled.execute(None, problem.arrays())[0])
        return
    assert opaque.layout_type is og.LayoutType.opaque
    (buffer,) = compiled.execute(None, problem.arrays())
    assert buffer.dtype == np.uint8
    assert buffer.ndim == 1
    tensor = og.Tensor.from_opaque(opaque, buffer, compiled.engine)
    assert tensor.nbytes == buffer.nbytes
    check(problem, tensor.numpy())
    check(problem, np.asarray(tensor))
    np.testing.assert_array_equal(np.asarray(tensor, np.float64), problem.expected().astype(np.float64))
    larger = np.zeros(buffer.nbytes + 5, np.uint8)
    compiled.execute(None, problem.arrays(), [larger])
    np.testing.assert_array_equal(larger[: buffer.nbytes], buffer)
    with pytest.raises(og.ArgumentError, match="at least"):
        compiled.execute(None, problem.arrays(), [larger[: buffer.nbytes - 1]])
    # the same layout again has the same id
    again = partition_of(problem, "onednn", layout_type="any").compile()
    assert again.query_logical_tensor(2).layout_id == opaque.layout_id


def test_any_is_plain_on_numpy():
    compiled = partition_of(PROBLEM, "numpy", layout_type="any").compile()
    assert compiled.query_logical_tensor(2).layout_type is og.LayoutType.strided
    check(PROBLEM, compiled.execute(None, PROBLEM.arrays())[0], fast=True)


def test_tensors_as_arguments():
    src, diff_dst = PROBLEM.arrays()
    compiled = compiled_for(PROBLEM)
    x = og.Tensor(described(0, "f32", src), src, compiled.engine)
    dy = og.Tensor(described(1, "f32", diff_dst))
    dy.data[...] = diff_dst
    out = og.Tensor(compiled.query_logical_tensor(2))
    (result,) = compiled.execute(None, [x, dy], [out])
    assert result is out.data
    assert out.nbytes == result.nbytes
    assert "2" in repr(out)
    check(PROBLEM, out.numpy(), fast=True)
    check(PROBLEM, np.asarray(out), fast=True)
    copied = np.array(out, copy=True)
    assert not np.shares_memory(copied, out.data)
    assert np.asarray(out, dtype=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    with pytest.raises(og.ArgumentError, match="copy"):
        np.asarray(out, dtype=np.float64, copy=False)


def test_compile_with_shapes_given_late():
    src, diff_dst = PROBLEM.arrays()
    graph = og.Graph()
    x, dy = og.LogicalTensor(0, "f32"), og.LogicalTensor(1, "f32", [-1] * 4)
    graph.add_op(
        og.Op(
            0,
            PROBLEM.kind,
            [x, dy],
            [og.LogicalTensor(2, "f32")],
            weights_shape=PROBLEM.weights_shape,
            **PROBLEM.attributes,
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions()
    with pytest.raises(og.ShapeError, match="all its sizes"):
        partition.compile()
    compiled = partition.compile([dy.with_shape(diff_dst.shape), x.with_shape(src.shape)])
    check(PROBLEM, compiled.execute(None, [src, diff_dst])[0], fast=True)


# --- the shape of the weights as an input ---------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_specialisations_are_kept_and_bounded(backend):
    sizes = og.LogicalTensor(2, "s32", [4])
    graph = og.Graph()
    common = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    graph.add_op(
        og.Op(
            0,
            "ConvolutionBackwardWeights",
            [og.LogicalTensor(0, "f32", [1, 30, 30, 2]), og.LogicalTensor(1, "f32", [1, 1, 1, 3]), sizes],
            [og.LogicalTensor(3, "f32")],
            **{**common, "strides": [40, 40]},
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    compiled = partition.compile()
    assert compiled.specialisations == 0
    assert compiled.backend == backend
    assert compiled.explanation is None
    assert compiled.explain() == {0: None}
    assert "compiled when it is executed" in str(compiled.explain())
    with pytest.raises(og.ArgumentError, match="first execution"):
        _ = compiled.explain().only
    rng = np.random.default_rng(3)
    src = rng.integers(-3, 4, (1, 30, 30, 2)).astype(np.float32)
    diff_dst = rng.integers(-3, 4, (1, 1, 1, 3)).astype(np.float32)

    def run(k):
        shape = np.array([k, k, 2, 3], np.int32)
        (dw,) = compiled.execute(None, [src, diff_dst, shape])
        expected = src[0, :k, :k, :, None] * diff_dst[0, 0, 0]
        np.testing.assert_array_equal(dw, expected)

    for k in (3, 5, 3, 5):
        run(k)
    assert compiled.specialisations == 2
    for k in range(1, 25):
        run(k)
    assert compiled.specialisations == 16
    with pytest.warns(og.errors.CompiledAgainWarning, match="kept_shapes=32"):
        run(1)
    # a value that contradicts the shapes is refused, and the partition lives on
    with pytest.raises(og.ShapeError, match="weights_shape"):
        compiled.execute(None, [src, diff_dst, np.array([2, 2, 7, 3], np.int32)])
    with pytest.raises(og.OneDNNGraphError):
        compiled.execute(None, [src, diff_dst, np.array([0, 2, 2, 3], np.int32)])
    run(4)
    bound = compiled.bind(
        [src, diff_dst, np.array([2, 2, 2, 3], np.int32)], [np.empty((2, 2, 2, 3), np.float32)]
    )
    bound()
    assert compiled.query_logical_tensor(3).shape == (2, 2, 2, 3)


def test_the_shape_may_come_from_another_op():
    """A custom op computes weights_shape; the graph runs it first."""

    def kernel(op, inputs, outputs):
        outputs[0][...] = inputs[0] + 1

    og.extend.register_op(
        og.extend.OpSchema(
            kind="PlusOne",
            summary="Adds one.",
            formula="y = x + 1",
            source="a test",
            types={"T": ("s32",)},
            inputs=(og.extend.Port("x", "T"),),
            outputs=(og.extend.Port("y", "T"),),
            attributes=(),
            infer_shapes=og.extend.shape_of_first_input,
        ),
        kernel,
    )
    try:
        graph = og.Graph()
        x, dy = graph.input("x", "f32", [1, 6, 6, 2]), graph.input("dy", "f32", [1, 5, 5, 3])
        less = graph.input("less", "s32", [4])
        graph.op(
            "ConvolutionBackwardWeights",
            x,
            dy,
            graph.op("PlusOne", less, name="shape"),
            strides=[1, 1],
            pads_begin=[0, 0],
            pads_end=[0, 0],
            dilations=[1, 1],
            name="dw",
        )
        model = graph.compile()
        problem = Problem(batch=1, channels=(2, 3), size=(6, 6), kernel=(2, 2))
        src, diff_dst = problem.arrays()
        values = {"x": src, "dy": diff_dst, "less": np.array([1, 1, 1, 2], np.int32)}
        check(problem, model(values)["dw"])
        check(problem, model(values)["dw"])
    finally:
        og.extend.unregister_op("PlusOne")


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
def test_first_executions_of_eight_threads_at_once(backend):
    """Kernels are generated at the first execution; all threads must get the same ones."""
    arrays, expected = PROBLEM.arrays(), PROBLEM.expected(fast=True)
    for _ in range(40):
        compiled = compiled_for(PROBLEM, backend)
        results = []
        ready = threading.Barrier(8)

        def work(compiled=compiled, ready=ready, results=results):
            ready.wait(30)
            results.append(compiled.execute(None, arrays)[0])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(results) == 8
        for result in results:
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_what_differs_has_no_place_where_elements_share_memory(backend):
    graph = og.Graph()
    graph.output(graph.op("Abs", graph.input("x", "f32", [2, 3], strides=[0, 1])), name="y")
    model, row = graph.compile(backend=backend), np.array([1, 2, np.nan], np.float32)
    for given in (np.broadcast_to(row, (2, 3)), np.stack([row, row])):
        np.testing.assert_array_equal(model(x=given)["y"], [row, row])
    with pytest.raises(
        og.ArgumentError, match=r"'src'.*has strides \[0, 1\], under which elements share memory"
    ):
        model(x=np.arange(6, dtype=np.float32).reshape(2, 3))
