"""Problems as text: what is read back is asked for alike, and makes the same plan."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from graph_fuzz.case import Case, build
from graph_fuzz.chains import case_of, kinds_for
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.graph.compile import problem as problems
from onednn_graph.graph.compile.backend import BACKENDS
from random_graphs import ANCHORS, random_graph
from rows import each

FOUND = [
    entry
    for entry in json.loads((Path(__file__).parents[2] / "found_graphs.json").read_text())
    if not entry.get("isa")
]


class Asked:
    """What a backend is asked for while graphs are compiled within the block, and what it makes."""

    def __init__(self, backend):
        self.backend = backend
        self.made = []
        self._compile = backend.compile

    def __enter__(self):
        def compile_and_note(request):
            for attempt, executable in enumerate(self._compile(request)):
                self.made.append((request, attempt, executable.explanation))
                yield executable

        self.backend.compile = compile_and_note
        return self

    def __exit__(self, *exc):
        del self.backend.compile

    def texts(self):
        """Each executable's problem as text, after the same came of what it was read as."""
        return [self._text(*one) for one in self.made]

    def _text(self, request, attempt, explanation):
        problem = problems.problem_of(request, self.backend.name, attempt, 0, explanation)
        text = problems.dumps(problem)
        again = problems.loads(text)
        assert problems.dumps(again) == text
        plan = None
        for number, executable in enumerate(self._compile(again.request)):
            if number == attempt:
                plan = problems.plan_of(executable.explanation)
                break
        assert plan == problem.plan == again.plan
        return text


def check(compiling, *arguments, **options):
    """The problems of all that is compiled by a call."""
    with Asked(BACKENDS.get("onednn")) as asked:
        compiling(*arguments, **options)
    return asked.texts()


@pytest.mark.no_cover
@given(
    rng=st.randoms(use_true_random=False),
    kind=st.sampled_from(ANCHORS),
    dtype=st.sampled_from(["f32", "bf16"]),
    threads=st.sampled_from([None, 1, 2]),
    verify=st.booleans(),
)
@settings(max_examples=40)
def test_random_graphs_make_the_same_plan_again(onednn, rng, kind, dtype, threads, verify):
    graph, y = random_graph(rng, kind, dtype)
    graph.output(y, name="y")
    check(graph.compile, threads=threads, verify=verify)


@pytest.mark.no_cover
@given(seed=st.integers(0, 2**16))
@settings(max_examples=40)
def test_graphs_that_the_fuzzer_draws_make_the_same_plan_again(onednn, seed):
    with suppress(og.errors.OutOfMemoryError):
        check(build(case_of(seed, 0, kinds_for(""))).compile)


@each("entry", FOUND, ids=lambda entry: entry["name"])
def test_graphs_that_were_wrong_once_make_the_same_plan_again(onednn, entry):
    check(build(Case.from_json(entry["case"])).compile)


def products(**options):
    """A graph of two products, one by a constant."""
    graph = og.Graph(**options)
    x = graph.input("ein Gang, größer", "f32", [24, 32])
    w = graph.constant(np.ones((32, 16), np.float32), name="w")
    graph.output(graph.op("ReLU", graph.op("MatMul", x, w, name="das Produkt")), name="y")
    return graph


def test_a_problem_is_a_file_for_people(onednn):
    (text,) = check(products(fpmath_mode="bf16").compile, threads=2)
    told = json.loads(text)
    assert told["problem"] == 1
    assert told["backend"] == "onednn"
    assert told["options"]["threads"] == 2
    assert [op["kind"] for op in told["graph"]["graph"]] == ["MatMul", "ReLU"]
    assert told["graph"]["fpmath_mode"] == "bf16"
    assert told["plan"]["steps"]
    assert text.count("\n") > 20


def test_its_ops_are_a_graph_of_their_own(onednn):
    (text,) = check(products().compile)
    graph = og.Graph.from_json(json.dumps(json.loads(text)["graph"]))
    assert [op.kind for op in graph.ops] == ["MatMul", "ReLU"]
    assert [t.name for t in graph.inputs] == ["ein Gang, größer", "w"]


def test_settled_choices_and_the_number_of_threads_are_told(onednn):
    choices = og.Choices({"a problem": "a way"}, fixed=True)
    og.set_num_threads(3)
    try:
        (text,) = check(products().compile, choices=choices, tune="online")
    finally:
        og.set_num_threads(None)
    again = problems.loads(text)
    assert again.request.options.choices.settled == choices.settled
    assert again.request.options.choices.fixed
    assert again.request.options.tune is og.Tune.online
    assert again.threads == 3


def test_values_of_shape_operands_are_told(onednn):
    graph = og.Graph()
    x, g = graph.input("x", "f32", [2, 8, 9, 9]), graph.input("g", "f32", [2, 4, 7, 7])
    shape = graph.input("shape", "s32", [4])
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    dw = graph.op("ConvolutionBackwardWeights", x, g, shape, **window, **formats)
    graph.output(dw, name="dw")
    model = graph.compile()
    given = {"x": np.ones([2, 8, 9, 9], np.float32), "g": np.ones([2, 4, 7, 7], np.float32)}
    texts = check(model, given | {"shape": np.int32([4, 8, 3, 3])})
    assert [4, 8, 3, 3] in json.loads(texts[0])["values"].values()


def problem(**changes):
    """A problem's text, with changes at its top."""
    graph = products()
    with Asked(BACKENDS.get("onednn")) as asked:
        graph.compile()
    (text,) = asked.texts()
    return json.dumps(json.loads(text) | changes)


@each(
    "changes",
    [
        {"problem": 2},
        {"options": {"tune": "never"}},
        {"options": {"colour": "red"}},
        {"choices": None},
        {"engine": {}},
        {"values": {"x": [1]}},
        {"attempt": "first"},
        {"graph": {}},
        {"graph": None},
    ],
    ids=str,
)
def test_what_is_no_problem_is_refused(onednn, changes):
    with pytest.raises(og.OneDNNGraphError):
        problems.loads(problem(**changes))


def test_texts_that_are_no_json_are_refused():
    for text in ("", "[]", "{}", "[" * 100_000, "nothing"):
        with pytest.raises(og.GraphFileError, match="<problem>"):
            problems.loads(text)
