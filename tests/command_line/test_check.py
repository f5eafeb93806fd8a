"""`onednn-graph check`: options, rewriting, data, reference, comparison, and real graphs."""

import json
import math
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.numpy import backend as numpy_backend
from onednn_graph.graph.io.serialization import load, loads, to_graph
from onednn_graph.tools.benchdnn.check import Outcome, State, check, run_case
from onednn_graph.tools.benchdnn.filling import fill
from onednn_graph.tools.benchdnn.options import Case, FpmathSetting, ShapeSetting, parse
from onednn_graph.tools.benchdnn.reference import Expected, reference
from onednn_graph.tools.benchdnn.rewriting import rewrite
from onednn_graph.tools.benchdnn.tolerances import Rule, compare, threshold
from op_calls import EXAMPLES

LARGEST = 2_000_000
"""Elements of a corpus graph up to which the tests run it."""


# --- small documents ------------------------------------------------------------------------------------

TYPES = {bool: "bool", int: "s64", float: "f32", str: "string"}


def attribute(value):
    if isinstance(value, list):
        return {"type": TYPES[type(value[0])] + "[]" if value else "s64[]", "value": value}
    return {"type": TYPES[type(value)], "value": value}


def tensor_json(number, data_type, shape):
    strides = [math.prod(max(d, 1) for d in shape[axis + 1 :]) for axis in range(len(shape))]
    return {
        "id": number,
        "dtype": data_type,
        "shape": list(shape),
        "stride": strides,
        "layout_type": "strided",
        "property_type": "undef",
    }


def text_of(tensors, *ops, **fields):
    """A document: tensors are {id: (type, shape)}, ops (kind, inputs, outputs, attributes)."""
    return json.dumps(
        {
            "version": "3.9.0",
            "engine_kind": "cpu",
            "fpmath_mode": "strict",
            **fields,
            "graph": [
                {
                    "id": index,
                    "name": f"op_{index}",
                    "kind": kind,
                    "attrs": {name: attribute(value) for name, value in attributes.items()},
                    "inputs": [tensor_json(i, *tensors[i]) for i in ins],
                    "outputs": [tensor_json(i, *tensors[i]) for i in outs],
                }
                for index, (kind, ins, outs, attributes) in enumerate(ops)
            ],
        }
    )


CONV = {
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "groups": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}


def conv(data_type="f32", **attributes):
    return text_of(
        {0: (data_type, [2, 8, 6, 6]), 1: (data_type, [4, 8, 3, 3]), 2: (data_type, [2, 4, 4, 4])},
        ("Convolution", [0, 1], [2], CONV | attributes),
    )


def one(kind, shapes, out, data_type="f32", **attributes):
    """A document of one op; shapes are of its inputs and its outputs."""
    described = [s if isinstance(s, tuple) else (data_type, s) for s in (*shapes, *out)]
    ids = list(range(len(described)))
    return text_of(dict(enumerate(described)), (kind, ids[: len(shapes)], ids[len(shapes) :], attributes))


def rewritten(text, *arguments, tmp_path=None):
    folder = tmp_path
    (folder / "g.json").write_text(text, encoding="utf-8")
    case = parse([*arguments, "g.json"], [folder]).cases[0]
    return rewrite(loads(text), case)


def run(text, tmp_path, *arguments):
    (tmp_path / "g.json").write_text(text, encoding="utf-8")
    return [run_case(case) for case in parse([*arguments, "g.json"], [tmp_path]).cases]


def shapes(document):
    return {t.id: list(t.shape) for op in document.ops for t in (*op.inputs, *op.outputs)}


def strides(document):
    return {t.id: list(t.strides) for op in document.ops for t in (*op.inputs, *op.outputs)}


def kinds(document):
    return [op.kind for op in document.ops]


# --- options --------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    for name in ("a.json", "b.json", "sub/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("2x3x4", ShapeSetting((2, 3, 4))),
        ("0", ShapeSetting((0,))),
        ("-", ShapeSetting(())),
        ("2x3x4*acb", ShapeSetting((2, 3, 4), "acb")),
        ("*dcba", ShapeSetting(None, "dcba")),
        ("2x1x1024x128*131072x128x128x1", ShapeSetting((2, 1, 1024, 128), "", (131072, 128, 128, 1))),
        ("*16x4x1", ShapeSetting(None, "", (16, 4, 1))),
        ("1*1", ShapeSetting((1,), "", (1,))),
    ],
)
def test_shapes_are_parsed(text, setting):
    assert ShapeSetting.parse(text, "x") == setting
    assert str(setting) == text


@pytest.mark.parametrize(
    "text", ["", "*", "2x", "x2", "2x3*", "2x3*abc", "2x3*aa", "*xy", "2x3*1x2x3", "abc", "-1"]
)
def test_what_is_no_shape_is_an_error(text):
    with pytest.raises(og.ArgumentError, match=r"^x must have|^x must be"):
        ShapeSetting.parse(text, "x")


@pytest.mark.parametrize(
    ("argument", "fields"),
    [
        ("--in-shapes=0:1x2+3:*ba", [{"in_shapes": {0: ShapeSetting((1, 2)), 3: ShapeSetting(None, "ba")}}]),
        ("--in-shapes=0:1,0:2", [{"in_shapes": {0: ShapeSetting((n,))}} for n in (1, 2)]),
        (
            "--in-shapes=1:3x8+2*abc:3x4x8*abc",
            [{"in_shapes": {1: ShapeSetting((3, 8)), 2: ShapeSetting((3, 4, 8), "abc")}}],
        ),
        ("--in-shapes=", [{}]),
        (
            "--op-attrs=0:strides:4x4*data_format:NXC+1:mode:linear",
            [{"op_attrs": {0: {"strides": "4x4", "data_format": "NXC"}, 1: {"mode": "linear"}}}],
        ),
        ("--op-attrs=,0:strides:4x4", [{}, {"op_attrs": {0: {"strides": "4x4"}}}]),
        ("--dt=undef,bf16", [{}, {"data_type": og.DataType.bf16}]),
        ("--dt=0:s8+1:f16,2:f32", [{"tensor_types": {0: "s8", 1: "f16"}}, {"tensor_types": {2: "f32"}}]),
        ("--op-kind=0:Abs,0:Exp+1:undef", [{"op_kinds": {0: "Abs"}}, {"op_kinds": {0: "Exp", 1: "undef"}}]),
        ("--mb=0,4", [{}, {"mb": 4}]),
        ("--tensor-property=4:undef,4:host_scalar", [{"properties": {4: "undef"}}, {"properties": {4: "host_scalar"}}]),
        ("--expected-n-partitions=0", [{"expected_partitions": 0}]),
        (
            "--attr-fpmath=strict,bf16:true",
            [{"fpmath": FpmathSetting("strict")}, {"fpmath": FpmathSetting("bf16", True)}],
        ),
    ],
)  # fmt: skip
def test_each_option_is_parsed(files, argument, fields):
    cases = parse([argument, "--case=a.json"], [files]).cases
    assert cases == tuple(Case(path="a.json", file=files / "a.json", **values) for values in fields)
    for case in cases:  # what is printed makes the same case
        assert parse(str(case).split(), [files]).cases == (case,)


def test_lists_multiply_and_settings_stay_until_reset(files):
    line = parse(
        ["--mb=1,2", "--op-kind=0:Abs,0:Exp", "a.json", "--mb=3", "b.json", "--reset", "a.json"], [files]
    )
    found = [(case.path, case.mb, case.op_kinds.get(0)) for case in line.cases]
    assert found == [
        ("a.json", 1, "Abs"),
        ("a.json", 2, "Abs"),
        ("a.json", 1, "Exp"),
        ("a.json", 2, "Exp"),
        ("b.json", 3, "Abs"),
        ("b.json", 3, "Exp"),
        ("a.json", 0, None),
    ]


@pytest.mark.parametrize(
    "argument",
    [
        "--mode=C",
        "--mode=P",
        "--engine=gpu",
        "--skip-impl=ref",
        "--graph",
        "--perf-template=x",
        "--mem-check=false",
    ],
)
def test_options_without_a_meaning_here_are_accepted(files, argument):
    assert parse([argument, "a.json"], [files]) == parse(["a.json"], [files])


@pytest.mark.parametrize(
    ("arguments", "verbose"), [([], 0), (["-v"], 1), (["-v5"], 5), (["-v=2"], 2), (["--verbose=3"], 3)]
)
def test_verbose(files, arguments, verbose):
    assert parse([*arguments, "a.json"], [files]).verbose == verbose


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--in-shape=0:1"], r"unknown option '--in-shape=0:1' \(did you mean 'in-shapes'\?\)"),
        (["-x"], "unknown option"),
        (["--in-shapes=1x2"], "--in-shapes must have ID:VALUE"),
        (["--in-shapes=0:1+0:2"], "names the id 0 twice"),
        (["--in-shapes=0:1x"], "--in-shapes, id 0 must be sizes"),
        (["--op-attrs=0:strides"], r"must have NAME:VALUE, .* got 'strides'"),
        (["--dt=f33"], r"--dt must be one of .*did you mean"),
        (["--dt=s8"], "write ID:s8"),
        (["--dt=f16", "--dt=0:f16"], "comes after a --dt of the other form"),
        (["--dt=0:f16", "--dt=f16"], "comes after a --dt of the other form"),
        (["--mb=-1"], "--mb must have a number"),
        (["--mb=x"], "--mb must have a number"),
        (["--tensor-property=0:const"], "must be one of undef, variable, constant, host_scalar"),
        (["--attr-fpmath=b16"], "--attr-fpmath must be one of"),
        (["--attr-fpmath=bf16:maybe"], "must be true or false"),
        (["--seed=one"], "--seed=one must have a number"),
        (["c.json"], r"graph 'c.json' is not there, .* --corpus=FOLDER"),
        (["--case="], "empty path"),
        (["--batch=nothing"], "batch file 'nothing' is not there"),
    ],
)
def test_a_bad_command_line_is_an_error(files, arguments, message):
    with pytest.raises(og.ArgumentError, match=message):
        parse([*arguments, "a.json"], [files])


def test_batch_files_nest_and_know_their_corpus(files):
    (files / "sub" / "harness").write_text(
        "# a comment --case=nothing.json\n"
        "--reset --mb=2 --case=a.json # the rest is no argument\n\n"
        "--in-shapes=0:1x2,\\\n      0:3x4\n"
        "      --case=sub/c.json\n",
        encoding="utf-8",
    )
    (files / "all").write_text("--batch=sub/harness b.json", encoding="utf-8")
    line = parse([f"--batch={files / 'all'}"])
    found = [(case.path, case.mb, case.in_shapes.get(0)) for case in line.cases]
    assert found == [
        ("a.json", 2, None),
        ("sub/c.json", 2, ShapeSetting((1, 2))),
        ("sub/c.json", 2, ShapeSetting((3, 4))),
        ("b.json", 2, ShapeSetting((1, 2))),
        ("b.json", 2, ShapeSetting((3, 4))),
    ]


def test_a_batch_file_that_reads_itself_is_an_error(files):
    (files / "loop").write_text("--batch=loop", encoding="utf-8")
    with pytest.raises(og.ArgumentError, match="cut the cycle"):
        parse(["--batch=loop"], [files])


def test_seed_and_backend(files):
    line = parse(["--seed=3", "--backend=numpy", "a.json"], [files])
    assert (line.seed, line.backend) == (3, "numpy")
    assert parse(["a.json"], [files]).backend is None


def test_a_backend_that_is_none_fails(tmp_path):
    (tmp_path / "g.json").write_text(conv(), encoding="utf-8")
    outcome = run_case(parse(["g.json"], [tmp_path]).cases[0], backend="nump")
    assert outcome.state is State.failed
    assert "'nump'" in outcome.reason


def test_corpus_names_a_folder(files):
    assert parse([f"--corpus={files}", "a.json"]).cases[0].file == files / "a.json"


# --- rewriting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (conv(), [], {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 4, 4]}),
        (conv(), ["--mb=5"], {0: [5, 8, 6, 6], 1: [4, 8, 3, 3], 2: [5, 4, 4, 4]}),
        (conv(), ["--in-shapes=0:1x8x9x9"], {0: [1, 8, 9, 9], 1: [4, 8, 3, 3], 2: [1, 4, 7, 7]}),
        (conv(), ["--op-attrs=0:strides:2x1*pads_end:1x0"], {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 3, 4]}),
        (conv(), ["--op-attrs=0:auto_pad:SAME_UPPER"], {0: [2, 8, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 6, 6]}),
        (
            conv(),
            ["--in-shapes=0:2x6x6x8+1:3x3x8x4", "--op-attrs=0:data_format:NXC*weights_format:XIO"],
            {0: [2, 6, 6, 8], 1: [3, 3, 8, 4], 2: [2, 4, 4, 4]},
        ),
        (
            conv(),
            ["--in-shapes=0:2x8x5x5x5+1:4x8x2x2x2",
             "--op-attrs=0:strides:1x1x1*pads_begin:0x0x0*pads_end:0x0x0*dilations:1x1x1"],
            {0: [2, 8, 5, 5, 5], 1: [4, 8, 2, 2, 2], 2: [2, 4, 4, 4, 4]},
        ),
        (conv(), ["--in-shapes=0:2x16x6x6", "--op-attrs=0:groups:2"],
         {0: [2, 16, 6, 6], 1: [4, 8, 3, 3], 2: [2, 4, 4, 4]}),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--in-shapes=0:-+1:4"], {0: [], 1: [4], 2: [4]}),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--in-shapes=0:0+1:0"], {0: [0], 1: [0], 2: [0]}),
        (one("Add", [[2, 3], [2, 3]], [[2, 3]]), ["--mb=7"], {0: [7, 3], 1: [7, 3], 2: [7, 3]}),
        (one("Add", [[2, 3], [1, 3]], [[2, 3]]), ["--mb=7"], {0: [7, 3], 1: [1, 3], 2: [7, 3]}),
        (one("PReLUBackward", [[2, 3], [3], [2, 3]], [[2, 3], [3]], data_format="NCX"), ["--mb=7"],
         {0: [7, 3], 1: [3], 2: [7, 3], 3: [7, 3], 4: [3]}),
        (one("StaticReshape", [[2, 6]], [[2, 3, 2]], shape=[2, 3, 2], special_zero=False), ["--mb=4"],
         {0: [4, 6], 1: [4, 3, 2]}),
        (one("StaticReshape", [[2, 6]], [[2, 3, 2]], shape=[0, 3, 2], special_zero=True), ["--mb=4"],
         {0: [4, 6], 1: [4, 3, 2]}),
        (one("StaticReshape", [[2, 6]], [[3, 4]], shape=[3, 4], special_zero=False),
         ["--in-shapes=0:4x6", "--op-attrs=0:shape:6x4"], {0: [4, 6], 1: [6, 4]}),
        (one("StaticTranspose", [[2, 6]], [[6, 2]], order=[1, 0]), ["--mb=4"], {0: [4, 6], 1: [6, 4]}),
        (one("MatMul", [[3, 4], [4, 5]], [[3, 5]]), ["--in-shapes=0:4x3", "--op-attrs=0:transpose_a:true"],
         {0: [4, 3], 1: [4, 5], 2: [3, 5]}),
        (one("InterpolateBackward", [[1, 2, 4], [1, 2, 7]], [[1, 2, 4]], sizes=[7], mode="nearest", data_format="NCX"),
         ["--op-attrs=0:sizes:1.75"], {0: [1, 2, 4], 1: [1, 2, 7], 2: [1, 2, 4]}),
        # A declared shape that is wrong says nothing, as in benchdnn.
        (one("ReLU", [[2, 3]], [[9, 9]]), [], {0: [2, 3], 1: [2, 3]}),
        # A tensor that is not in the graph is passed over.
        (one("ReLU", [[2, 3]], [[2, 3]]), ["--in-shapes=0:5+77:3"], {0: [5], 1: [5]}),
    ],
)  # fmt: skip
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


CHAIN = text_of(
    {0: ("f32", [2, 4]), 1: ("f32", [4, 4]), 2: ("f32", [2, 4]), 3: ("f32", [1]), 4: ("f32", [2, 4]),
     5: ("f32", [2, 4])},
    ("MatMul", [0, 1], [2], {}),
    ("Divide", [2, 3], [4], {}),
    ("ReLU", [4], [5], {}),
)  # fmt: skip


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
            one("BatchNormInference", [[1, 4, 2], [4], [4], [4], [4]], [[1, 4, 2]], epsilon=0.001, data_format="NCX"),
            ["--dt=bf16"],
            ["bf16", "f32", "f32", "f32", "f32", "bf16"],
        ),
    ],
)  # fmt: skip
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


# --- data -----------------------------------------------------------------------------------------------


def filled(text, tmp_path, *arguments, seed=0):
    graph = to_graph(rewritten(text, *arguments, tmp_path=tmp_path))
    graph.finalize()
    return graph, fill(graph, seed)


def test_data_is_the_same_for_the_same_seed(tmp_path):
    _, first = filled(CHAIN, tmp_path)
    _, again = filled(CHAIN, tmp_path)
    _, other = filled(CHAIN, tmp_path, seed=1)
    assert all(np.array_equal(first[i], again[i]) for i in first)
    assert not np.array_equal(first[1], other[1])


@pytest.mark.parametrize("data_type", ["f32", "bf16", "f16"])
def test_products_are_exact(tmp_path, data_type):
    graph, arrays = filled(one("MatMul", [[8, 9000], [9000, 8]], [[8, 8]], data_type), tmp_path)
    expected = reference(graph, arrays, [2])[2]
    assert expected.exact
    assert 0.2 < np.sqrt(np.mean(expected.value**2)) < 8


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        (one("Log", [[2000]], [[2000]]), {0: lambda a: a.min() > 0}),
        (one("Sqrt", [[2000]], [[2000]]), {0: lambda a: a.min() > 0}),
        (one("Divide", [[2000], [2000]], [[2000]]), {1: lambda a: set(a) == {2, 4, 8}}),
        (one("Exp", [[2000]], [[2000]]), {0: lambda a: a.max() < 20 and a.min() < -50}),
        (one("SigmoidBackward", [[99], [99]], [[99]], use_dst=True), {0: lambda a: a.min() > 0 and a.max() < 1}),
        (one("Select", [("boolean", [99]), [99], [99]], [[99]]), {0: lambda a: set(a) == {True, False}}),
        (
            one("BatchNormInference", [[1, 99, 2], *4 * [[99]]], [[1, 99, 2]], epsilon=0.5, data_format="NCX"),
            {4: lambda a: set(a) == {-0.25, 0.5, 3.5}},
        ),
        (
            one("Dropout", [[99], ("s64", [1]), ("s64", [1]), ("f32", [1])], [[99]]),
            {1: lambda a: a >= 0, 3: lambda a: 0 < a[0] < 1},
        ),
        (one("Quantize", [[2000]], [("s8", [2000])], qtype="per_tensor", scales=[0.5], zps=[0]),
         {0: lambda a: a.max() > 64 and a.min() < -64 and np.any(a % 0.5)}),
        (one("DynamicDequantize", [("u4", [99]), ("f32", [1]), ("u4", [1])], [[99]], qtype="per_tensor", axis=0),
         {0: lambda a: a.astype(int).max() > 8, 1: lambda a: a[0] > 0}),
    ],
)  # fmt: skip
def test_data_is_in_the_domain(tmp_path, text, checks):
    graph, arrays = filled(text, tmp_path)
    for number, is_fine in checks.items():
        assert is_fine(arrays[number]), arrays[number]
    for expected in reference(graph, arrays, [t.id for t in graph.outputs]).values():
        assert np.isfinite(expected.value.astype(float)).all()


BATCH_NORM = {"epsilon": 0.5, "data_format": "NXC", "momentum": 0.1}


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        (one("BatchNormForwardTraining", [[3, 5, 4], [4], [4]], [[3, 5, 4], *4 * [[4]]], **BATCH_NORM), (0, 1)),
        (one("LayerNorm", [[3, 5, 7], [7], [7]], [[3, 5, 7], [3, 5], [3, 5]]), (2,)),
        (one("LayerNorm", [[3, 5, 6]], [[3, 5, 6], [3], [3]], begin_norm_axis=1, use_affine=False), (1, 2)),
        (one("GroupNorm", [[3, 6, 5]], [[3, 6, 5], [3, 6], [3, 6]], groups=6, use_affine=False, data_format="NCX"), 2),
    ],
)  # fmt: skip
def test_means_are_exact(tmp_path, text, axes):
    _, arrays = filled(text, tmp_path)
    means = arrays[0].astype(float).mean(axis=axes)
    assert np.array_equal(means * 2, np.rint(means * 2))
    assert len(np.unique(means)) > 1
    assert len(np.unique(arrays[0])) > 9
    assert run(text, tmp_path)[0].state is State.passed


def attention(mode, mask):
    return text_of(
        {0: ("f32", [1, 2, 5, 8]), 1: ("f32", [1, 2, 8, 5]), 2: ("f32", [1, 2, 5, 5]), 3: ("f32", mask),
         4: ("f32", [1, 2, 5, 5]), 5: ("f32", [1, 2, 5, 5]), 6: ("f32", [1, 2, 5, 8]), 7: ("f32", [1, 2, 5, 8])},
        ("MatMul", [0, 1], [2], {}),
        ("Add", [2, 3], [4], {}),
        ("SoftMax", [4], [5], {"axis": -1, "mode": mode}),
        ("MatMul", [5, 6], [7], {}),
    )  # fmt: skip


def test_a_mask_of_attention_is_causal(tmp_path):
    for mode, last in (("none", 0.0), ("inf_as_zero", -np.inf)):
        _, arrays = filled(attention(mode, [1, 1, 5, 5]), tmp_path)
        mask = arrays[3][0, 0]
        assert np.all(mask[:4][np.tril_indices(4, 0, 5)] == 0)
        assert np.all(np.isneginf(mask[:4][np.triu_indices(4, 1, 5)]))
        assert np.all(mask[4] == last)
        assert run(attention(mode, [1, 1, 5, 5]), tmp_path)[0].state is State.passed
    _, arrays = filled(attention("none", [1, 1, 1, 5]), tmp_path)
    assert not arrays[3].any()


def test_statistics_of_softmax_belong_to_its_scores(tmp_path):
    text = text_of(
        {0: ("f32", [3, 8]), 1: ("f32", [8, 5]), 2: ("f32", [3, 5]), 3: ("f32", [3, 1]), 4: ("f32", [3, 5]),
         5: ("f32", [3, 5])},
        ("MatMul", [0, 1], [2], {}),
        ("Subtract", [2, 3], [4], {}),
        ("Exp", [4], [5], {}),
    )  # fmt: skip
    graph, arrays = filled(text, tmp_path)
    assert reference(graph, arrays, [5])[5].value.sum(axis=1) == pytest.approx(1, abs=1e-5)


# --- comparison -----------------------------------------------------------------------------------------

NORM = {"epsilon": 0.001, "data_format": "NCX"}
POOL = {
    "strides": [2], "pads_begin": [0], "pads_end": [0], "kernel": [2], "data_format": "NCX", "rounding_type": "floor",
}  # fmt: skip
CASES = {
    "convolution": conv(),
    "convolution, bf16": conv("bf16"),
    "weights": one(
        "ConvolutionBackwardWeights",
        [[2, 8, 6, 6], [2, 4, 4, 4]],
        [[4, 8, 3, 3]],
        **CONV,
        weights_shape=[4, 8, 3, 3],
    ),
    "matmul": one("MatMul", [[5, 7], [7, 6], [6]], [[5, 6]]),
    "eltwise": one("GELU", [[200]], [[200]]),
    "eltwise, f16": one("Tanh", [[200]], [[200]], "f16"),
    "gradient": one("SigmoidBackward", [[50], [50]], [[50]], use_dst=True),
    "binary": one("Multiply", [[9, 9], [1, 9]], [[9, 9]]),
    "division": one("Divide", [[9, 9], [9]], [[9, 9]]),
    "select": one("Select", [("boolean", [9]), [9], [9]], [[9]]),
    "compare": one("GreaterEqual", [[9, 9], [9]], [("boolean", [9, 9])]),
    "softmax": one("SoftMax", [[4, 30]], [[4, 30]], axis=-1),
    "logsoftmax": one("LogSoftmax", [[4, 30]], [[4, 30]], axis=-1),
    "batch norm": one("BatchNormInference", [[2, 4, 9], [4], [4], [4], [4]], [[2, 4, 9]], **NORM),
    "layer norm": one("LayerNorm", [[4, 32], [32], [32]], [[4, 32], [4], [4]], epsilon=1e-5),
    "reduction": one("ReduceMean", [[4, 32]], [[4]], axes=[1], keep_dims=False),
    "norm": one("ReduceL2", [[4, 32]], [[4]], axes=[1], keep_dims=False),
    "maximum": one("MaxPool", [[1, 2, 8]], [[1, 2, 4]], **POOL),
    "average": one("AvgPool", [[1, 2, 8]], [[1, 2, 4]], **POOL, exclude_pad=False),
    "interpolate": one("Interpolate", [[1, 2, 8]], [[1, 2, 12]], mode="linear", sizes=[12], data_format="NCX"),
    "nearest": one("Interpolate", [[1, 2, 8]], [[1, 2, 12]], mode="nearest", sizes=[12], data_format="NCX"),
    "prelu": one("PReLU", [[2, 4, 8], [4]], [[2, 4, 8]], data_format="NCX"),
    "concat": one("Concat", [[2, 4], [2, 3]], [[2, 7]], axis=1),
    "cast": one("TypeCast", [[64]], [("bf16", [64])]),
    "quantize": one(
        "Quantize", [[64]], [("s8", [64])], qtype="per_tensor", axis=0, scales=[0.5], zps=[3]
    ),
    "dequantize": one(
        "Dequantize", [("u8", [64])], [[64]], qtype="per_tensor", axis=0, scales=[0.5], zps=[3]
    ),
    "float8": one("Quantize", [[64]], [("f8_e4m3", [64])], qtype="per_tensor", axis=0, scales=[0.5]),
    "transpose": one("StaticTranspose", [[4, 6]], [[6, 4]], order=[1, 0]),
    "index": one("GenIndex", [[4, 6]], [("s32", [4, 6])], axis=1),
    "chain": CHAIN,
    "attention": attention("none", [1, 1, 5, 5]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_right_results_pass(tmp_path, name):
    (outcome,) = run(CASES[name], tmp_path)
    assert (outcome.state, outcome.reason) == (State.passed, "")
    assert all(c.points for c in outcome.comparisons)


def breaking(kernel, share):
    """The kernel, with one element of its first output off by that share of what is typical there."""

    def broken(op, inputs, outputs):
        kernel(op, inputs, outputs)
        result = outputs[0]
        index = np.unravel_index(int(np.argmax(np.abs(result.astype(float)))), result.shape)
        value = float(result[index])
        if result.dtype.kind in "fV" and result.dtype.itemsize > 1:
            result[index] = value + max(1.0, abs(value)) * share
        elif result.dtype == bool:
            result[index] = not value
        elif result.dtype.kind in "iu":
            result[index] = value + (2 if value < 0 else -2)
        else:
            result[index] = value / 2

    return broken


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_number_is_found(tmp_path, monkeypatch, name):
    low = any(data_type in name for data_type in ("bf16", "f16", "cast"))
    broken = {kind: breaking(k, 0.05 if low else 1e-3) for kind, k in numpy_backend.KERNELS.items()}
    monkeypatch.setattr(numpy_backend, "KERNELS", broken)
    (tmp_path / "g.json").write_text(CASES[name], encoding="utf-8")
    outcome = run_case(parse(["g.json"], [tmp_path]).cases[0], backend="numpy")
    assert outcome.state is State.failed
    assert "elements of type" in outcome.reason
    assert "expected" in outcome.reason


def test_an_inner_tensor_is_judged_on_request(tmp_path):
    (tmp_path / "g.json").write_text(CHAIN, encoding="utf-8")
    case = parse(["g.json"], [tmp_path]).cases[0]
    assert [c.tensor for c in run_case(case).comparisons] == [5]
    assert sorted(c.tensor for c in run_case(case, verbose=True).comparisons) == [2, 4, 5]


def test_what_end_reads_is_an_output(tmp_path):
    text = text_of(
        {0: ("f32", [4]), 1: ("f32", [4]), 2: ("f32", [4])},
        ("Abs", [0], [1], {}),
        ("ReLU", [1], [2], {}),
        ("End", [1], [], {}),
    )
    (outcome,) = run(text, tmp_path)
    assert outcome.state is State.passed, outcome.reason
    assert sorted(c.tensor for c in outcome.comparisons) == [1, 2]


def judged(want, got, rule, spread=None, data_type="f32", exact=False):
    want = np.asarray(want, float)
    expected = Expected(want, None if spread is None else np.asarray(spread, float), exact)
    dtype = {"f32": np.float32, "f16": np.float16, "s8": np.int8}[data_type]
    return compare(0, og.DataType(data_type), expected, np.asarray(got, dtype), rule)


@pytest.mark.parametrize(
    ("want", "got", "rule", "ok"),
    [
        ([1, 2], [1, 2], Rule(), True),
        ([1, 2], [1, 2.001], Rule(), False),
        ([1, 2], [1, 2.001], Rule(relative=1e-3), True),
        ([1, 2], [1, 2.003], Rule(relative=1e-3), False),
        ([0, 1e-7], [1e-7, 0], Rule(relative=1e-9), True),
        ([0.5, 2], [0.51, 2], Rule(relative=1e-6, absolute=0.02), True),
        ([0.5, 2], [0.5, 2.01], Rule(relative=1e-6, absolute=0.02), False),
        ([0.01, 10], [0.011, 10], Rule(relative=1e-6, typical=1e-3), True),
        ([np.nan, 1], [np.nan, 1], Rule(), False),
        ([np.nan, 1], [np.nan, 1], Rule(nan=True), True),
        ([np.nan, 1], [2, 1], Rule(nan=True, relative=1), False),
        ([1, 1], [np.nan, 1], Rule(nan=True, relative=1), False),
        ([np.inf, 1], [np.inf, 1], Rule(), True),
        ([np.inf, 1], [-np.inf, 1], Rule(nan=True, relative=1), False),
        ([np.inf, 1], [3e38, 1], Rule(relative=1), False),
        ([1, 1], [np.inf, 1], Rule(relative=1), False),
    ],
)
def test_thresholds(want, got, rule, ok):
    result = judged(want, got, rule)
    assert result.ok is ok
    assert bool(result.message) is not ok


def test_integers_may_be_a_step_off_where_something_was_rounded():
    assert judged([4, 5], [5, 5], Rule(steps=1), data_type="s8").ok
    assert not judged([4, 5], [6, 5], Rule(steps=1), data_type="s8").ok
    assert not judged([4, 5], [5, 5], Rule(), data_type="s8").ok


def test_the_expected_number_is_rounded_to_the_type():
    assert judged([1 + 2**-12], [1], Rule(), data_type="f16").ok
    assert judged([1e6], [np.inf], Rule(), data_type="f16").ok


def test_spread_widens_what_is_allowed():
    want = np.linspace(1, 2, 100)
    got = want + 1e-3
    assert not judged(want, got, Rule(relative=1e-5)).ok
    assert judged(want, got, Rule(relative=1e-5), spread=np.full(100, 1e-3)).ok
    assert not judged(want, want + 0.1, Rule(relative=1e-5), spread=np.full(100, 1e-3)).ok


def test_a_few_outliers_of_many_pass_if_they_are_near():
    want = np.ones(10_000)
    near, far, many = want.copy(), want.copy(), want.copy()
    near[:5] += 5e-4
    far[0] += 0.2
    many[:100] += 5e-4
    rule = Rule(relative=1e-4)
    assert judged(want, near, rule).ok
    assert judged(want, near, rule).wrong == 5
    assert not judged(want, far, rule).ok
    assert not judged(want, many, rule).ok
    assert not judged(want, near, Rule()).ok


R = 2.0**-10
"""A threshold whose multiples f32 tells apart."""
ROOT_MEAN_SQUARE = math.sqrt(12.5)
"""Of 3 and 4."""


@pytest.mark.parametrize(
    ("want", "rule", "allowed"),
    [
        ([1.0], Rule(relative=R), R),
        ([-4.0], Rule(relative=R), 4 * R),
        ([1.1e-5], Rule(relative=R), 1.1e-5 * R),
        ([0.9e-5], Rule(relative=R), R),
        ([0.0], Rule(relative=R), R),
        ([0.0], Rule(relative=1e-9), 2.0**-23),
        ([0.9e-5], Rule(relative=1e-9), 2.0**-23),
        ([0.999], Rule(relative=1e-6, absolute=R), R),
        ([1.0], Rule(relative=1e-6, absolute=R), 1e-6),
        ([1.0], Rule(relative=1e-6), 1e-6),
        ([3.0, 4.0], Rule(typical=R), ROOT_MEAN_SQUARE * R),
        ([3.0, 4.0], Rule(relative=R / 8, typical=R), ROOT_MEAN_SQUARE * R),
        ([3.0, 4.0], Rule(relative=2 * R, typical=R), 6 * R),
        ([np.inf, 3.0, 4.0], Rule(typical=R), ROOT_MEAN_SQUARE * R),
    ],
    ids=str,
)
def test_errors_just_above_each_threshold(want, rule, allowed):
    """An element may be off by what is allowed, and not by a little more."""
    place = int(np.isinf(want[0]))
    for share, ok in ((0.97, True), (1.03, False)):
        for sign in (1, -1):
            got = np.array(want, np.float64)
            got[place] += sign * share * allowed
            expected = Expected(np.asarray(want, np.float64), None, False)
            assert compare(0, og.DataType.f64, expected, got, rule).ok is ok


def test_the_spread_that_is_allowed_is_eight_times_the_usual_one():
    want, spread = np.ones(100), np.full(100, R)
    for factor, ok in ((7.9, True), (8.1, False)):
        got = want.copy()
        got[7] += factor * R
        assert judged(want, got, Rule(), spread=spread).ok is ok
    spread[7] = 4 * R
    usual = math.sqrt((99 + 16) / 100)
    for place, factor, ok in ((7, 31.5, True), (7, 32.5, False), (8, 8 * usual - 0.1, True), (8, 8.8, False)):
        got = want.copy()
        got[place] += factor * R
        assert judged(want, got, Rule(), spread=spread).ok is ok


@pytest.mark.parametrize(
    ("count", "off", "ok"),
    [
        (4, 15.5, True),
        (5, 15.5, False),
        (4, 16.5, False),
        (1, 16.5, False),
        (5, 0.9, True),
        (4096, 0.9, True),
    ],
)
def test_how_many_outliers_there_may_be_and_how_far_off(count, off, ok):
    """One of 1024, by sixteen times what is allowed."""
    want = np.ones(4096)
    got = want.copy()
    got[:count] += off * R
    assert judged(want, got, Rule(relative=R)).ok is ok
    assert not judged(want, got, Rule()).ok


@pytest.mark.parametrize(("off", "ok"), [(0.094, True), (0.098, False)])
def test_outliers_together_must_be_small(off, ok):
    """The norm of the difference is 2 · off, and that of what is expected 64, of which 3 in 1000 may be."""
    want = np.ones(4096)
    got = want.copy()
    got[:4] += off
    assert judged(want, got, Rule(relative=2.0**-6)).ok is ok


@pytest.mark.parametrize(
    ("kind", "data_type", "position", "size"),
    [
        ("ReLU", "f32", 0, 4e-6), ("Exp", "f32", 0, 4e-6), ("GELU", "f32", 0, 4e-5), ("Tanh", "f32", 0, 4e-5),
        ("SoftPlusBackward", "f32", 0, 4e-5), ("SigmoidBackward", "f32", 0, 4e-6), ("GELU", "bf16", 0, 2.0**-7),
        ("GELU", "f16", 0, 2.0**-10), ("SoftMax", "f32", 0, 10 * 2.0**-23), ("SoftMax", "bf16", 0, 2.0**-7),
        ("LogSoftmax", "f32", 0, 50 * 2.0**-23), ("LogSoftmax", "f16", 0, 5 * 2.0**-10),
        ("SoftMaxBackward", "f32", 0, 40 * 2.0**-23), ("LogSoftmaxBackward", "bf16", 0, 20 * 2.0**-7),
        ("SoftMax", "f32", 1, 4e-5), ("LayerNorm", "f32", 0, 6e-7), ("LayerNorm", "bf16", 0, 2.0**16 * 6e-7),
        ("LayerNorm", "f16", 0, 2.0**13 * 6e-7), ("LayerNorm", "f32", 1, 5e-6), ("ReduceSum", "f32", 0, 2.0**-23),
        ("ReduceMean", "f16", 0, 2.0**-10), ("ReduceL1", "f32", 0, 5 * 2.0**-23), ("ReduceL2", "bf16", 0, 5 * 2.0**-7),
        ("AvgPool", "f32", 0, 10 * 2.0**-23), ("MaxPool", "f32", 0, 2.0**-23),
        ("AvgPoolBackward", "f32", 0, 10 * 2.0**-23),
        ("Interpolate", "f32", 0, 7 * 2.0**-23), ("PReLU", "f32", 0, 2 * 2.0**-23), ("MatMul", "f32", 0, 1e-5),
        ("MatMul", "bf16", 0, 2.0**-7), ("Convolution", "f32", 0, 1e-5), ("Add", "f32", 0, 2.0**-23),
        ("Divide", "f16", 0, 2.0**-10),
    ],
)  # fmt: skip
def test_the_threshold_of_each_kind(kind, data_type, position, size):
    op = EXAMPLES[kind][0].op(outputs=EXAMPLES[kind][0].outputs)
    assert threshold(op, position, og.DataType(data_type)) == pytest.approx(size, rel=1e-12)


def test_statistics_of_large_batches_may_be_off_by_more():
    """Sums over more than 4096 elements, by the root of their number."""
    x = og.LogicalTensor(0, "f32", (64, 256, 4))
    vectors = [og.LogicalTensor(i, "f32", (4,)) for i in range(1, 3)]
    outputs = [
        og.LogicalTensor(10, "f32", x.shape),
        *(og.LogicalTensor(i, "f32", (4,)) for i in range(11, 15)),
    ]
    op = og.Op(0, "BatchNormForwardTraining", [x, *vectors], outputs, epsilon=0.1)
    assert threshold(op, 0, og.DataType.f32) == pytest.approx(6e-7)
    assert threshold(op, 1, og.DataType.f32) == pytest.approx(5e-6 * 128 / 64)


def test_zeros_are_mistrusted():
    zeros = np.zeros(100)
    assert judged(zeros, zeros, Rule(zeros=90)).mistrusted
    assert not judged(zeros, zeros, Rule()).mistrusted
    assert not judged(zeros[:5], zeros[:5], Rule(zeros=90)).mistrusted


def test_shapes_must_agree():
    assert "has shape [2], expected [3]" in judged([1, 2, 3], [1, 2], Rule()).message


# --- the reference --------------------------------------------------------------------------------------


def test_the_reference_keeps_more_digits_than_the_types(tmp_path):
    text = text_of(
        {0: ("bf16", [64]), 1: ("bf16", [64]), 2: ("bf16", [64])},
        ("Exp", [0], [1], {}),
        ("Sqrt", [1], [2], {}),
    )
    graph, arrays = filled(text, tmp_path)
    expected = reference(graph, arrays, [1, 2])
    exact = np.exp(arrays[0].astype(float))
    assert expected[1].value == pytest.approx(exact, rel=1e-14)
    assert expected[2].value == pytest.approx(np.sqrt(exact), rel=1e-14)
    assert not expected[2].exact
    assert 0 < np.median(expected[2].spread / np.sqrt(exact)) < 2**-8


def test_casts_and_quantization_round_in_the_reference(tmp_path):
    graph, _ = filled(CASES["cast"], tmp_path)
    expected = reference(graph, {0: np.full(64, 1 + 2**-9, np.float32)}, [1])[1]
    assert np.array_equal(expected.value, np.ones(64))
    graph, arrays = filled(CASES["quantize"], tmp_path)
    assert reference(graph, arrays, [1])[1].value.dtype == np.int8


@pytest.mark.parametrize(
    ("data_type", "factor", "exact"),
    [
        ("f32", 1.0, True),
        ("f32", 1 + 2**-23, False),
        ("f32", np.inf, False),
        ("bf16", 1.0, True),
        ("bf16", 129.0, False),
    ],
)
def test_only_sums_without_rounding_are_exact(tmp_path, data_type, factor, exact):
    graph, arrays = filled(one("MatMul", [[4, 4], [4, 4]], [[4, 4]], data_type), tmp_path)
    arrays = {0: np.full_like(arrays[0], 3), 1: np.full_like(arrays[1], factor)}
    arrays[1][0, 0] = 1
    assert reference(graph, arrays, [2])[2].exact is exact


# --- outcomes, lines, exit codes ------------------------------------------------------------------------


def test_lines_and_summary(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(conv(), encoding="utf-8")
    bad.write_text(conv(strides=[0, 1]), encoding="utf-8")
    lines = []
    assert check([f"--corpus={tmp_path}", "--mb=1,2", "good.json"], lines.append) == 0
    assert [line.split(" (")[0] for line in lines[:2]] == ["0:PASSED", "1:PASSED"]
    assert lines[1].endswith("__REPRO: --mb=2 --case=good.json")
    assert lines[2] == "tests:2 passed:2 skipped:0 failed:0"
    lines.clear()
    assert check([str(good), str(bad), str(good)], lines.append) == 1
    assert lines[1].startswith("1:FAILED")
    assert "AttributeValueError" in lines[1]
    assert "'strides'" in lines[1]
    assert lines[-1] == "tests:3 passed:2 skipped:0 failed:1"


def test_verbose_shows_each_tensor(tmp_path):
    (tmp_path / "g.json").write_text(CHAIN, encoding="utf-8")
    lines = []
    check(["-v", str(tmp_path / "g.json")], lines.append)
    assert [line.split(":")[0].strip() for line in lines[1:-1]] == ["tensor 2", "tensor 4", "tensor 5"]


def test_the_number_of_partitions_is_told_and_no_failure(tmp_path):
    outcomes = run(CHAIN, tmp_path, "--expected-n-partitions=0,7")
    assert [o.state for o in outcomes] == [State.passed, State.passed]
    assert "expects" not in outcomes[0].line
    assert f"partitions {outcomes[1].partitions}, benchdnn expects 7" in outcomes[1].line


def test_what_does_not_fit_into_memory_is_skipped(tmp_path):
    (outcome,) = run(one("Add", [[1], [1]], [[1]]), tmp_path, "--in-shapes=0:1000000x1+1:1x1000000")
    assert outcome.state is State.skipped
    assert "GiB" in outcome.reason


def test_an_outcome_is_one_line():
    case = Case(path="x.json", file=Path("x.json"))
    outcome = Outcome(case=case, state=State.failed, reason="why", seconds=0.0125)
    assert outcome.line == "FAILED (12 ms; why) __REPRO: --case=x.json"


@pytest.fixture
def cli():
    testing = pytest.importorskip("typer.testing")
    from onednn_graph.tools.cli import app

    return lambda *arguments: testing.CliRunner().invoke(app, [*arguments])


def test_the_command_passes_its_arguments_on(cli, tmp_path):
    (tmp_path / "g.json").write_text(conv(), encoding="utf-8")
    result = cli(
        "check",
        "--in-shapes=0:1x8x9x9",
        f"--case={tmp_path / 'g.json'}",
        "--reset",
        "-v1",
        str(tmp_path / "g.json"),
    )
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "tests:2 passed:2 skipped:0 failed:0"
    assert f"__REPRO: --in-shapes=0:1x8x9x9 --case={tmp_path / 'g.json'}" in result.output


def test_exit_codes(cli, tmp_path):
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    assert cli("check", str(tmp_path / "bad.json")).exit_code == 1
    result = cli("check", "--in-shape=0:1", str(tmp_path / "bad.json"))
    assert result.exit_code == 2
    assert "did you mean 'in-shapes'" in result.output


def test_help_has_examples(cli):
    assert "check" in cli("--help").output
    help_text = cli("check", "--help").output
    assert "--in-shapes=ID:SHAPE" in help_text
    assert "onednn-graph check --mb=1,8 --dt=bf16 conv.json" in help_text


# --- real graphs ----------------------------------------------------------------------------------------


def elements(case):
    document = rewrite(load(case.file), case)
    sizes = {t.id: math.prod(t.shape) for op in document.ops for t in (*op.inputs, *op.outputs)}
    return sum(sizes.values())


def failures(cases):
    """Lines of what failed, of the cases that are small enough to be run here; all are rewritten."""
    outcomes = [run_case(case) for case in cases if elements(case) <= LARGEST]
    assert outcomes
    return [o.line for o in outcomes if o.state is State.failed]


@pytest.fixture(scope="module")
def graphs(corpus):
    folder = corpus / "benchdnn_graph"
    if not folder.is_dir():
        pytest.skip("the corpus of graphs is not here")
    return folder


@pytest.mark.parametrize("part", ["op", "pattern", "complex_fusion"])
def test_the_graphs_of_the_corpus_pass(graphs, part):
    files = sorted((graphs / part).rglob("*.json"))
    assert failures(parse([str(file) for file in files]).cases) == []


def test_the_runs_of_the_corpus_pass(graphs):
    assert failures(parse([f"--batch={graphs / 'harness_ci'}"]).cases) == []


def test_settings_behind_the_last_file_are_an_error(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(og.ArgumentError, match=r"--mb=2 --dt=bf16 stands behind the last file"):
        parse([str(tmp_path / "a.json"), "--mb=2", "--dt=bf16"])
    parse(["--mb=2", str(tmp_path / "a.json"), "--reset"])
