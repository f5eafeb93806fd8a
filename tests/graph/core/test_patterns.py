"""Arguments that take names of ops, tensors and parameters: all of them take a name, a pattern, or a list of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.model.patterns import fits, patterns_of

T = og.training
RNG = np.random.default_rng(2)
X = RNG.normal(size=(4, 32)).astype(np.float32)
NAMES = ("body.0.weight", "body.1.weight", "head.weight")


def chain(held: str = "constant") -> og.Graph:
    """Three products; the middle ones are named after their layer."""
    graph = og.Graph()
    found = graph.input("x", "f32", [-1, 32])
    for name in NAMES:
        weights = RNG.normal(size=(32, 32)).astype(np.float32)
        w = graph.constant(weights, name=name) if held == "constant" else graph.parameter(weights, name=name)
        found = graph.matmul(found, w, name=name.removesuffix("weight") + "product")
    graph.output(found, name="y")
    return graph


def model() -> Any:
    onnx = pytest.importorskip("onnx")
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    held = [onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), name) for name in NAMES]
    names = ["x", "a", "b", "y"]
    nodes = [node("MatMul", [names[n], NAMES[n]], [names[n + 1]]) for n in range(3)]
    ports = [[info(name, onnx.TensorProto.FLOAT, [2, 4])] for name in ("x", "y")]
    made = onnx.helper.make_graph(nodes, "chain", *ports, held)
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 17)])


def kept_by_weights(keep: Any) -> set[str]:
    """Which weights are still as they were."""
    return set(NAMES) & set(chain().quantize_weights("s8", keep=keep).constants)


def kept_by_dynamic(keep: Any) -> set[str]:
    return set(NAMES) & set(chain().quantize_dynamic(keep=keep).constants)


def kept_by_static(keep: Any) -> set[str]:
    return set(NAMES) & {
        name
        for name, one in chain().quantize_static([X], keep=keep).constants.items()
        if one.dtype == np.float32
    }


def kept_by_to(keep: Any) -> set[str]:
    return set(NAMES) & {
        name for name, one in chain().to("bf16", keep=keep).constants.items() if one.dtype == np.float32
    }


def frozen(given: Any) -> set[str]:
    return set(NAMES) - set(og.from_onnx(model(), training=True, frozen=given).parameters)


def adapted(pattern: Any) -> set[str]:
    names = chain("parameter").adapters(2, pattern).parameters
    return {name for name in NAMES if name.replace("weight", "lora_A.weight") in names}


def trained(given: Any) -> set[str]:
    return set(NAMES) & set(chain("parameter").adapters(2, "head.weight", trained=given).parameters)


ARGUMENTS: dict[str, Callable[[Any], set[str]]] = {
    "keep of quantize_weights": kept_by_weights,
    "keep of quantize_dynamic": kept_by_dynamic,
    "keep of quantize_static": kept_by_static,
    "keep of to": kept_by_to,
    "frozen of from_onnx": frozen,
    "pattern of adapters": adapted,
    "trained of adapters": trained,
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_name_a_pattern_or_a_list(argument: str) -> None:
    """Each names the same weights, whatever becomes of them."""
    take = ARGUMENTS[argument]
    body = {"body.0.weight", "body.1.weight"}
    assert take("body.1.weight") == {"body.1.weight"}
    assert (
        take("body.*.weight") == take(["body.?.weight"]) == take(("body.0.weight", "body.1.weight")) == body
    )
    assert take({"body.[01].weight"}) == body
    assert take(["body.0.weight", "*.1.weight"]) == body


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_fits_nothing(argument: str) -> None:
    take = ARGUMENTS[argument]
    for given, near in (
        ("body.2.weight", "body.[01].weight"),
        (["body.0.wieght"], r"body\.0\.weight"),
        (["tail.*", "body.*"], None),
    ):
        with pytest.raises(og.ArgumentError) as caught:
            take(given)
        assert repr(given if isinstance(given, str) else given[0]) in str(caught.value)
        assert "'body.0.weight'" in str(caught.value) or "'body.0.product'" in str(
            caught.value
        )  # what there is
        if near is not None:
            assert "did you mean" in str(caught.value)
    for wrong in (3, [3], ["body.0.weight", None], b"body"):
        with pytest.raises(
            og.ArgumentTypeError, match=r"must be a name, a pattern of names such as '.*', or a list"
        ):
            take(wrong)


def test_keep_takes_patterns_of_ops_and_kinds_too() -> None:
    assert kept_by_weights("body.*.product") == {*NAMES[:2]}
    assert kept_by_static(["body.*.product"]) == {*NAMES}  # the last one reads a tensor that is kept
    assert kept_by_to("Mat*") == set(NAMES)
    assert kept_by_to("SoftMax") == set()  # a kind that there is, and not in this graph
    with pytest.raises(og.ArgumentError) as caught:
        kept_by_to("MatMull")
    assert str(caught.value) == (
        "keep has 'MatMull', which is no op, kind or tensor of the graph (did you mean 'MatMul'?); it has the kinds "
        "'MatMul', and the names 'body.0.product', 'body.1.product', 'head.product', 'x', 'body.0.weight', "
        "'body.1.weight', 'head.weight'"
    )


def test_outputs_of_a_model_go_by_patterns() -> None:
    graph = chain("parameter")
    assert graph.for_inference("body.*.product").output_names == ("body.0.product", "body.1.product")
    assert graph.for_inference(["y", "body.0.product"]).output_names == ("y", "body.0.product")
    assert graph.for_inference(["y", "*"]).output_names[0] == "y"  # each once
    with pytest.raises(
        og.ArgumentError, match=r"outputs has 'body.0.prodct', .*did you mean 'body.0.product'.*'y'"
    ):
        graph.for_inference("body.0.prodct")
    with pytest.raises(og.ArgumentTypeError, match="takes names or tensors as outputs, one or a list, got 3"):
        graph.for_inference(3)  # type: ignore[arg-type]


def losses(recompute: Any, groups: Any = None) -> T.Trainer:
    graph = chain("parameter")
    loss = graph.reduce_sum(graph.tensors[-1], axes=[0, 1], keep_dims=False)
    return T.Trainer(graph, loss, groups or T.SGD(0.0), recompute=recompute)


def test_training_goes_by_the_same_rule() -> None:
    for given in ("body.*", ["body.0.product", "body.1.*"], {"body.[01].product"}):
        assert np.isfinite(losses(given).step({"x": X}))
    with pytest.raises(og.ArgumentError, match=r"^recompute has 'bdy', .*there are 'body.0.product', "):
        losses("bdy").step({"x": X})
    with pytest.raises(
        og.ArgumentTypeError, match="^recompute must be a name, a pattern of names such as 'block"
    ):
        losses(3)
    with pytest.raises(
        og.ArgumentError, match=r"optimizers has 'hed.weight', .*did you mean .*; there are 'body.0"
    ):
        losses([], {"hed.weight": T.SGD(0.1), "*": None})


def test_brackets_in_names() -> None:
    assert fits("layers[0].weight", "layers[0].weight")
    assert fits("layers[0].weight", "layers[[]0].*")
    assert not fits("layers[0].weight", "layers[0].*")  # a class of characters, as fnmatch has it
    assert fits("layers0.weight", "layers[0].*")
    assert patterns_of("keep", "one") == ("one",)
    assert patterns_of("keep", ()) == ()
