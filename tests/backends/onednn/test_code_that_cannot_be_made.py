"""Kernels that the library offers and whose code it then can't generate: another one does it, and frames stay few."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.primitive import PrimitiveDesc
from onednn_graph.backends.onednn.plan.plan import KEPT_FRAMES, Plan
from onednn_graph.backends.onednn.weight_gradients.trial_run import TrialRun, way
from onednn_graph.ops.errors import LibraryError


def product_and_relu():
    graph = og.Graph()
    a, b = graph.input("a", "f32", (4, 6)), graph.input("b", "f32", (6, 5))
    graph.op("ReLU", graph.op("MatMul", a, b))
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(-4, 5, (4, 6)), "b": rng.integers(-4, 5, (6, 5))}
    return graph, {name: array.astype(np.float32) for name, array in arrays.items()}


@pytest.mark.parametrize("failing", ["matmul", "everything"])
def test_what_has_no_code_is_done_by_another(swept, monkeypatch, failing):
    make = PrimitiveDesc.create

    def create(desc):
        if failing in (desc.function, "everything"):
            raise LibraryError("dnnl_primitive_create failed with status 3")
        return make(desc)

    monkeypatch.setattr(PrimitiveDesc, "create", create)
    graph, arrays = product_and_relu()
    model = graph.compile()
    (got,) = model(arrays).values()
    np.testing.assert_array_equal(got, np.maximum(arrays["a"] @ arrays["b"], 0))
    assert "has no code" in str(model.explain())
    assert {part.backend for part in model.partitions} == {"numpy"}


def test_frames_of_trials_stay_few(onednn):
    graph, arrays = product_and_relu()
    plan = graph.compile()._stages[0].executable.plan
    assert isinstance(plan, Plan)

    class Trial:
        names = ("one", "other")

    class Candidate:
        def __init__(self, name):
            self.name, self.plan = name, plan

    run = TrialRun(Trial(), [Candidate(name) for name in Trial.names])
    result, kept = np.empty((4, 5), np.float32), []
    for _ in range(3 * KEPT_FRAMES + 5):
        kept.append(np.empty(plan.scratch_bytes + 4096, np.uint8))  # so that each lies somewhere else
        for number in range(2):
            with way(number):
                run([arrays["a"], arrays["b"]], [result, kept[-1]])
    np.testing.assert_array_equal(result, np.maximum(arrays["a"] @ arrays["b"], 0))
    assert len(run._frames) <= 2 * KEPT_FRAMES
