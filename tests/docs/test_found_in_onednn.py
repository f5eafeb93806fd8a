"""The page of what we found in oneDNN: of today, its lines in benchdnn's words, and its programs run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchdnn_lines import UnsaidError, line_of, tag_of
from c_programs import program_of
from found_in_onednn import PAGE, PROGRAMS, UPSTREAM, page, programs, rules, unsaid
from onednn_graph.backends.onednn.library import loading
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from primitive_problems import PrimitiveProblem
from replay import reproducers
from rows import each
from sweep import records

AGAIN = "run tests/tools/write_found_in_onednn.py"
REAL = {name: told for name, told in reproducers().items() if "unreproduced" not in told}
SAID = {name: line_of(told) for name, told in REAL.items() if name not in unsaid()}


def test_the_page_is_of_today():
    assert page() == PAGE.read_text(encoding="utf-8"), AGAIN


def test_the_programs_are_of_today(onednn):
    written = {file: file.read_text(encoding="utf-8") for file in PROGRAMS.iterdir()}
    assert programs(NativeEngine()) == written, AGAIN


def test_each_rule_is_told_with_its_end_on_each_version_and_what_shows_it():
    text = PAGE.read_text(encoding="utf-8")
    parts = dict(
        zip(
            re.findall(r'<span id="(.*)"></span>', text),
            re.split(r"<span id=.*></span>", text)[1:],
            strict=True,
        )
    )
    assert len(parts) == len(rules()) == len(reproducers())
    for name, (_, rule) in rules().items():
        anchor = name.replace("/", "-").replace("_", "-")
        (row,) = (line for line in text.splitlines() if f"(#{anchor})" in line)
        ends = [
            one["rules"].get(name, "") for one in sorted(records().values(), key=lambda one: one["version"])
        ]
        assert [cell.strip() for cell in row.split("|")][-2 - len(ends) : -2] == ends, name
        assert rule.seen in parts[anchor]
        shown = (
            "./benchdnn" in parts[anchor],
            f"{PROGRAMS.name}/" in parts[anchor],
            "Nothing shows it" in parts[anchor],
        )
        assert shown == (name in SAID, name in unsaid(), name not in REAL), name
    assert all(
        f"issues/{number}" in parts[name.replace("/", "-").replace("_", "-")]
        for name, number in UPSTREAM.items()
    )


# --- lines ------------------------------------------------------------------------------------------------

TYPES = r"(f32|bf16|f16|s8|u8|s32|s4|u4)"
TAG = r"[a-eA-E0-9]+|any"
NUMBERS = r"\d+(x\d+)*"
KNOBS = {
    "impl": r"[\w:+]+",
    "dir": "FWD_[DI]|BWD_[DW]",
    "dt": rf"{TYPES}(:{TYPES}){{0,2}}",
    "sdt": rf"{TYPES}(:{TYPES})?",
    "ddt": TYPES,
    "stag": rf"({TAG})(:({TAG}))?",
    "wtag": TAG,
    "dtag": TAG,
    "tag": rf"({TAG})(:({TAG}))?",
    "strides": rf"({NUMBERS})?(:({NUMBERS})?){{1,2}}",
    "alg": "ADD|DIV|abs|max|avg_n?p|nearest|linear|(LOG)?SOFTMAX",
    "axis": r"\d",
    "alpha": r"-?[\d.]+",
    "beta": r"-?[\d.]+",
    "attr-post-ops": rf"(relu|(add|max):{TYPES}:(common|per_oc|\d+(:({TAG}))?))(\+.*)?",
    "attr-fpmath": r"(strict|bf16|f16)(:true)?",
    "attr-scales": rf"(src|wei|dst):(common:[\d.]+|\d+(:{TYPES}(:{NUMBERS})?)?)",
    "attr-zero-points": r"(src|wei|dst):common:\d+",
}
WINDOWS = "(_i{x}N o{x}N k{x}N s{x}N p{x}N d{x}N)?"
PLACES = "".join(WINDOWS.format(x=x).replace("N", r"\d+").replace(" ", "") for x in "dhw")
PROBLEMS = {
    "conv": r"(g\d+)?mb\d+ic\d+oc\d+" + PLACES,
    "deconv": r"(g\d+)?mb\d+ic\d+oc\d+" + PLACES,
    "pool": r"mb\d+ic\d+" + PLACES,
    "resampling": r"mb\d+ic\d+(_id\d+od\d+)?(_ih\d+oh\d+)?_iw\d+ow\d+",
    "gnorm": r"g\d+mb\d+ic\d+(_id\d+)?(_ih\d+)?_iw\d+_eps[\d.]+",
    "matmul": rf"{NUMBERS}:{NUMBERS}",
    "binary": rf"{NUMBERS}:{NUMBERS}",
    "prelu": rf"{NUMBERS}:{NUMBERS}",
    "eltwise": NUMBERS,
    "reorder": NUMBERS,
    "softmax": NUMBERS,
}
"""Driver → the grammar of its problems in benchdnn's documentation, of the words that are used here."""


def read(line):
    """Driver, knobs and problem."""
    _, _, words = line.partition("./benchdnn ")
    first, *knobs, problem = words.split(" ")
    return first[2:], dict(knob[2:].split("=", 1) for knob in knobs), problem


@each("name", SAID)
def test_lines_are_in_the_words_of_benchdnn(name):
    driver, knobs, problem = read(SAID[name])
    assert re.fullmatch(
        r"(ONEDNN_MAX_CPU_ISA=\w+ )?(OMP_NUM_THREADS=\d+ )?", SAID[name].split("./benchdnn")[0]
    )
    assert re.fullmatch(PROBLEMS[driver], problem)
    assert all(re.fullmatch(KNOBS[knob], value) for knob, value in knobs.items())
    assert not {"stag", "wtag", "dtag"} <= knobs.keys() or "strides" not in knobs


@each("name", [name for name in SAID if read(SAID[name])[0] in ("conv", "deconv")])
def test_lines_of_convolutions_say_the_shapes_of_the_problem(name):
    """Read back: sizes are the problem's, and the zeros behind, which benchdnn derives of them, are, too."""
    told, (driver, _, problem) = REAL[name], read(SAID[name])
    numbers = {key: int(value) for key, value in re.findall(r"([a-z]+)(\d+)", problem)}
    tensors = {key.removeprefix("diff_"): one["shape"] for key, one in told["tensors"].items()}
    axes = [axis for axis in "dhw" if f"i{axis}" in numbers]
    groups = numbers.get("g", 1)
    assert tensors["src"] == [numbers["mb"], numbers["ic"], *(numbers[f"i{a}"] for a in axes)]
    assert tensors["dst"] == [numbers["mb"], numbers["oc"], *(numbers[f"o{a}"] for a in axes)]
    weights = [numbers["oc"] // groups, numbers["ic"] // groups, *(numbers[f"k{a}"] for a in axes)]
    assert tensors["weights"] == ([groups, *weights] if "g" in numbers else weights)
    for place, axis in enumerate(axes):
        i, o, k, s, p, d = (numbers[f"{what}{axis}"] for what in "iokspd")
        i, o = (o, i) if driver == "deconv" else (i, o)
        behind = (o - 1) * s + (k - 1) * (d + 1) + 1 - i - p
        wanted = told["pads_end"][place]
        assert (s, p, d) == (told["strides"][place], told["pads_begin"][place], told["dilates"][place])
        assert behind == wanted or 0 <= wanted - behind < s, (behind, wanted)


def test_layouts_are_tags_where_the_library_has_one():
    def tag(shape, layout):
        return tag_of({"shape": shape, "layout": layout})

    assert tag([2, 3, 4], "last") == "acb"
    assert tag([2, 3, 4], [12, 1, 3]) == "acb"
    assert tag([2, 3, 4], [13, 1, 3]) is None  # a gap
    assert tag([2, 3, 4, 5], [1, 2, 6, 24]) is None  # dcba, which the library has no name for
    assert tag([2, 16], "aB16b") == "aB16b"


def test_what_has_no_words_is_refused():
    told = REAL["matmul/long-sums"]
    for more in ({"values": {"src": [0, 99]}}, {"offset": 1}, {"pack": "jit"}):
        with pytest.raises(UnsaidError):
            line_of(told | more)
    with pytest.raises(NotImplementedError, match="c_programs.py lacks"):
        program_of("a rule", PrimitiveProblem(None, REAL["softmax_forward/integers-in-blocks"]))


# --- programs ---------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(onednn, tmp_path):
    """From the text of a program to how it ends, and what it prints."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    places = [os.environ.get("ONEDNN_INCLUDE"), Path(sys.prefix) / "include", "/usr/include"]
    headers = next((p for p in places if p and (Path(p) / "oneapi" / "dnnl" / "dnnl.h").exists()), None)
    if compiler is None or headers is None:
        pytest.skip(
            "no C compiler, or no headers of oneDNN: pip install onednn-devel-cpu-gomp or set ONEDNN_INCLUDE"
        )
    library = Path(loading.load().path)

    def run(text):
        source, program = tmp_path / "program.c", tmp_path / "program"
        source.write_text(text, encoding="utf-8")
        linked = [str(library), f"-Wl,-rpath,{library.parent}", "-lm", "-o", str(program)]
        command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{headers}", str(source), *linked]
        subprocess.run(command, check=True, timeout=120)
        own = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
        ended = subprocess.run([program], env=own, capture_output=True, text=True, timeout=120, check=False)
        return ended.returncode, ended.stdout

    return run


def test_a_program_finds_what_is_wrong(compiled):
    """Products of 8-bit integers saturate where there is no VNNI."""
    code, printed = compiled((PROGRAMS / "matmul-saturating.c").read_text(encoding="utf-8"))
    assert code == 1, printed
    assert re.search(r"\d+ of 32 elements wrong", printed)


RIGHT = {
    "matmul": REAL["matmul/saturating"] | {"values": {"src": [0, 4], "weights": [-3, 4]}},
    "convolution": REAL["convolution_forward/saturating"] | {"values": {"src": [0, 4], "weights": [-3, 4]}},
    "another layout": REAL["resampling_forward/positions-apart"] | {"post_ops": [], "implementation": ""},
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_finds_nothing_where_nothing_is_wrong(compiled, name):
    told = RIGHT[name]
    code, printed = compiled(program_of(name, PrimitiveProblem(NativeEngine(), told)))
    assert (code, printed.split(": ")[-1]) == (0, f"0 of {printed.split()[-3]} elements wrong\n")


def test_a_program_says_that_there_is_no_such_kernel(compiled):
    told = RIGHT["matmul"] | {"implementation": "of nobody"}
    code, printed = compiled(program_of("matmul", PrimitiveProblem(NativeEngine(), told)))
    assert (code, printed) == (2, "not offered: of nobody\n")


@pytest.mark.long
def test_all_programs_compile(compiled):
    for file in sorted(PROGRAMS.iterdir()):
        code, printed = compiled(file.read_text(encoding="utf-8"))
        assert code in (0, 1, 2) or code < 0, (file.name, printed)
