"""Calling a compiled graph: by position, by name, with a mapping, bound to arrays; and what it returns."""

import threading

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.plan.plan import KEPT_FRAMES


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


A, B, W = whole(3, 4), whole(3, 5, seed=1), whole(4, 5, seed=2)
PRODUCT = A @ W


def build(shape=A.shape):
    """`b` is added first but read last; `unread` by nobody."""
    graph = og.Graph()
    b, a = graph.input("b", "f32", [shape[0], 5]), graph.input("a", "f32", shape)
    graph.input("unread", "f32", [7])
    h = graph.matmul(a, graph.constant(W, name="w"), name="product")
    graph.relu(graph.subtract(h, b), name="y")
    return graph


EXPECTED = np.maximum(PRODUCT - B, 0)


def several():
    """Outputs of all sorts: computed, an inner tensor under two names, an input and a constant passed through."""
    graph = build()
    h = next(t for t in graph.tensors if t.name == "product")
    y = graph.outputs[0]
    for tensor, name in (
        (y, None),
        (h, "first"),
        (h, "second"),
        (graph.inputs[1], "same"),
        (graph.constant_tensors[0], "w"),
    ):
        graph.output(tensor, name=name)
    return graph


ALL = {"y": EXPECTED, "first": PRODUCT, "second": PRODUCT, "same": A, "w": W}
WAYS = pytest.mark.parametrize(
    ("backend", "policy"), [(None, "fusion"), (None, "debug"), ("numpy", "fusion"), ("onednn", "debug")]
)


def test_inputs_have_the_order_in_which_they_were_added():
    model = build().compile()
    assert model.input_names == ("b", "a", "unread")
    assert [t.name for t in model.inputs] == ["b", "a", "unread"]


@WAYS
def test_by_position_by_name_and_by_a_mapping(backend, policy):
    graph = build()
    b, a, _ = graph.inputs
    model = graph.compile(backend=backend, policy=policy)
    unread = np.zeros(7, np.float32)
    for results in (
        model(B, A),
        model(B, A, unread),
        model(B, a=A),
        model(a=A, b=B),
        model({"a": A, "b": B}),
        model({a: A, b.id: B}),
        model({"a": A}, b=B),
    ):
        assert list(results) == ["y"]
        np.testing.assert_array_equal(results["y"], EXPECTED)
        np.testing.assert_array_equal(results.only, EXPECTED)


@WAYS
def test_into_arrays(backend, policy):
    model = build().compile(backend=backend, policy=policy)
    target = np.empty_like(EXPECTED)
    assert model(B, A, outputs={"y": target})["y"] is target
    np.testing.assert_array_equal(target, EXPECTED)
    target[...] = 0
    model({"b": B, "a": A}, {"y": target})
    np.testing.assert_array_equal(target, EXPECTED)


@WAYS
def test_outputs_of_all_sorts(backend, policy):
    model = several().compile(backend=backend, policy=policy)
    assert model.output_names == tuple(ALL)
    results = model(B, A)
    assert list(results) == list(ALL)
    for name, expected in ALL.items():
        np.testing.assert_array_equal(results[name], expected)
    assert not np.shares_memory(results["same"], A)
    arrays = [*results.values()]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert not np.shares_memory(results["w"], W)
    assert results["w"].flags.writeable
    for given in (tuple(ALL), ("second",), ("same", "first"), ("w", "y")):
        targets = {name: np.empty_like(ALL[name]) for name in given}
        results = model(B, A, outputs=targets)
        for name, expected in ALL.items():
            np.testing.assert_array_equal(results[name], expected)
            if name in targets:
                assert results[name] is targets[name]


@WAYS
def test_bound_to_arrays(backend, policy):
    model = several().compile(backend=backend, policy=policy)
    a, b = A.copy(), B.copy()
    targets = {name: np.empty_like(array) for name, array in ALL.items()}
    for inputs in ({"a": a, "b": b}, [b, a]):
        run = model.bind(inputs, targets)
        for factor in (1, 2):
            a[...], b[...] = factor * A, factor * B
            for array in targets.values():
                array[...] = np.nan
            assert run() is run.outputs
            for name, expected in ALL.items():
                np.testing.assert_array_equal(targets[name], expected if name == "w" else factor * expected)
        a[...], b[...] = A, B


@pytest.mark.parametrize("policy", ["fusion", "debug"])
def test_bound_with_sizes_that_are_known_only_then(policy):
    model = build([-1, 4]).compile(policy=policy)
    for rows in (1, 3):
        target = np.empty((rows, 5), np.float32)
        run = model.bind({"a": A[:rows], "b": B[:rows]}, {"y": target})
        run()
        np.testing.assert_array_equal(target, EXPECTED[:rows])


def test_what_is_bound_is_profiled():
    model = build().compile(policy="debug")
    run = model.bind([B, A], {"y": np.empty_like(EXPECTED)})
    with og.profile() as seen:
        run()
    assert len(seen.partitions) == 3


def test_a_bound_call_keeps_its_arrays():
    model = several().compile()
    a, b = A.copy(), B.copy()
    targets = {name: np.empty_like(array) for name, array in ALL.items()}
    run = model.bind({"a": a, "b": b}, targets)
    for array in (a, targets["same"], targets["y"]):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize((100,), refcheck=False)
    del a, b
    run()
    np.testing.assert_array_equal(targets["y"], EXPECTED)


TARGETS = {name: np.empty_like(array) for name, array in ALL.items()}
WRONG = {
    "an input is missing": ([B], TARGETS, og.ArgumentError, "input 'a' is missing"),
    "one array": (B, TARGETS, og.ArgumentTypeError, "inputs must be a mapping .* or a list of arrays"),
    "one array for the outputs": ([B, A], B, og.ArgumentTypeError, "outputs must be a mapping .* or a list"),
    "too many outputs": ([B, A], [B] * 9, og.ArgumentError, "the graph has . outputs, .*, got 9 arrays"),
    "another layout": (
        [B, np.asfortranarray(A)],
        TARGETS,
        og.ArgumentError,
        "must lie as compiled to be bound",
    ),
    "an output in another layout": (
        [B, A],
        {**TARGETS, "y": np.empty((5, 3), np.float32).T},
        og.ArgumentError,
        "must lie as compiled",
    ),
    "an output over an input": ([B, A], {**TARGETS, "y": B}, og.ArgumentError, "share memory with 'b'"),
    "an output over a constant": (
        [B, A],
        {**TARGETS, "w": W},
        og.ArgumentError,
        "with a constant of the graph",
    ),
    "one array twice": (
        [B, A],
        {**TARGETS, "second": TARGETS["first"]},
        og.ArgumentError,
        "share memory with 'first'",
    ),
    "a copy of another shape": (
        [B, A],
        {**TARGETS, "same": np.empty(3, np.float32)},
        og.ShapeError,
        "output 'same'",
    ),
    "a copy of another type": (
        [B, A],
        {**TARGETS, "second": np.empty((3, 5))},
        og.DataTypeError,
        "output 'second'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("policy", ["fusion", "debug"])
def test_what_can_not_be_bound(name, policy):
    inputs, outputs, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        several().compile(policy=policy).bind(inputs, outputs)


def test_outputs_of_a_call_that_can_not_be():
    model = several().compile()
    read_only = np.empty_like(A)
    read_only.flags.writeable = False
    for name, array, message in (
        ("same", read_only, "output 'same' must be writeable"),
        ("w", W, "with a constant of the graph"),
        ("y", W[:3], "with a constant of the graph"),
        ("y", B, "must not share memory with 'b'"),
    ):
        with pytest.raises(og.ArgumentError, match=message):
            model(B, A, outputs={name: array})
    np.testing.assert_array_equal(W, whole(4, 5, seed=2))


def test_one_part_may_write_over_its_input():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [3, 4]), name="y")
    x = A.copy()
    graph.compile()(x, outputs={"y": x})
    np.testing.assert_array_equal(x, np.maximum(A, 0))


def test_shapes_that_hang_on_computed_values_can_not_be_bound():
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [2, 5, 5, 4]), graph.input("dy", "f32", [2, 3, 3, 6])
    shape = graph.add(*[graph.input(name, "s32", [4]) for name in "mn"])
    options = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    graph.convolution_backward_weights(x, dy, shape, **options, name="dw")
    model = graph.compile()
    feeds = {
        "x": np.ones((2, 5, 5, 4), "f4"),
        "dy": np.ones((2, 3, 3, 6), "f4"),
        "m": np.int32([1, 1, 2, 2]),
        "n": np.int32([2, 2, 2, 4]),
    }
    assert model(feeds)["dw"].shape == (3, 3, 4, 6)
    with pytest.raises(og.ArgumentError, match="can't be bound, for it computes tensor 'add"):
        model.bind(feeds, {"dw": np.empty((3, 3, 4, 6), np.float32)})


def test_an_inner_tensor_names_graph_output():
    graph = build()
    h = next(t for t in graph.tensors if t.name == "product")
    results = graph.compile()(B, A)
    for key in (h, h.id, "product", "w", "a"):
        with pytest.raises(og.ArgumentError, match=r"is a tensor inside of it; mark it with graph\.output"):
            results[key]
        assert key not in results
        assert results.get(key) is None


def test_a_tensor_that_is_an_output_under_another_name():
    graph = build()
    y = graph.output(graph.outputs[0], name="z")
    results = graph.compile()(B, A)
    assert results[y] is results["z"]
    with pytest.raises(og.ArgumentError, match="is its output 'z'"):
        results["y"]


def test_the_only_output_of_several():
    with pytest.raises(og.ArgumentError, match="the graph has 5 outputs, 'y', 'first'"):
        _ = several().compile()(B, A).only


def test_an_output_that_is_marked_twice_is_one():
    graph = build()
    y = graph.outputs[0]
    graph.output(y)
    graph.output(y)
    assert graph.output_names == ("y",)


def test_a_report():
    model = build().compile()
    report = model.report(B, a=A, repeat=2)
    assert sum(report.ops.values()) == 3
    assert report.partitions == len(model.partitions)
    for repeat in (0, 1.5, None):
        with pytest.raises(og.ArgumentError, match="repeat must be an integer of at least 1"):
            model.report(B, A, repeat=repeat)


def test_memory():
    """At least what lies between the parts, where nothing else is needed."""
    model = build().compile(backend="numpy", policy="debug")
    assert model.memory_bytes == 2 * EXPECTED.nbytes
    open_ended = build([-1, 4]).compile(backend="numpy", policy="debug")
    assert open_ended.memory_bytes == 0
    open_ended(B, A)
    assert open_ended.memory_bytes == 2 * EXPECTED.nbytes


def test_threads_share_a_model_and_few_frames_stay():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 4])
    graph.softmax(graph.matmul(x, graph.constant(np.eye(4, dtype="f4"))), axis=1, name="y")
    model = graph.compile(backend="onednn")
    data = [whole(4, 4, seed=seed) for seed in range(4 * KEPT_FRAMES)]
    expected = [model(array)["y"] for array in data]
    plans = [stage.executable.plan for stage in model._stages]
    taken = [[plan.take() for _ in data] for plan in plans]
    for plan, frames in zip(plans, taken, strict=True):
        for frame in frames:
            plan.give(frame)
        assert len(plan._frames) == KEPT_FRAMES
    del taken
    wrong = []

    def work(array, want):
        wrong.extend(array for _ in range(20) if not np.array_equal(model(array)["y"], want))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(data, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(len(plan._frames) <= KEPT_FRAMES for plan in plans)


def test_inputs_called_like_parameters():
    graph = og.Graph()
    graph.add(graph.input("outputs", "f32", [2]), graph.input("stream", "f32", [2]), name="self")
    model = graph.compile()
    one, two = np.float32([1, 2]), np.float32([3, 4])
    for results in (model(one, two), model({"outputs": one, "stream": two})):
        np.testing.assert_array_equal(results["self"], [4, 6])
