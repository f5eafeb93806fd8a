"""What is imported when: who runs a model waits for nothing else."""

import json
import subprocess
import sys

import onednn_graph as og
import pytest
from onednn_graph.graph.compile.backend import BackendRegistry

LISTED = """
import json, sys
print(json.dumps(sorted(name for name in sys.modules if name.startswith(("onednn_graph", "numpy.")))))
"""
RUN = """
import numpy as np
import onednn_graph as og
graph = og.Graph()
x = graph.input("x", "f32", (1, 3, 8, 8))
weights = graph.constant(np.ones((4, 3, 3, 3), "f4"))
window = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
graph.relu(graph.convolution(x, weights, **window, data_format="NCX", weights_format="OIX"), name="y")
graph.compile()(np.ones((1, 3, 8, 8), "f4"))
"""
SELDOM = (
    "onednn_graph.extend",
    "onednn_graph.graph.gradients",
    "onednn_graph.graph.io",
    "onednn_graph.graph.pictures",
    "onednn_graph.graph.precision",
    "onednn_graph.graph.training",
    "onednn_graph.graph.trust.judge",
    "onednn_graph.backends.native",
    "onednn_graph.backends.onednn.lowering.weight_gradient",
    "onednn_graph.backends.onednn.weight_gradients.selection",
    "onednn_graph.backends.onednn.weight_gradients.strategies",
    "numpy.ma",
)


def printed(code):
    """What a new process prints, which has imported nothing."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code):
    return set(json.loads(printed(code + LISTED)))


def within(found, *modules):
    return [name for name in found if f"{name}.".startswith(tuple(f"{module}." for module in modules))]


def test_an_import_brings_no_backend_and_nothing_that_few_use():
    assert within(loaded("import onednn_graph"), "onednn_graph.backends.onednn", *SELDOM) == []


def test_a_model_that_runs_brings_nothing_that_few_use():
    found = loaded(RUN)
    assert "onednn_graph.backends.onednn.backend" in found
    assert within(found, *SELDOM) == []


@pytest.mark.parametrize("name", ["extend", "profile", "profiling", "training", "use_library", "__version__"])
def test_names_that_come_later_are_there(name):
    assert name in dir(og)
    assert printed(f"import onednn_graph as og; print(bool(og.{name}))").strip() == "True"
    assert printed(f"from onednn_graph import {name}; print(bool({name}))").strip() == "True"


def test_each_backend_is_made_once():
    code = """
from concurrent.futures import ThreadPoolExecutor
import onednn_graph as og
from onednn_graph.graph.compile.backend import BACKENDS
with ThreadPoolExecutor(8) as threads:
    made = list(threads.map(lambda _: id(BACKENDS.get("numpy")), range(64)))
print(len(set(made)), og.list_backends()["native"])
"""
    assert printed(code).split()[0] == "1"


def test_a_backend_that_could_not_be_made_is_asked_for_again():
    answers = [ImportError("the disk is full"), "made"]

    def make():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    backends = BackendRegistry()
    backends.register_later("b", make)
    with pytest.raises(ImportError, match="the disk is full"):
        backends.get("b")
    assert backends.get("b") == backends.get("b") == "made"
    backends.unregister("b")
    with pytest.raises(og.ArgumentError, match="backend must be one of"):
        backends.get("b")
