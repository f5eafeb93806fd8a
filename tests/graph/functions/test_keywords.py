"""Arguments that a public function has not: what is said, and that all functions say it."""

from __future__ import annotations

import inspect
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph import extend, profiling, training
from onednn_graph.graph.functions.keywords import OFTEN
from onednn_graph.ops.keywords import ELSEWHERE

T = og.training
A = np.ones((4, 4), np.float32)


def graph() -> og.Graph:
    made = og.Graph()
    made.output(made.matmul(made.input("x", "f32", [-1, 4]), made.constant(A, name="w")), name="y")
    return made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: graph().quantize_weights("s4", 32),
            "Graph.quantize_weights takes 1 argument by position, 'data_type', got 2; give what follows by name, as "
            "group=32; it takes data_type, group, keep",
        ),
        (
            lambda: graph().quantize_weights("s4", group_size=32),
            "Graph.quantize_weights has no argument 'group_size' (did you mean 'group'?); it takes data_type, "
            "group, keep",
        ),
        (
            lambda: graph().quantize_static([A], exclude=["w"]),
            "Graph.quantize_static has no argument 'exclude' (did you mean 'keep'?); it takes calibration_feeds, "
            "method, keep, reduce_range",
        ),
        (
            lambda: graph().quantize_static(),
            "Graph.quantize_static wants 'calibration_feeds' too; it takes calibration_feeds, "
            "method, keep, reduce_range",
        ),
        (
            lambda: graph().to(dtype="bf16"),
            "Graph.to has no argument 'dtype' (did you mean 'data_type'?); it takes data_type, keep, ports",
        ),
        (
            lambda: og.from_onnx("a.onnx", freeze=["w"]),
            "from_onnx has no argument 'freeze' (did you mean 'frozen'?); it takes model, shapes, fold_limit, "
            "reference, training, frozen",
        ),
        (
            lambda: T.SGD(learning_rate=0.1),
            "SGD has no argument 'learning_rate' (did you mean 'lr'?); it takes lr, momentum, nesterov, weight_decay, "
            "clip_norm, clip_value",
        ),
        (
            lambda: T.Loader({"x": A}, 2, num_workers=3),
            "Loader has no argument 'num_workers' (did you mean 'threads' or 'prefetch'?); it takes arrays, "
            "batch_size, shuffle, seed, drop_last, transform, prefetch, threads, rank, size",
        ),
        (
            lambda: T.mean_squared_error(graph()),
            "mean_squared_error wants 'predictions' and 'targets' too; it takes graph, predictions, targets, weights, "
            "reduction",
        ),
        (
            lambda: og.Graph.load_compiled(),
            "Graph.load_compiled wants 'path' too; it takes path, engine, recompile",
        ),
        (
            lambda: graph().compile(device="CPU"),
            "compile has no option 'device' (did you mean 'engine'?); it takes verify, tune, tune_seconds, strategy, "
            "scratch_limit, threads, choices, kept_shapes, policy, backend",
        ),
    ],
)
def test_what_is_said(call: Any, message: str) -> None:
    with pytest.raises(og.ArgumentTypeError) as caught:
        call()
    assert str(caught.value) == message


def test_a_step_wants_its_feeds_in_one_mapping() -> None:
    made = og.Graph()
    x, w = made.input("x", "f32", [-1, 4]), made.parameter(A, name="w")
    trainer = T.Trainer(made, made.reduce_sum(made.matmul(x, w), axes=[0, 1], keep_dims=False), T.SGD(0.1))
    with pytest.raises(og.ArgumentTypeError, match=r"^Trainer.step has no argument 'x' .*; it takes feeds$"):
        trainer.step(x=A)  # type: ignore[call-arg]
    with pytest.raises(
        og.ArgumentTypeError, match=r"^Trainer.step takes 1 argument by position, 'feeds', got 2$"
    ):
        trainer.step(A, A)  # type: ignore[call-arg]


def callables() -> dict[str, Any]:
    """Each public function, and each public method and constructor of a public class, by its name."""
    found: dict[str, Any] = {}
    for module in (og, training, profiling, extend):
        for name in module.__all__:
            if module is og and name in og._functions.__all__:  # ops have words of their own
                continue
            one = getattr(module, name)
            if isinstance(one, FunctionType):
                found[name] = one
            elif isinstance(one, type) and not issubclass(one, Enum | Exception):
                protocol = getattr(one, "_is_protocol", False)
                for method in () if protocol else ("__init__", *dir(one)):
                    if method == "__init__" or not (method.startswith("_") or method in OFTEN):
                        raw = inspect.getattr_static(one, method, None)
                        inner = getattr(raw, "__func__", raw)
                        if isinstance(inner, FunctionType) and inner.__module__.startswith("onednn_graph"):
                            found[f"{name}.{method}"] = inner
    return found


CALLABLES = callables()


def test_every_public_function_says_which_arguments_it_has() -> None:
    assert len(CALLABLES) > 250
    silent: list[str] = []
    for name, function in CALLABLES.items():
        parameters = inspect.signature(function).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            continue  # options and attributes, of which each such function says it itself
        try:
            function(no_such_argument=1)
        except og.ArgumentTypeError as error:
            if "has no argument 'no_such_argument'" not in str(error):
                silent.append(f"{name}: {error}")
        except TypeError as error:
            silent.append(f"{name}: {error}")
    assert silent == []


def test_words_of_others_lead_to_arguments_that_there_are() -> None:
    names = {name for one in CALLABLES.values() for name in inspect.signature(one).parameters}
    names |= set(inspect.signature(og.CompileOptions).parameters)
    assert [(word, one) for word, ours in ELSEWHERE.items() for one in ours if one not in names] == []
    assert not [word for word in ELSEWHERE if word != word.casefold()]


def test_errors_within_a_function_stay_as_they_are() -> None:
    def broken(value: object) -> object:
        return value.nothing(1, 2)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="nothing"):
        T.Loader({"x": A}, 2, transform=lambda feeds, random: broken(feeds)).batch(0, None, 0)
    with pytest.raises(TypeError, match=r"<lambda>\(\) takes 0 positional arguments but 2 were given"):
        T.Loader({"x": A}, 2, transform=lambda: 1).batch(0, None, 0)  # type: ignore[misc]


def test_signatures_names_and_documentation_stay() -> None:
    assert list(inspect.signature(og.Graph.to).parameters) == ["self", "data_type", "keep", "ports"]
    assert og.Graph.to.__doc__
    assert og.Graph.to.__qualname__ == "Rewritable.to"
    assert list(inspect.signature(T.SGD).parameters)[:2] == ["lr", "momentum"]
    assert og.from_onnx.__module__ == "onednn_graph.graph.onnx"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run", r"; call it with arrays, model\(\{'x': array\}\)"),
        ("get_inputs", "; model.inputs are its inputs"),
        ("explian", r" \(did you mean 'explain'\?\)$"),
        ("_private", "'_private'$"),
    ],
)
def test_what_a_compiled_model_is_asked_for(name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(graph().compile(), name)
