"""How a graph comes to its partitions, step by step: who took which ops, who refused them, and where a pattern ends."""

import copy
import pickle

import onednn_graph as og
import pytest
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.backends.numpy.backend import NumpyBackend
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.graph.compile import partitioner
from onednn_graph.graph.compile.backend import BACKENDS as REGISTERED
from onednn_graph.graph.compile.backend import Pattern
from random_graphs import ANCHORS, random_graph

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def mixed():
    """A convolution with a bias and a ReLU, what nobody but NumPy has, and products of doubles."""
    graph = og.Graph()
    image = graph.input("image", "f32", [1, 8, 8, 4])
    y = graph.op("Convolution", image, graph.input("w", "f32", [3, 3, 4, 8]), **CONV, name="conv")
    y = graph.op("BiasAdd", y, graph.input("b", "f32", [8]), name="bias")
    y = graph.op("ReLU", y, name="act")
    graph.op("GreaterEqual", y, graph.input("limit", "f32", [1]), name="mask")
    doubles = graph.input("doubles", "f64", [4, 8])
    graph.op("Abs", graph.op("MatMul", doubles, doubles, transpose_b=True, name="product"), name="size")
    return graph


def told(partitioning):
    """Who was asked by what pattern for which ops, and the partition or the reason."""
    return [
        (
            step.backend,
            step.pattern,
            [op.name for op in step.ops],
            step.reason if step.partition is None else step.partition,
        )
        for step in partitioning.steps
    ]


DOUBLES = "oneDNN's primitives take no f64, as 'src' is"


# --- who took what --------------------------------------------------------------------------------------


def test_steps_of_a_graph_that_one_backend_does_not_do_alone(onednn):
    fused = "convolution with post-ops"
    assert told(mixed().partitioning()) == [
        ("onednn", fused, ["conv", "bias", "act"], 0),
        ("onednn", "matmul with post-ops", ["product", "size"], DOUBLES),
        ("onednn", "single op", ["mask"], "no lowering of GreaterEqual"),
        ("onednn", "single op", ["product"], DOUBLES),
        ("onednn", "single op", ["size"], DOUBLES),
        ("numpy", "single op", ["mask"], 1),
        ("numpy", "single op", ["product"], 2),
        ("numpy", "single op", ["size"], 3),
    ]


def test_under_the_policy_debug_no_pattern_of_several_ops_is_asked(onednn):
    partitioning = mixed().partitioning("debug")
    assert partitioning.policy == "debug"
    assert {pattern for _, pattern, _, _ in told(partitioning)} == {"single op"}
    assert told(partitioning)[:3] == [
        ("onednn", "single op", ["conv"], 0),
        ("onednn", "single op", ["bias"], 1),
        ("onednn", "single op", ["act"], 2),
    ]
    assert partitioning.unmatched == ()


def test_a_forced_backend_is_the_only_one_that_is_asked():
    names = ["conv", "bias", "act", "mask", "product", "size"]
    assert told(mixed().partitioning(backend="numpy")) == [
        ("numpy", "single op", [name], number) for number, name in enumerate(names)
    ]
    with pytest.raises(og.UnsupportedError, match="no lowering of GreaterEqual"):
        mixed().partitioning(backend="onednn")


def test_a_backend_that_is_not_there_is_the_first_step(onednn, monkeypatch):
    monkeypatch.setattr(type(onednn), "unavailable", lambda self: "it is not here")
    monkeypatch.setattr(partitioner, "_said", {"onednn"})
    first, *others = mixed().partitioning().steps
    assert (first.backend, first.pattern, first.ops, first.reason) == ("onednn", "", (), "it is not here")
    assert str(first) == "onednn can't be asked: it is not here"
    assert {step.backend for step in others} == {"numpy"}


def test_an_op_that_nobody_runs_is_the_last_step(onednn, monkeypatch):
    monkeypatch.delitem(KERNELS, "GreaterEqual")
    (*_, last) = mixed().partitioning().steps
    assert (last.backend, last.pattern, last.reason) == (None, "", "")
    assert str(last) == "nobody takes GreaterEqual 'mask' → partition 1, which can't run"
    refused = [step.reason for step in mixed().partitioning().about("mask")[:-1]]
    assert refused == [
        "no lowering of GreaterEqual",
        "GreaterEqual has no NumPy kernel; register one with onednn_graph.extend.register_op",
    ]


def test_reasons_are_those_of_the_partitions(onednn):
    partitioning = mixed().partitioning()
    graph = mixed()
    graph.finalize()
    for part in graph.get_partitions():
        for step in partitioning.steps:
            if step.partition is None and [op.name for op in step.ops] == [op.name for op in part.ops]:
                assert part.why_not[step.backend] == step.reason


# --- what stands in the way -----------------------------------------------------------------------------


@define
class Fuser(NumpyBackend):
    """A backend that claims what a test tells it to."""

    name = "fuser"
    patterns: tuple = ()

    def why_not(self, ops):
        return None


def named(*names, priority=5.0):
    """A pattern of the ops of these names, which is matched at the first of them."""

    def match(op, topology):
        found = tuple(one for one in topology.ops if one.name in names)
        return found if op.name == names[0] else None

    return Pattern("+".join(names), priority, match)


@pytest.fixture
def fuser():
    def register(*patterns):
        REGISTERED.register(Fuser(patterns=patterns))

    yield register
    REGISTERED.unregister("fuser")


def chain():
    graph = og.Graph()
    y = graph.input("x", "f32", [4])
    for name in "abcd":
        y = graph.op("Abs", y, name=name)
    return graph


def test_ops_that_went_to_others_before_are_named_with_who_has_them(fuser):
    fuser(named("a", "b", priority=30.0), named("c", "b", priority=29.0), named("d", "a", "c", priority=28.0))
    first, second, third = chain().partitioning().steps[:3]
    assert (first.partition, first.reason) == (0, "")
    assert second.pattern == "c+b"
    assert third.pattern == "d+a+c"
    assert second.partition is third.partition is None
    assert second.reason == "Abs 'b' went to partition 0 before, by 'a+b' of fuser"
    assert third.reason == "Abs 'a' went to partition 0 before, by 'a+b' of fuser"


def test_a_subgraph_that_would_wait_for_itself_is_refused_with_the_way_back(fuser):
    fuser(named("b", "c", priority=31.0), named("a", "d", priority=30.0))
    first, second = chain().partitioning().steps[:2]
    assert first.partition is not None
    assert second.partition is None
    assert second.reason == "as one they would wait for themselves, by way of Abs 'b', Abs 'c'"


def test_the_way_back_is_a_shortest_one(fuser):
    graph = og.Graph()
    first = graph.op("Abs", graph.input("x", "f32", [4]), name="first")
    long = graph.op("Exp", graph.op("Exp", first, name="l0"), name="l1")
    short = graph.op("ReLU", first, name="short")
    graph.op("Add", graph.op("Add", long, short, name="sum"), first, name="last")
    fuser(named("first", "sum", priority=30.0))
    step = graph.partitioning().steps[0]
    assert step.reason == "as one they would wait for themselves, by way of ReLU 'short'"


# --- where a pattern ends -------------------------------------------------------------------------------


def ends(graph, name):
    return next(step.ends for step in graph.partitioning().about(name) if step.partition is not None)


def product(graph):
    return graph.op("MatMul", graph.input("x", "f32", [4, 4]), graph.input("w", "f32", [4, 4]), name="fc")


def test_a_pattern_ends_where_several_ops_read(onednn):
    graph = og.Graph()
    y = graph.op("ReLU", product(graph), name="act")
    graph.op("SoftMax", y, axis=1, name="left")
    graph.op("SoftMax", y, axis=0, name="right")
    assert ends(graph, "fc") == "it ends at ReLU 'act', which 2 ops read"


def test_a_pattern_ends_before_what_its_primitive_takes_along_nowhere(onednn):
    graph = og.Graph()
    graph.op("SoftMax", graph.op("ReLU", product(graph), name="act"), axis=1, name="shares")
    assert ends(graph, "fc") == "it ends at ReLU 'act', for it takes no SoftMax along"
    assert ends(graph, "shares") == ""


def test_of_an_op_alone_the_pattern_that_begins_there_says_it(onednn):
    graph = og.Graph()
    y = product(graph)
    graph.op("SoftMax", y, axis=1, name="left")
    graph.op("SoftMax", y, axis=0, name="right")
    assert ends(graph, "fc") == "'matmul with post-ops' ends at MatMul 'fc', which 2 ops read"
    (step,) = (one for one in graph.partitioning("debug").about("fc") if one.partition is not None)
    assert step.ends == ""  # it was not asked


def test_a_pattern_ends_at_the_number_of_post_ops(onednn):
    graph = og.Graph()
    y = product(graph)
    for number in range(40):
        y = graph.op("Abs" if number % 2 else "Sqrt", y, name=f"f{number}")
    assert ends(graph, "fc") == "it takes 32 ops along at most"


def test_a_pattern_ends_at_a_further_result(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 8])
    _, mean, _ = graph.op("LayerNorm", x, use_affine=False, keep_stats=True, name="norm", begin_norm_axis=-1)
    graph.op("Abs", mean, name="size")
    assert ends(graph, "norm").endswith(
        "ends at LayerNorm 'norm', of which Abs 'size' reads another result than the first"
    )


def test_nothing_is_said_where_nothing_follows(onednn):
    graph = og.Graph()
    graph.op("ReLU", product(graph), name="act")
    assert ends(graph, "fc") == ""


# --- asking for it --------------------------------------------------------------------------------------


def test_the_text_has_each_step_and_what_matched_nothing(onednn):
    lines = str(mixed().partitioning()).splitlines()
    assert lines[0] == "6 ops into 4 partitions by policy fusion, in 8 steps"
    assert lines[1] == (
        "  1  onednn, convolution with post-ops: took Convolution 'conv' + BiasAdd 'bias' + ReLU 'act' → partition 0; "
        "it ends at ReLU 'act', for it takes no GreaterEqual along"
    )
    assert lines[3] == ("  3  onednn, single op: refused GreaterEqual 'mask': no lowering of GreaterEqual")
    assert lines[-1].startswith("matched nothing of what was left: onednn 'attention', ")
    assert repr(mixed().partitioning()) == f"Partitioning({lines[0]})"


def test_many_ops_are_counted(fuser):
    graph = og.Graph()
    y = graph.input("x", "f32", [4])
    names = [f"f{number}" for number in range(12)]
    for name in names:
        y = graph.op("Abs", y, name=name)
    fuser(named(*names, priority=30.0))
    assert "Abs 'f7' + 4 more ops → partition 0" in str(graph.partitioning().steps[0])


def test_the_graph_stays_as_it_is():
    graph = mixed()
    graph.partitioning()
    assert not graph.finalized
    graph.op("Abs", graph["act"], name="more")
    assert graph.partitioning().about("more")
    with pytest.raises(og.GraphError):
        og.Graph().partitioning()


def test_steps_of_an_op_are_found_by_op_and_by_name(onednn):
    graph = mixed()
    partitioning = graph.partitioning()
    (mask,) = (op for op in graph if op.name == "mask")
    assert partitioning.about(mask) == partitioning.about("mask")
    assert [step.backend for step in partitioning.about("mask")] == ["onednn", "numpy"]
    with pytest.raises(og.ArgumentError, match=r"'makk' \(did you mean 'mask'\?\)"):
        partitioning.about("makk")
    with pytest.raises(og.ArgumentTypeError, match="op must be an op or its name, got 3"):
        partitioning.about(3)


def test_partitions_of_a_compiled_graph_have_it_and_pickles_keep_it(onednn):
    graph = mixed()
    expected = told(graph.partitioning())
    model = graph.compile()
    assert {id(part.partitioning) for part in model.partitions} == {id(model.partitions[0].partitioning)}
    assert told(model.partitions[0].partitioning) == expected
    for again in (pickle.loads(pickle.dumps(model.partitions[0])), copy.deepcopy(model.partitions[0])):
        assert told(again.partitioning) == expected
        assert again.partitioning.unmatched == model.partitions[0].partitioning.unmatched


# --- it agrees with what comes of it --------------------------------------------------------------------


def check_agreement(graph, policy, backend=None):
    """The steps, walked through, give the partitions, and say nothing that can't be."""
    partitions = graph.get_partitions(policy, backend=backend)
    taken = {}
    for step in partitions[0].partitioning.steps:
        if step.partition is None:
            assert step.reason
            assert not step.ends
            continue
        assert not step.reason
        assert step.partition not in taken
        assert not {op.id for op in step.ops} & {op.id for ops in taken.values() for op in ops[1]}
        taken[step.partition] = (step.backend, step.ops)
    assert {part.id: (part.backend, part.ops) for part in partitions} == taken


@pytest.mark.no_cover
@given(
    rng=st.randoms(use_true_random=False),
    kind=st.sampled_from(ANCHORS),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
)
@settings(max_examples=60)
def test_steps_of_random_graphs_give_their_partitions(rng, kind, dtype):
    graph, _ = random_graph(rng, kind, dtype)
    graph.finalize()
    for policy in ("fusion", "debug"):
        check_agreement(graph, policy)
    check_agreement(graph, "fusion", "numpy")


def test_steps_of_graphs_of_the_reference_corpus_give_their_partitions(corpus):
    files = sorted((corpus / "benchdnn_graph").rglob("*.json"))
    tried = 0
    for path in files:
        try:
            graph = og.Graph.load(path)
            graph.finalize()
            graph.get_partitions()
        except og.errors.OneDNNGraphError:
            continue  # another test's matter
        check_agreement(graph, "fusion")
        tried += 1
    assert tried > len(files) / 2
