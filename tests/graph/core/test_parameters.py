"""Parameters: held by the graph, shared by all that is made from it, changed by runs and between them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.graph.compile.held import updates
from onednn_graph.graph.runtime.arrays import Array

X = np.arange(12, dtype=np.float32).reshape(4, 3)
W = np.arange(6, dtype=np.float32).reshape(3, 2)


def _step(op: og.Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """parameter − gradient, in place."""
    np.subtract(inputs[0], inputs[1], out=outputs[0])


@pytest.fixture
def step_op() -> Iterator[str]:
    """An op that can write its first input in place."""
    schema = og.extend.OpSchema(
        kind="TestStep",
        summary="One step.",
        inputs=(og.extend.Port("parameter", "T"), og.extend.Port("gradient", "T")),
        outputs=(og.extend.Port("stepped", "T"),),
        types={"T": ("f32",)},
        infer_shapes=og.extend.shape_of_first_input,
        in_place={"stepped": "parameter"},
    )
    og.extend.register_op(schema, kernel=_step)
    yield "TestStep"
    og.extend.unregister_op("TestStep")


def product() -> tuple[og.Graph, og.LogicalTensor, og.LogicalTensor]:
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 3])
    w = graph.parameter(W, name="w")
    graph.output(graph.op("MatMul", x, w, name="y"))
    return graph, x, w


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("backend", [None, "numpy"])
def test_evaluation_follows_every_write(backend: str | None, bound: bool) -> None:
    graph, _, w = product()
    model = graph.compile(backend=backend)
    out = np.empty((4, 2), np.float32)
    call = model.bind({"x": X}, {"y": out}) if bound else lambda: model({"x": X}, {"y": out})
    for number in range(4):
        call()
        assert np.array_equal(out, X @ (W + number))
        graph.set_parameters({w.id if number % 2 else "w": W + number + 1})


@pytest.mark.parametrize("assigned", [False, True])
def test_weights_are_packed_once_unless_the_graph_assigns_them(assigned: bool) -> None:
    graph = og.Graph()
    w = graph.parameter(np.ones((3, 3, 16, 32), np.float32), name="w")
    graph.op(
        "Convolution",
        graph.input("x", "f32", [1, 8, 8, 16]),
        w,
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
    )
    if assigned:
        graph.assign(w, graph.op("Square", w))
    told = graph.compile().explain().values()
    assert any(one is not None and one.prepared for one in told) == (not assigned)


def test_parameters_have_memory_of_their_own() -> None:
    array = W.copy()
    graph = og.Graph()
    graph.parameter(array, name="a")
    graph.parameter(array, name="b")
    array += 1
    seen = graph.parameters
    assert np.array_equal(seen["a"], W)
    assert not np.shares_memory(seen["a"], seen["b"])
    assert all(view.ctypes.data % 64 == 0 and not view.flags.writeable for view in seen.values())
    graph.set_parameters({"a": W + 5})
    assert np.array_equal(seen["a"], W + 5)
    assert np.array_equal(seen["b"], W)


def test_copies_share_and_quantized_graphs_do_not() -> None:
    graph, _x, _w = product()
    twin, narrow = copy.copy(graph), graph.to("bf16")
    eight = graph.quantize_static([{"x": X}])
    before = eight.compile()(X)["y"].copy()
    graph.set_parameters({"w": W * 0 + 1})
    want = X @ np.ones_like(W)
    assert np.array_equal(twin.compile()(X)["y"], want)
    assert np.array_equal(narrow.compile()(X)["y"], want)
    assert np.array_equal(eight.compile()(X)["y"], before)
    assert narrow.parameters["w"].dtype == np.float32
    assert not eight.parameters


@pytest.mark.parametrize("bound", [False, True])
def test_what_is_assigned_is_there_after_the_run(bound: bool) -> None:
    graph, _, w = product()
    graph.assign(w, graph.op("Multiply", w, graph.constant(np.float32(2))))
    model = graph.compile()
    assert model.output_names == ("y",)
    out = np.empty((4, 2), np.float32)
    call = model.bind({"x": X}, {"y": out}) if bound else lambda: model({"x": X}, {"y": out})
    for number in range(4):
        call()
        assert np.array_equal(out, X @ (W * 2**number))
        assert np.array_equal(graph.parameters["w"], W * 2 ** (number + 1))


@pytest.mark.parametrize("bound", [False, True])
def test_parameters_swap(bound: bool) -> None:
    graph = og.Graph()
    a, b = graph.parameter(W, name="a"), graph.parameter(-W, name="b")
    graph.output(graph.op("Subtract", a, b, name="d"))
    graph.output(a, name="former")
    graph.assign(a, b)
    graph.assign(b, a)
    model = graph.compile()
    outs = {"d": np.empty_like(W), "former": np.empty_like(W)}
    call = model.bind({}, outs) if bound else lambda: model({}, outs)
    for sign in (1, -1, 1):
        call()
        assert np.array_equal(outs["former"], sign * W)
        assert np.array_equal(graph.parameters["a"], -sign * W)
        assert np.array_equal(graph.parameters["b"], sign * W)


def _readers(graph: og.Graph, w: og.LogicalTensor) -> None:
    """Ops that read a parameter, or a view of it, late: some wait until somebody asks for their results."""
    graph.output(graph.op("StaticTranspose", w, order=[1, 0], name="turned"))
    graph.output(graph.op("StaticReshape", w, shape=[6], special_zero=False, name="flat"))
    graph.output(graph.op("Square", w, name="square"))
    graph.output(graph.op("BiasAddBackward", w, name="sum"))
    graph.output(w, name="itself")


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("backend", [None, "numpy"])
def test_nobody_reads_a_parameter_after_its_update(
    step_op: str, backend: str | None, policy: str, first: bool, bound: bool
) -> None:
    graph = og.Graph()
    gradient = graph.input("gradient", "f32", [3, 2])
    w = graph.parameter(W, name="w")
    if not first:
        _readers(graph, w)
    stepped = graph.op(step_op, w, graph.op("Abs", gradient))
    graph.assign(w, stepped)
    if first:
        _readers(graph, w)
    assert updates(graph.ops, {t.id for t in graph.outputs}, {w.id: stepped.id})
    with GUARDS.on():
        model = graph.compile(policy=policy, backend=backend)
        outs = {
            "turned": np.empty((2, 3), np.float32),
            "flat": np.empty(6, np.float32),
            "square": np.empty_like(W),
            "sum": np.empty(2, np.float32),
            "itself": np.empty_like(W),
        }
        ones = -np.ones_like(W)
        call = model.bind([ones], outs) if bound else lambda: model(ones, outputs=outs)
        for number in range(3):
            call()
            now = W - number
            assert np.array_equal(outs["turned"], now.T)
            assert np.array_equal(outs["flat"], now.ravel())
            assert np.array_equal(outs["square"], now**2)
            assert np.array_equal(outs["sum"], now.sum(0))
            assert np.array_equal(outs["itself"], now)
            assert np.array_equal(graph.parameters["w"], now - 1)


@pytest.mark.parametrize("others", [1, 2, 3])
def test_a_parameter_that_other_updates_read_is_written_last(step_op: str, others: int) -> None:
    graph = og.Graph()
    a = graph.parameter(W, name="a")
    graph.assign(a, graph.op(step_op, a, graph.constant(np.ones_like(W), name="one")))
    for number in range(others):
        other = graph.parameter(np.zeros_like(W), name=f"b{number}")
        graph.assign(other, graph.op(step_op, other, a))  # −a, as it was
    graph.compile()()
    np.testing.assert_array_equal(graph.parameters["a"], W - 1)
    for number in range(others):
        np.testing.assert_array_equal(graph.parameters[f"b{number}"], -W)


@pytest.mark.parametrize("bound", [False, True])
def test_updates_that_read_each_others_parameters(step_op: str, bound: bool) -> None:
    graph = og.Graph()
    a, b = graph.parameter(W, name="a"), graph.parameter(2 * W, name="b")
    graph.assign(a, graph.op(step_op, a, b))  # a − b
    graph.assign(b, graph.op(step_op, b, a))  # b − a, both as they were
    graph.output(graph.op("Add", a, b, name="s"))
    model, out = graph.compile(), np.empty_like(W)
    call = model.bind({}, {"s": out}) if bound else lambda: model({}, {"s": out})
    first, second = W.copy(), 2 * W
    for _ in range(3):
        call()
        assert np.array_equal(out, first + second)
        first, second = first - second, second - first
        assert np.array_equal(graph.parameters["a"], first)
        assert np.array_equal(graph.parameters["b"], second)


def test_an_update_that_is_read_or_returned_is_no_last_one(step_op: str) -> None:
    graph = og.Graph()
    a, b = graph.parameter(W, name="a"), graph.parameter(W, name="b")
    one = graph.constant(np.ones_like(W))
    new = graph.op(step_op, a, one, name="new")
    graph.assign(a, new)
    graph.assign(b, graph.op(step_op, b, new))
    graph.output(new)
    model = graph.compile()
    assert np.array_equal(model()["new"], W - 1)
    assert np.array_equal(graph.parameters["b"], np.ones_like(W))
    assert np.array_equal(model()["new"], W - 2)
    assert np.array_equal(graph.parameters["b"], 3 - W)


def test_an_input_may_be_the_parameter_itself(step_op: str) -> None:
    graph = og.Graph()
    gradient = graph.input("gradient", "f32", [3, 2])
    w = graph.parameter(W, name="w")
    graph.assign(w, graph.op(step_op, w, gradient))
    graph.output(graph.op("Abs", gradient, name="seen"))
    model = graph.compile()
    view = graph.parameters["w"]
    assert np.array_equal(model(view)["seen"], W)
    assert not graph.parameters["w"].any()
    with pytest.raises(og.ArgumentError, match="must not be memory of a parameter"):
        model.bind([view], {"seen": np.empty_like(W)})
    with pytest.raises(
        og.ArgumentError, match="must not share memory with a constant of the graph, or a parameter"
    ):
        model(W, outputs={"seen": np.lib.stride_tricks.as_strided(graph.parameters["w"])})


def test_runs_of_a_graph_that_assigns_come_one_after_another(step_op: str) -> None:
    graph = og.Graph()
    w = graph.parameter(np.zeros(1 << 12, np.float32), name="w")
    graph.assign(w, graph.op(step_op, w, graph.constant(-np.ones(1 << 12, np.float32))))
    model = graph.compile()

    def run() -> None:
        for _ in range(50):
            model()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (graph.parameters["w"] == 200).all()


def test_gradients_by_parameters() -> None:
    graph, _, w = product()
    loss = graph.op("ReduceSum", graph.tensor(graph.outputs[0].id), axes=[0, 1])
    (found,) = graph.gradients(loss, [w])
    assert found is not None
    assert np.array_equal(graph.compile()(X)[found], np.repeat(X.sum(0)[:, None], 2, 1))


def test_files_keep_them(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    graph, _, w = product()
    graph.assign(w, graph.op("Multiply", w, graph.constant(np.float32(2))))
    graph.save(tmp_path / "g.json", weights=True)
    again = og.Graph.load(tmp_path / "g.json")
    assert str(again) == str(graph)
    assert np.array_equal(again.compile()(X)["y"], X @ W)
    assert np.array_equal(again.parameters["w"], 2 * W)
    assert np.array_equal(graph.parameters["w"], W)


def test_prune_keeps_what_is_assigned_and_all_parameters() -> None:
    graph, _, w = product()
    b = graph.parameter(W, name="b")
    graph.op("Square", b)
    graph.assign(w, graph.op("Abs", w))
    graph.prune()
    assert [op.kind for op in graph.ops] == ["MatMul", "Abs"]
    assert list(graph.parameters) == ["w", "b"]


def test_other_shapes_keep_them() -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 3])
    w = graph.parameter(W, name="w")
    graph.assign(w, graph.op("Multiply", w, graph.constant(np.float32(2))))
    graph.output(graph.op("MatMul", x, w, name="y"))
    model = graph.with_shapes({"x": [4, 3]}).compile()
    assert np.array_equal(model(X)["y"], X @ W)
    assert np.array_equal(graph.compile()(X[:2])["y"], X[:2] @ (2 * W))
    assert np.array_equal(graph.parameters["w"], 4 * W)


def test_texts_and_pictures_tell_them(tmp_path: Path) -> None:
    graph, _, w = product()
    graph.assign(w, graph.op("Abs", w, name="a"))
    assert "w: f32 3x2 (parameter)" in str(graph)
    assert "w ← a" in str(graph)
    assert "1 parameters" in repr(graph)
    graph.to_html(tmp_path / "g.html")
    assert '"role":"parameter"' in (tmp_path / "g.html").read_text().replace('": "', '":"')


def _assign(parameter: str, value: str) -> None:
    graph, x, w = product()
    tensors = {
        "x": x,
        "w": w,
        "y": graph.outputs[0],
        "bf16": graph.op("TypeCast", w, output_type="bf16"),
        "stranger": og.LogicalTensor(99, "f32", [3, 2]),
        "same": graph.op("Abs", w),
        "open": graph.input("open", "f32", [-1, 2]),
    }
    if value == "again":
        graph.assign(w, tensors["same"])
        value = "same"
    graph.assign(tensors[parameter], tensors[value])


@pytest.mark.parametrize(
    ("parameter", "value", "error", "message"),
    [
        ("x", "same", og.GraphError, "is no parameter of the graph"),
        ("w", "again", og.GraphError, "is assigned twice"),
        ("w", "stranger", og.GraphError, "is no tensor of the graph"),
        ("w", "bf16", og.DataTypeError, "must have its type"),
        ("w", "y", og.ShapeError, "must have its shape"),
        ("w", "open", og.ShapeError, "must have its shape"),
    ],
)
def test_what_can_not_be_assigned(parameter: str, value: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        _assign(parameter, value)


def test_what_can_not_be_written() -> None:
    graph, _, _ = product()
    with pytest.raises(og.ArgumentError, match="no parameter 'v'.*it has 'w'"):
        graph.set_parameters({"v": W})
    with pytest.raises(og.ShapeError, match=r"parameter 'w'.*\[2, 3\]"):
        graph.set_parameters({"w": W.T})
    with pytest.raises(og.ArgumentTypeError, match="takes a mapping"):
        graph.set_parameters([W])  # pyright: ignore[reportArgumentType]
    with pytest.raises(og.GraphError, match="is taken by another tensor"):
        graph.parameter(W, name="w")
    shared = next(iter(graph.held_parameters.values()))
    with pytest.raises(og.GraphError, match="would share its memory with"):
        graph.add_parameter(og.LogicalTensor(77, "f32", [3, 2], property_type="variable"), shared)
    with pytest.raises(og.GraphError, match="must have property_type 'variable'"):
        graph.add_parameter(og.LogicalTensor(78, "f32", [3, 2]), W)
    with pytest.raises(og.GraphError, match="is a parameter of the graph and can't be an output"):
        graph.add_op(og.Op(90, "Abs", [graph.inputs[0]], [graph.parameter_tensors[0]]))


@pytest.mark.parametrize("way", ["graph", "model", "tensors"])
def test_what_is_written_may_be_what_others_hold(way: str) -> None:
    """Parameters change places by the views that show them, and parts of one go to another, as they are before."""
    graph = og.Graph()
    content = [np.arange(6, dtype=np.float32) + 10 * n for n in range(3)]
    a, b, c = (graph.parameter(array, name=name) for array, name in zip(content, "abc", strict=True))
    half = graph.parameter(np.zeros(3, np.float32), name="half")
    square = graph.parameter(np.arange(4, dtype=np.float32).reshape(2, 2), name="square")
    graph.output(graph.add(graph.add(a, b), c), name="y")
    for tensor in (half, square):
        graph.output(graph.op("Square", tensor))
    seen = graph.parameters
    values: dict[str, object] = {"a": seen["b"], "b": seen["c"][::-1], "c": seen["a"]}
    values |= {"half": seen["a"][1::2], "square": seen["square"].T}
    if way == "tensors":
        torch = pytest.importorskip("torch")
        values["c"] = torch.from_numpy(graph.held_parameters[a.id].array)  # whose memory NumPy does not know
    if way == "model":
        graph.compile().state.update(values)
    else:
        graph.set_parameters(values)
    found = graph.parameters
    np.testing.assert_array_equal(found["a"], content[1])
    np.testing.assert_array_equal(found["b"], content[2][::-1])
    np.testing.assert_array_equal(found["c"], content[0])
    np.testing.assert_array_equal(found["half"], content[0][1::2])
    np.testing.assert_array_equal(found["square"], [[0, 2], [1, 3]])


def _described(graph: og.Graph, values: Array) -> og.LogicalTensor:
    """A parameter that is described column by column, and lies row by row as all do."""
    strides = [1, len(values)]
    tensor = og.LogicalTensor(
        graph.fresh_id(), "f32", values.shape, strides=strides, property_type="variable", name="w"
    )
    return graph.add_parameter(tensor, values)


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("assigned", [False, True])
def test_a_parameter_described_with_strides_is_read_as_it_is_now(backend: str | None, assigned: bool) -> None:
    first = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = og.Graph()
    w = _described(graph, first)
    y = graph.add(graph.input("x", "f32", [2, 3]), w)
    graph.output(y, name="y")
    if assigned:
        graph.assign(w, y)
    model, ones = graph.compile(backend=backend), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x=ones)["y"], first + 1)
    np.testing.assert_array_equal(model(x=ones)["y"], first + (2 if assigned else 1))
    graph.set_parameters({"w": 10 * first})
    np.testing.assert_array_equal(model(x=ones)["y"], 10 * first + 1)
    bound = model.bind({"x": ones})
    graph.set_parameters({"w": -first})
    np.testing.assert_array_equal(bound()["y"], 1 - first)


def test_a_partition_compiled_for_strides_reads_a_parameter_as_it_is_now() -> None:
    first = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = og.Graph()
    w = graph.parameter(first, name="w")
    graph.add(graph.input("x", "f32", [2, 3]), w)
    graph.finalize()
    (partition,) = graph.get_partitions()
    x, w = sorted(partition.input_ports, key=lambda one: one.id == w.id)
    turned = og.LogicalTensor(w.id, "f32", w.dims, strides=[1, 2], property_type="variable", name="w")
    compiled = partition.compile([x, turned])
    given = {t.id: None if t.id == w.id else np.ones((2, 3), np.float32) for t in compiled.inputs}
    np.testing.assert_array_equal(compiled.execute(None, [*given.values()])[0], first + 1)
    graph.set_parameters({"w": -first})
    np.testing.assert_array_equal(compiled.execute(None, [*given.values()])[0], 1 - first)
    with pytest.raises(og.ArgumentError, match="must lie as compiled to be bound"):
        compiled.bind([*given.values()])
