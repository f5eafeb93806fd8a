"""The memory of executions, step by step: held against the bytes themselves, the graph, and what models report."""

import numpy as np
import onednn_graph as og
import pytest

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
LINE = 64


@pytest.fixture(autouse=True)
def needs_onednn(request):
    if "numpy" not in request.node.name and og.list_backends()["onednn"] is not None:
        pytest.skip("the oneDNN library is not here")


def chain(count=4):
    """Matrix products with ways around them, which nothing fuses across."""
    graph, rng = og.Graph(), np.random.default_rng(0)
    y = graph.input("x", "f32", [6, 32])
    for number in range(count):
        weights = graph.constant(rng.integers(-1, 2, (32, 32)).astype(np.float32), name=f"w{number}")
        z = graph.op("MatMul", y, weights, name=f"product{number}")
        z = graph.op("SoftMax", z, axis=-1, name=f"shares{number}")
        y = graph.op("Add", z, y, name=f"sum{number}")
    graph.op("SoftMax", y, axis=0, name="y")
    return graph


def image(count=3):
    graph = og.Graph()
    y = graph.input("x", "f32", [1, 10, 10, 8])
    for number in range(count):
        weights = graph.constant(np.ones((3, 3, 8, 8), np.float32), name=f"w{number}")
        z = graph.op("ReLU", graph.op("Convolution", y, weights, **CONV, name=f"conv{number}"))
        y = graph.op("Add", graph.op("GELU", z), y)
    graph.op("GreaterEqual", y, y, name="y")
    return graph


def training_step():
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [8, 16]), graph.input("labels", "s32", [8])
    for number in range(2):
        weights = graph.parameter(np.ones((16, 16), np.float32) / 16, name=f"w{number}")
        x = graph.op("ReLU", graph.matmul(x, weights))
    loss = og.training.cross_entropy(graph, x, labels)
    return og.training.Trainer(graph, loss, og.training.SGD(0.1))


GRAPHS = {"chain": chain, "image": image}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_sums_are_what_the_model_reports(name):
    model = GRAPHS[name]().compile()
    x = np.ones(model.inputs[0].shape, np.float32)
    model(x)
    told = model.memory_timeline
    assert told.memory_bytes == model.memory_bytes
    assert told.arena_bytes == model.explain()[0].scratch_bytes  # one stage: all partitions have its arena
    assert told.constant_bytes == sum(a.nbytes for part in model.partitions for a in part.constants.values())
    assert told.peak is not None
    assert told.in_use[told.peak.step] == max(told.in_use) == told.peak.nbytes <= told.arena_bytes
    assert str(told.arena_bytes) in str(told)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_arena_is_as_large_as_what_lies_highest(name):
    (stage,) = GRAPHS[name]().compile().memory_timeline.stages
    ends = [one.offset + -(-one.nbytes // LINE) * LINE for one in stage.temporaries]
    assert stage.temporaries
    assert max(ends) == stage.arena_bytes
    assert all(one.offset % LINE == 0 for one in stage.temporaries)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_in_use_is_counted_byte_by_byte(name):
    (stage,) = GRAPHS[name]().compile().memory_timeline.stages
    counted = []
    for number in range(len(stage.steps)):
        arena = np.zeros(stage.arena_bytes, np.uint8)
        for one in stage.temporaries:
            if one.first <= number <= one.last:
                arena[one.offset : one.offset + one.nbytes] = 1
        counted.append(int(arena.sum()))
    assert list(stage.in_use) == counted
    assert max(counted) > min(counted)


@pytest.mark.parametrize("name", GRAPHS)
def test_two_that_live_at_once_lie_apart(name):
    (stage,) = GRAPHS[name]().compile().memory_timeline.stages
    for number, one in enumerate(stage.temporaries):
        for other in stage.temporaries[number + 1 :]:
            apart = other.offset >= one.offset + one.nbytes or one.offset >= other.offset + other.nbytes
            if apart or one.last < other.first or other.last < one.first:
                continue
            # What is written over its input begins with the step that reads it last.
            assert one.last == other.first
            assert other.first in one.reads


@pytest.mark.parametrize("name", GRAPHS)
def test_a_temporary_lives_from_its_writer_to_its_last_reader(name):
    graph = GRAPHS[name]()
    (stage,) = graph.compile().memory_timeline.stages
    consumers = {}
    for op in graph.ops:
        for tensor in op.inputs:
            consumers.setdefault(tensor.id, set()).add(op.id)
    readers = {op.id: {one for t in op.outputs for one in consumers.get(t.id, ())} for op in graph.ops}
    covered = set()
    for one in stage.temporaries:
        assert one.writes
        assert (one.first, one.last) == (min(one.writes), max((*one.writes, *one.reads)))
        (maker,) = {stage.steps[number].op for number in one.writes}
        if one.scratchpad:
            assert one.first == one.last
            continue
        assert one.reads
        assert all(stage.steps[number].op in _reached(maker, readers) for number in one.reads)
        covered |= {(maker, stage.steps[number].op) for number in one.reads}
    if name == "chain":  # each op has steps of its own
        edges = {(op.id, reader) for op in graph.ops for reader in readers[op.id]}
        assert edges <= covered


def _reached(op, readers):
    """It and what reads its results, through ops without steps of their own."""
    found, waiting = {op}, [op]
    while waiting:
        for one in readers[waiting.pop()] - found:
            found.add(one)
            waiting.append(one)
    return found


def test_a_profile_has_the_memory_of_what_was_executed():
    model = chain().compile()
    x = np.ones((6, 32), np.float32)
    model(x)  # what some kernels want of constants, once, is no step of an execution
    with og.profile() as prof:
        model(x)
        model(x)
        bound = model.bind([x])
        bound()
    assert prof.memory.stages == model.memory_timeline.stages
    assert prof.memory.memory_bytes == model.memory_bytes
    assert [step.op for step in prof.memory.steps] == [
        event.op for event in prof.events[: len(prof.memory.steps)]
    ]
    with og.profile() as nothing:
        pass
    assert nothing.memory.peak is None
    assert str(nothing.memory) == "nothing was executed"


def test_numpy_takes_memory_as_it_goes():
    model = chain().compile(backend="numpy")
    with og.profile() as prof:
        model(np.ones((6, 32), np.float32))
    assert {stage.arena_bytes for stage in prof.memory.stages} == {None}
    assert [step.name for step in prof.memory.steps] == [op.kind for op in chain().ops]
    assert prof.memory.memory_bytes == model.memory_bytes
    assert "numpy takes memory as it goes" in str(prof.memory)


def test_each_size_of_a_graph_of_open_shapes_has_its_own():
    graph = og.Graph()
    y = graph.input("x", "f32", [-1, 64])
    for _ in range(3):
        y = graph.op("SoftMax", graph.op("MatMul", y, graph.constant(np.eye(64, dtype=np.float32))), axis=-1)
    model = graph.compile()
    with og.profile() as prof:
        for rows in (2, 128, 2):
            model(np.ones((rows, 64), np.float32))
    assert [stage.sizes for stage in prof.memory.stages] == ["f32 2x64", "f32 128x64"]
    small, large = (stage.arena_bytes for stage in prof.memory.stages)
    assert small < large
    assert prof.memory.constant_bytes == 3 * 64 * 64 * 4  # held once for both
    assert prof.memory.prepared_bytes <= 3 * 64 * 64 * 4
    assert prof.memory.memory_bytes == model.memory_bytes


def test_the_stages_of_a_training_step_stand_one_after_another():
    trainer = training_step()
    batch = {"x": np.ones((8, 16), np.float32), "labels": np.zeros(8, np.int32)}
    with og.profile() as prof:
        trainer.step(batch)
    told = prof.memory
    assert len(told.steps) == sum(len(stage.steps) for stage in told.stages)
    assert told.constant_bytes >= 2 * 16 * 16 * 4
    waiting = [sum(one.nbytes for one in stage.between) for stage in told.stages]
    assert sum(waiting) == told.between_bytes
    if len(told.stages) > 1:
        first = told.stages[0]
        assert told.in_use[len(first.steps)] >= waiting[0]
