"""Training of models whose ops depend on open sizes: a graph for each set of sizes, and one set of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array
from onednn_graph.graph.runtime.parameter import Parameter

T = og.training
RNG = np.random.default_rng(2)
W = RNG.integers(-2, 3, (6, 2)).astype(np.float32)


def flattened() -> og.OpenGraph:
    """x (n, 2, 3) → x as (n, 6) · w: a reshape to sizes that are computed, as exporters write it."""
    held = og.Graph()
    shared = held.parameter(W, name="w")

    def make(shapes: Mapping[str, tuple[int, ...]]) -> og.Graph:
        (batch, *rest) = shapes["x"]
        graph = og.Graph()
        x = graph.input("x", "f32", [batch, *rest])
        flat = graph.op("StaticReshape", x, shape=[batch, 6], special_zero=False)
        w = graph.add_parameter(
            og.LogicalTensor(graph.fresh_id(), "f32", W.shape, property_type="variable", name="w"),
            held.held_parameters[shared.id],
        )
        graph.output(graph.matmul(flat, w), name="found")
        return graph

    x = og.LogicalTensor(0, "f32", [-1, 2, 3], name="x")
    return og.OpenGraph([x], [("found", og.LogicalTensor(1, "f32", [-1, 2], name="found"))], make)


def loss_of(graph: og.Graph) -> og.LogicalTensor:
    return T.mean_squared_error(graph, graph.outputs[0], graph.input("y", "f32", [-1, 2]))


def plain() -> tuple[og.Graph, og.LogicalTensor]:
    """The same as a graph of its own."""
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 2, 3])
    flat = graph.op("StaticReshape", x, shape=[-1, 6], special_zero=False)
    graph.output(graph.matmul(flat, graph.parameter(W, name="w")), name="found")
    return graph, loss_of(graph)


def feeds(size: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.integers(-2, 3, (size, 2, 3)).astype(np.float32),
        "y": rng.integers(-2, 3, (size, 2)).astype(np.float32),
    }


def both(**options: Any) -> tuple[T.Trainer, T.Trainer]:
    graph, loss = plain()
    made = (T.Trainer(flattened(), loss_of, T.AdamW(0.1), deterministic=True, **options),)
    return (*made, T.Trainer(graph, loss, T.AdamW(0.1), deterministic=True, **options))


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2}, {"ema": 0.5}, {"precision": "bf16"}], ids=lambda o: "".join(o)
)
def test_batches_of_all_lengths_do_what_they_do_in_one_graph(options: dict[str, Any], tmp_path: Path) -> None:
    opened, closed = both(**options)
    batches = [feeds(size, seed) for seed, size in enumerate((4, 4, 1, 3))]
    for batch in batches:
        assert opened.step(batch) == closed.step(batch)
    ema = "ema" in options
    for size in (2, 5):
        one, other = (trainer.evaluate(feeds(size, 9), ema=ema) for trainer in (opened, closed))
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    assert opened.validate(batches, ema=ema) == closed.validate(batches, ema=ema)
    opened.save(tmp_path / "opened.safetensors")
    closed.load(tmp_path / "opened.safetensors")
    assert opened.step(batches[0]) == closed.step(batches[0])


def test_fit_takes_a_shorter_last_batch() -> None:
    opened, closed = both()
    data = feeds(7)
    metrics = {"error": lambda outputs, fed: np.abs(outputs["found"] - fed["y"]).mean(1)}
    told = [
        trainer.fit(
            T.Loader(data, 3), 2, validation=T.Loader(data, 4), metrics=metrics, training_metrics=metrics
        )
        for trainer in (opened, closed)
    ]
    assert [one.values for one in told[0]] == [one.values for one in told[1]]
    assert told[0][0].steps == 3


def test_the_model_is_served_for_all_sizes_as_it_was() -> None:
    opened, closed = both(ema=0.5)
    for trainer in (opened, closed):
        trainer.step(feeds(4))
    with pytest.raises(og.GraphError, match=r"open_model\(\).with_shapes"):
        opened.model()
    with pytest.raises(og.GraphError, match=r"trainer.model\(\) gives it"):
        closed.open_model()
    for ema in (False, True):
        served, wanted = opened.open_model(ema=ema), closed.model(ema=ema)
        assert (served.input_names, served.output_names) == (("x",), ("found",))
        assert [t.shape for t in (*served.inputs, *served.outputs)] == [(-1, 2, 3), (-1, 2)]
        before = [wanted.compile()(feeds(size)["x"])["found"] for size in (1, 6)]
        opened.step(feeds(4))  # which what was taken does not see
        compiled = served.compile()
        for size, there in zip((1, 6), before, strict=True):
            np.testing.assert_array_equal(compiled(feeds(size)["x"])["found"], there)
        closed.step(feeds(4))
        whole = served.with_shapes({"x": [6, 2, 3]})
        assert isinstance(whole, og.Graph)
        assert not whole.parameters


def test_what_the_function_of_the_loss_adds_is_one_for_all_sizes() -> None:
    """A head that is drawn anew for each graph is the same parameter in all of them."""

    def with_head(graph: og.Graph) -> og.LogicalTensor:
        head = graph.parameter(np.random.default_rng().normal(size=(2, 2)).astype(np.float32), name="head")
        found = graph.output(graph.matmul(graph.outputs[0], head), name="more")
        return T.mean_squared_error(graph, found, graph.input("y", "f32", [-1, 2]))

    trainer = T.Trainer(flattened(), with_head, {"head": T.SGD(0.01), "*": None})
    losses = [trainer.step(feeds(size)) for size in (4, 2, 4, 2) * 30]
    assert losses[-2] < losses[0]
    assert losses[-1] < losses[1]
    served = trainer.open_model(["more"]).compile()
    x = feeds(3)["x"]
    np.testing.assert_array_equal(served(x)["more"], trainer.evaluate({"x": x})["more"])


def test_a_graph_may_have_its_loss_as_a_function_too() -> None:
    graph, loss = plain()
    model = og.Graph()
    x = model.input("x", "f32", [-1, 2, 3])
    flat = model.op("StaticReshape", x, shape=[-1, 6], special_zero=False)
    model.output(model.matmul(flat, model.parameter(W, name="w")), name="found")
    trainers = T.Trainer(graph, loss, T.SGD(0.1)), T.Trainer(model, loss_of, T.SGD(0.1))
    assert len({trainer.step(feeds(3)) for trainer in trainers}) == 1
    assert model.input_names == ("x",)  # the loss is the trainer's
    assert trainers[1].model().output_names == ("found",)


class OfTorch:
    """As torch's modules are called."""

    def forward(self) -> None: ...

    def __call__(self, *given: object) -> None: ...


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (OfTorch(), og.ArgumentTypeError, "Trainer takes a loss of the graph, .* got torch's OfTorch"),
        (3, og.ArgumentTypeError, "the loss as a LogicalTensor, or a function"),
        (T.SGD, og.ArgumentTypeError, "the loss as a LogicalTensor, or a function"),
        (lambda graph: None, og.ArgumentTypeError, "must return it, a LogicalTensor, got None"),
        (lambda graph: graph.outputs[0], og.ShapeError, "the loss must be one number"),
    ],
)
def test_losses_that_are_none(loss: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        T.Trainer(flattened(), loss, T.SGD(0.1))


def test_what_a_template_lacks_says_how_it_is_trained() -> None:
    with pytest.raises(
        AttributeError, match="no attribute 'input'.*Trainer takes it as it is, with a function"
    ):
        flattened().input("labels", "s64", [-1])


def test_what_depends_on_sizes_and_must_not() -> None:
    def wide(graph: og.Graph) -> og.LogicalTensor:
        size = graph.inputs[0].dims[0]
        scale = graph.parameter(np.ones((size, 1), np.float32), name="scale")
        return graph.reduce_sum(graph.multiply(graph.outputs[0], scale), axes=[0, 1])

    trainer = T.Trainer(flattened(), wide, T.SGD(0.1))
    with pytest.raises(og.GraphError, match="'scale'.* depends on the sizes of the inputs.*shape \\[2, 1\\]"):
        trainer.step({"x": feeds(3)["x"]})
    with pytest.raises(og.ArgumentError, match="input 'x' is missing, on whose sizes"):
        T.Trainer(flattened(), loss_of, T.SGD(0.1)).step({"y": feeds(3)["y"]})


def test_a_template_that_fits_no_size_that_is_tried() -> None:
    def never(shapes: Mapping[str, tuple[int, ...]]) -> og.Graph:
        raise og.ShapeError(f"no {shapes['x'][0]}")

    x = og.LogicalTensor(0, "f32", [-1, 3], name="x")
    template = og.OpenGraph([x], [("y", x)], never)
    with pytest.raises(og.GraphError, match=r"no graph comes of .* for the sizes that were tried \(no 2\)"):
        T.Trainer(template, loss_of, T.SGD(0.1))


def two_layers() -> og.OpenGraph:
    """x (n, 6) · w, and of more than four examples + x · v."""
    parameters = {name: Parameter(W, W.dtype) for name in ("w", "v")}

    def make(shapes: Mapping[str, tuple[int, ...]]) -> og.Graph:
        graph = og.Graph()
        x = graph.input("x", "f32", shapes["x"])
        w, v = (
            graph.add_parameter(
                og.LogicalTensor(graph.fresh_id(), "f32", W.shape, property_type="variable", name=name), one
            )
            for name, one in parameters.items()
        )
        found = graph.matmul(x, w)
        graph.output(
            graph.op("Add", found, graph.matmul(x, v)) if shapes["x"][0] > 4 else found, name="found"
        )
        return graph

    x = og.LogicalTensor(0, "f32", [-1, 6], name="x")
    found = og.LogicalTensor(1, "f32", [-1, 2], name="found")
    return og.OpenGraph([x], [("found", found)], make, {"x": (8, 6)})


def two_layers_trained(sizes: list[int], stop: Path | None = None) -> dict[str, Array]:
    """The parameters after steps of these sizes, each two of them an update; after half of them from a file."""
    trainer = T.Trainer(two_layers(), loss_of, T.AdamW(0.125, weight_decay=0.5), accumulate=2)
    for step, size in enumerate(sizes):
        if stop is not None and step == len(sizes) // 2:
            trainer.save(stop)
            trainer = T.Trainer(two_layers(), loss_of, T.AdamW(0.125, weight_decay=0.5), accumulate=2)
            trainer.load(stop)
        rng = np.random.default_rng(step)
        x, y = (rng.integers(-2, 3, (size, width)).astype(np.float32) for width in (6, 2))
        trainer.step({"x": x, "y": y})
    return {name: one.array.copy() for name, one in trainer._state.parameters.items()}


def test_an_update_moves_what_its_own_batches_have_gradients_of() -> None:
    """Not what those of the first update had; the rest stays as it is, as without accumulation."""
    assert two_layers_trained([2, 2])["v"].tobytes() == W.tobytes()
    assert (two_layers_trained([8, 8])["v"] != W).any()
    assert (two_layers_trained([2, 2, 8, 8])["v"] != W).any()
    before = two_layers_trained([2, 2, 8, 8])["v"]
    assert two_layers_trained([2, 2, 8, 8, 2, 2])["v"].tobytes() == before.tobytes()
    assert (two_layers_trained([2, 2, 8, 8, 2, 8])["v"] != before).any()


@pytest.mark.parametrize("sizes", [[8, 8, 2, 2], [8, 8, 2, 2, 2, 2], [2, 8, 8, 8], [8, 2, 8, 2, 2, 8]])
def test_files_go_on_where_updates_move_different_parameters(sizes: list[int], tmp_path: Path) -> None:
    whole, again = two_layers_trained(sizes), two_layers_trained(sizes, tmp_path / "half.safetensors")
    assert {n: a.tobytes() for n, a in whole.items()} == {n: a.tobytes() for n, a in again.items()}
