"""Signals while kernels run: products by `gemm:jit` have their stack in the heap, where signals destroyed data."""

import os
import signal
import threading

import processes
import pytest
from onednn_graph.backends.onednn.library import signals
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.runtimes import GNU_OPENMP

pytestmark = [
    pytest.mark.usefixtures("onednn"),
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timers"),
]

BEGIN = """
import ctypes, json, os, signal, sys, threading, time
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.weight_gradients import selection

real = selection.choose
def gemm_only(engine, problem, strategies, options, reasons):
    return real(engine, problem, [s for s in strategies if getattr(s, "gemm", False)], options, reasons)
from onednn_graph.backends.onednn.lowering import weight_gradient
weight_gradient.choose = gemm_only

graph = og.Graph()
x, dy = graph.input("x", "f32", [4, 40, 40, 64]), graph.input("dy", "f32", [4, 40, 40, 64])
ends = {"pads_begin": [1, 1], "pads_end": [1, 1], "strides": [1, 1], "dilations": [1, 1]}
graph.op("ConvolutionBackwardWeights", x, dy, weights_shape=[3, 3, 64, 64], name="dw", **ends)
rng = np.random.default_rng(0)
feeds = {n: rng.integers(-2, 3, (4, 40, 40, 64)).astype(np.float32) for n in ("x", "dy")}
model = graph.compile()
right = model(feeds)["dw"].copy()
assert "gemm" in str(model.explain().only.implementations), model.explain().only.implementations
"""

RUN = """
end = time.monotonic() + 1.5
while time.monotonic() < end:
    assert (model(feeds)["dw"] == right).all()
    [bytearray(n) for n in range(16, 4096, 16)]
"""

OFTEN = """
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append(threading.get_ident()))
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
def stop():
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # the last may still be on its way when handlers are taken down
    assert len(heard) > 100, len(heard)
    print(json.dumps(True))
"""


def test_kernels_have_a_stack_for_signals():
    """Python's handlers take it where there is one."""
    code = BEGIN + "from onednn_graph.backends.onednn.library import signals\n"
    assert processes.printed(code + "print(json.dumps(signals._registered().ss_sp is not None))")


def test_a_timer_does_no_harm_to_a_thread_of_a_users_own():
    """Without the stack two runs of three end at once."""
    run = f"def run():{RUN}".replace("\n", "\n    ")
    pinned = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"  # it is given to the other
    code = BEGIN + OFTEN + run + "\nthread = threading.Thread(target=run)\nthread.start()\n" + pinned
    assert processes.printed(code + "while thread.is_alive():\n    thread.join(0.001)\nstop()\n")


WORKERS = """
blocked = {}
for name in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{name}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    blocked[name] = int(lines["SigBlk"], 16)
print(json.dumps([blocked.pop(str(os.getpid())), *blocked.values()]))
"""


def test_threads_of_the_team_take_no_signals():
    if load().runtime.name != GNU_OPENMP:
        pytest.skip("other runtimes say nothing of their threads")
    env = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    caller, *others = processes.printed(BEGIN + WORKERS, env=env)

    def takes(mask, number):
        return not mask >> (number - 1) & 1

    assert takes(caller, signal.SIGPROF)
    assert any(not takes(mask, signal.SIGPROF) and takes(mask, signal.SIGSEGV) for mask in others)


def test_a_stack_of_somebody_else_stays():
    """That of faulthandler."""
    code = (
        "import ctypes, faulthandler, json\nfaulthandler.enable()\n"
        "from onednn_graph.backends.onednn.library import signals\n"
        "before = signals._registered().ss_sp\n" + BEGIN + "model(feeds)\n"
        "print(json.dumps([before, signals._registered().ss_sp]))"
    )
    before, after = processes.printed(code)
    assert before is not None
    assert before == after


def test_the_stack_of_a_thread_goes_with_it():
    seen = []

    def run():
        with load().using(1):
            seen.append(signals._registered().ss_sp)
        vars(signals._sheltered).clear()  # as its end does
        seen.append(signals._registered().ss_sp)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen[0] is not None
    assert seen[1] is None


HALF_WAY = """
import itertools, json
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.plan.frame import Frame

ends = {"pads_begin": [1, 1], "pads_end": [1, 1], "strides": [1, 1], "dilations": [1, 1]}
rng = np.random.default_rng(0)
graph = og.Graph()
y = graph.input("x", "f32", [2, 16, 8, 8])
for name in ("first", "second"):
    weights = rng.integers(-2, 3, (16, 16, 3, 3)).astype(np.float32)
    weights = graph.constant(weights, name=name)
    y = graph.op("Convolution", y, weights, data_format="NCX", weights_format="OIX", **ends)
    y = graph.op("HostSign", y)  # a step of NumPy between the library's
graph.output(y, name="y")
x = rng.integers(-2, 3, (2, 16, 8, 8)).astype(np.float32)
right = graph.compile(backend="numpy")(x)["y"]
done, until = 0, 0
def stopped(name, whole):
    def call(*args):
        global done
        done += 1
        if done == until:
            raise KeyboardInterrupt
        return whole(*args)
    setattr(Frame, name, call)
for name in ("_settle", "_in_batches", "_batch", "_point_one_by_one", "run"):
    stopped(name, getattr(Frame, name))
interrupts = 0
for until in itertools.count(1):
    model, done = graph.compile(), 0
    try:
        model(x)
        break
    except KeyboardInterrupt:
        interrupts += 1
    assert (model(x)["y"] == right).all(), until
print(json.dumps(interrupts))
"""


def test_what_ctrl_c_has_left_half_way_does_not_run_again():
    """A frame was kept whose memory objects pointed nowhere yet: the next call ended the process."""
    assert processes.printed(HALF_WAY) > 3
