"""Who gets which op: priorities, convexity, forced backends, mixed graphs, and shapes known late."""

import numpy as np
import onednn_graph as og
import pytest
from attrs import define, field
from onednn_graph.backends.numpy.backend import NumpyBackend
from onednn_graph.graph.compile import partitioner
from onednn_graph.graph.compile.backend import BACKENDS as REGISTERED
from onednn_graph.graph.compile.backend import Pattern
from oracle import Problem
from strategies import BACKENDS, check

PROBLEM = Problem(batch=2, channels=(3, 3), size=(6, 6), kernel=(3, 3), begin=(1, 1), end=(1, 1))
POINTWISE = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}


def schema(kind, inputs, outputs=1):
    return og.extend.OpSchema(
        kind=kind,
        summary=f"{kind}, for tests.",
        inputs=tuple(og.extend.Port(name, "T") for name in "abcd"[:inputs]),
        outputs=tuple(og.extend.Port(name, "T") for name in "xy"[:outputs]),
        types={"T": (og.DataType.f32,)},
        attributes=(),
        infer_shapes=lambda context: (context.inputs[0],) * outputs,
        pure=True,
    )


@pytest.fixture
def ops():
    """Ops that only NumPy can do."""

    def add(op, inputs, outputs):
        outputs[0][...] = sum(inputs)

    def split(op, inputs, outputs):
        outputs[0][...] = inputs[0] + 1
        outputs[1][...] = inputs[0] * 2

    def negate(op, inputs, outputs):
        np.negative(inputs[0], out=outputs[0])

    made = [
        og.extend.register_op(schema("TestAdd", 2), add),
        og.extend.register_op(schema("TestSplit", 1, 2), split),
        og.extend.register_op(schema("TestNegate", 1), negate),
    ]
    yield
    for one in made:
        og.extend.unregister_op(one.kind)


@define
class Fuser(NumpyBackend):
    """A backend that claims what a test tells it to, and runs it on NumPy kernels."""

    name = "fuser"
    patterns: tuple = ()
    compiled: list = field(factory=list)

    def why_not(self, ops):
        return None

    def compile(self, request):
        self.compiled.append([op.name for op in request.ops])
        return super().compile(request)


@pytest.fixture
def fuser():
    made = []

    def register(*patterns):
        backend = Fuser(patterns=patterns)
        REGISTERED.register(backend)
        made.append(backend)
        return backend

    yield register
    for backend in made:
        REGISTERED.unregister(backend.name)


def chain(*names, priority=5.0):
    """A pattern that takes the ops of these names where they all are reachable from the first."""

    def match(op, topology):
        if op.name != names[0]:
            return None
        found, pending = {op.name: op}, [op]
        while pending:
            for consumer in topology.consumers(pending.pop()):
                if consumer.name not in found:
                    found[consumer.name] = consumer
                    pending.append(consumer)
        return tuple(found[name] for name in names) if set(names) <= set(found) else None

    return Pattern("+".join(names), priority, match)


def names(model):
    return [[op.name for op in p.ops] for p in model.partitions]


# --- mixed graphs ---------------------------------------------------------------------------------------


def test_onednn_and_numpy_feed_each_other(ops, onednn):
    """NumPy → oneDNN → NumPy → oneDNN, with the same numbers as all on NumPy."""

    def build():
        graph = og.Graph()
        x = graph.input("x", "f32", (2, 6, 6, 3))
        dy = graph.input("dy", "f32", (2, 6, 6, 3))
        minus = graph.op("TestNegate", x, name="minus")
        dw = graph.op(
            PROBLEM.kind, minus, dy, weights_shape=PROBLEM.weights_shape, name="dw", **PROBLEM.attributes
        )
        back = graph.op("TestNegate", dw, name="back")
        # dW as the data of another gradient: (K, K, I, O) as (N, Y, X, C)
        graph.op("ConvolutionBackwardWeights", back, dw, weights_shape=[1, 1, 3, 3], name="gram", **POINTWISE)
        graph.output(dw)
        return graph

    model = build().compile()
    assert names(model) == [["minus"], ["dw"], ["back"], ["gram"]]
    assert [p.backend for p in model.partitions] == ["numpy", "onednn", "numpy", "onednn"]
    assert set(model.partitions[0].why_not) == {"onednn"}
    assert "no lowering of TestNegate" in model.partitions[0].why_not["onednn"]
    assert "comes first" in model.partitions[1].why_not["numpy"]
    src, diff_dst = PROBLEM.arrays()
    results = model({"x": -src, "dy": diff_dst})
    check(PROBLEM, results["dw"])
    dw = PROBLEM.exact()
    np.testing.assert_array_equal(results["gram"][0, 0], -np.einsum("yxai,yxao->io", dw, dw))
    for other in (build().compile(backend="numpy"), build().compile(policy="debug")):
        again = other({"x": -src, "dy": diff_dst})
        for name in ("dw", "gram"):
            np.testing.assert_array_equal(again[name], results[name])


def test_a_deep_chain_and_a_diamond(ops):
    graph = og.Graph()
    tensor = x = graph.input("x", "f32", [2, 3])
    for step in range(1500):
        tensor = graph.op("TestNegate", tensor, name=f"n{step}")
    left, right = graph.op("TestSplit", tensor, name="split")
    total = graph.op("TestAdd", left, right, name="total")
    graph.op("TestAdd", total, x, name="end")
    model = graph.compile()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model({"x": value})["end"], 3 * value + 1 + value)
    assert len(model.partitions) == 1503


def test_outputs_of_the_middle_and_of_one_port_only(ops):
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    left, _right = graph.op("TestSplit", x, name="split")
    middle = graph.output(graph.op("TestNegate", left, name="middle"))
    graph.op("TestNegate", middle, name="end")
    results = graph.compile()({"x": np.zeros(4, np.float32)})
    assert {name: value[0] for name, value in results.items()} == {"middle": -1, "split.y": 0, "end": 1}


def test_ops_in_any_order_of_adding(ops):
    def tensor(number):
        return og.LogicalTensor(number, "f32", [3])

    graph = og.Graph()
    graph.add_op(og.Op(5, "TestNegate", [tensor(2)], [tensor(3)]))
    graph.add_op(og.Op(9, "TestAdd", [tensor(0), tensor(1)], [tensor(2)]))
    graph.add_op(og.Op(1, "TestNegate", [tensor(0)], [tensor(1)]))
    graph.finalize()
    assert [p.ops[0].id for p in graph.get_partitions()] == [1, 9, 5]
    assert [t.id for t in graph.inputs] == [0]
    one = np.ones(3, np.float32)
    np.testing.assert_array_equal(graph.compile()({0: one})["3"], 0 * one)


# --- claims ---------------------------------------------------------------------------------------------


def straight(graph, *kinds):
    tensor = graph.input("x", "f32", [4])
    for number, kind in enumerate(kinds):
        tensor = graph.op(kind, tensor, name="abcdef"[number])
    return tensor


def test_higher_priorities_claim_first(ops, fuser):
    backend = fuser(chain("a", "b", priority=1), chain("b", "c", "d", priority=2))
    graph = og.Graph()
    straight(graph, *["TestNegate"] * 4)
    graph.finalize()
    model = graph.compile()
    assert names(model) == [["a"], ["b", "c", "d"]]
    assert [p.backend for p in graph.get_partitions()] == [
        "numpy",
        "fuser",
    ]  # which has NumPy's kernels run them
    assert backend.compiled == [["b", "c", "d"]]
    np.testing.assert_array_equal(model({"x": np.ones(4, np.float32)})["d"], np.ones(4))


def test_policy_debug_fuses_nothing(ops, fuser):
    fuser(chain("a", "b"))
    graph = og.Graph()
    straight(graph, "TestNegate", "TestNegate")
    assert names(graph.compile(policy="debug")) == [["a"], ["b"]]
    assert names(graph.compile(policy="fusion")) == [["a", "b"]]


def test_a_claim_that_is_not_convex_is_refused(ops, fuser):
    """a → b → c and a → c: without b, the claim {a, c} would wait for itself."""
    fuser(chain("a", "c"))
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    a = graph.op("TestNegate", x, name="a")
    b = graph.op("TestNegate", a, name="b")
    graph.op("TestAdd", a, b, name="c")
    assert names(graph.compile()) == [["a"], ["b"], ["c"]]
    np.testing.assert_array_equal(graph.compile()({"x": np.ones(4, np.float32)})["c"], np.zeros(4))


def test_claims_that_would_wait_for_each_other_are_refused(ops, fuser):
    """Two claims, each convex in the graph: a → d and c → b, as {a, b} and {c, d}."""
    pairs = {"a": "b", "c": "d"}

    def pair(op, topology):
        return (op, everyone[pairs[op.name]]) if op.name in pairs else None

    fuser(Pattern("pair", 5.0, pair))
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    a = graph.op("TestNegate", x, name="a")
    c = graph.op("TestNegate", x, name="c")
    graph.op("TestNegate", c, name="b")
    graph.op("TestNegate", a, name="d")
    graph.finalize()
    everyone = {op.name: op for op in graph.ops}
    model = graph.compile()
    assert sorted(map(sorted, names(model))) == [["a", "b"], ["c"], ["d"]]
    results = model({"x": np.ones(4, np.float32)})
    assert results["b"][0] == results["d"][0] == 1


def test_tensors_inside_a_partition_are_no_ports(ops, fuser):
    fuser(chain("a", "b", "c"))
    graph = og.Graph()
    straight(graph, "TestNegate", "TestNegate", "TestNegate")
    (partition,) = graph.compile().partitions
    assert [t.name for t in partition.input_ports] == ["x"]
    assert [t.name for t in partition.output_ports] == ["c"]


def test_an_inner_tensor_that_is_read_outside_is_a_port(ops, fuser):
    fuser(chain("a", "b"))
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    a = graph.op("TestNegate", x, name="a")
    graph.op("TestNegate", a, name="b")
    graph.op("TestNegate", a, name="other")
    model = graph.compile()
    assert [t.name for t in model.partitions[0].output_ports] == ["a", "b"]
    results = model({"x": np.ones(4, np.float32)})
    assert (results["b"][0], results["other"][0]) == (1, 1)


def test_a_backend_that_gives_up_at_compile_time(ops, fuser):
    """The next one takes over, and the explanation keeps the reason; unless the backend was forced."""

    def too_large(request):
        raise og.UnsupportedError("too large for me")

    backend = fuser(chain("a"))
    backend.compile = too_large
    graph = og.Graph()
    straight(graph, "TestNegate")
    graph.finalize()
    model = graph.compile()
    explanation = model.explain()[0]
    assert explanation.backend == "numpy"
    assert any("fuser: too large for me" in reason for reason in explanation.rejected)
    assert "too large" in str(explanation)
    value = np.ones(4, np.float32)
    assert model({"x": value})["a"][0] == -1
    compiled = model.partitions[0].compile()
    out = np.zeros(4, np.float32)
    compiled.bind([value], [out])()
    assert out[0] == -1
    with pytest.raises(og.UnsupportedError, match="'fuser' was forced.*too large for me"):
        graph.get_partitions(backend="fuser")[0].compile()


def test_no_backend_at_all():
    """An op without a kernel gives an unsupported partition with both reasons."""
    from onednn_graph.ops.registry import REGISTRY

    REGISTRY.register(schema("TestNothing", 1))
    try:
        graph = og.Graph()
        graph.op("TestNothing", graph.input("x", "f32", [4]), name="a")
        graph.finalize()
        (partition,) = graph.get_partitions()
        assert not partition.is_supported
        assert set(partition.why_not) == {"onednn", "numpy"}
        assert "no backend" in repr(partition)
        with pytest.raises(og.UnsupportedError, match="register_op"):
            partition.compile()
    finally:
        REGISTRY.unregister("TestNothing")


@pytest.mark.parametrize("backend", BACKENDS)
def test_forcing_a_backend(backend):
    src, diff_dst = PROBLEM.arrays()
    graph = og.Graph()
    x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
    graph.op(PROBLEM.kind, x, dy, weights_shape=PROBLEM.weights_shape, name="dw", **PROBLEM.attributes)
    model = graph.compile(backend=backend)
    assert [p.backend for p in model.partitions] == [backend]
    assert model.partitions[0].why_not == {}
    check(PROBLEM, model({"x": src, "dy": diff_dst})["dw"])


def test_forcing_what_cannot_be_done(ops, onednn):
    graph = og.Graph()
    straight(graph, "TestNegate")
    with pytest.raises(og.UnsupportedError, match="'onednn' was forced.*no lowering of TestNegate"):
        graph.compile(backend="onednn")
    problem = Problem(dtype="f64")
    src, diff_dst = problem.arrays()
    with pytest.raises(NotImplementedError, match="'onednn' was forced.*not f64"):
        og.convolution_backward_weights(
            src, diff_dst, weights_shape=problem.weights_shape, backend="onednn", **problem.attributes
        )


# --- a machine without the library ----------------------------------------------------------------------


def test_without_the_library_numpy_does_everything_and_says_so_once(onednn, monkeypatch, recwarn):
    monkeypatch.setattr(type(onednn), "unavailable", lambda self: "it is not here")
    monkeypatch.setattr(partitioner, "_said", set())
    assert og.list_backends() | {"native": ""} == {"onednn": "it is not here", "numpy": None, "native": ""}
    for _ in range(3):
        graph = og.Graph()
        src, diff_dst = PROBLEM.arrays()
        x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
        graph.op(PROBLEM.kind, x, dy, weights_shape=PROBLEM.weights_shape, name="dw", **PROBLEM.attributes)
        model = graph.compile()
        check(PROBLEM, model({"x": src, "dy": diff_dst})["dw"])
        assert model.partitions[0].why_not["onednn"] == "it is not here"
        with pytest.raises(og.UnsupportedError, match="it is not here"):
            graph.compile(backend="onednn")
    said = [w for w in recwarn if issubclass(w.category, og.errors.BackendUnavailableWarning)]
    assert len(said) == 1
    assert said[0].filename == __file__
    assert "it is not here" in str(said[0].message)


def test_a_backend_that_could_is_told_who_comes_first(onednn):
    graph = og.Graph()
    graph.op("Abs", graph.input("x", "f32", [2]))
    (partition,) = graph.compile().partitions
    assert partition.backend == "onednn"
    assert partition.why_not["numpy"] == "it can, but onednn comes first"


def test_nothing_is_said_of_a_backend_that_is_not_asked_for(onednn, monkeypatch, recwarn):
    monkeypatch.setattr(type(onednn), "unavailable", lambda self: "it is not here")
    monkeypatch.setattr(partitioner, "_said", set())
    graph = og.Graph()
    graph.op("Abs", graph.input("x", "f32", [2]))
    graph.compile(backend="numpy")
    assert not recwarn.list
    graph.compile()
    assert [w.category for w in recwarn] == [og.errors.BackendUnavailableWarning]


# --- shapes known at execution --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_at_the_first_call_for_each_shape_and_bounded(backend):
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [-1, 6, 5, 3]), graph.input("dy", "f32", [-1, 4, 4, 4])
    problem = Problem()
    graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, name="dw", **problem.attributes)
    model = graph.compile(backend=backend)
    assert model.explain() == {0: None}
    for batch in (1, 2, 1, *range(1, 20)):
        sized = Problem(batch=batch)
        src, diff_dst = sized.arrays()
        check(sized, model({"x": src, "dy": diff_dst})["dw"])
    assert model.explain()[0].backend == backend
    stage = model._stages[0]
    assert stage.specialisations == 16
    with pytest.raises(og.ShapeError, match="batch"):
        model({"x": np.zeros((2, 6, 5, 3), np.float32), "dy": np.zeros((3, 4, 4, 4), np.float32)})
    assert "x, dy → dw" in repr(model)
