"""`onednn-graph check`: graphs under other shapes, layouts, types and kinds."""

import onednn_graph as og
import pytest
from check_documents import CHAIN, conv, one, rewritten, text_of
from onednn_graph.graph.files import to_graph


def shapes(document):
    return {t.id: list(t.shape) for op in document.ops for t in (*op.inputs, *op.outputs)}


def strides(document):
    return {t.id: list(t.strides) for op in document.ops for t in (*op.inputs, *op.outputs)}


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (conv(), [], {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 4, 4]}),
        (conv(), ["--mb=5"], {0: [5, 8, 6, 6], 1: [4, 8, 3, 3], 2: [5, 4, 4, 4]}),
        (conv(), ["--in-shapes=0:1x8x9x9"], {0: [1, 8, 9, 9], 1: [4, 8, 3, 3], 2: [1, 4, 7, 7]}),
        (
            conv(),
            ["--op-attrs=0:strides:2x1*pads_end:1x0"],
            {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 3, 4]},
        ),
        (conv(), ["--op-attrs=0:auto_pad:SAME_UPPER"], {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 6, 6]}),
        (
            conv(),
            ["--in-shapes=0:2x6x6x8+1:3x3x8x4", "--op-attrs=0:data_format:NXC*weights_format:XIO"],
            {0: [2, 6, 6, 8], 1: [3, 3, 8, 4], 2: [2, 4, 4, 4]},
        ),
        (
            conv(),
            [
                "--in-shapes=0:2x8x5x5x5+1:4x8x2x2x2",
                "--op-attrs=0:strides:1x1x1*pads_begin:0x0x0*pads_end:0x0x0*dilations:1x1x1",
            ],
            {0: [2, 8, 5, 5, 5], 1: [4, 8, 2, 2, 2], 2: [2, 4, 4, 4, 4]},
        ),
        (
            conv(),
            ["--in-shapes=0:2x16x6x6", "--op-attrs=0:groups:2"],
            {0: [2, 16, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 4, 4]},
        ),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--in-shapes=0:-+1:4"], {0: [], 1: [4], 2: [4]}),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--in-shapes=0:0+1:0"], {0: [0], 1: [0], 2: [0]}),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--mb=7"], {0: [7, 3], 1: [7, 3], 2: [7, 3]}),
        (one("Add", [[2, 3], [1, 3]], [[2, 3]]), ["--mb=7"], {0: [7, 3], 1: [1, 3], 2: [7, 3]}),
        (
            one("PReLUBackward", [[2, 3], [3], [2, 3]], [[2, 3], [3]], data_format="NCX"),
            ["--mb=7"],
            {0: [7, 3], 1: [3], 2: [7, 3], 3: [7, 3], 4: [3]},
        ),
        (
            one("StaticReshape", [[2, 6]], [[2, 3, 2]], shape=[2, 3, 2], special_zero=False),
            ["--mb=4"],
            {0: [4, 6], 1: [4, 3, 2]},
        ),
        (
            one("StaticReshape", [[2, 6]], [[2, 3, 2]], shape=[0, 3, 2], special_zero=True),
            ["--mb=4"],
            {0: [4, 6], 1: [4, 3, 2]},
        ),
        (
            one("StaticReshape", [[2, 6]], [[3, 4]], shape=[3, 4], special_zero=False),
            ["--in-shapes=0:4x6", "--op-attrs=0:shape:6x4"],
            {0: [4, 6], 1: [6, 4]},
        ),
        (one("StaticTranspose", [[2, 6]], [[6, 2]], order=[1, 0]), ["--mb=4"], {0: [4, 6], 1: [6, 4]}),
        (
            one("MatMul", [[3, 4], [4, 5]], [[3, 5]]),
            ["--in-shapes=0:4x3", "--op-attrs=0:transpose_a:true"],
            {0: [4, 3], 1: [4, 5], 2: [3, 5]},
        ),
        (
            one(
                "InterpolateBackward",
                [[1, 2, 4], [1, 2, 7]],
                [[1, 2, 4]],
                sizes=[7],
                mode="nearest",
                data_format="NCX",
            ),
            ["--op-attrs=0:sizes:1.75"],
            {0: [1, 2, 4], 1: [1, 2, 7], 2: [1, 2, 4]},
        ),
        # A declared shape that is wrong says nothing, as in benchdnn.
        (one("ReLU", [[2, 3]], [[9, 9]]), [], {0: [2, 3], 1: [2, 3]}),
        # A tensor that is not in the graph is passed over.
        (one("ReLU", [[2, 3]], [[2, 3]]), ["--in-shapes=0:5+77:3"], {0: [5], 1: [5]}),
    ],
)
def test_shapes_are_inferred_anew(tmp_path, text, arguments, expected):
    document = rewritten(text, *arguments, tmp_path=tmp_path)
    assert shapes(document) == expected
    to_graph(document).finalize()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {0: [288, 36, 6, 1], 2: [64, 16, 4, 1]}),
        (["--in-shapes=0:*acdb"], {0: [288, 1, 48, 8], 2: [64, 1, 16, 4]}),
        (["--in-shapes=0:2x8x6x6*acdb"], {0: [288, 1, 48, 8], 2: [64, 1, 16, 4]}),
        (["--in-shapes=0:*1000x36x6x1"], {0: [1000, 36, 6, 1], 2: [64, 16, 4, 1]}),
        (["--in-shapes=2:*dcba"], {0: [288, 36, 6, 1], 2: [1, 2, 8, 32]}),
    ],
)
def test_layouts_follow_the_first_input(tmp_path, arguments, expected):
    found = strides(rewritten(conv(), *arguments, tmp_path=tmp_path))
    assert {i: found[i] for i in expected} == expected


def test_the_files_layouts_stay_while_only_attributes_change(tmp_path):
    text = conv().replace("[64, 16, 4, 1]", "[64, 1, 16, 4]")
    assert strides(rewritten(text, tmp_path=tmp_path))[2] == [64, 1, 16, 4]
    bigger = rewritten(text, "--op-attrs=0:pads_begin:1x1", tmp_path=tmp_path)
    assert strides(bigger)[2] == [4 * 25, 1, 20, 4]


def test_a_new_shape_is_row_major(tmp_path):
    text = conv().replace("[288, 36, 6, 1]", "[288, 1, 48, 8]")
    assert strides(rewritten(text, tmp_path=tmp_path))[0] == [288, 1, 48, 8]
    assert strides(rewritten(text, "--mb=1", tmp_path=tmp_path))[0] == [288, 1, 48, 8]
    assert strides(rewritten(text, "--in-shapes=0:2x8x6x6", tmp_path=tmp_path))[0] == [288, 36, 6, 1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--op-kind=1:Multiply+2:Tanh"], [("MatMul", [0, 1], 2), ("Multiply", [2, 3], 4), ("Tanh", [4], 5)]),
        (["--op-kind=1:undef"], [("MatMul", [0, 1], 2), ("ReLU", [2], 5)]),
        (["--op-kind=1:undef+2:undef"], [("MatMul", [0, 1], 2)]),
        (["--op-kind=2:undef"], [("MatMul", [0, 1], 2), ("Divide", [2, 3], 4)]),
    ],
)
def test_kinds_change_and_ops_go(tmp_path, arguments, expected):
    document = rewritten(CHAIN, *arguments, tmp_path=tmp_path)
    found = [(op.kind, [t.id for t in op.inputs], op.outputs[0].id) for op in document.ops]
    assert found == expected
    to_graph(document).finalize()


def test_a_new_kind_keeps_only_its_own_attributes(tmp_path):
    text = one("ReLUBackward", [[4], [4]], [[4]], use_dst=False)
    document = rewritten(text, "--op-kind=0:AbsBackward", tmp_path=tmp_path)
    assert document.ops[0].attributes == {}
    document = rewritten(text, "--op-kind=0:TanhBackward", tmp_path=tmp_path)
    assert document.ops[0].values == {"use_dst": False}


def types(document):
    return {t.id: t.data_type.value for op in document.ops for t in (*op.inputs, *op.outputs)}


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (conv(), ["--dt=bf16"], ["bf16", "bf16", "bf16"]),
        (conv(), ["--dt=0:f16+1:f16+2:f16"], ["f16", "f16", "f16"]),
        (one("Select", [("boolean", [4]), [4], [4]], [[4]]), ["--dt=f16"], ["boolean", "f16", "f16", "f16"]),
        (one("GenIndex", [[4]], [("s32", [4])], axis=0), ["--dt=bf16"], ["bf16", "s32"]),
        (one("GreaterEqual", [[4], [4]], [("boolean", [4])]), ["--dt=bf16"], ["bf16", "bf16", "boolean"]),
        (
            one(
                "BatchNormInference",
                [[1, 4, 2], [4], [4], [4], [4]],
                [[1, 4, 2]],
                epsilon=0.001,
                data_format="NCX",
            ),
            ["--dt=bf16"],
            ["bf16", "f32", "f32", "f32", "f32", "bf16"],
        ),
    ],
)
def test_data_types(tmp_path, text, arguments, expected):
    document = rewritten(text, *arguments, tmp_path=tmp_path)
    assert list(dict(sorted(types(document).items())).values()) == expected
    to_graph(document).finalize()


QUANTIZED = {"qtype": "per_channel", "axis": 1, "scales": [0.1, 0.25, 3.0], "zps": [1, 2, 3]}


@pytest.mark.parametrize(
    ("arguments", "scales", "zps"),
    [
        ([], (0.125, 0.25, 4.0), (1, 2, 3)),
        (["--in-shapes=0:2x5"], (0.125, 0.25, 4.0, 0.125, 0.25), (1, 2, 3, 0, 0)),
        (["--in-shapes=0:2x2"], (0.125, 0.25), (1, 2)),
        (["--op-attrs=0:scales:0.5x0.5x0.5*zps:0x0x0"], (0.5, 0.5, 0.5), (0, 0, 0)),
    ],
)
def test_scales_are_powers_of_two_and_as_many_as_channels(tmp_path, arguments, scales, zps):
    text = one("Quantize", [[2, 3]], [("s8", [2, 3])], **QUANTIZED)
    values = rewritten(text, *arguments, tmp_path=tmp_path).ops[0].values
    assert (values["scales"], values["zps"]) == (scales, zps)


GROUPED = text_of(
    {0: ("s8", [4, 8]), 1: ("f32", [4, 2]), 2: ("s8", [4, 2]), 3: ("f32", [4, 8])},
    ("DynamicDequantize", [0, 1, 2], [3], {"qtype": "per_group", "axis": 1, "group_shape": [1, 4]}),
)


@pytest.mark.parametrize(
    ("arguments", "group", "scales"),
    [
        ([], (1, 4), [4, 2]),
        (["--op-attrs=0:group_shape:1x2"], (1, 2), [4, 4]),
        (["--in-shapes=0:4x16"], (1, 8), [4, 2]),
        (["--in-shapes=1:4x4+2:4x4"], (1, 2), [4, 4]),
        (["--in-shapes=0:4x16+1:4x8+2:4x8", "--op-attrs=0:group_shape:1x2"], (1, 2), [4, 8]),
    ],
)
def test_groups_and_scales_fit(tmp_path, arguments, group, scales):
    document = rewritten(GROUPED, *arguments, tmp_path=tmp_path)
    assert document.ops[0].values["group_shape"] == group
    assert shapes(document)[1] == shapes(document)[2] == scales
    assert strides(document)[1] == [scales[1], 1]
    to_graph(document).finalize()


def test_properties_and_fpmath(tmp_path):
    document = rewritten(
        CHAIN, "--tensor-property=3:host_scalar", "--attr-fpmath=bf16:true", tmp_path=tmp_path
    )
    found = {t.id: t.property_type.value for op in document.ops for t in op.inputs}
    assert found[3] == "host_scalar"
    assert found[0] == "undef"
    assert (document.fpmath_mode, document.apply_to_int) == ("bf16", True)


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (CHAIN, ["--in-shapes=2:1x4"], "tensor 2, which is inside the graph"),
        (CHAIN, ["--op-attrs=9:axis:1"], "names the op 9, which is not in the graph"),
        (CHAIN, ["--op-kind=9:Abs"], "names the op 9"),
        (CHAIN, ["--dt=9:f16"], "names the tensor 9"),
        (CHAIN, ["--tensor-property=9:undef"], "names the tensor 9"),
        (CHAIN, ["--op-attrs=2:alpha:1"], "ReLU has no attribute 'alpha'"),
        (CHAIN, ["--op-attrs=0:transpose_a:maybe"], r"'transpose_a' must be of type bool, .* got 'maybe'"),
        (CHAIN, ["--op-kind=0:Add"], "can take each other's place"),
        (CHAIN, ["--op-kind=1:Tanh"], "can take each other's place"),
        (CHAIN, ["--op-kind=2:Relu"], r"unknown op kind \(did you mean 'ReLU'\?\)"),
        (CHAIN, ["--op-kind=0:undef"], "MatMul can't be removed"),
        (one("Add", [[2], [2]], [[2]]), ["--op-kind=0:undef"], "Add can't be removed"),
        (one("TypeCast", [[2]], [("bf16", [2])]), ["--dt=f16"], r"has TypeCast \(op 0\)"),
        (conv(), ["--in-shapes=0:*abc"], "tag of 4 letters"),
        (conv(), ["--in-shapes=0:*6x1"], "must have 4 strides"),
        (conv(), ["--in-shapes=0:2x9x6x6"], "Convolution 'op_0'"),
        (GROUPED, ["--op-attrs=0:group_shape:1x3"], r"got \[4, 8\] and \[1, 3\]"),
        (one("ReLU", [[-1, 3]], [[-1, 3]]), [], "give it sizes with --in-shapes=0"),
        (one("Concat", [[]], [[]], axis=0), ["--mb=2"], "no input to change"),
    ],
)
def test_settings_that_do_not_fit_are_errors(tmp_path, text, arguments, message):
    with pytest.raises(og.OneDNNGraphError, match=message):
        rewritten(text, *arguments, tmp_path=tmp_path)
