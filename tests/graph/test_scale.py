"""Large graphs: work grows as the number of ops does, counted in lines of Python that run."""

import random
import sys
import threading

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.model.op import Op
from onednn_graph.graph.model.topology import Contraction, Topology
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.runtime import progress
from onnx_oracle import helper, model_of
from rows import each

pytestmark = pytest.mark.no_cover  # many times what other tests cover

SQUARE = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
LAYOUT = {"data_format": "NCX", "weights_format": "OIX"}


def chain(count):
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    for _ in range(count):
        x = graph.relu(x)
    return graph


def mixed_chain(count):
    """Ops that take others along, and ops that don't."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    for number in range(count // 4):
        y = graph.add(x, graph.input(f"b{number}", "f32", [8]))
        x = graph.multiply(graph.sigmoid(y), graph.softplus(y))
    return graph


def wide(count):
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    for _ in range(count):
        graph.relu(x)
    return graph


def joined(count):
    """Half of the ops' results live until the other half reads them."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    total, *others = [graph.exp(x) for _ in range(count // 2)]
    for one in reversed(others):
        total = graph.add(total, one)
    return graph


def residual(count):
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 8, 4, 4])
    for number in range(count // 4):
        w = graph.input(f"w{number}", "f32", [8, 8, 3, 3], property_type="constant")
        y = graph.relu(graph.convolution(x, w, **SQUARE, **LAYOUT))
        x = graph.relu(graph.add(x, y))
    return graph


def test_nothing_traces_what_is_not_to_be_covered():
    """As it has to be under pytest-cov in processes side by side too, where it goes on tracing."""
    assert sys.gettrace() is None
    assert threading.gettrace() is None


def lines_of(function, within=""):
    """What a function returns, and how many lines of Python it runs, each turn of a loop by itself.

    Only in files whose paths end so, where `within` is given.
    """
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.endswith(within):
            return None
        count += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        result = function()
    finally:
        sys.settrace(before)
    return result, count


def described(graph):
    return describe(graph)


def compiled_and_explained(graph):
    return graph.compile().explain()


@pytest.mark.parametrize("build", [chain, mixed_chain, wide, joined, residual])
@pytest.mark.parametrize(
    "work",
    [og.Graph.finalize, og.Graph.compile, compiled_and_explained, described],
    ids=["finalize", "compile", "explain", "describe"],
)
def test_work_grows_as_the_ops_do(build, work):
    work(build(16))  # what is made once per process is made here
    once, twice = (lines_of(lambda n=n: work(build(n)))[1] for n in (150, 300))
    assert twice < 2.1 * once


@pytest.mark.parametrize("build", [chain, mixed_chain, wide, joined, residual])
def test_work_of_partitioning_grows_as_the_ops_do(build):
    counts = []
    for number in (150, 300):
        graph = build(number)
        graph.finalize()
        graph.get_partitions()
        counts.append(lines_of(graph.get_partitions)[1])
    assert counts[1] < 2.3 * counts[0]


def looking_ahead(count):
    """Products that take along a sum with what comes behind them in the graph."""
    graph = og.Graph()
    x, w = graph.input("x", "f32", [8, 8]), graph.constant(np.eye(8, dtype=np.float32))
    for _ in range(count // 5):
        product = graph.matmul(x, w)
        x = graph.relu(graph.add(product, graph.matmul(graph.softmax(x, axis=1), w)))
    graph.output(x, name="y")
    return graph


def test_what_is_needed_before_its_turn_is_found_without_going_through_the_graph(onednn):
    looking_ahead(9).compile()
    once, twice = (lines_of(looking_ahead(n).compile, "lowering/walk.py")[1] for n in (300, 600))
    assert twice < 2.1 * once


def first_step(count):
    """The first step of a trainer: gradients, updates with their states, and what is compiled of them."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8])
    for number in range(count):
        x = graph.multiply(x, graph.parameter(np.ones(8, np.float32), name=f"w{number}"))
    loss = graph.reduce_mean(x, axes=[0, 1], keep_dims=False)
    trainer = og.training.Trainer(graph, loss, og.training.Adam(0.1), deterministic=True)
    trainer.step({"x": np.ones((2, 8), np.float32)})


def test_work_of_training_grows_as_the_parameters_do():
    first_step(4)  # what is made once per process is made here
    once, twice = (lines_of(lambda n=n: first_step(n))[1] for n in (50, 100))
    assert twice < 2.1 * once


def test_work_of_importing_grows_as_the_nodes_do():
    """A loop that is unrolled gives thousands of ops the name of its node."""

    def imported(steps):
        x, w, r = (np.ones(shape, np.float32) for shape in ((steps, 1, 2), (1, 8, 2), (1, 8, 2)))
        node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)
        og.from_onnx(model_of([node], {"x": x}, ["y"], {"w": w, "r": r}))

    imported(4)
    once, twice = (lines_of(lambda n=n: imported(n))[1] for n in (25, 50))
    assert twice < 2.1 * once


def test_a_chain_of_many_ops_computes(onednn):
    graph = chain(3000)
    model = graph.compile()
    assert len(model.partitions) == 3000
    (y,) = model({"x": np.array([[-1, 2] * 4] * 2, np.float32)}).values()
    assert y.tolist() == [[0.0, 2.0] * 4] * 2


def test_long_chains_of_ops_that_are_looked_through(onednn):
    """They are lowered from their end, which must not take calls within calls without a bound."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    y = x
    for number in range(1001):
        y = graph.static_transpose(y, order=[1, 0])
        y = graph.op("TypeCast", y, output_type="f32" if number % 2 else "bf16")
    graph.relu(y)
    (result,) = graph.compile()({"x": np.array([[-1, 2, 3], [4, -5, 6]], np.float32)}).values()
    assert result.astype(np.float32).astype(int).tolist() == [[0, 4], [2, 0], [3, 6]]


# --- groups as nodes ------------------------------------------------------------------------------------


def random_ops(rng, count):
    ops = []
    for number in range(count):
        made = [og.LogicalTensor(100 + n, "f32", [2]) for n in range(number)]
        sources = rng.sample(made, min(len(made), rng.randint(0, 2))) or [og.LogicalTensor(1, "f32", [2])]
        ins = (sources * 2)[:2]
        ops.append(Op(number, "Add", ins, [og.LogicalTensor(100 + number, "f32", [2])]))
    return ops


def has_cycle(edges):
    edges = {key: set(others) for key, others in edges.items()}
    while edges:
        ends = {key for key, others in edges.items() if not others & set(edges)}
        if not ends:
            return True
        edges = {key: others for key, others in edges.items() if key not in ends}
    return False


def grouped_edges(ops, topology, group_of):
    edges = {group: set() for group in group_of.values()}
    for op in ops:
        for consumer in topology.consumers(op):
            if group_of[op.id] != group_of[consumer.id]:
                edges[group_of[op.id]].add(group_of[consumer.id])
    return edges


@each("seed", range(40))
def test_groups_are_contracted_where_no_cycle_comes_of_it(seed):
    """Against a search for cycles in the whole graph of groups."""
    rng = random.Random(seed)
    ops = random_ops(rng, 24)
    topology = Topology(ops)
    nodes = Contraction(topology)
    group_of = {op.id: op.id for op in ops}
    done = 0
    for attempt in range(60):
        free = [op for op in ops if group_of[op.id] == op.id]
        if len(free) < 2:
            break
        start = rng.choice(free)
        near = [op for op in free if abs(op.id - start.id) < 8]
        group = sorted(rng.sample(near, min(len(near), rng.randint(1, 4))), key=lambda op: op.id)
        tried = group_of | {op.id: 1000 + attempt for op in group}
        possible = not has_cycle(grouped_edges(ops, topology, tried))
        assert nodes.contract(group) == possible
        if possible and len(group) > 1:
            group_of = tried
            done += 1
    assert done


# --- progress -------------------------------------------------------------------------------------------


def test_progress_is_shown_where_work_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    seconds = iter(range(100))
    monkeypatch.setattr(progress, "monotonic", lambda: next(seconds))
    assert list(progress.progressing("abc", "compiling op")) == ["a", "b", "c"]
    text = capsys.readouterr().err
    assert "compiling op 1 of 3" in text
    assert text.endswith("\x1b[K")


def test_short_work_shows_no_progress(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "monotonic", lambda: 0.0)
    assert list(progress.progressing("abc", "compiling op")) == ["a", "b", "c"]
    assert not capsys.readouterr().err


def test_compiling_shows_progress(monkeypatch, capsys, onednn):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    chain(3).compile()
    text = capsys.readouterr().err
    assert "partitioning, single op: op 2 of 3" in text
    assert "compiling op 2 of 3" in text
