"""Every kind is classified, and every rule is held against central differences in f64, both on NumPy.

The derivative of L = ⟨dst, seed⟩ by each element is (L(x + h) − L(x − h)) / 2h; with h = 1e-5 it is good to about h²
and ε·L/h, 1e-10.
"""

import numpy as np
import onednn_graph as og
import pytest
from conftest import ROOT
from gradient_calls import GRADIENT_CALLS
from onednn_graph.graph.gradients.rules import NOT_DIFFERENTIABLE, STOPPED_PORTS, STOPS, Flow, flow_of
from onednn_graph.graph.gradients.table import RULES
from onednn_graph.ops.registry import REGISTRY
from rows import each

STEP, TOLERANCE = 1e-5, 2e-8
SCHEMAS = {schema.kind: schema for schema in (*og.list_ops(), *REGISTRY.host)}
BY_FLOW = {flow: {kind for kind, schema in SCHEMAS.items() if flow_of(schema) is flow} for flow in Flow}
ON_REQUEST = {"Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize"}
"""Straight through, which no difference shows."""
CASES = [
    pytest.param(k, c, id=f"{k} {n}") for k, calls in GRADIENT_CALLS.items() for n, c in enumerate(calls)
]
NAMES = {"float64": "f64", "float32": "f32", "int64": "s64", "bool": "boolean"}


def built(kind, call):
    """A graph of the one op, its inputs by name, and its first output."""
    graph = og.Graph()
    inputs = [graph.input(f"x{n}", NAMES[a.dtype.name], a.shape) for n, a in enumerate(call.inputs)]
    options = {} if call.outputs is None else {"outputs": call.outputs}
    made = graph.op(kind, *inputs, name="y", **call.attributes, **options)
    return graph, inputs, made[0] if isinstance(made, tuple) else made


def differences(kind, call, seed):
    """By each input, the gradient of ⟨dst, seed⟩."""
    graph, _, dst = built(kind, call)
    model = graph.compile(backend="numpy")
    arrays = [np.array(a) for a in call.inputs]

    def loss():
        return np.sum(model({f"x{n}": a for n, a in enumerate(arrays)})[dst] * seed)

    for place in call.places:
        flat = arrays[place].reshape(-1)
        found = np.empty_like(flat)
        for n in range(flat.size):
            before = flat[n]
            flat[n] = before + STEP
            above = loss()
            flat[n] = before - STEP
            found[n] = (above - loss()) / (2 * STEP)
            flat[n] = before
        yield found.reshape(arrays[place].shape)


@pytest.mark.no_cover
@each(("kind", "call"), CASES)
def test_the_gradient_is_that_of_central_differences(kind, call):
    graph, inputs, dst = built(kind, call)
    seed = np.random.default_rng(7).standard_normal(dst.dims)
    found = graph.gradients(dst, [inputs[n] for n in call.places], seed=graph.input("seed", "f64", dst.dims))
    results = graph.compile(backend="numpy")(
        {**{f"x{n}": a for n, a in enumerate(call.inputs)}, "seed": seed}
    )
    for place, tensor, expected in zip(call.places, found, differences(kind, call, seed), strict=True):
        if tensor is None:
            assert not expected.any(), place
            continue
        assert tensor.shape == call.inputs[place].shape
        assert results[tensor].dtype == np.float64
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(
            results[tensor], expected, rtol=0, atol=TOLERANCE * scale, err_msg=str(place)
        )


@each(("kind", "call"), CASES)
def test_each_gradient_alone_is_the_same(kind, call):
    """What is needed by one input alone gives the same, and has no op beside it that nobody reads."""
    every, inputs, dst = built(kind, call)
    seed = np.random.default_rng(7).standard_normal(dst.dims)
    arrays = {f"x{n}": a for n, a in enumerate(call.inputs)}
    together = every.gradients(dst, [inputs[n] for n in call.places], seed=seed)
    expected = every.compile(backend="numpy")(arrays)
    for place, other in zip(call.places, together, strict=True):
        graph, inputs, dst = built(kind, call)
        before = graph.outputs
        (found,) = graph.gradients(dst, [inputs[place]], seed=seed)
        if found is None:
            assert other is None
            continue
        np.testing.assert_array_equal(graph.compile(backend="numpy")(arrays)[found], expected[other])
        assert [t.id for t in graph.outputs] == [*(t.id for t in before), found.id]
        read = {t.id for op in graph.ops for t in op.inputs} | {t.id for t in graph.outputs}
        assert all(any(t.id in read for t in op.outputs) for op in graph.ops)


@pytest.mark.no_cover
@each(("kind", "call"), CASES)
def test_a_gradient_of_equal_elements_is_the_same_where_it_stands_for_all(kind, call):
    """What a sum hands on has one element; rules get it so, or spread out, and the result is that of ones."""
    arrays = {f"x{n}": a for n, a in enumerate(call.inputs)}
    results = []
    for summed in (False, True):
        graph, inputs, dst = built(kind, call)
        loss = graph.op("ReduceSum", dst, axes=list(range(len(dst.dims)))) if summed else dst
        found = graph.gradients(loss, [inputs[n] for n in call.places], seed=1.0)
        model = graph.compile(backend="numpy")
        results.append([None if t is None else model(arrays)[t] for t in found])
    for plain, by_sum in zip(*results, strict=True):
        if plain is None:
            assert by_sum is None
        else:
            scale = max(1.0, float(np.abs(plain).max(initial=0)))
            np.testing.assert_allclose(by_sum, plain, rtol=0, atol=1e-12 * scale)


# --- the classification ---------------------------------------------------------------------------------


def test_every_kind_is_classified():
    missing = [kind for kind, schema in SCHEMAS.items() if flow_of(schema) is None]
    assert missing == [], "give each a rule in graph/gradients/, or say there that it stops the flow"


def test_nothing_is_classified_twice_or_unknown():
    named = {*RULES, *STOPS, *NOT_DIFFERENTIABLE, *STOPPED_PORTS}
    assert named <= SCHEMAS.keys()
    assert not STOPS & NOT_DIFFERENTIABLE.keys()
    assert STOPS & RULES.keys() == {"Round"}  # it stops the flow but where one goes straight through
    for kind, ports in STOPPED_PORTS.items():
        assert ports <= {p.name for p in (*SCHEMAS[kind].inputs, *SCHEMAS[kind].outputs)}


def test_every_rule_has_a_call():
    assert BY_FLOW[Flow.rule] - ON_REQUEST - {"Round", "Wildcard"} == GRADIENT_CALLS.keys()


@each("kind", [k for k, s in SCHEMAS.items() if s.backward])
def test_what_schemas_say_of_gradient_ops_fits_them(kind):
    schema = SCHEMAS[kind]
    ports = {p.name for p in (*schema.inputs, *schema.outputs)}
    for backward in schema.backward:
        gradient = SCHEMAS[backward.kind]
        assert set(backward.inputs) <= ports | {f"diff_{p.name}" for p in schema.outputs}
        assert set(backward.outputs) <= {p.name for p in schema.inputs}
        assert len(backward.outputs) == len(gradient.outputs) - (kind == "Dropout")
        assert sum(p.required for p in gradient.inputs) <= len(backward.inputs) <= len(gradient.inputs)
        attributes = {spec.name: spec for spec in gradient.attributes}
        assert {*backward.attributes, *backward.shapes} <= attributes.keys()
        given = {*backward.attributes, *backward.shapes, *(spec.name for spec in schema.attributes)}
        assert {name for name, spec in attributes.items() if spec.required} <= given
        assert set(backward.shapes.values()) <= ports


def test_gradients_have_gradients():
    """Every gradient op can be differentiated again; what has no gradient is told in the guide, in these words."""
    assert not [kind for kind in BY_FLOW[Flow.none] if "Backward" in kind]
    guide = (ROOT / "docs/pages/guides/gradients.md").read_text().split("## What has no gradient")[1]
    by_reason: dict[str, list[str]] = {}
    for kind in sorted(NOT_DIFFERENTIABLE):
        by_reason.setdefault(NOT_DIFFERENTIABLE[kind], []).append(f"`{kind}`")
    rows = [f"| {', '.join(kinds)} | {reason} |" for reason, kinds in by_reason.items()]
    assert [row for row in rows if row not in guide.splitlines()] == []
