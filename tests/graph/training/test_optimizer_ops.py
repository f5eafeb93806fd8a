"""The steps of optimizers as ops: in place or not, in chunks, on threads; and learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.numpy.chunks import CHUNK
from onednn_graph.graph.runtime.arrays import Array
from rows import each

T = og.training
NAMES = {"float32": "f32", "float64": "f64", "int64": "s64"}
SIZES = [0, 1, 1000, CHUNK, CHUNK + 1, 9 * CHUNK + 17]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    og.set_num_threads(request.param)
    yield request.param
    og.set_num_threads(None)


def numbers(size: int) -> tuple[Array, Array, Array]:
    """Integers, so that every order of the same sums is exact."""
    rng = np.random.default_rng(size)
    a, b, c = (rng.integers(-8, 8, size).astype(np.float32) for _ in range(3))
    return a, b, c


@each("in_place", [False, True])
@each("size", SIZES)
@each("nesterov", [False, True])
def test_sgd(threads: int, size: int, in_place: bool, nesterov: bool) -> None:
    parameter, gradient, velocity = numbers(size)
    graph = og.Graph()
    w, v = graph.parameter(parameter, name="w"), graph.parameter(velocity, name="v")
    g, rate = graph.input("g", "f32", [size]), graph.constant(np.float64(0.5))
    scale = graph.constant(np.float64(2))
    made = graph.op(
        "HostSGD", w, g, rate, scale, v, outputs=2, momentum=0.25, nesterov=nesterov, weight_decay=0.125
    )
    graph.assign(w, made[0])
    graph.assign(v, made[1])
    if not in_place:
        for tensor in made:
            graph.output(tensor)
    model = graph.compile()
    for _ in range(2):
        model(gradient)
        step = 2 * gradient + parameter / 8
        velocity = velocity / 4 + step
        parameter = parameter - (step + velocity / 4 if nesterov else velocity) / 2
        assert np.array_equal(graph.parameters["w"], parameter)
        assert np.array_equal(graph.parameters["v"], velocity)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_adam_in_f64(threads: int, size: int, decoupled: bool) -> None:
    parameter, gradient, mean = numbers(size)
    square = mean**2
    names = {"w": parameter, "m": mean, "s": square}
    graph = og.Graph()
    w, m, s = (graph.parameter(array, name=name) for name, array in names.items())
    g, step = graph.input("g", "f32", [size]), graph.input("step", "s64", [])
    rate, scale = graph.constant(np.float64(0.01)), graph.constant(np.float64(0.5))
    made = graph.op(
        "HostAdam", w, g, rate, scale, step, m, s, beta1=0.8, beta2=0.9, epsilon=1e-3, weight_decay=0.1,
        decoupled=decoupled,
    )  # fmt: skip
    for target, value in zip((w, m, s), made, strict=True):
        graph.assign(target, value)
    model = graph.compile()
    p, mu, nu = (array.astype(np.float64) for array in names.values())
    for number in (1, 2, 3):
        model(gradient, np.int64(number))
        given = gradient.astype(np.float64) / 2
        if decoupled:
            p *= 1 - 0.001
        else:
            given = given + 0.1 * p
        mu, nu = 0.8 * mu + 0.2 * given, 0.9 * nu + 0.1 * given**2
        p -= 0.01 * (mu / (1 - 0.8**number)) / (np.sqrt(nu / (1 - 0.9**number)) + 1e-3)
    for name, want in (("w", p), ("m", mu), ("s", nu)):
        np.testing.assert_allclose(graph.parameters[name], want, rtol=1e-5, atol=1e-6)


def test_a_scale_of_zero_leaves_everything_as_it_is() -> None:
    graph = og.Graph()
    array = np.array([1, np.inf, -0.0], np.float32)
    w, v = graph.parameter(array, name="w"), graph.parameter(array, name="v")
    g, one, none = graph.input("g", "f32", [3]), graph.constant(np.float64(1)), graph.constant(np.float64(0))
    made = graph.op("HostSGD", w, g, one, none, v, outputs=2, momentum=0.5, weight_decay=1.0)
    graph.assign(w, made[0])
    graph.output(made[1], name="next")
    found = graph.compile()(np.full(3, np.nan, np.float32))
    assert found["next"].tobytes() == array.tobytes() == graph.parameters["w"].tobytes()


@pytest.mark.parametrize(
    ("arrays", "max_norm", "guard", "scale", "norm"),
    [
        ([[3, 4], [12]], 0.0, False, 1, 13),
        ([[3, 4], [12]], 26.0, False, 1, 13),
        ([[3, 4], [12]], 6.5, False, 0.5, 13),
        ([[0, 0]], 1.0, True, 1, 0),
        ([[1, np.nan]], 1.0, True, 0, np.nan),
        ([[1], [-np.inf]], 0.0, True, 0, np.inf),
        ([[1, np.nan]], 1.0, False, 1, np.nan),
        ([[3 * 2.0**90], [4 * 2.0**90]], 0.0, True, 1, 5 * 2.0**90),  # squares that f32 has not
    ],
)
def test_gradient_scale(
    arrays: list[list[float]], max_norm: float, guard: bool, scale: float, norm: float
) -> None:
    graph = og.Graph()
    inputs = [graph.input(f"g{n}", "f32", [len(array)]) for n, array in enumerate(arrays)]
    graph.op("HostGradientScale", *inputs, max_norm=max_norm, guard=guard, outputs=2, name="x")
    found = graph.compile()(*[np.array(array, np.float32) for array in arrays])
    assert found["x.scale"] == scale
    assert np.array_equal(found["x.norm"], norm, equal_nan=True)


def test_the_norm_is_the_same_on_any_number_of_threads() -> None:
    array = np.random.default_rng(0).standard_normal(9 * CHUNK + 5).astype(np.float32)
    graph = og.Graph()
    graph.op("HostGradientScale", graph.input("g", "bf16", [array.size]), outputs=2, name="x")
    model, found = graph.compile(), set[float]()
    narrow = array.astype(ml_dtypes.bfloat16)
    for count in (1, 2, 5):
        og.set_num_threads(count)
        found.add(float(model(narrow)["x.norm"]))
    og.set_num_threads(None)
    assert len(found) == 1
    want = math.sqrt(float((narrow.astype(np.float64) ** 2).sum()))
    assert found.pop() == pytest.approx(want, rel=3e-7)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (T.Constant(0.5), {0: 0.5, 9: 0.5}),
        (T.StepDecay(1.0, 3, 0.5), {0: 1, 2: 1, 3: 0.5, 6: 0.25}),
        (T.Cosine(1.0, 4, 0.5), {0: 1, 2: 0.75, 4: 0.5, 9: 0.5}),
        (T.WarmUp(0.4, 4), {0: 0.1, 1: 0.2, 3: 0.4, 4: 0.4, 9: 0.4}),
        (T.WarmUp(T.Cosine(1.0, 2), 2), {0: 0.5, 1: 1, 2: 1, 3: 0.5, 4: 0}),
    ],
)
def test_schedules(schedule: T.Schedule, rates: dict[int, float]) -> None:
    for step, rate in rates.items():
        assert schedule(step) == pytest.approx(rate)


def test_a_schedule_sets_the_rate_of_each_step() -> None:
    graph = og.Graph()
    x, w = graph.input("x", "f32", [2]), graph.parameter(np.zeros(2, np.float32), name="w")
    loss = graph.op("ReduceSum", graph.op("Multiply", x, w), axes=[0])
    trainer = T.Trainer(graph, loss, T.SGD(lambda step: float(2**step)))
    ones, total = np.ones(2, np.float32), 0.0
    for step in range(4):
        trainer.step({"x": ones})
        total += 2**step
        assert np.array_equal(graph.parameters["w"], -total * ones)


@pytest.mark.parametrize("strides", [[9, 1], [1, 4], [1, 7]])
@pytest.mark.parametrize("scale", [0.0, 1.0, 2.0])
@pytest.mark.parametrize(("kind", "states"), [("HostSGD", 0), ("HostSGD", 1), ("HostAdam", 2)])
def test_results_go_to_where_they_are_wanted(
    kind: str, states: int, scale: float, strides: list[int]
) -> None:
    """Columns of wider arrays and transposed ones get what arrays of rows get."""
    rng = np.random.default_rng(0)
    scalars = [np.float64(0.5), np.float64(scale), *([np.int64(3)] if kind == "HostAdam" else [])]
    arrays = [rng.integers(1, 8, (4, 6)).astype(np.float32) for _ in range(2 + states)]
    given = [*arrays[:2], *map(np.asarray, scalars), *arrays[2:]]
    more = {"momentum": 0.25} if kind == "HostSGD" and states else {}

    def results(lying: list[int]) -> list[Array]:
        inputs = [og.LogicalTensor(n, NAMES[a.dtype.name], a.shape) for n, a in enumerate(given)]
        outputs = [og.LogicalTensor(100 + n, "f32", [4, 6], strides=lying) for n in range(1 + states)]
        graph = og.Graph()
        graph.add_op(og.Op(0, kind, inputs, outputs, **more))
        graph.finalize()
        found = graph.compile()(dict(zip(inputs, given, strict=True)))
        return [found[tensor] for tensor in outputs]

    for found, want in zip(results(strides), results([6, 1]), strict=True):
        assert found.strides == tuple(4 * step for step in strides)
        np.testing.assert_array_equal(found, want)


def test_threads_go_on_where_the_main_one_has_ended() -> None:
    """Python's pools take no work any more then."""
    end = f"""
import threading, time
import numpy as np
import onednn_graph as og
og.set_num_threads(3)
size = {16 * CHUNK}
graph = og.Graph()
graph.op("Log", graph.input("x", "f32", [size]), name="y")
model = graph.compile(backend="numpy")
def run():
    threading.main_thread().join()
    time.sleep(0.2)
    y = model(np.ones(size, np.float32))["y"]
    print("[0.0, 0.0]" if not y.any() else y, flush=True)
threading.Thread(target=run).start()
"""
    assert processes.printed(end) == [0.0, 0.0]
