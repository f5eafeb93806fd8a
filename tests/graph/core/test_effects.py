"""What does more than write its outputs runs once in each execution, in its place, and at no other time."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.ops.registry import REGISTRY

BACKENDS = ("numpy", None)
"""The reference alone, and whatever can."""


@pytest.fixture
def watched():
    """Registers `Watched`, which writes down each of its calls, with what it was given; gives what it wrote."""
    calls = []

    def kernel(op, inputs, outputs):
        calls.append((op.attributes.string("tag"), float(inputs[0].sum()) if inputs else 0.0))
        for output in outputs:
            output[...] = inputs[0]

    made = []

    def register(**more):
        made.append(
            og.extend.register_op(
                og.extend.OpSchema(
                    kind=f"Watched{len(made) or ''}",
                    summary="Its input; somebody is told.",
                    inputs=[og.extend.Port("src", "T")],
                    outputs=[og.extend.Port("dst", "T")],
                    attributes=[og.extend.AttributeSpec("tag", og.extend.AttributeType.string, default="")],
                    types={"T": ["f32"]},
                    infer_shapes=og.extend.shape_of_first_input,
                    **more,
                ),
                kernel,
            )
        )
        return calls

    yield register
    for schema in made:
        og.extend.unregister_op(schema.kind)


def test_ops_of_ones_own_are_not_pure_unless_they_say_so():
    def schema(**more):
        return og.extend.OpSchema(
            kind="Mine",
            summary="s",
            inputs=[og.extend.Port("src", "T")],
            outputs=[og.extend.Port("dst", "T")],
            types={"T": ["f32"]},
            infer_shapes=og.extend.shape_of_first_input,
            **more,
        )

    assert not schema().pure
    assert schema(pure=True).pure
    with pytest.raises(og.errors.SchemaError, match="pure must be True or False, got 'no'"):
        schema(pure="no")


def test_built_in_ops_with_effects_are_those_that_processes_talk_by():
    talking = {"HostMeanStart", "HostMeanEnd", "HostRankSum", "HostRankWeight"}
    assert {
        one.kind for one in (*REGISTRY, *REGISTRY.host) if one.family != "custom" and not one.pure
    } == talking


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bound", [False, True])
def test_an_op_of_constants_runs_in_each_execution(watched, backend, bound):
    calls = watched()
    graph = og.Graph()
    seen = graph.op("Watched", graph.constant(np.ones((4, 4), np.float32), name="c"))
    graph.output(graph.op("MatMul", graph.input("x", "f32", [4, 4]), seen), name="y")
    model = graph.compile(backend=backend)
    assert not calls
    given = {"x": np.ones((4, 4), np.float32)}
    run = model.bind(given) if bound else lambda: model(given)
    for number in range(1, 4):
        run()
        assert calls == [("", 16.0)] * number


def test_a_pure_op_of_constants_is_prepared(watched, onednn):
    calls = watched(pure=True)
    graph = og.Graph()
    seen = graph.op("Watched", graph.constant(np.ones((4, 4), np.float32), name="c"))
    graph.output(graph.op("MatMul", graph.input("x", "f32", [4, 4]), seen), name="y")
    model = graph.compile()
    for _ in range(3):
        model({"x": np.ones((4, 4), np.float32)})
    assert len(calls) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_happens_before_the_first_execution(watched, backend):
    calls = watched()
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 4])
    graph.output(graph.op("ReLU", graph.op("Watched", graph.op("MatMul", x, x))), name="y")
    model = graph.compile(verify=True, backend=backend)
    assert not calls
    model({"x": np.zeros((4, 4), np.float32)})
    assert len(calls) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_runs_where_nobody_reads_it_and_where_there_is_nothing_to_write(watched, backend):
    calls = watched()
    graph = og.Graph()
    x, empty = graph.input("x", "f32", [4]), graph.input("empty", "f32", [0])
    graph.op("Watched", x, tag="unread")
    graph.op("Watched", empty, tag="empty")
    graph.output(graph.op("ReLU", x), name="y")
    graph.prune()
    assert graph.output_names == ("y",)
    model = graph.compile(backend=backend)
    model({"x": np.ones(4, np.float32), "empty": np.zeros(0, np.float32)})
    assert sorted(calls) == [("empty", 0.0), ("unread", 4.0)]


def test_a_pure_op_is_pruned(watched):
    watched(pure=True)
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    graph.op("Watched", x)
    graph.output(graph.op("ReLU", x), name="y")
    graph.prune()
    assert [op.kind for op in graph.ops] == ["ReLU"]


def test_it_is_not_computed_again_for_a_gradient(watched):
    watched()

    def rule(context):
        yield "src", context.gradient

    og.extend.register_gradient("Watched", rule)
    graph = og.Graph()
    w = graph.parameter(np.ones(4, np.float32), name="w")
    seen = graph.op("Watched", w)
    loss = graph.op("ReduceSum", graph.op("Square", seen), axes=[0])
    graph.gradients(loss, [w], recompute=[seen])
    assert [op.kind for op in graph.ops].count("Watched") == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(12))
def test_effects_keep_their_order(watched, backend, seed):
    """Whatever is fused around them, whoever reads what."""
    calls = watched()
    rng = np.random.default_rng(seed)
    graph = og.Graph()
    tensors = [graph.input(name, "f32", [8, 8]) for name in "abc"]
    tags = map(str, itertools.count())
    for _ in range(16):
        one, other = (tensors[-1 - rng.integers(min(5, len(tensors)))] for _ in range(2))
        kind = rng.choice(["Watched", "MatMul", "ReLU", "Add", "StaticTranspose"])
        attributes = {"Watched": lambda: {"tag": next(tags)}, "StaticTranspose": lambda: {"order": [1, 0]}}
        inputs = [one, other] if kind in ("MatMul", "Add") else [one]
        made = graph.op(str(kind), *inputs, **attributes.get(str(kind), dict)())
        tensors.append(made)
    model = graph.compile(backend=backend)
    given = {t.name: np.zeros((8, 8), np.float32) for t in graph.inputs}
    for _ in range(2):
        calls.clear()
        model(given)
        assert [tag for tag, _ in calls] == [str(number) for number in range(len(calls))]
        assert len(calls) == sum(op.kind == "Watched" for op in graph.ops)


def test_a_report_is_of_as_many_executions_as_are_asked_for(watched):
    calls = watched()
    graph = og.Graph()
    graph.op("Watched", graph.input("x", "f32", [4]))
    model = graph.compile()
    model.report(np.zeros(4, np.float32), repeat=3)
    assert len(calls) == 1 + 3  # one to warm up


@pytest.mark.parametrize("first", ["a", "b"])
def test_an_update_in_place_keeps_its_place_among_others(watched, first):
    calls = watched(in_place={"dst": "src"})
    graph = og.Graph()
    w = graph.parameter(np.ones(4, np.float32), name="w")
    x = graph.input("x", "f32", [4])

    def update():
        graph.assign(w, graph.op("Watched", w, tag="a"))

    if first == "a":
        update()
    graph.output(graph.op("Watched", x, tag="b"), name="y")
    if first == "b":
        update()
    graph.compile()(np.zeros(4, np.float32))
    assert calls == ([("a", 4.0), ("b", 0.0)] if first == "a" else [("b", 0.0), ("a", 4.0)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bound", [False, True])
def test_a_kernel_may_keep_what_it_is_given(backend, bound):
    """Inputs and outputs: a later step, a later execution, and the end of the program leave them as they are."""
    kept = []

    def kernel(op, inputs, outputs):
        outputs[0][...] = inputs[0] + 1
        kept.append((inputs[0], inputs[0].copy(), outputs[0], outputs[0].copy()))

    og.extend.register_op(
        og.extend.OpSchema(
            kind="Keeper",
            summary="One more.",
            inputs=[og.extend.Port("src", "T")],
            outputs=[og.extend.Port("dst", "T")],
            types={"T": ["f32"]},
            infer_shapes=og.extend.shape_of_first_input,
        ),
        kernel,
    )
    try:
        graph = og.Graph()
        x = graph.input("x", "f32", [32, 32])
        first = graph.op("Keeper", x)
        inner = graph.op("Keeper", graph.op("StaticTranspose", graph.op("MatMul", first, x), order=[1, 0]))
        for _ in range(3):
            inner = graph.op("ReLU", graph.op("MatMul", inner, x))
        graph.output(graph.op("Keeper", inner), name="y")
        model = graph.compile(backend=backend)
        given = {"x": np.eye(32, dtype=np.float32)}
        run = model.bind(given) if bound else lambda: model(given)
        for number in range(3):
            given["x"][...] = np.eye(32) * (number + 1)
            run()
        given["x"].fill(-1)
        model = run = given = None
        gc.collect()
        _ = [
            np.full((32, 32), 7.0, np.float32) for _ in range(64)
        ]  # whatever was freed has others' numbers now
        assert len(kept) == 9
        for source, before, result, after in kept:
            np.testing.assert_array_equal(source, before)
            np.testing.assert_array_equal(result, after)
    finally:
        og.extend.unregister_op("Keeper")
