"""An attempt at an op that comes to nothing leaves nothing but a reason in any part of a lowering."""

from __future__ import annotations

import onednn_graph as og
import pytest
from compile_requests import request_of
from onednn_graph.backends.onednn.library.engines import native_engine
from onednn_graph.backends.onednn.lowering.lowering import Lowered, Lowering
from onednn_graph.backends.onednn.lowering.table import LOWERED
from onednn_graph.backends.onednn.lowering.tensors import Rectified
from onednn_graph.backends.onednn.lowering.walk import lower_all
from onednn_graph.backends.onednn.lowering.way import Way
from onednn_graph.backends.onednn.plan.emitter import Emitter
from onednn_graph.backends.onednn.plan.unfit import Unfit
from onednn_graph.graph.runtime.executable import Considered
from onednn_graph.ops.data_types import DataType
from onednn_graph.ops.errors import LibraryError

pytestmark = pytest.mark.usefixtures("onednn")


@pytest.fixture
def graph():
    made = og.Graph()
    x = made.input("x", "s8", [4, 6])
    y = made.op("ReLU", made.op("Dequantize", x, scales=[0.5], name="real"), name="rectified")
    made.output(made.op("Exp", y, name="y"))
    return made


def lowering(graph):
    request = request_of(graph)
    return Lowering(native_engine(request.engine), request)


def state(part):
    """All that a part holds, as plain collections."""
    held = {name: value for name, value in vars(part).items() if "Journalled" in type(value).__name__}
    return {
        name: dict(value)
        if hasattr(value, "keys")
        else list(value)
        if hasattr(value, "append")
        else set(value)
        for name, value in held.items()
    }


def states(low):
    return {name: state(getattr(low, name)) for name in ("tensors", "emitter", "chooser", "notes")}


def change_everything(low):
    """Something in each collection of each part."""
    dequantize, relu, exp = low.request.ops
    real = relu.inputs[0]
    assert low.tensors.quantized(real) is not None
    buffer = low.layouts.temporary((4, 6), DataType.f32)
    low.tensors.produce(real, buffer)
    low.tensors.leave_opaque(exp.outputs[0], buffer, None)
    low.tensors.rectified[relu.outputs[0].id] = Rectified(relu, buffer, buffer, "kernel")
    low.emitter.on_host("something", lambda ins, outs: None, (), (buffer,))
    low.emitter.belongs_to(exp.id, 0)
    low.emitter._wide[0] = buffer
    low.chooser.choose(exp.id, ["first", "second"])
    low.notes.absorb(dequantize, relu)
    low.notes.take_along(exp)
    low.notes.lacking.add(exp.id)
    low.notes.hosted.append(exp)
    low.notes.considered.append(
        Considered(strategy="strategy", estimated_seconds=1.0, measured_seconds=None, scratch_bytes=0)
    )
    low.notes.ways.append("strategy")
    low.notes.decided[exp.id] = "problem", None


def spoil(low, error):
    """An attempt that comes to nothing at last."""
    with low.attempt(Way(integers=True, through_f32=True, references=True)):
        assert low.tensors.way.through_f32
        assert low.chooser.references
        change_everything(low)
        raise error("nothing comes of it")


def test_the_test_changes_every_collection(graph):
    low = lowering(graph)
    before = states(low)
    change_everything(low)
    after = states(low)
    same = [
        (part, name) for part in before for name in before[part] if before[part][name] == after[part][name]
    ]
    assert not same


@pytest.mark.parametrize("error", [Unfit, LibraryError])
def test_all_parts_are_as_they_were(graph, error):
    low = lowering(graph)
    before, way = states(low), low.tensors.way
    with pytest.raises(error, match="nothing comes of it"):
        spoil(low, error)
    assert states(low) == before
    assert low.tensors.way is way
    assert not low.chooser.references


def test_what_fits_stays(graph):
    low = lowering(graph)
    with low.attempt(Way(integers=True)):
        change_everything(low)
    assert low.notes.ways[:] == ["strategy"]
    assert len(low.emitter.steps) == 1


def test_an_attempt_within_another_is_undone_alone(graph):
    low = lowering(graph)
    with low.attempt(Way()):
        low.notes.ways.append("outer")
        with pytest.raises(Unfit, match="nothing comes of it"):
            spoil(low, Unfit)
        assert low.notes.ways[:] == ["outer"]
        assert not low.emitter.steps


def test_a_lowering_that_fails_at_last_leaves_a_reason(graph):
    """The op is done on the host then, and what its own lowering noted is not in the plan or its explanation."""
    low = lowering(graph)

    def spoiled(low, op, links):
        LOWERED["Exp"].lower(low, op, links)
        low.notes.ways.append("never")
        raise Unfit("it is spoiled")

    lower_all(low, {**LOWERED, "Exp": Lowered(spoiled)})
    assert [op.kind for op in low.notes.hosted] == ["Exp"]
    assert low.notes.strategy == "primitives in order"
    assert any("it is spoiled" in reason for reason in low.notes.reasons)
    assert sum(not step.is_copy for step in low.emitter.steps) == 2


def test_candidates_are_considered_once(monkeypatch):
    """A weight gradient whose first way comes to nothing after its candidates are noted, is tried in f32."""
    graph = og.Graph()
    x, dy = graph.input("x", "bf16", [1, 8, 6, 6]), graph.input("dy", "bf16", [1, 8, 6, 6])
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    gradient = graph.op(
        "ConvolutionBackwardWeights",
        x,
        dy,
        weights_shape=[8, 8, 3, 3],
        data_format="NCX",
        weights_format="OIX",
        **window,
    )
    graph.output(gradient, name="dw")
    splice, failed = Emitter.splice, []

    def spliced(self, steps, arguments):
        if not failed:
            failed.append(True)
            raise Unfit("it is spoiled")
        splice(self, steps, arguments)

    monkeypatch.setattr(Emitter, "splice", spliced)
    (explanation,) = graph.compile(backend="onednn").explain().values()
    names = [one.strategy for one in explanation.considered]
    assert failed
    assert len(names) == len(set(names))
    assert explanation.strategy in names
