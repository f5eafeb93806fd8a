"""Shape inference of every op: against shapes written down, against what kernels make, with sizes that are not known
yet, and on inputs that contradict each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onednn_graph as og
import pytest
from bad_inputs import LONGEST, bad_style
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.ops.attributes import AttributeType
from op_calls import EXAMPLES, SCHEMAS, X3, Example
from rows import each

OLD = (
    "ConvTranspose",
    "ConvTransposeBackwardData",
    "ConvTransposeBackwardWeights",
    "Convolution",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
)


ALL = [
    pytest.param(example, id=f"{example.kind} {i}")
    for examples in EXAMPLES.values()
    for i, example in enumerate(examples)
]


def test_every_op_has_an_example():
    assert sorted(EXAMPLES) == sorted(SCHEMAS)


@each("example", ALL)
def test_inferred_shapes(example):
    assert tuple(example.infer()) == example.outputs


BROADCASTS = {"GenIndex"}
"""Kernels that write an array of fewer elements on purpose."""


@each("example", ALL)
def test_what_the_kernel_makes_has_the_inferred_shape(example, monkeypatch):
    """Before NumPy would broadcast it into an output of another shape."""
    seen, copy = [], np.copyto

    def copyto(target, values, *args, **kwargs):
        seen.append((target.shape, np.shape(values)))
        copy(target, values, *args, **kwargs)

    op, arrays = example.op(), example.arrays()
    graph = og.Graph()
    graph.add_op(op)
    graph.finalize()
    compiled = graph.get_partitions(backend="numpy")[0].compile()
    with monkeypatch.context() as patch:
        patch.setattr(np, "copyto", copyto)
        results = compiled.execute(None, arrays)
    assert tuple(r.shape for r in results) == example.outputs
    if example.kind not in BROADCASTS:
        assert all(target == natural for target, natural in seen), seen


@each("example", ALL)
def test_shapes_known_at_execution_only(example):
    """A graph of tensors of which nothing but the rank is known gives what one of known shapes gives."""
    graph = og.Graph()
    graph.add_op(example.op([(-1,) * len(shape) for shape in example.shapes]))
    model = graph.compile(backend="numpy")
    results = model({f"x{i}": array for i, array in enumerate(example.arrays())})
    expected = example.run()
    assert len(results) == len(example.outputs)
    for i, wanted in enumerate(expected):
        result = results[f"y{i}"]
        assert result.shape == example.outputs[i]
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result.astype(np.float64), wanted.astype(np.float64))


def contradicts(inferred, concrete):
    """Whether an inferred shape can't become the concrete one."""
    if inferred is None:
        return False
    return len(inferred) != len(concrete) or any(
        a not in (-1, b) for a, b in zip(inferred, concrete, strict=True)
    )


def masked(draw, shape):
    """A shape of which less is known."""
    if draw(st.integers(0, 5)) == 0:
        return None
    return tuple(-1 if draw(st.booleans()) else n for n in shape)


def known_sizes_are_not_contradicted(example, data):
    shapes = [masked(data.draw, shape) for shape in example.shapes]
    values = example.values if data.draw(st.booleans()) else {}
    told = [masked(data.draw, shape) for shape in example.outputs] if data.draw(st.booleans()) else None
    inferred = example.infer(shapes, values, told)
    for shape, concrete in zip(inferred, example.outputs, strict=True):
        assert not contradicts(shape, concrete), (shapes, values, told)


@pytest.mark.no_cover
@each("example", ALL)
@settings(max_examples=8)
@given(data=st.data())
def test_unknown_sizes_never_contradict_the_known_ones(example, data):
    known_sizes_are_not_contradicted(example, data)


@pytest.mark.long
@pytest.mark.parametrize("example", ALL)
@settings(max_examples=30)
@given(data=st.data())
def test_more_unknown_sizes_never_contradict_the_known_ones(example, data):
    known_sizes_are_not_contradicted(example, data)


@each("example", [e for e in ALL if e.values[0].outputs])
def test_what_depends_on_an_unknown_size_is_unknown(example):
    """A size that no two values of an unknown one have in common must not be inferred: each size of each input is
    left open in turn, and another value of it that is legal too must not contradict what was inferred."""
    example_shapes = example.shapes
    for position, shape in enumerate(example_shapes):
        if position in example.values:
            continue
        for axis in range(len(shape)):
            open_ = [list(s) for s in example_shapes]
            open_[position][axis] = -1
            inferred = example.infer([tuple(s) for s in open_], example.values)
            for other in (1, 2, 5, 7, 12):
                changed = [list(s) for s in example_shapes]
                changed[position][axis] = other
                try:
                    concrete = example.infer([tuple(s) for s in changed], example.values)
                except og.ShapeError:
                    continue
                for a, b in zip(inferred, concrete, strict=True):
                    if b is not None:
                        assert not contradicts(a, b), (position, axis, other)


def test_the_comparison_sees_a_contradiction():
    assert contradicts((2, 3), (2, 4))
    assert contradicts((2, -1), (2, 4, 1))
    assert not contradicts((2, -1), (2, 4))
    assert not contradicts(None, (2, 4))


@each("example", ALL)
def test_a_declared_output_of_another_shape_is_refused(example):
    """By name, with both shapes; Wildcard takes what is declared."""
    if not example.outputs or example.declared:
        return
    wrong = tuple(n + 1 for n in example.outputs[0]) or (3,)
    outputs = [wrong, *example.outputs[1:]]
    with pytest.raises(og.ShapeError) as caught:
        example.run(example.op(outputs=outputs))
    message = str(caught.value)
    assert example.kind in message
    assert str(list(wrong)) in message


@each("kind", EXAMPLES)
def test_a_size_of_zero_is_computed_or_refused_in_our_words(kind):
    """Every size of the inputs in turn, wherever it stands; NumPy's own errors and warnings must not come out."""
    for example in EXAMPLES[kind]:
        for size in {n for shape in example.shapes for n in shape}:
            shapes = [
                shape if i in example.values else tuple(0 if n == size else n for n in shape)
                for i, shape in enumerate(example.shapes)
            ]
            outputs = [tuple(0 if n == size else n for n in shape) for shape in example.outputs]
            op = example.op(shapes, outputs=outputs if example.declared else [None] * len(outputs))
            try:
                results = example.run(op, example.arrays(shapes))
            except og.OneDNNGraphError as error:
                assert kind in str(error)  # noqa: PT017 -- either is right
            else:
                assert len(results) == len(outputs)


WITH_AN_AXIS = [
    ("Concat", {"axis": 0}),
    ("GenIndex", {"axis": 0}),
    ("SoftMax", {"axis": 0}),
    ("SoftMaxBackward", {"axis": 0}),
    ("LogSoftmax", {"axis": 0}),
    ("LogSoftmaxBackward", {"axis": 0}),
    ("LayerNorm", {"begin_norm_axis": 0}),
    ("RMSNorm", {"begin_norm_axis": 0}),
    ("Quantize", {"axis": 0, "qtype": "per_channel", "scales": [1.0]}),
    ("Dequantize", {"axis": 0, "qtype": "per_channel", "scales": [1.0]}),
    ("ReduceSum", {"axes": [0]}),
    ("ReduceMax", {"axes": [0]}),
]


@each("last", [False, True])
@each(("kind", "attributes"), WITH_AN_AXIS)
def test_an_axis_of_a_tensor_that_has_none_is_refused_or_computed(kind, attributes, last):
    """The first and the last one; NumPy's own errors must not come out."""
    if last:
        attributes = {n: -1 if v == 0 else [-1] if v == [0] else v for n, v in attributes.items()}
    good = EXAMPLES[kind][0]
    count = 2 if kind.endswith("Backward") else 1
    spoiled = Example(kind, ((),) * count, good.outputs, {**good.attributes, **attributes})
    try:
        results = spoiled.run()
    except og.OneDNNGraphError as error:
        assert "axis" in str(error) or "axes" in str(error)  # noqa: PT017 -- either is right
        assert "between 0 and -1" not in str(error), "no value is between those"  # noqa: PT017
    else:
        assert results[0].shape == ()


# --- inputs that are wrong ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """An example of an op, spoiled.

    Attributes:
        says: what the message must have besides the op.
        inputs: other shapes of some inputs, or values of a shape operand.
        types: other types of some inputs.
        attributes: others; a `DROP` is left out.
        which: the example's number.
    """

    kind: str
    error: type
    says: tuple[str, ...]
    inputs: Mapping = field(default_factory=dict)
    types: Mapping = field(default_factory=dict)
    attributes: Mapping = field(default_factory=dict)
    which: int = 0

    def run(self):
        good = EXAMPLES[self.kind][self.which]
        inputs = [self.inputs.get(i, x) for i, x in enumerate(good.inputs)]
        inputs += [x for i, x in sorted(self.inputs.items()) if i >= len(good.inputs)]
        attributes = {n: v for n, v in {**good.attributes, **self.attributes}.items() if v is not DROP}
        spoiled = Example(self.kind, tuple(inputs), good.outputs, attributes, good.declared)
        types = [self.types.get(i, t) for i, t in enumerate(spoiled.types)]
        spoiled.run(spoiled.op(types=types))


DROP = object()
SHAPE, VALUE, TYPE = og.ShapeError, og.errors.AttributeValueError, og.DataTypeError
UNKNOWN = og.errors.UnknownAttributeError
BAD: list[Bad] = []


def bad(kind, error, *says, inputs=None, types=None, which=0, **attributes):
    BAD.append(Bad(kind, error, says, inputs or {}, types or {}, attributes, which))


for _kind in sorted(SCHEMAS):
    if SCHEMAS[_kind].family == "eltwise" and _kind.endswith("Backward"):
        _first = SCHEMAS[_kind].inputs[0].name
        bad(_kind, SHAPE, "'diff_dst'", f"'{_first}'", "[2, 3, 4]", "[2, 3, 5]", inputs={1: (2, 3, 5)})
        bad(_kind, SHAPE, "'diff_dst'", "[2, 3]", inputs={1: (2, 3)})
for _kind in (
    "Add",
    "Subtract",
    "Multiply",
    "Divide",
    "Maximum",
    "Minimum",
    "SquaredDifference",
    "GreaterEqual",
):
    bad(_kind, SHAPE, "'src_0'", "'src_1'", "[2, 1, 4]", "[3, 5]", "broadcast", inputs={1: (3, 5)})
    bad(_kind, SHAPE, "'src_1'", "[2, 3, 4]", "[3, 4]", inputs={1: (3, 4)}, which=1)
    bad(_kind, SHAPE, "'src_1'", "[2, 3, 1]", inputs={1: (2, 3, 1)}, which=1)
    bad(
        _kind,
        VALUE,
        "'auto_broadcast'",
        "'none', 'numpy'",
        "'nump'",
        "did you mean 'numpy'",
        auto_broadcast="nump",
    )
bad("Select", SHAPE, "'cond'", "[3, 2]", "broadcast", inputs={0: (3, 2)})
bad("Select", SHAPE, "'src_1'", "[5]", inputs={2: (5,)})
bad("Select", SHAPE, "'src_0'", "[2, 3, 1]", inputs={1: (2, 3, 1)}, which=1)
bad("Select", SHAPE, "'src_1'", "[4]", inputs={2: (4,)}, which=1)
bad("Select", TYPE, "'cond'", "boolean", "f32", types={0: "f32"})
bad("Select", TYPE, "'src_1'", "bf16", "f32", types={2: "bf16"})
bad("BiasAdd", SHAPE, "'bias'", "[3]", "[4]", inputs={1: (4,)})
bad("BiasAdd", SHAPE, "'bias'", "[3, 1]", inputs={1: (3, 1)})
bad("BiasAdd", SHAPE, "'bias'", "[5]", "[3]", which=1, data_format="NXC")
bad("BiasAdd", SHAPE, "batch", "[3]", inputs={0: (3,)})
bad("BiasAdd", VALUE, "'data_format'", "'NCHW'", "write 'NCX'", data_format="NCHW")
bad("BiasAddBackward", SHAPE, "batch", "[3]", inputs={0: (3,)})
bad("BiasAddBackward", SHAPE, "batch", "[]", inputs={0: ()})
bad("PReLU", SHAPE, "'slope'", "[4]", "[2, 4, 5, 3]", inputs={1: (4,)})
bad("PReLU", SHAPE, "'slope'", "[5, 2]", inputs={1: (5, 2)})
bad("PReLU", SHAPE, "'slope'", "[1, 2, 4, 5, 3]", inputs={1: (1, 2, 4, 5, 3)})
bad("PReLU", SHAPE, "'slope'", "[3]", inputs={1: (3,)}, which=2)
bad("PReLUBackward", SHAPE, "'slope'", "[4]", inputs={1: (4,)})
bad("PReLUBackward", SHAPE, "'diff_dst'", "[2, 4, 5, 1]", inputs={2: (2, 4, 5, 1)})
bad("PReLUBackward", SHAPE, "'slope'", "[2, 2, 4, 5, 3]", inputs={1: (2, 2, 4, 5, 3)})
bad("PReLUBackward", SHAPE, "'slope'", "[7, 1, 1, 1, 1]", inputs={1: (7, 1, 1, 1, 1)})
bad(
    "PReLUBackward",
    SHAPE,
    "'slope'",
    "[2, 4, 5, 3]",
    inputs={0: (2, 4, 1, 3), 1: (2, 4, 5, 3), 2: (2, 4, 1, 3)},
)

bad("Concat", SHAPE, "[2, 3, 4]", "[2, 1, 5]", "axis 1", inputs={1: (2, 1, 5)})
bad("Concat", SHAPE, "[2, 3, 4]", "[2, 4]", inputs={2: (2, 4)})
bad("Concat", SHAPE, "'axis'", "-3 and 2", "got 3", axis=3)
bad("Concat", SHAPE, "'axis'", "got -4", axis=-4)
bad("Concat", SHAPE, "'axis'", "got 0", inputs={0: (), 1: (), 2: ()}, axis=0)
bad("Concat", TYPE, "bf16", "f32", types={1: "bf16"})
bad("StaticReshape", SHAPE, "'shape'", "24", "[4, 7]", shape=[4, 7])
bad("StaticReshape", SHAPE, "'shape'", "[-1, -1]", shape=[-1, -1])
bad("StaticReshape", SHAPE, "'shape'", "[-1, 5]", shape=[-1, 5])
bad("StaticReshape", SHAPE, "'shape'", "[-2, 12]", shape=[-2, 12])
bad("StaticReshape", SHAPE, "'shape'", "[0, 24]", "special_zero=False", shape=[0, 24])
bad("StaticReshape", SHAPE, "'shape'", "[4, 6, 1, 0]", shape=[4, 6, 1, 0], special_zero=True)
bad("StaticTranspose", SHAPE, "'order'", "3", "[0, 1]", order=[0, 1])
bad("StaticTranspose", SHAPE, "'order'", "[0, 1, 1]", order=[0, 1, 1])
bad("StaticTranspose", SHAPE, "'order'", "[0, 1, 3]", order=[0, 1, 3])
bad("StaticTranspose", SHAPE, "'order'", "[0, 1, -4]", order=[0, 1, -4])
bad("StaticTranspose", SHAPE, "'order'", "[0, 2, -1]", order=[0, 2, -1])
bad("GenIndex", SHAPE, "'axis'", "got 3", axis=3)
bad("GenIndex", SHAPE, "'axis'", "got -4", axis=-4)
for _kind in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    bad(_kind, SHAPE, "'axes'", "-3 and 2", "got 3", axes=[0, 3])
    bad(_kind, SHAPE, "'axes'", "once", "[1, -2]", axes=[1, -2])
    bad(_kind, SHAPE, "'axes'", "got 4", inputs={1: [4]}, which=2)
    bad(_kind, SHAPE, "'axes'", "[0, 0]", inputs={1: [0, 0]}, which=2)
    bad(_kind, SHAPE, "'axes'", "1-D", "[1, 1]", inputs={1: (1, 1)}, which=2)
bad("ReduceSum", SHAPE, "'axes'", "got 0", inputs={0: ()}, axes=[0])
bad("ReduceMax", og.OneDNNGraphError, "[2, 0, 4]", inputs={0: (2, 0, 4)})
bad("ReduceMin", og.OneDNNGraphError, "[2, 0, 4]", inputs={0: (2, 0, 4)})

bad("MatMul", SHAPE, "'src'", "'weights'", "got 4 and 5", inputs={1: (5, 5, 6)})
bad("MatMul", SHAPE, "got 3 and 4", "transpose_a=True", transpose_a=True)
bad("MatMul", SHAPE, "transpose_b=True", transpose_b=True)
bad("MatMul", SHAPE, "broadcast", "[2, 3]", "[5]", inputs={0: (2, 3, 3, 4)})
bad("MatMul", SHAPE, "'bias'", "[5]", inputs={2: (5,)})
bad("MatMul", SHAPE, "'bias'", "[3, 2, 5, 3, 6]", inputs={2: (3, 2, 5, 3, 6)})
bad("MatMul", SHAPE, "at least one axis", "[]", inputs={0: ()})
bad("MatMul", SHAPE, "'bias'", "[2]", inputs={2: (2,)}, which=4)
bad("MatMul", VALUE, "'accumulation_mode'", "'f64'", accumulation_mode="f64")
bad("MatMul", TYPE, "'weights'", "f64", types={1: "f64"})

for _kind in ("AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"):
    bad(_kind, SHAPE, "'kernel'", "one value per spatial axis", "2", "[3]", kernel=[3])
    bad(_kind, SHAPE, "'strides'", "[1, 1, 1]", strides=[1, 1, 1])
    bad(_kind, SHAPE, "'pads_begin'", "[1]", pads_begin=[1])
    bad(_kind, SHAPE, "'pads_end'", "[1, 2, 3]", pads_end=[1, 2, 3])
    bad(_kind, VALUE, "'strides'", "positive", "[0, 1]", strides=[0, 1])
    bad(_kind, VALUE, "'kernel'", "positive", "[3, -2]", kernel=[3, -2])
    bad(_kind, SHAPE, "window must fit", "[-9, 0]", pads_begin=[-9, 0])
    bad(_kind, VALUE, "'auto_pad'", "'SAME'", auto_pad="SAME")
    bad(_kind, SHAPE, "window must fit", "[9, 2]", kernel=[9, 2])
bad("AvgPool", VALUE, "'rounding_type'", "'floor', 'ceil'", "'up'", rounding_type="up")
bad("MaxPool", VALUE, "'rounding_type'", "'round'", rounding_type="round")
bad("MaxPool", SHAPE, "'dilations'", "[1]", dilations=[1])
bad("MaxPool", VALUE, "'dilations'", "[0, 1]", dilations=[0, 1])
bad("MaxPool", SHAPE, "window must fit", dilations=[1, 9])
bad("MaxPool", SHAPE, "[2, 3]", inputs={0: (2, 3)})
bad("MaxPool", SHAPE, "[]", inputs={0: ()})
bad("AvgPool", SHAPE, "[2]", inputs={0: (2,)})
bad("MaxPoolBackward", SHAPE, "'diff_dst'", "[2, 3, 3, 6]", "[2, 3, 5, 6]", inputs={1: (2, 3, 5, 6)})
bad("MaxPoolBackward", SHAPE, "'diff_dst'", "[2, 4, 3, 6]", inputs={1: (2, 4, 3, 6)})
bad("MaxPoolBackward", SHAPE, "'diff_dst'", "[2, 3, 3]", inputs={1: (2, 3, 3)})
bad("AvgPoolBackward", SHAPE, "'diff_dst'", "[2, 3, 2, 6]", inputs={0: (2, 3, 2, 6)})
bad("AvgPoolBackward", SHAPE, "'src_shape'", "missing", src_shape=DROP)
bad("AvgPoolBackward", SHAPE, "'diff_dst'", "[2, 3, 99, 6]", src_shape=[2, 3, 99, 6])
bad("AvgPoolBackward", SHAPE, "[2, 3, 7]", src_shape=[2, 3, 7])
bad("AvgPoolBackward", VALUE, "'src_shape'", "[2, 3, -7, 6]", src_shape=[2, 3, -7, 6])
bad("AvgPoolBackward", SHAPE, "[2, 3, 20, 6]", inputs={1: [2, 3, 20, 6]}, which=1)
bad("AvgPoolBackward", og.OneDNNGraphError, "-8", inputs={1: [2, 3, -8, 6]}, which=1)
bad("AvgPoolBackward", SHAPE, "'src_shape'", "1-D", inputs={1: (2, 2)}, which=1)

bad("Interpolate", SHAPE, "'sizes'", "one positive value per spatial axis, 2", "[7]", sizes=[7])
bad("Interpolate", VALUE, "'sizes'", "positive", "[7, 0]", sizes=[7, 0])
bad("Interpolate", SHAPE, "size is missing", "'sizes'", "'scales'", sizes=DROP)
bad("Interpolate", SHAPE, "'scales'", "2", "[1.5]", scales=[1.5], which=1)
bad("Interpolate", SHAPE, "'scales'", "positive sizes", "[0.1, 1.0]", scales=[0.1, 1.0], which=1)
bad("Interpolate", og.errors.AttributeValueError, "'scales'", "-1.0", scales=[-1.0, 1.0], which=1)
bad("Interpolate", og.OneDNNGraphError, "'scales'", "inf", scales=[float("inf"), 1.0], which=1)
bad("Interpolate", VALUE, "'mode'", "'cubic'", mode="cubic")
bad("Interpolate", VALUE, "'coordinate_transformation_mode'", "'half'", coordinate_transformation_mode="half")
bad("Interpolate", SHAPE, "'src'", "[2, 3]", inputs={0: (2, 3)})
bad("Interpolate", SHAPE, "'sizes'", "[8]", inputs={1: [8]}, which=2)
bad("Interpolate", SHAPE, "'sizes'", "1-D", "[1, 2]", inputs={1: (1, 2)}, which=2)
bad("Interpolate", SHAPE, "'sizes'", "[8, -9]", inputs={1: [8, -9]}, which=2)
bad("InterpolateBackward", SHAPE, "'diff_dst'", "[2, 3, 7, 3]", inputs={1: (2, 3, 7, 3)})
bad("InterpolateBackward", SHAPE, "'diff_dst'", "[2, 3, 7]", inputs={1: (2, 3, 7)})
bad("InterpolateBackward", SHAPE, "'diff_dst'", inputs={2: [8, 8]}, which=1)
bad("InterpolateBackward", SHAPE, "'diff_dst'", "[2, 9, 7, 2]", inputs={1: (2, 9, 7, 2)}, sizes=DROP)
bad("InterpolateBackward", SHAPE, "'diff_dst'", "[2, 3, 7]", inputs={1: (2, 3, 7)}, sizes=DROP)

for _kind, _vectors in (
    ("BatchNormInference", {1: "gamma", 2: "beta", 3: "mean", 4: "variance"}),
    ("BatchNormForwardTraining", {1: "mean", 2: "variance", 3: "gamma", 4: "beta"}),
    ("BatchNormTrainingBackward", {2: "mean", 3: "variance", 4: "gamma"}),
    ("GroupNorm", {1: "gamma", 2: "beta"}),
    ("GroupNormBackward", {4: "gamma"}),
):
    for _index, _name in _vectors.items():
        bad(_kind, SHAPE, f"'{_name}'", "[6]", "[5]", inputs={_index: (5,)})
        bad(_kind, SHAPE, f"'{_name}'", "[1, 6]", inputs={_index: (1, 6)})
for _kind in ("BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"):
    bad(_kind, VALUE, "'epsilon'", "at least 0", "-0.1", epsilon=-0.1)
    bad(_kind, SHAPE, "batch", "[6]", inputs={0: (6,)} if "Back" not in _kind else {0: (6,), 1: (6,)})
    bad(_kind, TYPE, "f16", types={4: "f16"})
bad("BatchNormTrainingBackward", SHAPE, "'diff_dst'", "[2, 4, 5, 1]", inputs={1: (2, 4, 5, 1)})
bad("GroupNorm", SHAPE, "'groups'", "4", "6", groups=4)
bad("GroupNorm", SHAPE, "'groups'", "3", "4", groups=3, which=1)
bad("GroupNorm", VALUE, "'groups'", "positive", "got 0", groups=0)
bad("GroupNorm", VALUE, "'epsilon'", "-1", epsilon=-1)
bad("GroupNormBackward", SHAPE, "'diff_dst'", "[2, 4, 5]", inputs={1: (2, 4, 5)})
bad("GroupNormBackward", SHAPE, "'mean'", "[2, 3]", "[2, 6]", inputs={2: (2, 6)})
bad("GroupNormBackward", SHAPE, "'variance'", "[2, 3]", "[3]", inputs={3: (3,)})
bad("GroupNormBackward", SHAPE, "'groups'", "4", "6", groups=4)
bad("GroupNormBackward", VALUE, "'groups'", "positive", "got 0", groups=0)
bad("LayerNorm", SHAPE, "'gamma'", "[6]", "[5]", inputs={1: (5,)})
bad("LayerNorm", SHAPE, "'beta'", "[5, 6]", "[6, 5]", inputs={2: (6, 5)}, which=1)
bad("LayerNorm", SHAPE, "'begin_norm_axis'", "-4 and 3", "got 4", begin_norm_axis=4)
bad("LayerNorm", SHAPE, "'begin_norm_axis'", "got -5", begin_norm_axis=-5)
bad("LayerNorm", SHAPE, "'begin_norm_axis'", inputs={0: ()})
bad("LayerNorm", VALUE, "'epsilon'", "-1e-05", epsilon=-1e-5)
bad("LayerNormBackward", SHAPE, "'diff_dst'", "[2, 4, 5]", inputs={1: (2, 4, 5)})
bad("LayerNormBackward", SHAPE, "'mean'", "[2, 4]", "[2, 4, 5]", inputs={2: (2, 4)})
bad("LayerNormBackward", SHAPE, "'variance'", "[2, 5, 4]", inputs={3: (2, 5, 4)})
bad("LayerNormBackward", SHAPE, "'mean'", "[2, 4, 5, 6]", inputs={2: (2, 4, 5, 6)})
bad("LayerNormBackward", SHAPE, "'gamma'", "[5]", inputs={4: (5,)})
bad("LayerNormBackward", SHAPE, "'beta'", "[7]", inputs={5: (7,)})
bad("LayerNormBackward", SHAPE, "'begin_norm_axis'", "got 7", begin_norm_axis=7)
bad("RMSNorm", SHAPE, "'gamma'", "[6]", "[5]", inputs={1: (5,)})
bad("RMSNorm", SHAPE, "'gamma'", "[5, 6]", "[6, 5]", inputs={1: (6, 5)}, which=1)
bad("RMSNorm", SHAPE, "'begin_norm_axis'", "got 4", begin_norm_axis=4)
bad("RMSNorm", VALUE, "'epsilon'", "-2", epsilon=-2)

bad("SoftMax", SHAPE, "'axis'", "-3 and 2", "got 3", axis=3)
bad("SoftMax", SHAPE, "'axis'", "got 1", inputs={0: (4,)})
bad("SoftMax", VALUE, "'mode'", "'inf_as_zero'", "'inf_as_one'", mode="inf_as_one")
bad("SoftMaxBackward", SHAPE, "'dst'", "'diff_dst'", "[2, 3, 1]", inputs={1: (2, 3, 1)})
bad("SoftMaxBackward", SHAPE, "'axis'", "got -4", axis=-4)
bad("LogSoftmax", SHAPE, "'axis'", "got 5", axis=5)
bad("LogSoftmaxBackward", SHAPE, "'dst'", "[4]", inputs={1: (4,)})
bad("LogSoftmaxBackward", SHAPE, "'axis'", "got 3", axis=3)

for _kind in ("Quantize", "Dequantize"):
    bad(_kind, SHAPE, "'scales'", "1 values", "got 2", scales=[1.0, 2.0])
    bad(_kind, SHAPE, "'scales'", "channel", "got 2", scales=[1.0, 2.0], which=1)
    bad(_kind, SHAPE, "'zps'", "got 2", zps=[1, 2], which=1)
    bad(_kind, SHAPE, "'scales'", "got 0", scales=[])
    bad(_kind, SHAPE, "'axis'", "got 3", axis=3, which=1)
    bad(_kind, VALUE, "'qtype'", "'per_group'", qtype="per_group")
    bad(_kind, VALUE, "'scales'", "nan", scales=[float("nan")])
bad("Quantize", TYPE, "'src'", "f32", "s8", types={0: "s8"})
bad("Dequantize", TYPE, "'src'", "f32", types={0: "f32"})
for _kind in ("DynamicQuantize", "DynamicDequantize"):
    bad(_kind, SHAPE, "'scales'", "per_tensor", "[2]", inputs={1: (2,)})
    bad(_kind, SHAPE, "'scales'", "per_channel", "[5]", inputs={1: (5,)}, which=1)
    bad(_kind, SHAPE, "'scales'", "[2, 3, 4]", inputs={1: X3}, which=1)
    bad(_kind, SHAPE, "'zps'", "[2]", inputs={2: (2,)}, which=1)
    bad(_kind, SHAPE, "'axis'", "got 3", axis=3, which=1)
bad("DynamicQuantize", VALUE, "'qtype'", "'per_group'", qtype="per_group")
bad("DynamicDequantize", SHAPE, "'scales'", "per_group", "[2, 2, 1]", inputs={1: (2, 2, 1)}, which=2)
bad("DynamicDequantize", SHAPE, "'zps'", "per_group", "[3, 2, 1]", inputs={2: (3, 2, 1)}, which=2)
bad("DynamicDequantize", SHAPE, "per_group", "group_shape", "None", group_shape=DROP, which=2)
bad("DynamicDequantize", SHAPE, "per_group", "(1, 4, 4)", group_shape=[1, 4, 4], which=2)
bad("DynamicDequantize", SHAPE, "per_group", "(1, 2)", group_shape=[1, 2], which=2)
bad("DynamicDequantize", VALUE, "'group_shape'", "positive", group_shape=[0, 2, 4], which=2)
for _index, _name in enumerate(("seed", "offset", "probability"), 1):
    bad("Dropout", SHAPE, f"'{_name}'", "one number", "[2]", inputs={_index: (2,)})
    bad("Dropout", SHAPE, f"'{_name}'", "[1, 1]", inputs={_index: (1, 1)})
bad("Dropout", TYPE, "'seed'", "s64", "s32", types={1: "s32"})
bad("Dropout", TYPE, "'probability'", "f32", "f64", types={3: "f64"})

for _kind, _data in (
    ("Convolution", "src"),
    ("ConvTranspose", "src"),
    ("ConvolutionBackwardData", "diff_dst"),
    ("ConvTransposeBackwardData", "diff_dst"),
):
    _shape = EXAMPLES[_kind][0].inputs[0]
    bad(_kind, SHAPE, f"'{_data}'", "channels", "groups = 2", "got 5", inputs={0: (2, 5, *_shape[2:])})
    bad(_kind, SHAPE, "'weights'", "[6, 2, 3]", inputs={1: (6, 2, 3)})
    bad(_kind, SHAPE, f"'{_data}'", "[2, 4]", inputs={0: (2, 4)})
    bad(_kind, SHAPE, "'strides'", "[1]", strides=[1])
    bad(_kind, SHAPE, "'dilations'", "[1, 1, 1]", dilations=[1, 1, 1])
    bad(_kind, SHAPE, "'pads_begin'", "[1]", pads_begin=[1])
    bad(_kind, VALUE, "'groups'", "positive", "0", groups=0)
    bad(_kind, VALUE, "'weights_format'", "'OIHW'", weights_format="OIHW")
    bad(_kind, VALUE, "'dilations'", "positive", "[0, 1]", dilations=[0, 1])
    bad(_kind, SHAPE, "channels", "groups = 4", groups=4)
bad("Convolution", SHAPE, "'bias'", "[6]", "[4]", inputs={2: (4,)})
bad("Convolution", SHAPE, "kernel must fit", "extent of 9", inputs={1: (6, 2, 9, 2)}, pads_begin=[0, 0])
bad("ConvTranspose", SHAPE, "'bias'", "[6]", "[5]", inputs={2: (5,)})
bad("ConvTranspose", SHAPE, "'output_padding'", "[1]", output_padding=[1], which=1)
bad("ConvTranspose", VALUE, "'output_padding'", "non-negative", "[-1, 0]", output_padding=[-1, 0], which=1)
bad("ConvTranspose", SHAPE, "positive size", "spatial axis 0", pads_begin=[9, 0])
bad("ConvolutionBackwardData", SHAPE, "[2, 4, 8, 6]", "[2, 4, 11, 6]", dst_shape=[2, 4, 11, 6])
bad("ConvolutionBackwardData", SHAPE, "[2, 3, 8, 6]", dst_shape=[2, 3, 8, 6])
bad("ConvolutionBackwardData", SHAPE, "axes", "[2, 4, 8]", dst_shape=[2, 4, 8])
bad("ConvolutionBackwardData", SHAPE, "[2, 4, 12, 6]", inputs={2: [2, 4, 12, 6]}, which=2)
bad("ConvolutionBackwardData", SHAPE, "'dst_shape'", "1-D", inputs={2: (2, 2)}, which=2)
bad("ConvTransposeBackwardData", SHAPE, "kernel must fit", inputs={0: (2, 6, 1, 5)})


def automatic():
    """For each op and each of its ports and attributes, what no schema allows."""
    for kind, schema in SCHEMAS.items():
        good = EXAMPLES[kind][0]
        ports = schema.input_ports(len(good.inputs))
        for i, port in enumerate(ports):
            allowed = schema.types[port.type]
            wrong = next((t for t in ("boolean", "s8", "f32") if t not in allowed), None)
            if wrong is not None:
                yield Bad(kind, TYPE, (f"'{port.name}'", wrong, allowed[0].value), types={i: wrong})
        for spec in schema.attributes:
            name, says = spec.name, (f"'{spec.name}'",)
            wrong = 7 if spec.type is AttributeType.string else "seven"
            yield Bad(kind, og.errors.AttributeTypeError, (*says, repr(wrong)), attributes={name: wrong})
            yield Bad(kind, UNKNOWN, (f"'{name}x'", f"did you mean '{name}'"), attributes={f"{name}x": 1})
            if spec.required:
                yield Bad(kind, VALUE, (*says, "missing"), attributes={name: DROP})
            if isinstance(spec.rule, og.extend.OneOf):
                yield Bad(
                    kind, VALUE, (*says, "'nothing'", spec.rule.values[0]), attributes={name: "nothing"}
                )
            elif spec.rule is not None and spec.type is AttributeType.s64_list:
                wrong = next(v for v in (0, -1, -(2**31) - 1) if spec.rule.canonical(v) is None)
                yield Bad(kind, VALUE, (*says, f"{wrong}"), attributes={name: [1, wrong]})
            elif spec.type is AttributeType.f32 and spec.name not in ("min", "max"):
                for value in (float("inf"), -1e39):
                    yield Bad(kind, VALUE, says, attributes={name: value})
        if not schema.attributes:
            yield Bad(kind, UNKNOWN, ("'axis'", "no attributes"), attributes={"axis": 1})


AUTOMATIC = list(automatic())


def named(rows):
    return [pytest.param(r, id=f"{i} {r.kind} {' '.join(r.says)}") for i, r in enumerate(rows)]


@each("row", named(BAD + AUTOMATIC))
def test_what_is_wrong_is_said(row):
    """The very class, and a sentence with the op, the attribute or port, and the value."""
    with pytest.raises(og.OneDNNGraphError) as caught:
        row.run()
    message = str(caught.value)
    if row.error is not og.OneDNNGraphError:
        assert type(caught.value) is row.error, message
    assert row.kind in message
    for text in row.says:
        assert text in message, f"{text} is not in: {message}"
    assert not bad_style(message), message
    assert len(message) <= LONGEST


def test_there_are_enough_rows():
    new = set(SCHEMAS) - set(OLD)
    assert len([row for row in BAD if row.kind in new]) >= 120
    assert {row.kind for row in BAD + AUTOMATIC} == set(SCHEMAS)


def test_the_examples_themselves_are_right():
    """So that what is refused above is refused for the change."""
    for examples in EXAMPLES.values():
        for example in examples:
            example.run()
