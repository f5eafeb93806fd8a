"""Kernels are described for as many threads as come, whatever the environment and other code say to OpenMP.

A kernel for two of which one comes computes half of its result, or waits at a barrier for ever: so each case runs in a
process of its own, with a limit of time.
"""

import os
from types import SimpleNamespace

import processes
import pytest
from onednn_graph.backends.onednn.library import runtimes
from onednn_graph.backends.onednn.library.loading import load

pytestmark = pytest.mark.usefixtures("onednn")

BEGIN = """
import ctypes, json, os, sys, threading
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.library.loading import load

rng = np.random.default_rng(0)
src = rng.integers(-2, 3, (4, 16, 20, 20)).astype(np.float32)
diff = rng.integers(-2, 3, (4, 32, 18, 18)).astype(np.float32)
numbers = dict(strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1], weights_shape=[32, 16, 3, 3])
graph = og.Graph()
s, d = graph.input("src", "f32", src.shape), graph.input("diff", "f32", diff.shape)
graph.op("ConvolutionBackwardWeights", s, d, data_format="NCX", weights_format="OIX", name="dw", **numbers)
feeds = {"src": src, "diff": diff}
right = graph.compile(backend="numpy")(feeds)["dw"]
numbers_of_threads = []

def check(threads=None, backend=None, model=None):
    model = model or graph.compile(threads=threads, backend=backend)
    numbers_of_threads.append(model.explain()[0].threads)
    for _ in range(3):
        assert (model(feeds)["dw"] == right).all()
    return model

"""
END = "\nprint(json.dumps(numbers_of_threads))"
EVERY_WAY = """
check()
check(2)
check(3)
check(1)
check(2, "native")
thread = threading.Thread(target=check, args=(2,))
thread.start()
thread.join()
"""


def in_child(code, *, first="", **environment):
    """The numbers of threads that a program's models were made for, in a process with OpenMP's variables."""
    prefixes = ("OMP_", "GOMP_", "KMP_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return processes.printed(first + BEGIN + code + END, env=clean | environment)


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"OMP_THREAD_LIMIT": "1"}, [1, 1, 1, 1, 1, 1]),
        ({"OMP_THREAD_LIMIT": "2", "OMP_NUM_THREADS": "3"}, [2, 2, 2, 1, 2, 2]),
        ({"OMP_DYNAMIC": "true", "OMP_NUM_THREADS": "4"}, [4, 2, 3, 1, 2, 2]),
        ({"OMP_MAX_ACTIVE_LEVELS": "0", "OMP_NUM_THREADS": "2"}, [1, 1, 1, 1, 1, 1]),
        ({"OMP_NUM_THREADS": "2,1"}, [2, 2, 3, 1, 2, 2]),
        ({"OMP_NUM_THREADS": "9", "OMP_WAIT_POLICY": "passive"}, [9, 2, 3, 1, 2, 2]),
        ({"OMP_NUM_THREADS": "2", "OMP_NESTED": "true", "KMP_BLOCKTIME": "0"}, [2, 2, 3, 1, 2, 2]),
        ({"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "true", "KMP_AFFINITY": "disabled"}, [2, 2, 3, 1, 2, 2]),
    ],
)
def test_kernels_get_the_threads_that_they_are_made_for(environment, threads):
    if load().runtime.name != runtimes.GNU_OPENMP:
        pytest.skip("another runtime gives other numbers")
    assert in_child(EVERY_WAY, **environment) == threads


def test_one_cpu_of_many():
    first = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    assert in_child("check()\ncheck(2)", first=first)[0] == 1


BETWEEN = {
    "another number": "c.omp_set_num_threads(1)",
    "more": "c.omp_set_num_threads(7)",
    "dynamic": "c.omp_set_dynamic(1)",
    "no levels": "c.omp_set_max_active_levels(0)",
    "one CPU": "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_others_set_between_compiling_and_running(between):
    """It stands afterwards as others have set it."""
    code = f"""
c = load().c
models = [check(2), check(2, "native")]
models += [graph.compile(threads=2), graph.compile(threads=2, backend="native")]  # have no code yet
def asked():
    return [c.omp_get_max_threads(), c.omp_get_dynamic(), c.omp_get_max_active_levels()]
{BETWEEN[between]}
before = asked()
for model in models:
    check(model=model)
assert asked() == before
"""
    assert set(in_child(code, OMP_WAIT_POLICY="passive")) <= {2}  # threads that spin only cost time here


IN_REGION = """
c = load().c
before = check(2)
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def region(_):
    try:
        if c.omp_get_thread_num() == 0:
            assert c.omp_in_parallel()
            check(model=before)
            check(2)
            check(2, "native")
    except BaseException as error:
        numbers_of_threads.append(repr(error))
c.GOMP_parallel(region, None, 2, 0)
"""


def test_within_a_parallel_region_of_others():
    if not hasattr(load().c, "GOMP_parallel") or load().runtime.name == runtimes.TBB_NAME:
        pytest.skip("there is no OpenMP whose regions a test could open")
    assert in_child(IN_REGION, OMP_NUM_THREADS="2") == [2, 2, 2, 2]


def test_a_region_that_gets_fewer_than_every_setting_says():
    """The region that is tried tells, once for each number."""
    tried = []

    class Function:
        def __init__(self, value):
            self.value = value

        def __call__(self, *args):
            return self.value

    def parallel(each, data, threads, flags):
        tried.append(threads)
        for _ in range(min(threads, 3)):
            each(data)

    names = ("max_threads", "thread_limit", "max_active_levels")
    c = SimpleNamespace(**{f"omp_get_{name}": Function(64) for name in names})
    for name in ("get_dynamic", "set_dynamic", "set_num_threads", "set_max_active_levels", "in_parallel"):
        setattr(c, f"omp_{name}", Function(0))
    c.GOMP_parallel = parallel
    runtime = runtimes.runtime_of(c, runtimes.OPENMP, "x")
    assert [runtime.granted(n) for n in (1, 2, 8, 8)] == [1, 2, 3, 3]
    assert tried == [2, 8]


def test_arenas_of_tbb_hand_their_calls_to_a_thread_outside():
    class Concurrency:
        value = 8

        def __call__(self, arena):
            return self.value

    concurrency = Concurrency()
    runtime = runtimes.runtime_of(
        SimpleNamespace(**{runtimes.TBB_CONCURRENCY: concurrency}), runtimes.TBB, "x"
    )
    assert not runtime.is_foreign()
    concurrency.value = 2
    assert runtime.is_foreign()


def test_an_openmp_that_others_loaded_waits_as_it_did():
    """GNU OpenMP waits a hundred turns and then sleeps, once it has more threads than CPUs: we start no more."""
    if load().runtime.name != runtimes.GNU_OPENMP:
        pytest.skip("the library has another OpenMP")
    code = "check(2)\nnumbers_of_threads += [threading.active_count(), len(os.listdir('/proc/self/task'))]"
    first = 'import ctypes\nctypes.CDLL("libgomp.so.1")\n'
    threads, python, tasks = in_child(code, first=first, OPENBLAS_NUM_THREADS="1")
    assert (threads, python) == (2, 1)
    assert tasks <= 4  # the calling one, the team's second, those that teams were tried with
