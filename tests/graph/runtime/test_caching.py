"""Caches: one build for a key, outside the lock, and never more than the bound; locks across a fork."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.graph.compile import specialisations
from onednn_graph.graph.compile.specialisations import Specialisation
from onednn_graph.graph.functions import eager
from onednn_graph.graph.runtime import caching
from onednn_graph.graph.runtime.caching import BoundedCache
from strategies import BACKENDS

PATIENCE = 60
"""Seconds after which a thread or process counts as stuck."""


def in_threads(*works):
    """Runs the functions at once; returns what they return or raise, in order."""
    results = [None] * len(works)

    def run(number, work):
        try:
            results[number] = work()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread is stuck"
    return results


def never():
    raise AssertionError("made again")


def wait(event):
    assert event.wait(PATIENCE), "nobody came"


def test_the_least_recently_used_value_leaves():
    cache = BoundedCache(3)
    for key in "abc":
        assert cache.get(key, lambda key=key: key * 2) == key * 2
    assert cache.get("a", never) == "aa"
    assert cache.get("d", lambda: "dd") == "dd"
    assert list(cache.values()) == ["c", "a", "d"]
    assert cache.get("b", lambda: "new") == "new"
    assert list(cache.values()) == ["a", "d", "b"]
    for key in range(100):
        cache.get(key, object)
        assert len(cache) <= 3


def test_none_is_a_value():
    cache = BoundedCache(2)
    assert cache.get("a", lambda: None) is None
    assert cache.get("a", never) is None


def test_who_asks_for_the_same_key_waits_for_one_build():
    cache, made, ready = BoundedCache(4), [], threading.Barrier(8)
    begun, go_on = threading.Event(), threading.Event()

    def make():
        made.append(1)
        begun.set()
        wait(go_on)
        return object()

    def ask():
        ready.wait(PATIENCE)
        return cache.get("a", make)

    def release():
        wait(begun)
        go_on.set()

    *results, _ = in_threads(*[ask] * 8, release)
    assert len(made) == 1
    assert len(set(map(id, results))) == 1


def test_others_go_on_while_a_value_is_made():
    """Hits, misses of other keys, and questions about the cache, all during one build."""
    cache = BoundedCache(4)
    cache.get("there", lambda: 1)
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        wait(go_on)
        return 3

    def others():
        wait(begun)
        seen = (cache.get("there", never), cache.get("other", lambda: 2), len(cache), list(cache.values()))
        go_on.set()
        return seen

    found, seen = in_threads(lambda: cache.get("slow", slow), others)
    assert found == 3
    assert seen == (1, 2, 2, ["there", "other"])
    assert list(cache.values()) == ["there", "other", "slow"]


def test_a_failing_build_is_its_callers_and_the_next_one_tries_again():
    cache = BoundedCache(4)
    begun, waiting = threading.Event(), threading.Semaphore(0)
    tries = []

    def fails():
        tries.append("failed")
        begun.set()
        for _ in range(3):
            assert waiting.acquire(timeout=PATIENCE)
        raise ValueError("not today")

    def works():
        tries.append("worked")
        return 7

    def waiter():
        wait(begun)
        waiting.release()
        return cache.get("a", works)

    error, *results = in_threads(lambda: cache.get("a", fails), waiter, waiter, waiter)
    assert isinstance(error, ValueError)
    assert results == [7, 7, 7]
    assert tries == ["failed", "worked"]
    with pytest.raises(KeyboardInterrupt):
        cache.get("b", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cache.get("b", lambda: 8) == 8


INTERRUPTED = """
import json, signal, sys, time
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from onednn_graph.graph.runtime.caching import BoundedCache
from onednn_graph.graph.runtime.locking import Lock

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
rng, others, end = np.random.default_rng(0), ThreadPoolExecutor(1), time.monotonic() + 1.5
told = {"interrupts": 0, "held": 0, "stuck": 0}
while time.monotonic() < end:
    lock, cache = Lock(), BoundedCache(4)
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(20e-6, 200e-6))
        while True:
            for number in range(1000):
                if told["interrupts"] % 2:
                    cache.get(number % 9, lambda: number)
                else:
                    with lock:
                        pass
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        told["interrupts"] += 1
    told["held"] += not (others.submit(lock.is_free).result() and others.submit(cache._lock.is_free).result())
    left = list(cache._builds)
    if left:  # of this thread, and of another one
        told["stuck"] += 1
        assert cache.get(left[0], lambda: "own") is not None
print(json.dumps(told))
"""


def test_what_ctrl_c_has_cut_off_keeps_nobody_waiting():
    told = processes.printed(INTERRUPTED)
    assert told["interrupts"] > 100
    assert told["held"] == 0


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("by_another", [False, True])
def test_a_value_whose_making_was_cut_off_is_made_by_who_asks_next(monkeypatch, by_another, made):
    """Before it began, or when it was there and nobody had been told."""
    monkeypatch.setattr(caching, "PATIENCE", 0.01)
    cache = BoundedCache(2)

    def cut_off(self, key, build, make):
        build.made += [make()] if made else []
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BoundedCache, "_made", cut_off)
        with pytest.raises(KeyboardInterrupt):
            cache.get("a", lambda: 1)
    asked = [lambda: cache.get("a", lambda: 1)] * 3
    assert (in_threads(*asked) if by_another else [asked[0]()]) == [1, 1, 1][: 3 if by_another else 1]
    assert not cache._builds
    assert cache.get("a", lambda: 1) == 1


def test_a_value_that_leaves_while_others_wait_for_it_is_theirs():
    cache = BoundedCache(1)
    begun, go_on = threading.Event(), threading.Event()

    def make():
        begun.set()
        wait(go_on)
        return "a"

    def waiter():
        wait(begun)
        go_on.set()
        return cache.get("a", lambda: "a")

    def others():
        wait(begun)
        return [cache.get(key, lambda key=key: key) for key in range(50)]

    first, second, many = in_threads(lambda: cache.get("a", make), waiter, others)
    assert (first, second, many) == ("a", "a", list(range(50)))
    assert len(cache) == 1


def test_a_value_that_needs_itself_is_an_error():
    cache = BoundedCache(4)
    with pytest.raises(og.errors.ResourceError, match="by what makes it"):
        cache.get("a", lambda: cache.get("a", never))
    assert cache.get("a", lambda: cache.get("b", lambda: 1)) == 1


# --- what stands on them --------------------------------------------------------------------------------


def test_eager_calls_keep_no_more_than_their_bound(monkeypatch):
    monkeypatch.setattr(eager, "MAX_EAGER", 5)
    engine = og.Engine()
    for size in range(1, 20):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(og.relu(x - 3, engine=engine), np.maximum(x - 3, 0))
    assert len(engine.resource("eager", never)) == 5


def gradient(backend):
    """A partition whose weights' shape is an input, and arrays for it."""
    graph = og.Graph()
    graph.add_op(
        og.Op(
            0,
            "ConvolutionBackwardWeights",
            [
                og.LogicalTensor(0, "f32", [1, 30, 30, 2]),
                og.LogicalTensor(1, "f32", [1, 1, 1, 3]),
                og.LogicalTensor(2, "s32", [4]),
            ],
            [og.LogicalTensor(3, "f32")],
            strides=[40, 40],
            dilations=[1, 1],
            pads_begin=[0, 0],
            pads_end=[0, 0],
        )
    )
    graph.finalize()
    rng = np.random.default_rng(3)
    src = rng.integers(-3, 4, (1, 30, 30, 2)).astype(np.float32)
    diff_dst = rng.integers(-3, 4, (1, 1, 1, 3)).astype(np.float32)
    return graph.get_partitions(backend=backend)[0].compile(), src, diff_dst


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_tell_of_the_threads_own_call(backend):
    """Eight threads at eight values: none sees another's."""
    compiled, src, diff_dst = gradient(backend)
    step = threading.Barrier(8)

    def work(k):
        sizes = (k, k, 2, 3)
        seen = []
        for _ in range(10):
            step.wait(PATIENCE)
            (dw,) = compiled.execute(None, [src, diff_dst, np.array(sizes, np.int32)])
            step.wait(PATIENCE)  # all have called
            seen.append((dw.shape, compiled.outputs[0].shape, compiled.query_logical_tensor(3).shape))
            seen.append(compiled.explain().only == compiled.explanations[Specialisation((), (sizes,))])
        return seen == [(sizes, sizes, sizes), True] * 10

    assert in_threads(*[lambda k=k: work(k) for k in range(1, 9)]) == [True] * 8
    assert compiled.explanation is None  # this thread has not called
    assert compiled.outputs[0].shape == (-1, -1, -1, -1)
    assert compiled.backend == backend
    assert len(compiled.explanations) == compiled.specialisations == 8
    assert {one.backend for one in compiled.explanations.values()} == {backend}


def test_a_slow_compilation_keeps_nobody_else_waiting(monkeypatch):
    compiled, src, diff_dst = gradient("numpy")
    begun, go_on = threading.Event(), threading.Event()
    specialise = specialisations.specialise

    def slow(partition, inputs, outputs, engine, values, options):
        if values[2][0] == 5:
            begun.set()
            wait(go_on)
        return specialise(partition, inputs, outputs, engine, values, options)

    monkeypatch.setattr(specialisations, "specialise", slow)

    def run(k):
        return compiled.execute(None, [src, diff_dst, np.array([k, k, 2, 3], np.int32)])[0].shape

    def others():
        wait(begun)
        shapes = run(3), run(3), run(4)
        go_on.set()
        return shapes

    run(3)
    assert in_threads(lambda: run(5), others) == [(5, 5, 2, 3), ((3, 3, 2, 3), (3, 3, 2, 3), (4, 4, 2, 3))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_and_values_share_one_bounded_cache(backend):
    """A graph of unknown batch whose weights' shape is an input: every pair is one executable."""
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [-1, 9, 9, 2]), graph.input("dy", "f32", [-1, 1, 1, 3])
    sizes = graph.input("sizes", "s32", [-1])
    dw = graph.op(
        "ConvolutionBackwardWeights",
        x,
        dy,
        sizes,
        strides=[40, 40],
        dilations=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
    )
    model = graph.compile(backend=backend)
    (stage,) = model._stages
    rng = np.random.default_rng(0)

    def run(batch, k):
        x = rng.integers(-3, 4, (batch, 9, 9, 2)).astype(np.float32)
        dy = rng.integers(-3, 4, (batch, 1, 1, 3)).astype(np.float32)
        got = model({"x": x, "dy": dy, "sizes": np.array([k, k, 2, 3], np.int32)})[dw]
        np.testing.assert_array_equal(got, np.einsum("nhwi,no->hwio", x[:, :k, :k], dy[:, 0, 0]))
        assert stage.outputs[0].shape == (k, k, 2, 3)

    pairs = [(batch, k) for batch in (1, 2, 3) for k in (1, 2, 3)]
    for batch, k in pairs * 2:
        run(batch, k)
    assert stage.specialisations == len(pairs)
    assert set(stage.explanations) == {
        Specialisation(((n, 9, 9, 2), (n, 1, 1, 3), (4,)), ((k, k, 2, 3),)) for n, k in pairs
    }
    with pytest.warns(og.errors.CompiledAgainWarning, match="16 sets of them are kept"):
        _ = [run(batch, 2) for batch in (*range(1, 32), 4)]
    assert stage.specialisations == 16
    with pytest.raises(og.ShapeError, match="sizes"):
        model(
            {
                "x": np.zeros((1, 9, 9, 2), "f4"),
                "dy": np.zeros((1, 1, 1, 3), "f4"),
                "sizes": np.zeros(3, "i4"),
            }
        )


# --- fork -----------------------------------------------------------------------------------------------

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_a_child(work):
    """Runs the function in a forked child of a process with threads; whether it came to its end in time."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_does_not_wait_for_threads_that_it_does_not_have():
    """Forked in the middle of a build, and while every lock is held."""
    cache = BoundedCache(2)
    engine = og.Engine()
    begun, go_on, outcome = threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        wait(go_on)
        return "the parent's"

    def fork_within():
        wait(begun)
        held = threading.Event()

        def hold():
            with cache._lock, engine._lock, engine.layouts._lock:
                held.set()
                wait(go_on)

        holder = threading.Thread(target=hold)
        holder.start()
        wait(held)

        def child():
            assert cache.get("a", lambda: "the child's") == "the child's"
            assert cache.get("a", never) == "the child's"
            assert cache.get("b", lambda: 2) == 2
            assert cache.get("c", lambda: 3) == 3
            assert len(cache) == 2
            assert engine.resource("x", lambda: 4) == 4
            assert in_a_child(lambda: cache.get("c", never))  # and a child of the child

        outcome.append(in_a_child(child))
        go_on.set()
        holder.join(PATIENCE)

    found, _ = in_threads(lambda: cache.get("a", slow), fork_within)
    assert outcome == [True]
    assert found == "the parent's"
    assert cache.get("a", never) == "the parent's"


GENERATIONS = """
import os, signal, sys, threading
import numpy as np
import onednn_graph as og

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "data_format": "NCX",
        "weights_format": "OIX"}
rng = np.random.default_rng(0)
x, w = (rng.integers(-2, 3, shape).astype("f4") for shape in ((4, 32, 28, 28), (32, 32, 3, 3)))
graph = og.Graph()
src = graph.input("x", "f32", x.shape)
weights = graph.input("w", "f32", w.shape, property_type="constant")
y = graph.op("Convolution", src, weights, **CONV)
graph.finalize()
(partition,) = graph.get_partitions(backend="onednn")
compiled = partition.compile()
order = [{"x": x, "w": w}[t.name] for t in compiled.inputs]
free = og.LogicalTensor(y.id, "f32", y.shape, layout_type="any")
loose = partition.compile(None, [free])
expected = compiled.execute(None, order)[0]
EXPECTED = og.convolution(x, w, backend="numpy", **CONV)
assert np.array_equal(expected, EXPECTED)
dy = rng.integers(-2, 3, x.shape).astype("f4")
GRADIENT = og.convolution_backward_weights(x, dy, weights_shape=w.shape, backend="numpy", **CONV)
out = np.zeros_like(expected)
bound = compiled.bind(order, [out])

def check(what):
    # What was compiled before, with weights of another address, which are prepared anew.
    again = [{"x": x, "w": w.copy()}[t.name] for t in compiled.inputs]
    assert np.array_equal(compiled.execute(None, again)[0], EXPECTED), what
    out[...] = 0
    bound()
    assert np.array_equal(out, EXPECTED), what
    third = [{"x": x, "w": w.copy()}[t.name] for t in compiled.inputs]
    target = np.zeros_like(out)
    compiled.bind(third, [target])()
    assert np.array_equal(target, EXPECTED), what
    lies = loose.outputs[0]
    (buffer,) = loose.execute(None, order)
    if lies.layout_type == "opaque":
        buffer = og.Tensor.from_opaque(lies, buffer, loose.engine).numpy()
    assert np.array_equal(buffer, EXPECTED), what
    # And what is compiled here.
    assert np.array_equal(partition.compile(verify=True).execute(None, order)[0], EXPECTED), what
    fresh = og.Graph()
    a, b = fresh.input("x", "f32", x.shape), fresh.input("dy", "f32", dy.shape)
    fresh.op("ConvolutionBackwardWeights", a, b, weights_shape=w.shape, name="dw", **CONV)
    model = fresh.compile(tune="measure", tune_seconds=0.01)
    assert np.array_equal(model({"x": x, "dy": dy})["dw"], GRADIENT), what

def generation(depth, how):
    def born():
        signal.alarm(60)
        check(f"generation {depth} {how}")
        if depth < 2:
            for next_how in ("from this thread", "from another thread"):
                descend(depth + 1, next_how)
            check(f"generation {depth} {how}, after its children")
    child = os.fork()
    if child == 0:
        try:
            born()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, f"generation {depth} {how}"

def descend(depth, how):
    if how == "from this thread":
        generation(depth, how)
        return
    failed = []
    def run():
        try:
            check(f"before {depth}")  # this thread has a team of its own
            generation(depth, how)
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, failed

for how in ("from this thread", "from another thread"):
    descend(1, how)
check("the first process, at the end")
print("all generations agree")
"""


@fork
def test_a_fork_of_a_fork_computes_prepares_verifies_and_tunes(onednn, tmp_path):
    """Two generations, each forked from the main thread and from another one that has used the library."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", GENERATIONS],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "2", "ONEDNN_GRAPH_CACHE": str(tmp_path)},
    )
    assert run.stdout == "all generations agree\n", run.stderr
