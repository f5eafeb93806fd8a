"""Compilations ask and keep verdicts about kernels that nobody has proven."""

import json

import numpy as np
import onednn_graph as og
import processes
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.backends.onednn import digest, proven
from onednn_graph.backends.onednn.executable import PlanExecutable
from onednn_graph.backends.onednn.library import telling
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.graph.compile import trying, verification
from onednn_graph.graph.trust.settings import VARIABLE
from onednn_graph.graph.trust.store import STORE
from onednn_graph.graph.trust.verdict import RIGHT, Kind, Verdict

SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


@pytest.fixture(autouse=True)
def unswept(onednn, monkeypatch):
    """Nobody has proven any kernel of the library."""
    monkeypatch.setattr(proven, "PROVEN", {})


@pytest.fixture
def verified(monkeypatch):
    """Which executables were verified, in order, by strategy."""
    found = []

    def noted(request, executable, *, every, verify=trying.wrong_on_integers):
        found.append(executable.explanation.strategy)
        return verify(request, executable, every=every)

    monkeypatch.setattr(trying, "wrong_on_integers", noted)
    return found


def softmax(shape=(4, 16), axis=-1, dtype="f32"):
    graph = og.Graph()
    graph.op("SoftMax", graph.input("x", dtype, shape), axis=axis, name="y")
    return graph


def spoil(monkeypatch, spoils=lambda explanation: True):
    """Plans of which it is true are wrong."""
    run = PlanExecutable.run

    def wrong(self, inputs, outputs):
        run(self, inputs, outputs)
        if spoils(self.explanation):
            outputs[0].reshape(-1)[-1] += 1

    monkeypatch.setattr(PlanExecutable, "run", wrong)


def told(graph, **options):
    (explanation,) = graph.compile(**options).explain().values()
    return explanation


def keys_of(explanation):
    return {step.trust for step in explanation.steps if not step.proven}


# --- asked and kept -------------------------------------------------------------------------------------


def test_a_second_compilation_verifies_nothing(verified):
    first, second = told(softmax()), told(softmax())
    assert len(verified) == 1
    assert first.verified
    assert not second.verified
    assert keys_of(first) == keys_of(second) == set(STORE.rows())
    assert set(STORE.rows().values()) == {Verdict(Kind.right, "", first.steps[0].name)}


@pytest.mark.parametrize(
    ("kind", "attributes", "how"),
    [
        ("BiasAddBackward", {}, "exactly"),
        ("SoftMax", {"axis": -1}, "within roundings"),
        ("BiasAddBackward", {}, "by nobody: NumPy is what others are verified by"),
    ],
)
def test_how_it_was_verified_is_told(kind, attributes, how):
    graph = og.Graph()
    graph.op(kind, graph.input("x", "f32", (2, 4, 4, 8)), **attributes)
    backend = {"backend": "numpy"} if "NumPy" in how else {}
    explanation = told(graph, verify=True, **backend)
    assert explanation.verified
    lines = [line.strip() for line in str(explanation).splitlines() if "verified" in line]
    assert lines == ([] if backend else [f"verified on integer data, {how}"])


def test_a_second_compilation_of_a_program_verifies_nothing(verified):
    graph = og.Graph()
    x = graph.input("x", "f32", (4, 16))
    for layer in range(3):
        w = graph.input(f"w{layer}", "f32", (16, 16), property_type="constant")
        x = graph.op("Tanh", graph.op("MatMul", x, w))
    graph.op("SoftMax", x, axis=-1, name="y")
    graph.compile()
    assert verified
    verified.clear()
    graph.compile()
    assert not verified


def layers(number):
    graph = og.Graph()
    x = graph.input("x", "f32", (4, 16))
    for layer in range(number):
        w = graph.input(f"w{layer}", "f32", (16, 16), property_type="constant")
        x = graph.op("Tanh", graph.op("MatMul", x, w))
    graph.output(x, name="y")
    return graph


def test_a_kernel_that_a_program_has_many_times_is_compared_once(monkeypatch):
    made = []
    real = verification._Trial._missing

    def noted(trial, op):
        missing = real(trial, op)
        made.extend([op.kind] * (not missing))
        return missing

    monkeypatch.setattr(verification._Trial, "_missing", noted)
    layers(12).compile()
    few = made.count("MatMul")
    assert 0 < few < 4
    made.clear()
    layers(12).compile(verify=True)
    assert made.count("MatMul") == 12


@pytest.mark.parametrize("size", [7, 700])
def test_an_input_that_is_written_to(size, monkeypatch):
    """Small ones are kept; large ones are full of a pattern."""
    run = PlanExecutable.run

    def wrong(self, inputs, outputs):
        run(self, inputs, outputs)
        inputs[0][-1][inputs[0][-1] < 0] -= 1  # which ReLU does not tell

    monkeypatch.setattr(PlanExecutable, "run", wrong)
    graph = og.Graph()
    graph.output(graph.op("ReLU", graph.input("x", "f32", (size, size))), name="y")
    assert any("is written to" in reason for reason in told(graph).rejected)


def test_another_process_verifies_nothing():
    code = """
import json
import onednn_graph as og
from onednn_graph.backends.onednn import proven
from onednn_graph.graph.compile import trying, verification
proven.PROVEN, verified = {}, []
trying.wrong_on_integers = lambda request, executable, *, every: verified.append(executable.explanation.strategy)
graph = og.Graph()
graph.op("SoftMax", graph.input("x", "f32", (4, 16)), axis=-1, name="y")
told = graph.compile(threads=1).explain()[0]
print(json.dumps([verified, told.verified, told.backend]))
"""
    assert processes.printed(code)[0]
    assert processes.printed(code) == [[], False, "onednn"]


def test_the_store_is_asked_once_in_a_compilation(monkeypatch):
    told(softmax())
    STORE._forget(None)  # as in another process
    opened = []
    from onednn_graph.graph.trust import store

    monkeypatch.setattr(store, "_opened", lambda *a, do=store._opened: opened.append(a) or do(*a))
    load_digest = STORE.digest_of(load().path)
    assert load_digest
    opened.clear()
    told(softmax())
    assert len(opened) == 1
    told(softmax())
    assert len(opened) == 1


def test_what_is_proven_has_no_key(monkeypatch, onednn):
    monkeypatch.setattr(
        proven,
        "PROVEN",
        {load().version[:2]: {"softmax_forward": {s.implementation for s in told(softmax()).steps}}},
    )
    STORE.clear()
    explanation = told(softmax(), verify=True)
    assert explanation.verified
    assert keys_of(explanation) == set()
    assert {step.trust for step in explanation.steps} == {""}
    assert STORE.rows() == {}


def test_one_wrong_kernel_is_kept_and_passed_over(verified, monkeypatch):
    with monkeypatch.context() as patch:
        spoil(patch)
        assert told(softmax()).backend == "numpy"
    (verdict,) = set(STORE.rows().values())
    assert verdict.kind is Kind.wrong
    assert "elements" in verdict.seen
    assert verdict.about.startswith("softmax")
    verified.clear()
    explanation = told(softmax())
    assert explanation.backend == "numpy"
    assert not verified
    assert any("was verified before" in reason and "elements" in reason for reason in explanation.rejected)
    forced = told(softmax(), backend="onednn")  # a slow kernel is better than none
    assert verdict.about not in forced.implementations


def test_one_wrong_kernel_of_a_program_leaves_all_others_as_they_are(onednn):
    """It is left out for its op; what others fuse stays fused, and nobody else is told of it."""
    graph = og.Graph()
    y = graph.input("x", "f32", [1, 6, 6, 8])
    for number in range(2):
        weights = graph.constant(np.ones((3, 3, 8, 8), np.float32), name=f"w{number}")
        y = graph.op("ReLU", graph.op("Convolution", y, weights, **SAME))
        y = graph.op("SoftMax", y, axis=-1) if not number else y
    before = graph.compile().explain()
    (wrong,) = (s for one in before.values() for s in one.steps if s.name.startswith("softmax"))
    STORE.clear()
    STORE.put({wrong.trust: Verdict(Kind.wrong, "3 of 20 elements are wrong", wrong.name)})
    after = graph.compile().explain()
    assert [one.strategy for one in after.values()][::2] == ["fused Convolution+ReLU"] * 2
    assert [one.implementations for one in after.values()][::2] == [
        one.implementations for one in before.values()
    ][::2]
    assert wrong.name not in after[1].implementations
    assert [any("found wrong" in reason for reason in one.rejected) for one in after.values()] == [
        False,
        True,
        False,
    ]
    assert (
        f"SoftMax 'softmax_{wrong.op}': {wrong.name} was verified before and found wrong: 3 of 20 elements are wrong"
        in after[1].rejected
    )


def test_several_kernels_in_doubt_share_the_blame(monkeypatch):
    spoil(monkeypatch, lambda explanation: len(keys_of(explanation)) > 1)
    assert len(keys_of(told(convolution(), verify=False))) != 1
    assert all(verdict.right for verdict in STORE.rows().values())


def test_the_one_that_is_left_in_doubt_is_to_blame(monkeypatch):
    """Of two kernels, one of which was right before."""
    from onednn_graph.graph.runtime.executable import ExplainedStep, Explanation
    from onednn_graph.graph.trust.doubts import Doubts

    def step(key):
        return ExplainedStep(name=f"a step ({key})", op=0, proven=key == "proven", trust=key)

    def doubts(*keys, afresh=False):
        steps = tuple(map(step, keys))
        return Doubts.about(
            Explanation(backend="b", strategy="s", implementations=(), scratch_bytes=0, steps=steps),
            afresh=afresh,
        )

    doubts("a", "b").found_wrong("somehow")
    assert STORE.rows() == {}
    STORE.put({"a": RIGHT})
    doubts("a", "").found_wrong("somehow")
    doubts("a", "b", "").found_wrong("somehow")
    doubts("a", "b", afresh=True).found_wrong("somehow")
    assert set(STORE.rows()) == {"a"}
    doubts("a", "proven", "b").found_wrong("somehow")
    assert STORE.rows()["b"] == Verdict(Kind.wrong, "somehow", "a step (b)")
    assert doubts("a", "b").against == "a step (b) was verified before and found wrong: somehow"
    assert doubts("a", "b", afresh=True).against is None
    assert not doubts("a", "b").settled
    assert doubts("a").settled
    assert not doubts("a", "").settled
    assert not doubts("a", afresh=True).settled
    assert doubts("proven", afresh=True).settled


def test_verify_asks_no_verdicts_and_keeps_them(verified):
    (key,) = keys_of(told(softmax()))
    verified.clear()
    assert told(softmax(), verify=True).verified
    assert len(verified) == 1
    STORE.clear()
    told(softmax(), verify=True)
    assert set(STORE.rows()) == {key}


@pytest.mark.parametrize("kind", [Kind.crashed, Kind.endless])
@pytest.mark.parametrize("options", [{}, {"verify": True}])
def test_what_has_ended_a_process_is_not_run_again(verified, kind, options):
    (key,) = keys_of(told(softmax()))
    STORE.clear()
    verified.clear()
    STORE.put({key: Verdict(kind, "signal 11")})
    explanation = told(softmax(), **options)
    assert explanation.backend == "numpy"
    assert "primitives in order" not in verified
    assert any(f"{kind}: signal 11" in reason for reason in explanation.rejected)


def test_data_that_numpy_refuses_say_nothing_of_a_kernel(monkeypatch):
    monkeypatch.setattr(
        trying,
        "wrong_on_integers",
        lambda *_, **__: f"{trying.UNTRIED}, for it refuses the data",
    )
    told(softmax())
    assert STORE.rows() == {}


# --- the environment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["inline", "child"])
def test_kernels_are_verified_by_default_and_by_name(word, verified, monkeypatch):
    monkeypatch.setenv(VARIABLE, word)
    assert told(softmax()).verified


def test_nothing_is_verified_where_the_environment_says_so(verified, monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    explanation = told(softmax())
    assert explanation.backend == "onednn"
    assert not explanation.verified
    assert not verified
    assert STORE.rows() == {}
    assert told(softmax(), verify=True).verified
    STORE.clear()
    STORE.put({next(iter(keys_of(explanation))): Verdict(Kind.wrong, "as it was")})
    assert told(softmax()).backend == "numpy"


def test_other_words_are_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "sometimes")
    with pytest.raises(og.ArgumentError, match="ONEDNN_GRAPH_VERIFY must be one of child, inline, off"):
        softmax().compile()


# --- keys -----------------------------------------------------------------------------------------------


def key_of(graph, **options):
    """Of the only step."""
    (key,) = keys_of(told(graph, threads=1, **options))
    return key


def convolution(**changes):
    attributes = {**SAME, **changes}
    shape, dtype = attributes.pop("shape", (1, 6, 6, 8)), attributes.pop("dtype", "f32")
    after = attributes.pop("after", None)
    graph = og.Graph()
    x = graph.input("x", dtype, shape)
    y = graph.op("Convolution", x, graph.input("w", dtype, (3, 3, 8, 8)), **attributes)
    if after is not None:
        y = graph.op(after[0], y, **after[1])
    graph.output(y, name="y")
    return graph


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (2, 6, 6, 8)},
        {"shape": (1, 7, 6, 8)},
        {"dtype": "bf16"},
        {"strides": [2, 1]},
        {"pads_begin": [0, 1]},
        {"pads_end": [1, 0]},
        {"dilations": [1, 2]},
        {"after": ("ReLU", {})},
        {"after": ("LeakyReLU", {"alpha": 0.5})},
        {"after": ("Clamp", {"min": 0.0, "max": 5.0})},
    ],
    ids=str,
)
def test_convolutions_that_differ_have_keys_of_their_own(change):
    def key(graph):
        steps = told(graph, threads=1).steps
        return {step.trust for step in steps if step.name.startswith("convolution")}

    assert key(convolution()) == key(convolution())
    assert not key(convolution()) & key(convolution(**change))
    if "after" in change and change["after"][1]:
        kind, attributes = change["after"]
        other = {name: value + 0.25 for name, value in attributes.items()}
        assert not key(convolution(**change)) & key(convolution(after=(kind, other)))


@given(
    first=st.tuples(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(-1, 1)),
    second=st.tuples(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(-1, 1)),
)
def test_keys_differ_as_descriptors_do(first, second):
    def made(shape, axis):
        desc = _softmax_desc(tuple(shape), axis % len(shape))
        return json.dumps(telling.told(desc.asked)), json.dumps(telling.told(desc))

    same = (first[0], first[1] % len(first[0])) == (second[0], second[1] % len(second[0]))
    for one, other in zip(made(*first), made(*second), strict=True):
        assert (one == other) is same


def _softmax_desc(shape, axis):
    from onednn_graph.backends.onednn.library.descriptors import SoftmaxForward
    from onednn_graph.backends.onednn.library.enumerators import Algorithm, Propagation
    from onednn_graph.backends.onednn.library.memory import MemoryDesc, packed
    from onednn_graph.backends.onednn.library.primitive import NativeEngine, PrimitiveAttributes
    from onednn_graph.ops.data_types import DataType

    lies = MemoryDesc.strided(load(), shape, DataType.f32, packed(shape, np.cumprod(shape[::-1])[::-1]))
    return SoftmaxForward(
        propagation=Propagation.forward_inference,
        algorithm=Algorithm.softmax_accurate,
        src=lies,
        dst=lies,
        axis=axis,
        attributes=PrimitiveAttributes(load()),
    ).described(NativeEngine())


def test_keys_have_the_threads():
    few, more = (keys_of(told(softmax((64, 4096)), threads=n)) for n in (1, 2))
    assert not few & more


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(digest, "cpu_kind", lambda: "another CPU"),
        lambda patch: patch.setattr(digest, "_hints", lambda lib: 77),
        lambda patch: patch.setattr(digest, "FORMAT", 99),
        lambda patch: patch.setattr(type(STORE), "digest_of", lambda store, path: "another library"),
        lambda patch: patch.setattr(type(load()), "effective_isa", "another"),
    ],
    ids=["cpu", "hints", "format", "library", "isa"],
)
def test_keys_have_machine_and_library(change, monkeypatch):
    before = key_of(softmax())
    with monkeypatch.context() as patch:
        change(patch)
        other = key_of(softmax())
    assert before != other
    assert key_of(softmax()) == before


def test_a_library_that_cannot_be_read_has_no_keys(monkeypatch, verified):
    def gone(store, path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(type(STORE), "digest_of", gone)
    for _ in range(2):
        assert told(softmax()).verified
    assert len(verified) == 2
    assert STORE.rows() == {}


def test_keys_have_what_lies_in_place():
    """A sum that is written over one of its terms, and the same sum elsewhere."""

    def key(graph):
        parts = graph.compile(threads=1).explain().values()
        return {
            step.trust for one in parts for step in one.steps if "Tanh" in step.name or "eltwise" in step.name
        }

    def graph(keeps):
        made = og.Graph()
        x = made.input("x", "f32", (8, 16))
        first = made.op("SoftMax", x, axis=-1)
        second = made.op("Tanh", first)
        made.output(made.op("SoftMax", second, axis=-1), name="y")
        if keeps:
            made.output(made.op("SoftMax", first, axis=0), name="kept")
        return made

    both = key(graph(False)), key(graph(True))
    assert all(both)
    assert not both[0] & both[1]


def test_what_a_key_is_made_of_must_be_known():
    with pytest.raises(TypeError, match="object is not part"):
        telling.told([object()])
