"""One graph with unknown sizes from a template: what it is made of, and what it is refused for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.graph.runtime.arrays import Array
from onednn_graph.graph.unknown_sizes.sampling import OpenSize
from strategies import SETTINGS

Dims = tuple[int, ...]
Build = Callable[[og.Graph, og.LogicalTensor, Dims], og.LogicalTensor]
"""Adds a model of `x` to a graph, for the shape that x has."""
RNG = np.random.default_rng(7)
W = RNG.integers(-2, 3, (6, 4)).astype(np.float32)
TOKEN = RNG.integers(-2, 3, (1, 1, 6)).astype(np.float32)


def template(build: Build, shape: Sequence[int], **sizes: object) -> og.OpenGraph:
    def make(shapes: Mapping[str, Dims]) -> og.Graph:
        graph = og.Graph()
        x = graph.input("x", "f32", shapes["x"])
        graph.output(build(graph, x, shapes["x"]), name="y")
        return graph

    x = og.LogicalTensor(0, "f32", shape, name="x")
    y = og.LogicalTensor(1, "f32", None, name="y")
    return og.OpenGraph([x], [("y", y)], make, **sizes)  # pyright: ignore[reportArgumentType]


def reshape(graph: og.Graph, x: og.LogicalTensor, *shape: int) -> og.LogicalTensor:
    return graph.op("StaticReshape", x, shape=list(shape), special_zero=False)


# --- what becomes one graph ------------------------------------------------------------------------------


def flat(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.matmul(reshape(graph, x, dims[0], 6), graph.constant(W))


def heads(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    parts = graph.op("StaticTranspose", reshape(graph, x, *dims[:2], 2, 3), order=[0, 2, 1, 3])
    scores = graph.matmul(parts, parts, transpose_b=True)
    return reshape(graph, graph.op("StaticTranspose", scores, order=[0, 2, 1, 3]), *dims[:2], 2 * dims[1])


def of_rows(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """A product of all rows as one matrix, with a bias and a ReLU, as `nn.MultiheadAttention` has it."""
    product = graph.matmul(reshape(graph, x, dims[0] * dims[1], 6), graph.constant(W))
    biased = graph.relu(graph.add(product, graph.constant(W[0])))
    return reshape(graph, biased, *dims[:2], 4)


def turned(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """A new axis before two open ones."""
    return graph.relu(reshape(graph, x, 1, *dims[:2], 2, 3))


def part_of_three(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """One of three along the first axis, by a MaxPool of (1, 1, 3, rest), as importers write it."""
    size = dims[0] * dims[1] * 2
    first = graph.op("StaticTranspose", reshape(graph, x, *dims[:2], 3, 2), order=[2, 0, 1, 3])
    around = reshape(graph, first, 1, 1, 3, size)
    part = graph.op(
        "MaxPool",
        around,
        kernel=[1, 1],
        strides=[1, 1],
        pads_begin=[-1, 0],
        pads_end=[-1, 0],
        data_format="NCX",
    )
    return reshape(graph, part, *dims[:2], 2)


def last(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """The last row of an open axis."""
    cut = {"kernel": [1], "strides": [1], "pads_begin": [1 - dims[1]], "pads_end": [0], "data_format": "NXC"}
    return reshape(graph, graph.op("MaxPool", x, **cut), dims[0], 6)


def without_first(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.relu(graph.op("HostSlice", x, axes=[1], starts=[1], stops=[dims[1]], steps=[1]))


def token_in_front(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """A constant before the rows of each element of a batch."""
    tokens = graph.constant(np.repeat(TOKEN, dims[0], 0))
    return graph.relu(graph.op("Concat", tokens, x, axis=1))


def states(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """Zeros for each element of a batch, multiplied and added to it, as a recurrent layer begins."""
    zeros = graph.constant(np.ones((1, dims[0], 6), np.float32))
    return graph.add(graph.matmul(zeros, graph.constant(W)), graph.matmul(x, graph.constant(W)))


def split(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """Heads beside the batch as one axis, and apart again, as attention has them."""
    parts = graph.op("StaticTranspose", reshape(graph, x, *dims[:2], 2, 3), order=[0, 2, 1, 3])
    together = graph.relu(reshape(graph, parts, dims[0] * 2, dims[1], 3))
    return graph.relu(reshape(graph, together, dims[0], 2, dims[1], 3))


def expanded(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.relu(graph.op("HostExpand", reshape(graph, x, dims[0], 1, 6), shape=[dims[0], 5, 6]))


MODELS: Mapping[str, tuple[Build, Sequence[int]]] = {
    "flat": (flat, (-1, 2, 3)),
    "heads": (heads, (-1, 5, 6)),
    "heads of two": (heads, (-1, -1, 6)),
    "rows": (of_rows, (-1, 3, 6)),
    "rows of two": (of_rows, (-1, -1, 6)),
    "turned": (turned, (-1, -1, 6)),
    "part": (part_of_three, (-1, 4, 6)),
    "part of two": (part_of_three, (-1, -1, 6)),
    "last": (last, (-1, -1, 6)),
    "without first": (without_first, (2, -1, 6)),
    "token": (token_in_front, (-1, 3, 6)),
    "states": (states, (1, -1, 6)),
    "expanded": (expanded, (-1, 6)),
    "split": (split, (-1, -1, 6)),
}


def array_for(shape: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, tuple(shape)).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
@settings(SETTINGS, max_examples=4)
@given(sizes=st.tuples(st.integers(1, 17), st.integers(2, 12)))
def test_one_graph_is_right_for_all_sizes(name: str, sizes: tuple[int, int]) -> None:
    """Against what the template makes, with integers: to the bit."""
    build, shape = MODELS[name]
    if build is states:
        sizes = sizes[::-1]
    opened = template(states_of(build), shape)
    graph = opened.with_unknown_sizes()
    assert graph.inputs[0].shape == tuple(shape)
    taken = tuple(sizes[axis] if dim < 0 else dim for axis, dim in enumerate(shape))
    x = array_for(taken, sum(sizes))
    wanted = opened.with_shapes({"x": taken})
    assert isinstance(wanted, og.Graph)
    fixed = graph.with_shapes({"x": taken})
    assert [t.shape for t in fixed.outputs] == [t.shape for t in wanted.outputs]
    expected = wanted.compile()(x)["y"]
    np.testing.assert_array_equal(graph.compile()(x)["y"], expected)
    np.testing.assert_array_equal(fixed.compile(backend="numpy")(x)["y"], expected)


def states_of(build: Build) -> Build:
    """`states` counts its batch on the second axis."""
    return build if build is not states else lambda graph, x, dims: states(graph, x, dims[1:])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("flat", ["StaticReshape", "MatMul"]),
        ("rows of two", ["MatMul", "Add", "ReLU", "StaticReshape"]),
        ("part", ["StaticReshape", "StaticTranspose", "StaticReshape", "MaxPool", "StaticReshape"]),
        ("part of two", ["StaticReshape", "StaticTranspose", "HostGather", "StaticReshape"]),
        ("last", ["HostSlice", "StaticReshape"]),
        ("token", ["HostSlice", "HostExpandTo", "Concat", "ReLU"]),
    ],
)
def test_other_ops_only_where_a_reshape_does_not_do(name: str, kinds: list[str]) -> None:
    build, shape = MODELS[name]
    graph = template(build, shape).with_unknown_sizes()
    graph.finalize()
    assert [op.kind for op in graph.ops] == kinds


def test_the_template_stays_as_it_is_and_the_graph_is_open() -> None:
    opened = template(flat, (-1, 2, 3))
    graph = opened.with_unknown_sizes()
    graph.output(graph.relu(graph.outputs[0]), name="more")
    assert graph.output_names == ("y", "more")
    assert opened.output_names == ("y",)
    assert [op.attributes["shape"] for op in graph.ops if op.kind == "StaticReshape"] == [(-1, 6)]


# --- what does not -----------------------------------------------------------------------------------------


def positions(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.add(x, graph.constant(np.arange(dims[1], dtype=np.float32)[:, None], name="places"))


def mean_by_hand(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    total = graph.op("ReduceSum", x, axes=[1], keep_dims=False)
    return graph.multiply(total, graph.constant(np.array(1 / dims[1], np.float32), name="share"))


def loop(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    for _ in range(dims[1]):
        x = graph.relu(x)
    return x


def long_ones(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.tanh(x) if dims[1] > 9 else graph.relu(x)


def padded_to_four(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    ends = {"pads_begin": [0, 0, 0], "pads_end": [0, -dims[1] % 4, 0]}
    return graph.relu(graph.op("HostPad", x, mode="constant", value=0.0, **ends))


def half(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    return graph.relu(graph.op("HostSlice", x, axes=[1], starts=[0], stops=[(dims[1] + 1) // 2], steps=[1]))


def summed_copies(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """What a constant repeats is added up, so that how often matters."""
    copies = graph.relu(graph.constant(np.ones((dims[0], 1, 6), np.float32), name="copies"))
    return graph.add(x, graph.op("ReduceSum", copies, axes=[0], keep_dims=True))


def given_back(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """Copies that are an output."""
    graph.output(graph.relu(graph.constant(np.ones((dims[0], 6), np.float32))), name="copies")
    return graph.relu(x)


def two_unknown(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """Axes change places in a reshape, which none can do."""
    return graph.relu(reshape(graph, x, dims[1], dims[0], 6))


def of_one(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
    """A batch of one has no axis of its own, as `squeeze` leaves none."""
    return graph.relu(reshape(graph, x, *dims[1:])) if dims[0] == 1 else graph.relu(x)


REFUSED: Mapping[str, tuple[Build, str]] = {
    "positions": (
        positions,
        r"constant 'places' of shape \[7, 1\], or .* which Add 'add_\d+' reads, .* from a size",
    ),
    "mean": (mean_by_hand, r"constant 'share' of shape \[\], which Multiply .* is computed from a size"),
    "loop": (loop, r"there are 2 ops, or 13, as of a loop over a size"),
    "long": (long_ones, r"ReLU 'relu_\d+' is another op"),
    "padded": (padded_to_four, r"HostPad .* has pads_end \[0, 1, 0\] for x \[.*\], and .* it holds a size"),
    "half": (half, r"HostSlice .* has stops \[4\] for x .*, and \[1\] for"),
    "summed": (summed_copies, r"ReduceSum .* reads 'relu_\d+', which is repeated as often as a size"),
    "given back": (given_back, r"output 'copies' would have shape \[1, 6\] instead of \[3, 6\]"),
    "two": (two_unknown, r"StaticReshape .* has shape \[7, 3, 6\] .*, where two or more sizes are open"),
    "of one": (of_one, r"output 'y' would have shape \[1, 7, 6\] instead of \[7, 6\] for x \[1, 7, 6\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_a_size_is_named(name: str) -> None:
    build, message = REFUSED[name]
    opened = template(build, (-1, -1, 6))
    for call in (
        opened.with_unknown_sizes,
        lambda: opened.to_onnx("never.onnx"),
        lambda: opened.save("never.json"),
    ):
        with pytest.raises(og.UnsupportedError, match=f"with_unknown_sizes: .*{message}.*with_shapes"):
            call()


def test_parameters_of_each_graph_are_refused() -> None:
    def own(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        return graph.matmul(reshape(graph, x, dims[0], 6), graph.parameter(W, name="w"))

    opened = template(own, (-1, 2, 3))
    with pytest.raises(og.UnsupportedError, match="MatMul .* reads something else"):
        opened.with_unknown_sizes()
    with pytest.raises(og.GraphError, match="parameter 'w' is another one in each graph"):
        opened.parameters  # noqa: B018


def test_bounds_of_an_export_are_not_passed_over() -> None:
    bounds = {("x", 0): OpenSize("batch", (3, 9))}
    opened = template(flat, (-1, 2, 3), sizes=bounds)
    with pytest.raises(
        og.UnsupportedError, match=r"axis 0 of input 'x' must have between 3 and 9 .*unbounded=True"
    ):
        opened.with_unknown_sizes()
    assert opened.with_unknown_sizes(unbounded=True).inputs[0].shape == (-1, 2, 3)
    fixed = opened.with_shapes({"x": (4, 2, 3)})
    assert isinstance(fixed, og.Graph)


def joined(shapes: Mapping[str, Dims]) -> og.Graph:
    """Two inputs, of as many rows, beside each other."""
    graph = og.Graph()
    tensors = [graph.input(name, "f32", shape) for name, shape in shapes.items()]
    flattened = [reshape(graph, t, shape[0], 6) for t, shape in zip(tensors, shapes.values(), strict=True)]
    graph.output(graph.relu(graph.op("Concat", *flattened, axis=1)), name="y")
    return graph


def stacked(shapes: Mapping[str, Dims]) -> og.Graph:
    """The first rows of one input beside those of another: as many as that one has."""
    graph = og.Graph()
    a, b = (graph.input(name, "f32", shape) for name, shape in shapes.items())
    rows = shapes["b"][0]
    part = a
    if shapes["a"][0] != rows:
        part = graph.op("HostSlice", a, axes=[0], starts=[0], stops=[rows], steps=[1])
    graph.output(graph.relu(graph.op("Concat", part, b, axis=1)), name="y")
    return graph


def of_two(make: Callable[[Mapping[str, Dims]], og.Graph]) -> og.OpenGraph:
    inputs = [og.LogicalTensor(number, "f32", [-1, 2, 3], name=name) for number, name in enumerate("ab")]
    return og.OpenGraph(inputs, [("y", og.LogicalTensor(2, "f32", None, name="y"))], make)


def test_sizes_that_must_be_equal_are_found() -> None:
    opened = of_two(joined)
    graph = opened.with_unknown_sizes()
    for rows in (1, 4):
        a, b = array_for((rows, 2, 3), 0), array_for((rows, 2, 3), 1)
        wanted = np.maximum(np.concatenate([a.reshape(rows, 6), b.reshape(rows, 6)], 1), 0)
        np.testing.assert_array_equal(graph.compile()(a, b)["y"], wanted)
    with pytest.raises(og.ShapeError):
        graph.with_shapes({"a": (2, 2, 3), "b": (3, 2, 3)})


def test_sizes_that_may_differ_are_not_taken_for_each_other() -> None:
    """For equal ones it would be one graph, which is wrong for others."""
    with pytest.raises(og.UnsupportedError, match="with_unknown_sizes: "):
        of_two(stacked).with_unknown_sizes()


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("most", [60, 100, 1000, 4000])
def test_parts_that_end_at_a_number_are_not_taken_for_all(most: int, constant: bool) -> None:
    """The first 100 are all that there are of every small size."""

    def cut(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        if constant:
            x = graph.add(x, graph.constant(np.broadcast_to(TOKEN, (dims[0], dims[1], 6))))
        if dims[1] > most:
            x = graph.op("HostSlice", x, axes=[1], starts=[0], stops=[most], steps=[1])
        return graph.op("ReduceMax", x, axes=[1])

    with pytest.raises(og.UnsupportedError, match=r"as for x \[3, [0-9]+, 6\]"):
        template(cut, (-1, -1, 6)).with_unknown_sizes()


def test_sizes_beyond_bounds_do_not_matter() -> None:
    def cut(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        if dims[1] > 100:
            x = graph.op("HostSlice", x, axes=[1], starts=[0], stops=[100], steps=[1])
        return graph.relu(x)

    for last in (99, 100, 101, None):
        opened = template(cut, (2, -1, 6), sizes={("x", 1): OpenSize("length", (2, last))})
        if last in (99, 100):
            assert opened.with_unknown_sizes(unbounded=True).inputs[0].shape == (2, -1, 6)
        else:
            with pytest.raises(og.UnsupportedError, match="is another op"):
                opened.with_unknown_sizes(unbounded=True)


def test_models_of_a_largest_size_are_tried_with_that() -> None:
    def short(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        if dims[1] > 300:
            raise og.ShapeError("longer than its positions")
        return graph.relu(x)

    assert template(short, (-1, -1, 6)).with_unknown_sizes().inputs[0].shape == (-1, -1, 6)


@pytest.mark.parametrize("multiple", [8, 32])
def test_sizes_that_must_be_multiples_are_found(multiple: int) -> None:
    def halved(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        return graph.relu(reshape(graph, x, dims[0], dims[1] // multiple, multiple, 6))

    opened = template(halved, (2, -1, 6))
    graph = opened.with_unknown_sizes()
    x = array_for((2, 3 * multiple, 6), 0)
    np.testing.assert_array_equal(graph.compile()(x)["y"], np.maximum(x.reshape(2, 3, multiple, 6), 0))
    with pytest.raises(og.OneDNNGraphError):
        graph.compile()(array_for((2, 3 * multiple + 1, 6), 0))


def test_no_graph_for_any_size() -> None:
    def never(graph: og.Graph, x: og.LogicalTensor, dims: Dims) -> og.LogicalTensor:
        return reshape(graph, x, 1)

    with pytest.raises(
        og.UnsupportedError, match=r"no graphs come of it for the sizes that were tried \(StaticReshape"
    ):
        template(never, (-1, 3)).with_unknown_sizes()
    unknown = og.OpenGraph([og.LogicalTensor(0, "f32", None, name="x")], [], lambda shapes: og.Graph())
    with pytest.raises(og.UnsupportedError, match="number of axes of input 'x' is not known"):
        unknown.with_unknown_sizes()
