"""Every schema against oneDNN Graph's own op definitions, field by field.

The facts of these stand in `opset_facts.json`, taken from the reference corpus by `tests/tools/opset_facts.py`.

What is meant to differ stands in `MEANT`, with its reason. A difference that is not there fails, and so does an entry
that is no difference any more.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import onednn_graph as og
import pytest
from onednn_graph.ops.attributes import canonical_value
from onednn_graph.ops.schema import counts_allowed
from onednn_graph.ops.shared import integers
from opset_facts import FACTS, facts, text_of
from rows import each

OPSET = json.loads(Path(__file__).with_name("opset_facts.json").read_text(encoding="utf-8"))
"""Op kind → its definition."""
MOST = 64
"""How many tensors a port that repeats takes here."""
BUILT_IN = {schema.kind: schema for schema in og.list_ops() if schema.source.startswith("oneDNN Graph")}
"""The ops that say they are oneDNN Graph's; one of our own names another source."""


# --- what is meant to differ --------------------------------------------------------------------------


@dataclass(frozen=True)
class Meant:
    """One difference.

    Attributes:
        where: the field, as in `differences`.
        reference, ours: its two values; for type constraints the data types that only one side has.
        reason: why.
    """

    where: str
    reference: object
    ours: object
    reason: str


_F64 = "f64 is an extension: NumPy computes it, for gradient checks and as a reference"
_IDENTIFIER = "an input is a parameter in Python, and 'src/dst' can't be one"
_RULE = "the documents list the values; the definitions accept any string and fail later"
_RANGE = f"[1, {MOST}] is a range there; 'src_i' says so without a flag 'required'"
_WILDCARD = f"any number there; here at most {MOST}, and so none is required"
_DOCUMENTED = "in the documents of the op, but not in the definitions"

_WITH_F64 = {
    "T": """Abs AbsBackward AvgPool AvgPoolBackward BiasAdd BiasAddBackward Clamp ClampBackward Concat ConvTranspose
        ConvTransposeBackwardData Convolution Dropout Elu EluBackward Exp GELU GELUBackward HardSigmoid
        HardSigmoidBackward HardSwish HardSwishBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul MaxPool
        MaxPoolBackward Maximum Minimum Mish MishBackward PReLU PReLUBackward Pow ReLU ReLUBackward Reciprocal Reorder
        Round Sigmoid SigmoidBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference
        StaticReshape StaticTranspose Tanh TanhBackward""",
    "T1": """Add BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward ConvTransposeBackwardWeights
        ConvolutionBackwardData ConvolutionBackwardWeights Divide GenIndex GreaterEqual GroupNorm Interpolate
        InterpolateBackward LayerNorm LayerNormBackward MatMul Multiply RMSNorm ReduceL1 ReduceL2 ReduceMax ReduceMean
        ReduceMin ReduceProd ReduceSum SoftMax SoftMaxBackward Subtract TypeCast""",
    "T2": """Add BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward Divide GroupNorm LayerNorm
        LayerNormBackward Multiply RMSNorm Select SoftMax SoftMaxBackward Subtract TypeCast""",
    "T3": "Add Divide Multiply SoftMax Subtract",
}
"""Type constraint → the kinds in which it is extended; quantisation and Dropout's probability keep to f32."""

_USE_DST = ("ClampBackward", "EluBackward", "ReLUBackward", "SigmoidBackward", "SqrtBackward", "TanhBackward")
_EVERY_STRING = {
    "AvgPool": ("rounding_type", {"floor", "ceil"}),
    "MaxPool": ("rounding_type", {"floor", "ceil"}),
    "Quantize": ("qtype", {"per_tensor", "per_channel"}),
    "Dequantize": ("qtype", {"per_tensor", "per_channel"}),
    "DynamicQuantize": ("qtype", {"per_tensor", "per_channel"}),
    "DynamicDequantize": ("qtype", {"per_tensor", "per_channel", "per_group"}),
}
_MANY = tuple(range(MOST + 1))


def _meant():
    found = {kind: [] for kind in BUILT_IN}
    for constraint, kinds in _WITH_F64.items():
        for kind in kinds.split():
            found[kind].append(Meant(f"types of {constraint}", set(), {"f64"}, _F64))
    for kind in _USE_DST:
        found[kind].append(Meant("name of input 0", "src/dst", "src_or_dst", _IDENTIFIER))
    for kind, (name, values) in _EVERY_STRING.items():
        found[kind].append(Meant(f"candidates of {name}", None, values, _RULE))
    found["Concat"] += [
        Meant("number of inputs", (1, MOST), _MANY[1:], _RANGE),
        Meant("required of input 0", None, True, _RANGE),
    ]
    found["Wildcard"] += [
        Meant("number of inputs", (0, None), _MANY, _WILDCARD),
        Meant("number of outputs", (0, None), _MANY, _WILDCARD),
        Meant("required of input 0", None, False, _WILDCARD),
        Meant("required of output 0", None, False, _WILDCARD),
    ]
    found["ConvTransposeBackwardWeights"].append(Meant("attributes", set(), {"output_padding"}, _DOCUMENTED))
    found["End"].append(
        Meant(
            "types of T",
            {"undef"},
            {"f64", "s64", "boolean", "f8_e5m2", "f8_e4m3", "s4", "u4"},
            "End takes every type that a tensor can have, and no tensor has 'undef'",
        )
    )
    found["Wildcard"].append(
        Meant(
            "types of any",
            None,
            {d.value for d in og.DataType} - {"undef"},
            "the definitions have no list of types for 'any'; here it is spelled out",
        )
    )
    return found


MEANT = _meant()


# --- the comparison -----------------------------------------------------------------------------------


def _sides(reference, schema):
    return (
        ("input", reference["inputs"], schema.inputs),
        ("output", reference["outputs"], schema.outputs),
    )


def _default(attribute):
    """The default as a canonical value; None for none, which the definitions write as a full list of one number."""
    if not attribute["has_default"]:
        assert "default" not in attribute
        return None
    value = attribute["default"]
    if isinstance(value, dict):
        assert value["count"] == 12
        return None
    return tuple(value) if isinstance(value, list) else value


def differences(reference, schema):
    """(field, reference's value, ours) of everything that is not the same."""
    found = []

    def compare(where, theirs, ours):
        if theirs != ours or type(theirs) is not type(ours):
            found.append((where, theirs, ours))

    for side, theirs, ours in _sides(reference, schema):
        compare(f"{side}s", len(theirs), len(ours))
        for index, (port, own) in enumerate(zip(theirs, ours, strict=False)):
            assert port["index"] == index
            compare(f"name of {side} {index}", port["name"], own.name)
            compare(f"type of {side} {index}", port["type"], own.type)
            compare(f"required of {side} {index}", port.get("required"), own.required)
    for side, ports, counts in (
        ("inputs", schema.inputs, schema.input_counts),
        ("outputs", schema.outputs, schema.output_counts),
    ):
        compare(f"number of {side}", tuple(reference[f"num_{side}"]), tuple(counts_allowed(ports, counts)))
    commutes = any("may be exchanged" in note for note in schema.notes)
    compare("commutative", reference["commutative"] == [0, 1], commutes)
    theirs = {attribute["name"]: attribute for attribute in reference["attrs"]}
    ours = {spec.name: spec for spec in schema.attributes}
    if set(theirs) != set(ours):
        found.append(("attributes", set(theirs) - set(ours), set(ours) - set(theirs)))
    for name in sorted(set(theirs) & set(ours)):
        attribute, spec = theirs[name], ours[name]
        compare(f"type of {name}", attribute["type"], spec.type.value)
        compare(f"required of {name}", attribute["required"], spec.required)
        compare(f"default of {name}", _default(attribute), spec.default)
        candidates = attribute.get("candidates")
        compare(
            f"candidates of {name}",
            None if candidates is None else set(candidates),
            set(spec.rule.values) if isinstance(spec.rule, og.extend.OneOf) else None,
        )
    theirs = {name: set(types) for name, types in reference["type_constraints"].items()}
    ours = {name: {d.value for d in types} for name, types in schema.types.items()}
    for name in sorted(set(theirs) | set(ours)):
        if name not in theirs or name not in ours:
            compare(f"types of {name}", theirs.get(name), ours.get(name))
        elif theirs[name] != ours[name]:
            found.append((f"types of {name}", theirs[name] - ours[name], ours[name] - theirs[name]))
    return found


def test_the_facts_are_those_of_the_corpus(corpus):
    """Where it lies; a clone without it has the facts all the same."""
    again = "run python tests/tools/opset_facts.py CORPUS/reference/opset.json"
    reference = (corpus / "reference" / "opset.json").read_text(encoding="utf-8")
    assert facts(reference) == OPSET, again
    assert FACTS.read_text(encoding="utf-8") == text_of(OPSET), again


def test_every_op_of_the_reference_is_here_and_no_other():
    assert sorted(BUILT_IN) == sorted(OPSET)


@each("kind", BUILT_IN)
def test_the_schema_is_that_of_the_reference(kind):
    found = differences(OPSET[kind], BUILT_IN[kind])
    meant = [(m.where, m.reference, m.ours) for m in MEANT[kind]]
    unexpected = [f for f in found if f not in meant]
    assert not unexpected, f"{kind}: {unexpected} (field, reference, ours) is not meant"
    gone = [m for m in meant if m not in found]
    assert not gone, f"{kind}: {gone} is no difference any more; take it out of the table"


def test_each_reason_is_a_sentence():
    assert all(len(m.reason) > 30 for meant in MEANT.values() for m in meant)
    assert set(MEANT) == set(BUILT_IN)


@each("kind", BUILT_IN)
def test_the_references_own_defaults_mean_the_same_as_nothing(kind):
    """Also where a default is twelve copies of a number, which is how the definitions write "unset"."""
    ours = {spec.name: spec for spec in BUILT_IN[kind].attributes}
    for attribute in OPSET[kind]["attrs"]:
        if not attribute["has_default"]:
            continue
        value = attribute["default"]
        if isinstance(value, dict):
            value = [value["repeat"]] * value["count"]
        spec = ours[attribute["name"]]
        assert canonical_value(spec, value, kind, spec.name) == spec.default, spec.name


@each("kind", BUILT_IN)
def test_every_candidate_of_the_reference_is_accepted_as_it_is_written(kind):
    ours = {spec.name: spec for spec in BUILT_IN[kind].attributes}
    for attribute in OPSET[kind]["attrs"]:
        for value in attribute.get("candidates", ()):
            assert canonical_value(ours[attribute["name"]], value, kind, attribute["name"]) == value


# --- the comparison itself ----------------------------------------------------------------------------


def _spoiled():
    """Changes of a reference, each of which the comparison must see."""
    yield "port name", lambda op: op["inputs"][0].update(name="source")
    yield "port type", lambda op: op["outputs"][0].update(type="T7")
    yield "port required", lambda op: op["inputs"][2].update(required=True)
    yield "one port fewer", lambda op: op["inputs"].pop()
    yield "input counts", lambda op: op.update(num_inputs=[2])
    yield "output counts", lambda op: op.update(num_outputs=[1, 2])
    yield "attribute missing", lambda op: op["attrs"].pop(0)
    yield "attribute more", lambda op: op["attrs"].append({**op["attrs"][0], "name": "weight"})
    yield "attribute name", lambda op: op["attrs"][1].update(name="stride")
    yield "attribute type", lambda op: op["attrs"][1].update(type="s64")
    yield "attribute required", lambda op: op["attrs"][1].update(required=False)
    yield "default", lambda op: op["attrs"][6].update(default=2)
    yield "default's type", lambda op: op["attrs"][6].update(default=True)
    yield "no default", lambda op: (op["attrs"][6].pop("default"), op["attrs"][6].update(has_default=False))
    yield "candidate less", lambda op: op["attrs"][5]["candidates"].pop()
    yield "type less", lambda op: op["type_constraints"]["T"].remove("f16")
    yield "type more", lambda op: op["type_constraints"]["T"].append("s8")
    yield "constraint more", lambda op: op["type_constraints"].update(T2=["s32"])
    yield "commutative", lambda op: op.update(commutative=[0, 1])


@pytest.mark.parametrize(("what", "spoil"), [pytest.param(*row, id=row[0]) for row in _spoiled()])
def test_the_comparison_sees_a_change(what, spoil):
    reference = json.loads(json.dumps(OPSET["ConvTranspose"]))
    before = differences(reference, BUILT_IN["ConvTranspose"])
    spoil(reference)
    assert differences(reference, BUILT_IN["ConvTranspose"]) != before


@pytest.mark.parametrize(
    ("rule", "least"), [(og.extend.AtLeast(2), 2), (og.extend.POSITIVE, 1), (og.extend.NON_NEGATIVE, 0)]
)
def test_every_rule_on_a_list_of_integers_holds(rule, least):
    spec = integers("sizes", rule, "Sizes.")
    assert canonical_value(spec, [least, least + 1], "Op", "sizes") == (least, least + 1)
    with pytest.raises(og.errors.AttributeValueError, match="a list of .* s64 values, got"):
        canonical_value(spec, [least + 1, least - 1], "Op", "sizes")


def test_a_list_of_integers_without_a_rule_takes_all():
    assert canonical_value(integers("axes", None, "Axes."), [-3, 0], "Op", "axes") == (-3, 0)
