"""`from_onnx`: regular expressions in models, as onnxruntime's RE2 has them, in time that a file can't stretch."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.importing.translation import Unmapped
from onednn_graph.graph.onnx.regular import expression
from onnx_oracle import helper, model_of, onnx
from rows import each

# What onnxruntime 1.32 makes of them.
FOUND = [
    ("a|ab", "ab abc", ["ab", "ab"]),
    (r"\w+", "éa_1 b", ["a_1", "b"]),
    (r"\d{1,3}", "12345", ["123", "45"]),
    ("(ab)*?c", "ababc c", ["ababc", "c"]),
    ("x*", "axxb", ["xx"]),
    (r"\bfoo\b", "foo foo1", ["foo"]),
    ("[[:alpha:]]+", "ab1éc", ["ab", "c"]),
    (r"\p{L}+", "éa1", ["éa"]),
    ("(?i)AB+|(?P<c>c)", "aBbCc", ["aBb", "C", "c"]),
    ("(?i)[^a]+", "xAay", ["x", "y"]),
    ("^ab", "abab", ["ab"]),
    ("(?m)^a$", "a\na", ["a", "a"]),
    (r"[^\s,-]+", "a-b, c", ["a", "b", "c"]),
    (r"\Qa.b\E|\x41|\x{42}", "a.bAB", ["a.b", "A", "B"]),
    ("{,2}|]", "{,2}]", ["{,2}", "]"]),
]


@each("pattern, text, want", FOUND)
def test_matches_from_left_to_right(pattern, text, want):
    assert [text[start:end] for start, end in expression(pattern).found(text)] == want


@each(
    "pattern, text, want",
    [
        ("(a+)+", "aaa", True),
        ("ab$", "ab\n", False),
        (".*", "a\n", False),
        ("(?s).*", "a\n", True),
        (r"\d+", "٣", False),
        (r"[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}", "x@y.com", True),
        ("a{0}", "", True),
    ],
)
def test_matches_of_all(pattern, text, want):
    assert expression(pattern).matches(text) is want


@each(
    "pattern",
    [r"(a|b)\1", "a(?=b)", "(?<!a)b", "a**", "*a", "{2}", "(", ")", "[a", "[b-a]", r"\y", "a{1001}"],
)
def test_what_is_none_of_re2_is_refused(pattern):
    with pytest.raises(Unmapped, match="RE2"):
        expression(pattern)


def test_time_is_that_of_the_text():
    """Where each letter of these doubles what looking by trying takes."""
    text = "a" * 5000
    assert not expression("(a+)+b").matches(text)
    assert not expression("(a|a)*b").matches(text)
    assert expression("(a?){500}a{500}").matches("a" * 500)


@each("pattern", ["((a{100}){100}){100}", "((){1000}){1000}"])
def test_expressions_have_their_limit(pattern):
    with pytest.raises(Unmapped, match="repeat less"):
        expression(pattern)


def test_texts_have_their_limit(monkeypatch):
    monkeypatch.setattr("onednn_graph.graph.onnx.regular.MOST_STEPS", 1000)
    with pytest.raises(Unmapped, match="shorter texts"):
        list(expression("a*b").found("a" * 100))


def test_a_model_ends_whatever_its_expression():
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(a+)+$")
    model = model_of([node], {}, ["y"], opset=20)
    model.graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2]))
    made = og.from_onnx(model).compile()(np.array(["a" * 60 + "b", "a" * 60], object))["y"]
    assert made.tolist() == [False, True]


def test_the_longest_of_several_tokens():
    node = helper.make_node(
        "Tokenizer",
        ["x"],
        ["y"],
        domain="com.microsoft",
        tokenexp="a|ab",
        mark=0,
        mincharnum=1,
        pad_value="#",
    )
    model = model_of([node], {}, ["y"], opset=17)
    model.graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [1]))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert og.from_onnx(model).compile()(np.array(["ab a"], object))["y"].tolist() == [["ab", "a"]]
