"""`verify=True` finds kernels and plans that are wrong, whose faults are planted, and what is compiled is right."""

import ctypes

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import proven
from onednn_graph.backends.onednn.library.enumerators import Arg
from onednn_graph.backends.onednn.lowering import finishing
from onednn_graph.backends.onednn.plan import plan as plans
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.backends.onednn.plan.hoisting import flow
from onednn_graph.backends.onednn.plan.steps import Buffer, HostStep, Step

pytestmark = pytest.mark.usefixtures("swept")

ENDS = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def convolutions():
    """Three with ReLU between, whose layouts are the library's."""
    graph = og.Graph()
    y = graph.input("x", "f32", [2, 32, 12, 12])
    for number in range(3):
        w = graph.constant(np.random.default_rng(number).integers(-2, 3, (32, 32, 3, 3)).astype(np.float32))
        y = graph.op("Convolution", y, w, data_format="NCX", weights_format="OIX", **ENDS)
        y = graph.relu(y) if number < 2 else y
    graph.output(graph.op("Sigmoid", graph.op("Clamp", y, min=-2.0, max=2.0)), name="y")
    return graph


def attention():
    """In blocks of heads where `scratch_limit` is 0."""
    graph = og.Graph()
    q, k, v = (graph.input(name, "f32", [1, 4, 64, 8]) for name in "qkv")
    scores = graph.op("SoftMax", graph.matmul(q, k, transpose_b=True), axis=3)
    graph.output(graph.matmul(scores, v), name="y")
    return graph


def pooled():
    """What one kernel makes of a constant, and a look at it mends where that is −∞."""
    graph = og.Graph()
    c = graph.input("c", "f32", [1, 8, 12, 12], property_type="constant")
    sizes = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    y = graph.op("MaxPool", c, data_format="NCX", **sizes)
    graph.output(graph.op("Multiply", y, graph.input("x", "f32", y.dims)), name="y")
    return graph


class Fault:
    """Something that goes wrong behind a kernel, in every frame that is made while it is planted.

    Args:
        where: of which steps.
        what: is given the frame, the step's result and the kernel, which it calls or does not.
        when: is asked with the number of the call.
    """

    def __init__(self, monkeypatch, where, what, when=lambda call: True):
        self.calls = self.struck = 0
        real, point = Frame.__init__, Frame.point

        def made(frame, plan, arena=None):
            real(frame, plan, arena)
            for number, (step, call) in enumerate(zip(plan.steps, frame._calls, strict=True)):
                if isinstance(step, Step) and where(step, plan):
                    frame._calls[number] = self.around(frame, step, call, what, when)
            frame._runs = frame._in_batches()

        def pointed(frame, addresses, settled=None):
            frame.addresses = addresses
            point(frame, addresses, settled)

        monkeypatch.setattr(Frame, "__init__", made)
        monkeypatch.setattr(Frame, "point", pointed)

    def around(self, frame, step, call, what, when):
        def run():
            self.calls += 1
            strike = when(self.calls)
            if not (strike and what is nothing):
                assert frame._executed(call) == 0
            if strike and what is not nothing:
                (buffer,) = {b.root: b for b in flow(step).writes}.values()
                what(frame.place(buffer, frame.addresses), buffer.desc.nbytes)
            self.struck += strike

        return run


def nothing(place, nbytes):
    """The kernel does not run."""


def one_element(place, nbytes):
    """The last element is another."""
    ctypes.c_float.from_address(place + nbytes - 4).value += 64.0


def little(place, nbytes):
    """The last element is another, by a little."""
    ctypes.c_float.from_address(place + nbytes - 4).value += 1.0


def beyond(place, nbytes):
    """An element behind the last is written."""
    ctypes.c_float.from_address(place + nbytes).value = 1.0


def of(function):
    return lambda step, plan: step.desc.function == function


def has_post_op(step, plan):
    attributes = getattr(step.desc.asked, "attributes", None)
    return step.desc.function == "convolution_forward" and bool(attributes and attributes.post_ops)


def in_blocks(step, plan):
    """Whether the weights of a convolution lie in blocks."""
    given = {number: buffer.desc for number, buffer in step.arguments}
    return step.desc.function == "convolution_forward" and bool(given[Arg.WEIGHTS].blocks)


FAULTS = {
    "a kernel that writes nothing": (convolutions, {}, of("convolution_forward"), nothing, None),
    "a wrong element": (convolutions, {}, of("convolution_forward"), one_element, None),
    "one element beyond": (attention, {}, of("matmul"), beyond, None),
    "with a post-op alone": (convolutions, {}, has_post_op, one_element, None),
    "in a layout alone": (convolutions, {}, in_blocks, one_element, None),
    "in the first call": (convolutions, {}, of("convolution_forward"), one_element, lambda call: call == 1),
    "from the second call on": (convolutions, {}, of("convolution_forward"), one_element, lambda call: call > 3),
    "in the second block alone": (attention, {"scratch_limit": 0}, of("matmul"), one_element, lambda call: call == 4),
    "with two threads": (
        convolutions, {"threads": 2},
        lambda step, plan: plan.threads == 2 and step.desc.function == "convolution_forward", one_element, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_found(monkeypatch, name):
    make, options, where, what, when = FAULTS[name]
    graph = make()
    rng = np.random.default_rng(0)
    feeds = {t.name: rng.integers(-2, 3, t.dims).astype(np.float32) for t in graph.inputs}
    right = graph.compile(backend="numpy")(feeds)["y"].copy()
    with monkeypatch.context() as patch:
        fault = Fault(patch, where, what, when or (lambda call: True))
        model = graph.compile(verify=True, **options)
        assert fault.struck
        told = " ".join(reason for one in model.explain().values() for reason in one.rejected)
        assert "failed verification" in told
        if when is None:
            np.testing.assert_allclose(model(feeds)["y"], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("verify", [False, True])
def test_a_constant_that_is_prepared_before_it_is_updated(monkeypatch, verify):
    """The look at a result is moved to where constants are prepared, where nothing has been made yet."""

    def moved(steps, constant):
        return [step for step in steps if isinstance(step, HostStep) and step.updates]

    graph = pooled()
    with monkeypatch.context() as patch:
        patch.setattr(finishing, "made_of_constants", moved)
        patch.setattr(proven, "PROVEN", proven.PROVEN if verify else {})
        model = graph.compile(verify=verify)
    told = " ".join(reason for one in model.explain().values() for reason in one.rejected)
    assert "are wrong where constants are infinite" in told
    feeds = {"c": np.full((1, 8, 12, 12), -np.inf, np.float32), "x": np.ones((1, 8, 6, 6), np.float32)}
    np.testing.assert_array_equal(model(feeds)["y"], np.full((1, 8, 6, 6), -np.inf))


def test_two_temporaries_in_one_place(monkeypatch):
    real = plans.Plan.__init__

    def made(plan, engine, steps):
        real(plan, engine, steps)
        first, *others = [one for one in plan.offsets if isinstance(one, Buffer)] or [None]
        plan.offsets.update(dict.fromkeys(others, plan.offsets.get(first, 0)))

    graph = convolutions()
    rng = np.random.default_rng(0)
    feeds = {"x": rng.integers(-2, 3, (2, 32, 12, 12)).astype(np.float32)}
    right = graph.compile(backend="numpy")(feeds)["y"].copy()
    monkeypatch.setattr(plans.Plan, "__init__", made)
    model = graph.compile(verify=True)
    told = " ".join(reason for one in model.explain().values() for reason in one.rejected)
    assert "failed verification" in told
    np.testing.assert_allclose(model(feeds)["y"], right, rtol=1e-5, atol=1e-6)


def test_a_kernel_in_doubt_that_constants_are_prepared_by(monkeypatch):
    """What it makes shows in the product behind it, and no longer in the shares of that, of which one is all."""
    graph = og.Graph()
    x = graph.input("x", "f32", [3, 64])
    w = graph.input("w", "s8", [64, 48], property_type="constant")
    scales = graph.input("scales", "f32", [8, 48], property_type="constant")
    real = graph.op("DynamicDequantize", w, scales, qtype="per_group", group_shape=[8, 1])
    graph.output(graph.op("SoftMax", graph.op("MatMul", x, real), axis=-1), name="y")
    known = {lib: {**kinds} for lib, kinds in proven.PROVEN.items()}
    for kinds in known.values():
        kinds.pop("binary", None)
    monkeypatch.setattr(proven, "PROVEN", known)
    with monkeypatch.context() as patch:
        fault = Fault(patch, of("binary"), little)
        model = graph.compile()
        assert fault.struck
    told = " ".join(reason for one in model.explain().values() for reason in one.rejected)
    assert "failed verification" in told
