"""`onednn-graph check`: its options and batch files."""

import onednn_graph as og
import pytest
from check_documents import conv
from onednn_graph.tools.benchdnn.cases import Case, FpmathSetting, ShapeSetting
from onednn_graph.tools.benchdnn.check import State, run_case
from onednn_graph.tools.benchdnn.options import parse


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
        (
            "--tensor-property=4:undef,4:host_scalar",
            [{"properties": {4: "undef"}}, {"properties": {4: "host_scalar"}}],
        ),
        ("--expected-n-partitions=0", [{"expected_partitions": 0}]),
        (
            "--attr-fpmath=strict,bf16:true",
            [{"fpmath": FpmathSetting("strict")}, {"fpmath": FpmathSetting("bf16", True)}],
        ),
    ],
)
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
