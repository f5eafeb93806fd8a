"""Gradients of random graphs: chains, diamonds, tensors used several times, broadcasts, shared weights.

Against central differences in f64 on NumPy, and against torch, in f64 there and in f32 on every backend. Values stay of
a moderate size: whatever grows is followed by a Tanh.
"""

import numpy as np
import onednn_graph as og
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

SIZES = (1, 2, 3)
BACKENDS = [name for name in ("numpy", "onednn") if og.list_backends()[name] is None]
UNARY = {
    "Tanh": {},
    "Sigmoid": {},
    "GELU": {"mode": "gelu_erf"},
    "SoftPlus": {"beta": 1.0},
    "SoftMax": {"axis": 1},
    "LogSoftmax": {"axis": 0},
    "LeakyReLU": {"alpha": 0.25},
    "StaticTranspose": {"order": [1, 0]},
    "ReduceSum": {"axes": [1], "keep_dims": True},
    "ReduceMean": {"axes": [0], "keep_dims": True},
    "ReduceL2": {"axes": [0], "keep_dims": True},
    "Mish": {},
}
BINARY = ("Add", "Subtract", "Multiply", "Maximum", "SquaredDifference", "MatMul", "Concat")
GROWS = {"Multiply", "MatMul", "SquaredDifference", "ReduceSum", "LogSoftmax"}


@frozen
class Node:
    """An op: its kind, the numbers of the tensors that it reads, and its attributes."""

    kind: str
    reads: tuple[int, ...]
    attributes: dict


@frozen
class Drawn:
    """A graph: the shapes of its inputs, and its nodes; the loss is the sum of `losses`, each weighted by a number."""

    shapes: tuple[tuple[int, int], ...]
    nodes: tuple[Node, ...]
    losses: tuple[int, ...]


def shape_of(kind, attributes, shapes):
    """What comes out, or None where the shapes don't fit."""
    graph = og.Graph()
    try:
        made = graph.op(kind, *[graph.input(f"x{n}", "f32", s) for n, s in enumerate(shapes)], **attributes)
    except og.ShapeError:
        return None
    return made.shape


@st.composite
def graphs(draw):
    shapes = [draw(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES))) for _ in range(3)]
    inputs, nodes = tuple(shapes), []

    def add(kind, reads, attributes):
        shape = shape_of(kind, attributes, [shapes[r] for r in reads])
        if shape is not None:
            nodes.append(Node(kind, reads, attributes))
            shapes.append(shape)
        return shape is not None

    for _ in range(draw(st.integers(2, 9))):
        choose = st.integers(0, len(shapes) - 1)
        if draw(st.booleans()):
            kind = draw(st.sampled_from(sorted(UNARY)))
            made = add(kind, (draw(choose),), UNARY[kind])
        else:
            kind = draw(st.sampled_from(BINARY))
            attributes = {}
            if kind == "Concat":
                attributes = {"axis": draw(st.integers(0, 1))}
            elif kind == "MatMul":
                attributes = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
            made = add(kind, (draw(choose), draw(choose)), attributes)
        if made and kind in GROWS:
            add("Tanh", (len(shapes) - 1,), {})
    losses = (
        draw(st.lists(st.integers(3, len(shapes) - 1), min_size=1, max_size=2)) if len(shapes) > 3 else [0]
    )
    return Drawn(inputs, tuple(nodes), tuple(losses))


def build(drawn, data_type):
    """The graph, its inputs and its loss."""
    graph = og.Graph()
    tensors = [graph.input(f"x{n}", data_type, s) for n, s in enumerate(drawn.shapes)]
    inputs = list(tensors)
    for node in drawn.nodes:
        tensors.append(graph.op(node.kind, *[tensors[r] for r in node.reads], **node.attributes))
    parts = [graph.op("ReduceSum", graph.op("Sigmoid", tensors[n]), axes=[0, 1]) for n in drawn.losses]
    loss = parts[0] if len(parts) == 1 else graph.op("Add", *parts)
    return graph, inputs, loss


def arrays_of(drawn, seed, dtype):
    rng = np.random.default_rng(seed)
    return {f"x{n}": rng.standard_normal(s).astype(dtype) for n, s in enumerate(drawn.shapes)}


def gradients(drawn, arrays, data_type, backend):
    graph, inputs, loss = build(drawn, data_type)
    found = graph.gradients(loss, inputs)
    results = graph.compile(backend=backend if backend == "numpy" else None)(arrays)
    return [None if t is None else results[t] for t in found]


@pytest.mark.no_cover
@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_random_graphs_against_central_differences(drawn, seed):
    """Along a random direction, in f64; kinks are passed over where the two halves disagree."""
    arrays = arrays_of(drawn, seed, np.float64)
    found = gradients(drawn, arrays, "f64", "numpy")
    graph, _, loss = build(drawn, "f64")
    model = graph.compile(backend="numpy")
    rng = np.random.default_rng(seed + 1)
    directions = {name: rng.standard_normal(a.shape) for name, a in arrays.items()}
    slope = sum(
        float(np.sum(g * d)) for g, d in zip(found, directions.values(), strict=True) if g is not None
    )

    def at(step):
        return float(model({n: a + step * directions[n] for n, a in arrays.items()})[loss])

    h = 1e-5
    ahead, behind = (at(h) - at(0)) / h, (at(0) - at(-h)) / h
    if abs(ahead - behind) < 1e-2:
        assert (ahead + behind) / 2 == pytest.approx(slope, rel=1e-6, abs=1e-6)


def in_torch(torch, drawn, arrays):
    functional = torch.nn.functional
    unary = {
        "Tanh": torch.tanh,
        "Sigmoid": torch.sigmoid,
        "GELU": functional.gelu,
        "SoftPlus": functional.softplus,
        "SoftMax": lambda x: torch.softmax(x, 1),
        "LogSoftmax": lambda x: torch.log_softmax(x, 0),
        "LeakyReLU": lambda x: functional.leaky_relu(x, 0.25),
        "StaticTranspose": lambda x: x.T,
        "ReduceSum": lambda x: x.sum(1, keepdim=True),
        "ReduceMean": lambda x: x.mean(0, keepdim=True),
        "ReduceL2": lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True),
        "Mish": functional.mish,
    }

    def matmul(a, b, transpose_a, transpose_b):
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)

    binary = {
        "Add": torch.add,
        "Subtract": torch.sub,
        "Multiply": torch.mul,
        "Maximum": torch.maximum,
        "SquaredDifference": lambda a, b: (a - b) ** 2,
        "MatMul": matmul,
        "Concat": lambda a, b, axis: torch.cat([a, b], axis),
    }
    inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays.values()]
    tensors = list(inputs)
    for node in drawn.nodes:
        read = [tensors[r] for r in node.reads]
        tensors.append(
            unary[node.kind](*read) if node.kind in unary else binary[node.kind](*read, **node.attributes)
        )
    loss = sum(torch.sigmoid(tensors[n]).sum() for n in drawn.losses)
    return torch.autograd.grad(loss, inputs, allow_unused=True)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_random_graphs_against_torch(drawn, seed):
    torch = pytest.importorskip(
        "torch", reason="torch is the oracle of this test; install the extra 'test-oracles'"
    )
    arrays = arrays_of(drawn, seed, np.float32)
    expected = in_torch(torch, drawn, arrays)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    for backend, data_type, given_arrays, tolerance in (
        ("numpy", "f64", wide, 1e-11),
        *((backend, "f32", arrays, 2e-4) for backend in BACKENDS),
    ):
        for mine, its in zip(gradients(drawn, given_arrays, data_type, backend), expected, strict=True):
            assert (mine is None) == (its is None)
            if its is not None:
                size = max(1.0, float(its.abs().max()))
                np.testing.assert_allclose(mine, its.numpy(), rtol=0, atol=tolerance * size, err_msg=backend)
