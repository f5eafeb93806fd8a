"""`from_onnx`: text into tokens, and counts of sequences of tokens, as scikit-learn's vectorizers are exported."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import expected_of, helper, model_of, onnx, rng

TEXTS = np.asarray(["the red fox", "", "a fox, a dog; a fox"], object)


def text_model(nodes, outputs, shape):
    model = model_of(nodes, {}, outputs, opset=17)
    model.graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.STRING, shape))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def tokenized(texts, **attributes):
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#", **attributes)
    return og.from_onnx(text_model([node], ["y"], list(texts.shape))).compile()(texts)["y"].tolist()


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        (
            {"tokenexp": "[a-z]+", "mincharnum": 2},
            [["the", "red", "fox"], ["#"] * 3, ["fox", "dog", "fox"]],
        ),
        (
            {"separators": ["; ", " "], "mincharnum": 1},
            [["the", "red", "fox", "#", "#", "#"], ["#"] * 6, ["a", "fox,", "a", "dog", "a", "fox"]],
        ),
    ],
)
def test_words(attributes, want):
    assert tokenized(TEXTS, mark=0, **attributes) == want


def test_characters_between_marks():
    made = tokenized(np.asarray([["ab"], ["c"]], object), mark=1, mincharnum=1, separators=[""])
    assert made == [[["\x02", "a", "b", "\x03"]], [["\x02", "c", "\x03", "#"]]]


@pytest.mark.parametrize("attributes", [{}, {"tokenexp": "("}, {"tokenexp": "a", "separators": ["b"]}])
def test_expressions_that_are_none(attributes):
    with pytest.raises(og.UnsupportedError, match="Tokenizer"):
        tokenized(TEXTS, mark=0, mincharnum=1, **attributes)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 0), (1, 2, 0), (2, 2, 3), (1, 3, 2)])
@pytest.mark.parametrize("rank", [1, 2])
def test_counts_of_sequences(mode, least, most, skips, rank):
    x = rng(3).integers(0, 4, (3, 9)[2 - rank :])
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode=mode,
        min_gram_length=least,
        max_gram_length=most,
        max_skip_count=skips,
        ngram_counts=[0, 3, 7],
        ngram_indexes=[0, 1, 2, 5, 4, 3],
        pool_int64s=[0, 1, 2, 1, 2, 3, 3, 0, 1, 2],
        weights=[0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
    )
    model = model_of([node], {"x": x}, ["y"], opset=17)
    np.testing.assert_allclose(og.from_onnx(model).compile()(x)["y"], expected_of(model, {"x": x})["y"])


def test_sequences_and_skips_without_end_take_no_time():
    numbers = {"max_gram_length": 10**9, "min_gram_length": 1, "max_skip_count": 10**9}
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        ngram_counts=[0],
        ngram_indexes=[0],
        pool_int64s=[1],
        **numbers,
    )
    x = np.asarray([1, 2, 1])
    np.testing.assert_array_equal(og.from_onnx(model_of([node], {"x": x}, ["y"])).compile()(x)["y"], [2])
