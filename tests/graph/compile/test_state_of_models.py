"""The parameters of what is compiled: read and set by name, also of what a file has brought, for all sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.compile import saving
from onednn_graph.graph.runtime.parameter import Parameter

ROW = np.array([1, 2, 3], np.float32)


def counting(sizes: Mapping[str, tuple[int, ...]] | None = None, held: og.Graph | None = None) -> og.Graph:
    """y = x + total, where total is the sum of all rows so far, and the scale of each; `sizes` of a template."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3] if sizes is None else list(sizes["x"]))
    if held is None:
        total = graph.parameter(np.zeros(3, np.float32), name="total")
        scale = graph.parameter(np.full(3, 2, np.float32), name="scale")
    else:
        shared = {one.name: held.held_parameters[one.id] for one in held.parameter_tensors}
        total, scale = (
            graph.add_parameter(
                og.LogicalTensor(graph.fresh_id(), "f32", [3], property_type="variable", name=name),
                shared[name],
            )
            for name in ("total", "scale")
        )
    summed = graph.add(total, graph.op("ReduceSum", graph.multiply(x, scale), axes=[0], keep_dims=False))
    graph.assign(total, summed)
    graph.output(graph.add(x, summed), name="y")
    return graph


def open_counting() -> og.OpenGraph:
    held = counting()
    x = og.LogicalTensor(0, "f32", [-1, 3], name="x")
    y = og.LogicalTensor(1, "f32", [-1, 3], name="y")
    return og.OpenGraph([x], [("y", y)], lambda sizes: counting(sizes, held))


def rows(count: int) -> np.ndarray:
    return np.tile(ROW, (count, 1))


def test_state_is_read_and_set() -> None:
    model = counting().compile()
    assert dict(model.state) == {"total": pytest.approx([0, 0, 0]), "scale": pytest.approx([2, 2, 2])}
    seen, before = model.state["total"], model.state.copy()
    model(rows(2))
    np.testing.assert_array_equal(seen, 4 * ROW)
    np.testing.assert_array_equal(before["total"], [0, 0, 0])
    assert not seen.flags.writeable
    model.state.update(before)
    np.testing.assert_array_equal(model(rows(2))["y"], rows(2) + 4 * ROW)
    model.state["total"] = 10 * ROW
    model.state["scale"] = np.ones(3, np.float32)
    np.testing.assert_array_equal(model(rows(2))["y"], rows(2) + 12 * ROW)
    assert repr(model.state) == "State(total [3], scale [3])"


def test_state_is_that_of_the_graph() -> None:
    graph = counting()
    model, other = graph.compile(), graph.compile()
    model(rows(2))
    np.testing.assert_array_equal(other.state["total"], 4 * ROW)
    other.state["total"] = ROW
    np.testing.assert_array_equal(graph.parameters["total"], ROW)


def test_nothing_is_set_where_something_is_wrong() -> None:
    model = counting().compile()
    wrong = [
        (
            {"total": ROW, "totals": ROW},
            og.ArgumentError,
            "no parameter 'totals' .did you mean 'total'.*; it has 'total', 'scale'",
        ),
        ({"total": ROW, "scale": np.ones(4, np.float32)}, og.ShapeError, "parameter 'scale' must have shape"),
        ({"total": ROW, "scale": np.ones(3)}, og.DataTypeError, "parameter 'scale'"),
        ([ROW], og.ArgumentTypeError, "a mapping from names to arrays, got"),
    ]
    for values, error, message in wrong:
        with pytest.raises(error, match=message):
            model.state.update(values)  # pyright: ignore[reportArgumentType]
        np.testing.assert_array_equal(model.state["total"], [0, 0, 0])
    with pytest.raises(KeyError, match="the model has no parameter 'nothing'; it has 'total', 'scale'"):
        model.state["nothing"]
    assert "nothing" not in model.state
    assert model.state.get("nothing") is None


def test_a_model_without_parameters_has_no_state() -> None:
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [2])), name="y")
    assert dict(graph.compile().state) == {}


def test_state_of_a_file(tmp_path: Path) -> None:
    model = counting().compile()
    model(rows(2))
    model.save_compiled(tmp_path / "model.compiled")
    again = og.Graph.load_compiled(tmp_path / "model.compiled")
    np.testing.assert_array_equal(again.state["total"], 4 * ROW)
    again.state["total"] = np.zeros(3, np.float32)
    np.testing.assert_array_equal(again(rows(2))["y"], rows(2) + 4 * ROW)
    np.testing.assert_array_equal(model.state["total"], 4 * ROW)


@pytest.mark.parametrize("make", [counting, open_counting])
def test_a_file_has_the_state_between_two_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], og.Graph | og.OpenGraph]
) -> None:
    """What other threads call meanwhile waits until it is written."""
    model, path = make().compile(), tmp_path / "model.compiled"
    model(rows(2))
    caller, called = threading.Thread(target=model, args=(rows(2),)), []

    def saved_slowly(*args: Any, real: Callable[..., None] = saving.save) -> None:
        caller.start()
        caller.join(0.2)
        called.append(not caller.is_alive())
        real(*args)

    monkeypatch.setattr(saving, "save", saved_slowly)
    model.save_compiled(path)
    caller.join()
    assert called == [False]
    np.testing.assert_array_equal(og.Graph.load_compiled(path).state["total"], 4 * ROW)
    np.testing.assert_array_equal(model.state["total"], 8 * ROW)


def test_sizes_of_a_template_share_their_state() -> None:
    model = open_counting().compile()
    np.testing.assert_array_equal(model.state["total"], [0, 0, 0])
    model(rows(2))
    model(rows(5))
    np.testing.assert_array_equal(model.state["total"], 14 * ROW)
    model.state["total"] = ROW
    np.testing.assert_array_equal(model(rows(1))["y"], rows(1) + 3 * ROW)


def test_sizes_of_a_file_share_their_state(tmp_path: Path) -> None:
    """A prompt, and then token by token: what one graph assigns another one reads."""
    model = open_counting().compile()
    model(rows(3))
    model(rows(1))
    model.save_compiled(tmp_path / "model.compiled")
    again = og.Graph.load_compiled(tmp_path / "model.compiled")
    again.state["total"] = np.zeros(3, np.float32)
    np.testing.assert_array_equal(again(rows(3))["y"], rows(3) + 6 * ROW)
    np.testing.assert_array_equal(again(rows(1))["y"], rows(1) + 8 * ROW)
    np.testing.assert_array_equal(again.state["total"], 8 * ROW)


@pytest.mark.parametrize("name", ["parameters", "set_parameters", "state_parameters"])
def test_who_looks_for_a_graphs_parameters_is_led_to_them(name: str) -> None:
    for model in (counting().compile(), open_counting().compile()):
        with pytest.raises(
            AttributeError, match=f"no attribute '{name}', which graphs have: model.state has the"
        ):
            getattr(model, name)


def adding(names: tuple[str, ...], held: dict[str, Parameter]) -> og.Graph:
    """Adds its input to each of these parameters."""
    graph = og.Graph()
    x = graph.input("x", "f32", [128, 128])
    for name in names:
        tensor = og.LogicalTensor(
            graph.fresh_id(), "f32", [128, 128], property_type="variable", name=f"held {name}"
        )
        own = graph.add_parameter(tensor, held[name])
        graph.assign(own, graph.add(own, x, name=name))
    return graph


@pytest.mark.parametrize("bound", [False, True], ids=["called", "bound"])
def test_models_that_assign_one_parameter_take_turns(bound: bool) -> None:
    held = {name: Parameter(np.zeros((128, 128), np.float32), np.dtype(np.float32)) for name in "abcd"}
    # The last two have turns of their own before the first one needs both, and in another order.
    whose = [("c", "d"), ("a",), ("b",), ("b", "a"), ("a", "d"), ("d", "a", "b"), ("a",)]
    models = [adding(names, held).compile() for names in whose]
    one = np.ones((128, 128), np.float32)
    calls: list[Callable[[], object]] = [
        model.bind([one]) if bound else (lambda model=model: model(one)) for model in models
    ]
    ready = threading.Barrier(len(calls))

    def work(call: Callable[[], object]) -> None:
        ready.wait()
        for _ in range(100):
            call()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "calls wait for each other"
    for name, parameter in held.items():
        times = 100 * sum(name in names for names in whose)
        np.testing.assert_array_equal(parameter.array, np.full((128, 128), times, np.float32))


@pytest.mark.parametrize("of_model", [False, True], ids=["graph", "model"])
def test_what_is_set_comes_between_calls_that_assign_it(of_model: bool) -> None:
    """Within one, parts would be written over."""
    graph = counting()
    model = graph.compile()
    values = {"total": np.full(3, 5, np.float32), "scale": np.ones(3, np.float32)}
    setter = threading.Thread(target=model.state.update if of_model else graph.set_parameters, args=(values,))
    (turn,) = model.turns
    with turn:
        setter.start()
        setter.join(0.2)
        assert setter.is_alive()
        np.testing.assert_array_equal(graph.parameters["scale"], [2, 2, 2])
    setter.join()
    for name, value in values.items():
        np.testing.assert_array_equal(graph.parameters[name], value)


def test_a_copy_of_the_state_is_taken_between_calls_that_assign_it() -> None:
    model = counting().compile()
    (turn,) = model.turns
    copies: list[Mapping[str, Any]] = []
    copier = threading.Thread(target=lambda: copies.append(model.state.copy()))
    with turn:
        copier.start()
        copier.join(0.2)
        assert copier.is_alive()
        model(rows(2))
    copier.join()
    np.testing.assert_array_equal(copies[0]["total"], 4 * ROW)
