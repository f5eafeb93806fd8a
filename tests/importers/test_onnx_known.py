"""What the translations know of ONNX's ops, held against every version of every op that the package onnx defines."""

import collections
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.importing.translation import Unmapped
from onednn_graph.graph.onnx.importer import SHAPES
from onednn_graph.graph.onnx.known import KNOWN, MANY, NEWEST_OPSET, Schemas
from onednn_graph.graph.onnx.node import Node
from onednn_graph.graph.onnx.table import TABLE
from onnx_cases import cases, given
from onnx_ops_page import DEFINED_BY_OTHERS, PAGE, RUN_BY_NOBODY, kinds, of_the_page, page
from onnx_oracle import IMAGE, NEWEST, check, helper, integers, model_of, normal, onnx, scalar
from rows import each

SCHEMAS = [
    schema
    for schema in onnx.defs.get_all_schemas_with_history()
    if schema.domain == "" and schema.since_version >= 7 and schema.name in KNOWN
]
OLDEST = 11
INSTALLED = onnx.defs.onnx_opset_version()


def default_of(attribute):
    value = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None
    return value.decode() if isinstance(value, bytes) else value


def another(attribute):
    """A value that is not the default."""
    kind = onnx.defs.OpSchema.AttrType
    value = {
        kind.INT: 3,
        kind.INTS: [3, 5],
        kind.FLOAT: 0.375,
        kind.FLOATS: [0.375],
        kind.STRING: "something",
        kind.STRINGS: ["something"],
    }[attribute.type]
    assert value != default_of(attribute)
    return value


def test_each_translation_says_what_it_knows():
    assert set(KNOWN) == {*TABLE, *SHAPES}


@each("name", sorted({schema.name for schema in SCHEMAS}))
def test_no_attribute_and_no_input_is_passed_over(name):
    for schema in (one for one in SCHEMAS if one.name == name):
        held, known = Schemas(max(OLDEST, schema.since_version)), KNOWN[name]
        if held.schema(name).since_version == schema.since_version:  # or it is older than opset 11
            if schema.since_version not in known.versions:
                with pytest.raises(Unmapped, match="its definition is version"):
                    held.check(name, [], {})
                continue
            for attribute in schema.attributes.values():
                default = default_of(attribute)
                if default is not None:
                    held.check(name, [], {attribute.name: default})
                if attribute.name in known.names and attribute.name not in known.values:
                    continue
                with pytest.raises(Unmapped, match=f"its attribute {attribute.name} is"):
                    held.check(name, [], {attribute.name: another(attribute)})
            if schema.max_input < MANY:
                held.check(name, [0] * min(schema.max_input, known.inputs), {})
            if known.inputs < schema.max_input:
                with pytest.raises(Unmapped, match=f"it has an input {known.inputs}"):
                    held.check(name, [*[None] * known.inputs, 0], {})


@each("name", sorted(name for name in KNOWN if "." not in name))
def test_what_is_said_to_be_known_is_in_the_definitions(name):
    """No row says more than ONNX has, and each version that is older than the installed package's is one."""
    history = [schema for schema in SCHEMAS if schema.name == name]
    history += [s for s in onnx.defs.get_all_schemas_with_history() if s.name == name and s.since_version < 7]
    if not history:
        pytest.skip(f"the package onnx that is installed does not have {name}")
    row = KNOWN[name]
    newest = max(schema.since_version for schema in history)
    assert {v for v in row.versions if v <= newest} <= {schema.since_version for schema in history}
    if INSTALLED >= NEWEST_OPSET:
        assert row.names <= {attribute for schema in history for attribute in schema.attributes}
        assert row.inputs <= max(schema.max_input for schema in history)


@pytest.mark.long
def test_defaults_of_translations_are_those_of_the_definitions(monkeypatch):
    """What a translation takes for an attribute that is not given, in all of ONNX's own cases."""
    usual, wrong = Node.get, collections.defaultdict(set)

    def get(self, name, default=None):
        schema = Schemas(self.opset).schema(self.kind)
        if default is not None and schema is not None and name in schema.attributes:
            said = default_of(schema.attributes[name])
            if said is not None and not np.array_equal(
                np.asarray(default, np.float32) if isinstance(default, float) else default,
                np.asarray(said, np.float32) if isinstance(said, float) else said,
            ):
                wrong[self.kind].add((name, default, said))
        return usual(self, name, default)

    monkeypatch.setattr(Node, "get", get)
    for case in cases():
        if all(node.op_type in KNOWN for node in case.model.graph.node) and (made := given(case, "weights")):
            try:
                og.from_onnx(made[0])
            except og.OneDNNGraphError:
                continue
    assert not wrong


REFUSED = {
    "another precision of statistics": (
        17,
        "LayerNormalization",
        [normal(2, 4), normal(4)],
        {"stash_type": 10},
        "stash_type",
    ),
    "a kernel_shape of other weights": (
        13,
        "Conv",
        [IMAGE, normal(5, 4, 3, 3)],
        {"kernel_shape": [3, 2]},
        r"kernel_shape \[3, 2\] for weights of \[3, 3\]",
    ),
    "one of transposed weights": (
        13,
        "ConvTranspose",
        [IMAGE, normal(4, 5, 3, 3)],
        {"kernel_shape": [1, 1]},
        "kernel_shape",
    ),
    "another hidden size": (
        14,
        "RNN",
        [normal(2, 1, 3), normal(1, 4, 3), normal(1, 4, 4)],
        {"hidden_size": 5},
        "hidden_size 5 with weights for 4",
    ),
    "weights of one direction": (
        14,
        "RNN",
        [normal(2, 1, 3), normal(1, 4, 3), normal(1, 4, 4)],
        {"hidden_size": 4, "direction": "bidirectional"},
        "for the direction 'bidirectional'",
    ),
    "batch normalisation that says by its outputs that it is in training": (
        11,
        "BatchNormalization",
        [IMAGE, *[np.ones(4, np.float32)] * 4],
        {},
        "training mode",
    ),
    "unequal parts before they were": (13, "Split", [normal(5)], {}, "5 elements into 2 equal parts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_give_wrong_numbers_is_refused(name):
    opset, kind, (x, *rest), attributes, message = REFUSED[name]
    if opset > INSTALLED:
        pytest.skip(f"the package onnx that is installed has no opset {opset}")
    constants = {f"c{i}": a for i, a in enumerate(rest)}
    outputs = {"Split": ["y", "z"], "BatchNormalization": ["y", "m", "v", "n", "w"]}.get(kind, ["y"])
    node = helper.make_node(kind, ["x", *constants], outputs, **attributes)
    with pytest.raises(og.UnsupportedError, match=message):
        og.from_onnx(model_of([node], {"x": x}, ["y"], constants, opset=opset), reference=False)


def test_an_op_of_another_domain_is_another_op():
    node = helper.make_node("Relu", ["x"], ["y"], domain="example")
    model = model_of([node], {"x": normal(3)}, ["y"])
    model.opset_import.append(helper.make_opsetid("example", 1))
    with pytest.raises(og.UnsupportedError, match=r"example\.Relu ×1"):
        og.from_onnx(model)


def test_the_long_name_of_the_default_domain():
    x = integers(2, 3)
    node = helper.make_node("Softmax", ["x"], ["y"], domain="ai.onnx", axis=1)
    model = model_of([node], {"x": x}, ["y"], opset=13)
    model.opset_import[0].domain = "ai.onnx"
    before = model.SerializeToString()
    y = og.from_onnx(model).compile()(x)["y"]
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
    assert model.SerializeToString() == before  # the user's own is left as it is
    model.graph.node[0].attribute.append(helper.make_attribute("axes", 1))
    with pytest.raises(
        og.ArgumentError, match="the model is invalid: node 'y' .Softmax.: Unrecognized attribute"
    ):
        og.from_onnx(model)
    del model.graph.node[0].attribute[-1]
    model.opset_import.append(helper.make_opsetid("", 11))
    with pytest.raises(og.ArgumentError, match=r"imports the versions \[11, 13\]"):
        og.from_onnx(model)


def test_an_op_set_that_nobody_knows():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": normal(3)}, ["y"])
    model.opset_import[0].version = max(INSTALLED, NEWEST_OPSET) + 1
    with pytest.raises(og.UnsupportedError, match="install a newer onnx"):
        og.from_onnx(model)


def test_blocks_before_the_channels_and_behind():
    if INSTALLED < 28:
        pytest.skip("SpaceToDepth has a mode from opset 28 on")
    x = integers(2, 3, 4, 6)
    for mode in ("DCR", "CRD"):
        there = helper.make_node("SpaceToDepth", ["x"], ["h"], blocksize=2, mode=mode)
        back = helper.make_node("DepthToSpace", ["h"], ["y"], blocksize=2, mode=mode)
        graph = og.from_onnx(model_of([there, back], {"x": x}, ["y"], opset=28))
        np.testing.assert_array_equal(graph.compile()(x)["y"], x)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
def test_maxima_over_all_axes_behind_one(kind, constant, axis):
    """As they were before opset 13, of inputs and of constants, which ONNX's own reference computes wrongly."""
    x = integers(2, 3, 4)
    more = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node(kind, ["x"], ["h"], **more), helper.make_node("Add", ["h", "zero"], ["y"])]
    zero = np.zeros(1, np.float32)
    first = (1 if axis is None else axis) % 3
    flat = x.reshape(int(np.prod(x.shape[:first])), -1).astype("f8")
    soft = np.exp(flat) / np.exp(flat).sum(1, keepdims=True)
    hard = np.eye(flat.shape[1])[flat.argmax(1)]
    expected = (hard if kind == "Hardmax" else soft).reshape(x.shape)
    inputs = {"zero": zero} if constant else {"x": x, "zero": zero}
    model = model_of(nodes, inputs, ["y"], {"x": x} if constant else {}, opset=11)
    result = og.from_onnx(model).compile()(inputs)["y"]
    if (
        kind == "LogSoftmax"
    ):  # the library's logarithms have so many digits behind the point, whatever stands before it
        result = np.exp(result)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_bounds_in_the_wrong_order():
    x = normal(2, 3)
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    check(model_of(nodes, {"x": x}, ["y"], {"low": scalar(1), "high": scalar(-1)}, opset=NEWEST), {"x": x})


def test_a_softmax_of_8_bit_integers_is_over_the_last_axis():
    """In onnxruntime's operator the axis is −1 where it is not given, whichever softmax it is of."""
    x = np.random.default_rng(0).integers(0, 255, (2, 3, 4)).astype(np.uint8)
    fixed = {
        "s": scalar(0.05),
        "z": np.asarray(3, np.uint8),
        "t": scalar(1 / 256),
        "o": np.asarray(0, np.uint8),
    }
    node = helper.make_node("QLinearSoftmax", ["x", *fixed], ["y"], domain="com.microsoft", opset=11)
    model = model_of([node], {"x": x}, ["y"], fixed, opset=11)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    y = og.from_onnx(model).compile()(x)["y"].astype("f8") / 256
    powers = np.exp((x.astype("f8") - 3) * 0.05)
    np.testing.assert_allclose(y, powers / powers.sum(-1, keepdims=True), atol=1 / 256)


def test_the_page_of_the_ops_is_up_to_date():
    """`python tests/tools/onnx_ops.py` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def named(schema):
    return f"{schema.domain}.{schema.name}".lstrip(".")


def test_every_op_of_onnx_is_on_the_page():
    """Of every domain of the package onnx, in every version: in a row, by others, or among those that nobody runs."""
    known = {*kinds(), *DEFINED_BY_OTHERS, *RUN_BY_NOBODY}
    history = of_the_page(onnx.defs.get_all_schemas_with_history(), INSTALLED)
    assert len(history) > 500
    assert {*map(named, history)} <= known, "nothing is known of these"
    for schema in of_the_page(onnx.defs.get_all_schemas(), INSTALLED):
        if named(schema) in DEFINED_BY_OTHERS:
            assert schema.has_function or schema.has_context_dependent_function, schema.name
    assert not {*RUN_BY_NOBODY, *DEFINED_BY_OTHERS}.intersection(kinds())


def test_what_a_later_onnx_adds_has_no_row_yet():
    """In domains with versions, in previews, which have none, and in a domain that is new."""
    pairs = [("", NEWEST_OPSET), ("", NEWEST_OPSET + 1), ("ai.onnx.ml", 5), ("ai.onnx.ml", 6)]
    pairs += [("ai.onnx.preview", 1), ("ai.onnx.new", 1)]
    schemas = [SimpleNamespace(domain=domain, since_version=version) for domain, version in pairs]
    assert of_the_page(schemas, NEWEST_OPSET) == [*schemas[0:3:2], *schemas[4:]]
    assert of_the_page(schemas, NEWEST_OPSET + 1) == schemas[0:3:2]
