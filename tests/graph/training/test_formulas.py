"""Steps of optimizers that are said as formulas: in place, in chunks, on threads; and what is no formula."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.numpy.chunks import CHUNK
from onednn_graph.graph.runtime.arrays import Array
from rows import each

T = og.training
SIZES = [0, 1, 1000, CHUNK, CHUNK + 1, 9 * CHUNK + 17]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    og.set_num_threads(request.param)
    yield request.param
    og.set_num_threads(None)


def built(formula: str, arrays: dict[str, Array], *, in_place: bool = True, **attributes: object) -> og.Graph:
    """A step of a rate of 0.5 and a scale of 2, of `w` and the states that follow it."""
    graph = og.Graph()
    held = [graph.parameter(array, name=name) for name, array in arrays.items()]
    g, step = graph.input("g", "f32", held[0].dims), graph.input("step", "s64", [])
    rate, scale = graph.constant(np.float64(0.5)), graph.input("scale", "f64", [])
    made = graph.op(
        "HostUpdate",
        held[0],
        g,
        rate,
        scale,
        step,
        *held[1:],
        outputs=len(held),
        formula=formula,
        **attributes,
    )
    results = [made] if isinstance(made, og.LogicalTensor) else made
    for target, value in zip(held, results, strict=True):
        graph.assign(target, value)
        if not in_place:
            graph.output(value)
    return graph


def integers(size: int) -> tuple[Array, Array, Array]:
    """So that every order of the same sums is exact."""
    rng = np.random.default_rng(size)
    a, b, c = (rng.integers(-8, 8, size).astype(np.float32) for _ in range(3))
    return a, b, c


@each("in_place", [False, True])
@each("size", SIZES)
def test_what_a_formula_says(threads: int, size: int, in_place: bool) -> None:
    w, g, first = integers(size)
    graph = built(
        "g = clip(scale * gradient, 4) - parameter / 8; first = first / 4 + (step - 1) * g; "
        "h = maximum(first, -2) ** 2; update = h + minimum(abs(first), 3) * sign(g)",
        {"w": w, "first": first},
        in_place=in_place,
    )
    model = graph.compile()
    for step in (1, 2, 3):
        model(g=g, step=np.int64(step), scale=np.float64(2))
        given = np.clip(2 * g, -4, 4) - w / 8
        first = first / 4 + (step - 1) * given
        w = w - (np.maximum(first, -2) ** 2 + np.minimum(np.abs(first), 3) * np.sign(given)) / 2
        assert np.array_equal(graph.parameters["first"], first)
        assert np.array_equal(graph.parameters["w"], w)


@each("size", SIZES[1:])
def test_steps_as_long_as_the_parameter(threads: int, size: int) -> None:
    w, g, first = (array + 9 for array in integers(size))
    graph = built("first = gradient + first; update = 3 * first", {"w": w, "first": first}, trust_ratio=True)
    model = graph.compile()
    for _ in range(2):
        model(g=g, step=np.int64(1), scale=np.float64(1))
        first = first + g
        length = np.linalg.norm(w.astype(np.float64)) / np.linalg.norm(3 * first.astype(np.float64))
        w = w - 0.5 * length * 3 * first
        np.testing.assert_allclose(graph.parameters["w"], w, rtol=1e-5, atol=1e-5)
        assert np.array_equal(graph.parameters["first"], first)


@each("size", SIZES[1:])
def test_steps_of_what_is_kept_elsewhere(size: int) -> None:
    """Inputs stay as they are, and the states of the first time over them count the second time."""
    w, g, first = (array + 9 for array in integers(size))
    graph = og.Graph()
    given = [graph.input(name, "f32", w.shape) for name in ("w", "g", "first")]
    numbers = [graph.constant(np.array(value, dtype)) for value, dtype in ((0.5, "f8"), (1, "f8"), (1, "i8"))]
    made = graph.op(
        "HostUpdate",
        *given[:2],
        *numbers,
        given[2],
        outputs=2,
        formula="first = gradient + first; update = 3 * first",
        trust_ratio=True,
    )
    for name, tensor in zip(("next_w", "next_first"), made, strict=True):
        graph.output(tensor, name=name)
    found = graph.compile()(w=w, g=g, first=first)
    length = np.linalg.norm(w.astype(np.float64)) / np.linalg.norm(3 * (first + g).astype(np.float64))
    np.testing.assert_allclose(found["next_w"], w - 0.5 * length * 3 * (first + g), rtol=1e-5, atol=1e-5)
    assert np.array_equal(found["next_first"], first + g)


@pytest.mark.parametrize(("w", "g"), [(0, 3), (3, 0)])
def test_a_step_from_or_of_nothing_is_taken_as_it_is(w: float, g: float) -> None:
    graph = built("update = gradient", {"w": np.full(4, w, np.float32)}, trust_ratio=True)
    graph.compile()(g=np.full(4, g, np.float32), step=np.int64(1), scale=np.float64(1))
    assert np.array_equal(graph.parameters["w"], np.full(4, w - g / 2))


def test_a_scale_of_zero_leaves_everything_as_it_is() -> None:
    array = np.array([1, np.inf, -0.0], np.float32)
    for trusts in (False, True):
        graph = built(
            "first = first + 1; update = first * gradient", {"w": array, "first": array}, trust_ratio=trusts
        )
        graph.compile()(g=np.full(3, np.nan, np.float32), step=np.int64(1), scale=np.float64(0))
        assert graph.parameters["w"].tobytes() == graph.parameters["first"].tobytes() == array.tobytes()


def test_signs() -> None:
    given = np.array([3, -2, 0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, np.nan], np.float32)
    graph = built("update = sign(gradient)", {"w": np.zeros(9, np.float32)})
    graph.compile()(g=given, step=np.int64(1), scale=np.float64(1))
    assert (-2 * graph.parameters["w"]).tolist() == [1, -1, 0, 0, 1, -1, 1, -1, 0]


def test_names_may_be_assigned_again_and_stand_for_what_they_were() -> None:
    w, g, first = integers(100)
    graph = built(
        "a = gradient; b = a; a = a * a; first = b; c = first; first = first + a; update = c + b + 2 * a",
        {"w": w, "first": first},
    )
    graph.compile()(g=g, step=np.int64(1), scale=np.float64(1))
    assert np.array_equal(graph.parameters["first"], g + g * g)
    assert np.array_equal(graph.parameters["w"], w - (2 * g + 2 * g * g) / 2)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("update = ", "it is no assignments such as"),
        (
            "gradient * 2",
            "it must be assignments such as 'update = scale \\* gradient', got 'gradient \\* 2'",
        ),
        ("first = gradient", "it must assign 'update'"),
        ("update = rate", "'update' must be made of arrays"),
        ("update = gradient; first = 3", "'first' must be made of arrays"),
        ("parameter = gradient", "'parameter' is given, and can't be assigned"),
        ("update = second", "it reads 'second', which has no value; it has first, gradient, "),
        ("update = gradient ** 3", "an array has the power 2 alone"),
        ("update = exp(gradient)", r"it has 'exp\(gradient\)'; write names, numbers"),
        ("update = gradient.real", "it has 'gradient.real'; write names, numbers"),
        ("update = gradient if step else first", "; write names, numbers"),
        ("update = gradient * True", "it has 'True'; write names"),
        ("update = clip(gradient)", r"it has 'clip\(gradient\)'; write names"),
        ("update = gradient * 1" + "0" * 400, "it has a number that is too large"),
        ("update = " + "-" * 1900 + "gradient", "it is nested too deeply|it is no assignments"),
        (
            "update = gradient" + " " * 2000 + ";first = gradient",
            "it must have at most 2000 characters, got 2034",
        ),
    ],
)
def test_what_is_no_formula(formula: str, message: str) -> None:
    with pytest.raises(og.ShapeError, match=f"HostUpdate.*attribute 'formula': .*({message})"):
        built(formula, {"w": np.zeros(2, np.float32), "first": np.zeros(2, np.float32)}).finalize()


def test_a_length_is_of_an_update_that_can_be_made_again() -> None:
    with pytest.raises(
        og.ShapeError, match="with trust_ratio 'update' must be made of what the states are behind"
    ):
        built(
            "update = first + gradient; first = gradient",
            {"w": np.zeros(2, np.float32), "first": np.zeros(2, np.float32)},
            trust_ratio=True,
        ).finalize()


@pytest.mark.parametrize(
    "optimizer",
    [
        T.RMSprop(0.1, momentum=0.5, centered=True),
        T.Adagrad(0.1, lr_decay=0.5),
        T.Lion(0.1),
        T.LAMB(0.1),
        T.Adam(0.1, amsgrad=True),
        T.SGD(0.1, momentum=0.5, clip_value=0.25),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_training_goes_on_from_a_file_bit_for_bit(
    optimizer: T.Optimizer, precision: str, tmp_path: Path
) -> None:
    pytest.importorskip("safetensors")

    def trainer() -> tuple[og.Graph, T.Trainer]:
        graph = og.Graph()
        x, y = graph.input("x", "f32", [4, 3]), graph.input("y", "f32", [4, 2])
        w = graph.parameter(np.arange(6, dtype=np.float32).reshape(3, 2) / 8, name="w")
        loss = T.mean_squared_error(graph, graph.op("MatMul", x, w), y)
        return graph, T.Trainer(graph, loss, optimizer, precision=precision, deterministic=True)

    rng = np.random.default_rng(0)
    feeds = [
        {"x": rng.standard_normal((4, 3)).astype(np.float32), "y": np.ones((4, 2), np.float32)}
        for _ in range(9)
    ]
    graph, whole = trainer()
    for number, one in enumerate(feeds):
        whole.step(one)
        if number == 3:
            whole.save(tmp_path / "state")
    other, resumed = trainer()
    resumed.load(tmp_path / "state")
    for one in feeds[4:]:
        resumed.step(one)
    assert graph.parameters["w"].tobytes() == other.parameters["w"].tobytes()
    assert not np.array_equal(graph.parameters["w"], np.arange(6).reshape(3, 2) / 8)


@pytest.mark.parametrize("name", ["clip_value", "clip_norm"])
@pytest.mark.parametrize("optimizer", [T.SGD, T.Adam, T.RMSprop, T.Lion])
def test_nothing_is_clipped_to_0(name: str, optimizer: type) -> None:
    with pytest.raises(og.ArgumentError, match=f"{name} must be above 0, or None for no clipping, got 0"):
        optimizer(0.1, **{name: 0})
