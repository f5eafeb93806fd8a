"""Backends that do what a kernel must not, each in its first executable alone; the second one is NumPy's.

Each class is a backend `faulty`, made without arguments by whoever judges it. What it runs nobody has proven.
"""

import ctypes
import os
import signal
import time

import numpy as np
import onednn_graph as og
from attrs import evolve
from onednn_graph.graph.compile.backend import BACKENDS, single_op
from onednn_graph.graph.runtime.executable import ExplainedStep, Explanation


def compiled(backend, **options):
    """The explanation of a graph of one ReLU, compiled by a backend `faulty`."""
    graph = og.Graph()
    graph.output(graph.op("ReLU", graph.input("x", "f32", [2, 3])), name="y")
    BACKENDS.register(backend, on_request=True)
    try:
        return next(iter(graph.compile(backend="faulty", **options).explain().values()))
    finally:
        BACKENDS.unregister("faulty")


class Faulty:
    """A backend that runs everything, by NumPy, and whose first executable is right too."""

    name = "faulty"
    plans_with = ("faulty",)
    patterns = (single_op(0.0),)

    def unavailable(self):
        return None

    def why_not(self, ops):
        return None

    def compile(self, request):
        (right,) = BACKENDS.get("numpy").compile(evolve(request, forced=True))
        yield Executable(right, self.told("first"), self.run)
        yield Executable(right, self.told("second"), None)

    def told(self, strategy):
        step = ExplainedStep(name=f"{strategy} kernel", op=None, implementation="faulty", proven=False)
        return Explanation(
            backend=self.name,
            strategy=strategy,
            implementations=(step.name,),
            scratch_bytes=0,
            steps=(step,),
        )

    def run(self, compute, inputs, outputs):
        compute(inputs, outputs)


class Executable:
    def __init__(self, right, explanation, run):
        self._right, self._run = right, run
        self.inputs, self.outputs, self.explanation = right.inputs, right.outputs, explanation

    def run(self, inputs, outputs):
        if self._run is None:
            self._right.run(inputs, outputs)
        else:
            self._run(self._right.run, inputs, outputs)

    def bind(self, inputs, outputs):
        return lambda: self.run(inputs, outputs)


class Crashing(Faulty):
    def run(self, compute, inputs, outputs):
        ctypes.string_at(8)


class Aborting(Faulty):
    def run(self, compute, inputs, outputs):
        os.write(2, b"free(): invalid pointer\n")
        os.abort()


class Exiting(Faulty):
    def run(self, compute, inputs, outputs):
        os._exit(3)


class Endless(Faulty):
    def run(self, compute, inputs, outputs):
        while True:
            pass


class Waiting(Faulty):
    def run(self, compute, inputs, outputs):
        while True:
            time.sleep(1000)


class Slow(Faulty):
    """Right, after some seconds."""

    def run(self, compute, inputs, outputs):
        time.sleep(0.8)
        compute(inputs, outputs)


class Killed(Faulty):
    """Is ended as the system ends what takes too much memory."""

    def run(self, compute, inputs, outputs):
        os.kill(os.getpid(), signal.SIGKILL)


class Spoilt(Faulty):
    """Crashes in a process that has judged another one."""

    made = 0

    def compile(self, request):
        Spoilt.made += 1
        return super().compile(request)

    def run(self, compute, inputs, outputs):
        if Spoilt.made > 1:
            ctypes.string_at(8)
        compute(inputs, outputs)


class Silent(Faulty):
    """Writes nothing."""

    def run(self, compute, inputs, outputs):
        pass


class Wrong(Faulty):
    def run(self, compute, inputs, outputs):
        compute(inputs, outputs)
        outputs[0].flat[-1] += 1


class Behind(Faulty):
    """Writes one element beyond."""

    place = 0

    def run(self, compute, inputs, outputs):
        compute(inputs, outputs)
        end = outputs[0].nbytes if self.place == 0 else self.place
        ctypes.memset(outputs[0].ctypes.data + end, 0, 4)


class Before(Behind):
    place = -4


class Forgetting(Faulty):
    """Is wrong in the second call."""

    def __init__(self):
        self.calls = 0

    def run(self, compute, inputs, outputs):
        compute(inputs, outputs)
        self.calls += 1
        if self.calls > 1:
            outputs[0][...] += 1


class InPlace(Faulty):
    """Changes its input."""

    def run(self, compute, inputs, outputs):
        compute(inputs, outputs)
        inputs[0][inputs[0] < 0] -= 1


class Hungry(Faulty):
    """Takes more memory than any machine has."""

    def run(self, compute, inputs, outputs):
        np.ones(1 << 50, np.uint8)


class Elsewhere(Faulty):
    """Makes another plan in each process."""

    def told(self, strategy):
        return super().told(f"{strategy} in {os.getpid()}")


class Conditioned(Faulty):
    """Can be made in this process alone."""

    def conditions(self):
        return {"FAULTY_BACKEND": "here", "FAULTY_PROCESS": str(os.getpid())}

    def seconds(self, request):
        return 0.0
