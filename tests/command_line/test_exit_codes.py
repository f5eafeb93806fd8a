"""Exit codes of all commands, for whatever can be wrong with a command line and its files: 2, in one line."""

import re
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

import typer
from onednn_graph.tools.cli import app
from onednn_graph.tools.ending import Exit
from typer.testing import CliRunner

READS = {
    "bench": ["bench", "FILE", "--seconds", "0.01", "--no-peak"],
    "check": ["check", "FILE"],
    "check, a batch": ["check", "--batch=FILE"],
    "compare": ["compare", "FILE", "--seconds", "0.01"],
    "compile": ["compile", "FILE", "-o", "OUT.ogc"],
    "convert": ["convert", "FILE", "-o", "OUT.json"],
    "convert, examples": ["convert", "GRAPH", "-o", "OUT.json", "--to", "int8", "--data", "FILE"],
    "doctor": ["doctor", "FILE", "--seconds", "0"],
    "library info": ["library", "info", "FILE"],
    "library pack": ["library", "pack", "FILE", "--out", "OUT"],
    "library use": ["library", "use", "FILE"],
    "run": ["run", "FILE"],
    "run, inputs": ["run", "GRAPH", "--inputs", "FILE"],
    "show": ["show", "FILE"],
    "trust import": ["trust", "import", "FILE"],
    "tune": ["tune", "FILE", "--seconds", "0.01"],
    "view": ["view", "FILE", "--no-browse"],
}
WRITES = {
    "compile": ["compile", "GRAPH", "-o", "FILE"],
    "convert": ["convert", "GRAPH", "-o", "FILE.json"],
    "run, outputs": ["run", "GRAPH", "--outputs", "FILE"],
    "run, a trace": ["run", "GRAPH", "--trace", "FILE"],
    "show, a page": ["show", "GRAPH", "--html", "FILE"],
    "show, a picture": ["show", "GRAPH", "--dot", "FILE"],
    "trust export": ["trust", "export", "FILE"],
}
NO_FILES = {"info", "library list", "ops", "trust clear", "trust list"}
BAD = {
    "nowhere.json": None,
    "a folder": None,
    "x" * 300: None,
    "graph.json/inside": None,
    "empty.json": b"",
    "empty.onnx": b"",
    "garbage.json": b"{not json",
    "garbage.onnx": bytes(range(256)) * 8,
    "garbage.npz": b"PK\x03\x04\x01 no archive",
    "letters.json": b'{"a": "\xff\xfe"}',
    "graph.txt": b"hello",
}
"""Name → what is in it; None for what can't be read at all."""
FAILS_AS_A_GRAPH = {"check"}
"""Commands that go on with their other files, as benchdnn does."""
SAYS_NOTHING_OF_ITS_OWN = {("check, a batch", "empty.json"), ("check, a batch", "empty.onnx")}
"""A batch of no cases is one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    graph = og.Graph()
    graph.relu(graph.matmul(graph.input("x", "f32", [2, 4]), graph.input("w", "f32", [4, 8])), name="y")
    graph.save(made / "graph.json")
    for name, content in BAD.items():
        if content is not None:
            (made / name).write_bytes(content)
    for name in ("a folder", "a folder.json"):
        (made / name).mkdir()
    return made


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Nothing is remembered; and Netron is there, but serves nothing."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("COLUMNS", "400")


def call(arguments, folder, file="", stdin=b""):
    """The exit code, and what is said of what is wrong."""
    words = [
        a.replace("GRAPH", str(folder / "graph.json")).replace("OUT", str(folder / "out")) for a in arguments
    ]
    result = CliRunner().invoke(app, [a.replace("FILE", str(file)) for a in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output if result.exit_code == 1 else result.stderr


def names(group=None, before=""):
    """The commands, those of groups by both words."""
    for name, one in sorted((group or typer.main.get_command(app)).commands.items()):
        yield from names(one, f"{name} ") if hasattr(one, "commands") else [f"{before}{name}"]


def test_every_command_is_in_the_tables():
    known = {name.partition(",")[0] for name in (*READS, *WRITES)} | NO_FILES
    assert known == set(names())


@each("command, name", list(product(READS, BAD)))
def test_a_file_that_is_wrong(command, name, folder, monkeypatch):
    if command == "view":
        monkeypatch.setitem(sys.modules, "netron", type(sys)("netron"))
        if name in ("empty.onnx", "garbage.onnx", "garbage.npz"):  # Netron may show what we can't read
            return
    code, said = call(READS[command], folder, folder / name)
    if (command, name) in SAYS_NOTHING_OF_ITS_OWN:
        assert code == 0
        return
    unread = command in FAILS_AS_A_GRAPH and BAD[name] is not None
    assert code == (Exit.failed if unread else Exit.usage), said
    line = said.strip().splitlines()[0]
    assert unread or (line.startswith("onednn-graph: ") and said.count("\n") == 1), said
    batched = command == "check, a batch" and BAD[name] is not None
    assert Path(name).name[:100] in line or batched, line
    assert not re.search(r"Value error|Errno|Traceback|can't be written", said), said


@each("command, name", list(product(READS, ["empty", "garbage", "text"])))
def test_standard_input_that_is_wrong(command, name, folder):
    content = {"empty": b"", "garbage": bytes(range(1, 256)), "text": b"hello"}[name]
    if command == "view" or (command, name) == ("check, a batch", "empty"):
        return
    code, said = call(READS[command], folder, "-", content)
    assert code == (Exit.failed if command in FAILS_AS_A_GRAPH else Exit.usage), said
    assert not re.search(r"Value error|Errno|Traceback", said), said


@each("command, name", list(product(WRITES, ["nowhere/x", "a folder", "graph.json/inside", "x" * 300])))
def test_a_place_that_nothing_can_be_written_to(command, name, folder):
    code, said = call(WRITES[command], folder, folder / name)
    assert code == Exit.usage, said
    line = said.strip().splitlines()[-1]
    assert line.startswith("onednn-graph: "), said
    assert name[:100] in line
    assert re.search("can't be written", line), said
    assert not re.search(r"Value error|Errno|Traceback|\.onednn_graph-", said), said


@each("command", [*READS, *WRITES, *NO_FILES])
def test_an_option_that_there_is_not(command, folder):
    line = [*(READS | WRITES).get(command, command.split(" ")), "--nonsense"]
    code, said = call(line, folder, folder / "graph.json")
    assert code == Exit.usage
    assert "--nonsense" in said or command == "check, a batch"  # whose file is read first


@each(
    "arguments, said",
    [
        (
            ["shwo"],
            "there is no command 'shwo' (did you mean 'show'?); there are bench, check, compare, compile, ",
        ),
        (["foo"], "there is no command 'foo'; there are bench, check, compare, compile, convert, doctor, "),
        (["trust", "lst"], "there is no command 'lst' (did you mean 'list'?); there are "),
        (["library", "used"], "there is no command 'used' (did you mean 'use'?); there are "),
        (["show", "--jsn", "GRAPH"], "--json"),
        (["check", "--jsn", "GRAPH"], "did you mean 'json'?"),
        *(
            (
                [*words, "--threads", "2"],
                "--threads N stands before the command: onednn-graph --threads 4 run",
            )
            for words in (
                ["show", "GRAPH"],
                ["run", "GRAPH"],
                ["info"],
                ["trust", "list"],
                ["library", "list"],
            )
        ),
        (
            ["check", "--threads=2", "GRAPH"],
            "--threads N stands before the command: onednn-graph --threads 4 check",
        ),
        (["check", "--threads", "2", "GRAPH"], "--threads N stands before the command"),
    ],
)
def test_what_is_nearly_right_is_told(arguments, said, folder):
    code, told = call(arguments, folder)
    assert code == Exit.usage
    assert said in " ".join(told.split())
    assert told.count("stands before") <= 1


@each(
    "command",
    [
        name
        for name, line in READS.items()
        if line[1] == "FILE" and line[0] not in ("view", "doctor", "check")
    ],
)
def test_a_folder_and_an_empty_file_are_told_of(command, folder):
    for file, stdin, said in (
        (folder / "a folder", b"", "it is a folder; name a graph's file in it"),
        (folder / "empty.json", b"", "is empty; give a graph, oneDNN Graph's JSON or an ONNX model"),
        ("-", b" \n", "standard input: is empty; give a graph"),
    ):
        code, told = call(READS[command], folder, file, stdin)
        assert code == Exit.usage
        assert said in told


@each("command", ["show", "run", "compare", "convert", "compile"])
def test_a_file_that_is_missing_may_be_standard_input(command, folder):
    code, told = call([command], folder)
    assert code == Exit.usage
    assert "Give a file, or - for standard input" in told


@each("command", ["show", "run", "compile", "convert", "bench", "tune", "compare"])
def test_weights_that_a_pipe_does_not_bring_are_told_of(command, folder):
    """They lie beside the file, and are taken where that is named."""
    pytest.importorskip("safetensors")
    graph = og.Graph()
    w, b = (graph.constant(np.full(s, 3, np.float32), name=n) for n, s in (("w", [4, 8]), ("b", [8])))
    graph.matmul(graph.input("x", "f32", [2, 4]), w, b, name="y")
    graph.save(folder / "whole.json", weights=True)
    line, told = READS[command], "'w' and 1 more have no values; weights in a .safetensors file beside it"
    for file, stdin in ((folder / "whole.json", b""), ("-", (folder / "whole.json").read_bytes())):
        words = [a.replace("FILE", str(file)).replace("OUT", str(folder / "out")) for a in line]
        result = CliRunner().invoke(app, words, input=stdin)
        assert result.exit_code == 0, result.output
        assert (told in result.stderr) == (file == "-"), result.stderr
    alone = og.Graph()
    alone.relu(alone.input("x", "f32", [2]), name="y")
    alone.save(folder / "alone.json")
    assert "no values" not in call(["show", "-"], folder, stdin=(folder / "alone.json").read_bytes())[1]


def choices(group=None, before=()):
    """The words of every command, and its options that take one of some words."""
    for name, one in sorted((group or typer.main.get_command(app)).commands.items()):
        if hasattr(one, "commands"):
            yield from choices(one, (*before, name))
            continue
        for parameter in one.params:
            if (parameter.metavar or "").startswith("[") and "|" in parameter.metavar:
                yield (*before, name), max(parameter.opts, key=len)


@each("words, option", list(choices()))
def test_a_word_that_is_no_choice(words, option, folder):
    code, said = call([*words, "GRAPH", option, "cuda"], folder)
    assert code == Exit.usage
    assert re.search(rf"'{option}': must be one of [a-z0-9-]+(, [a-z0-9-]+)+, got 'cuda'", said), said


def test_choices_are_found():
    found = list(choices())
    assert (("convert",), "--to") in found
    assert (("run",), "--backend") in found


@each(
    "arguments, said",
    [
        (["check", "--backend", "numpy", "GRAPH"], "--backend takes its value behind =, as --backend=numpy"),
        (["check", "--seed", "3", "GRAPH"], "--seed takes its value behind =, as --seed=7"),
        (["check", "--backend=cuda", "GRAPH"], "--backend must be one of onednn, numpy, native, got 'cuda'"),
        (["check", "--backend=cuda"], "--backend must be one of onednn, numpy, native, got 'cuda'"),
        (["check", "--json"], "check takes a FILE"),
        (["check", "--seed=3"], "check takes a FILE"),
        (["check", "--reset", "-v1"], "check takes a FILE"),
        (["check", "--mode=C", "--corpus=."], "check takes a FILE"),
        (["check"], "Missing argument"),
    ],
)
def test_options_of_check(arguments, said, folder):
    code, told = call(arguments, folder)
    assert code == Exit.usage
    assert said in told


def test_a_batch_of_no_cases_is_one(folder):
    """As long as it is named."""
    (folder / "none").write_text("# nothing yet\n")
    result = CliRunner().invoke(app, ["check", "--json", f"--batch={folder / 'none'}"])
    assert result.exit_code == 0
    assert '"cases": []' in result.stdout


@pytest.mark.parametrize("package", ["onnx", "safetensors", "netron"])
def test_a_package_that_is_not_installed(package, folder, monkeypatch):
    onnx = pytest.importorskip("onnx")
    model = folder / "model.onnx"
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 2]) for n in "xy"]
    w = onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [w])), model)
    needs = {
        "onnx": [READS[n] for n in READS if READS[n][1] == "FILE" and n not in ("doctor", "view")],
        "safetensors": [["convert", "FILE", "-o", "OUT.json"]],
        "netron": [["view", "FILE"]],
    }[package]
    monkeypatch.setitem(sys.modules, package, None)
    for arguments in needs:
        code, said = call(arguments, folder, model)
        assert code == Exit.failed, (arguments, said)
        assert f"needs the package {package}, which is not installed" in said


def test_the_guide_has_the_codes():
    page = Path(__file__).parents[2] / "docs" / "pages" / "guides" / "command-line.md"
    codes = re.findall(r"^\| (\d+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(code) for code in codes] == sorted(Exit)
