"""`onednn-graph check`: outcomes, lines, exit codes, and real graphs."""

from pathlib import Path

import onednn_graph as og
import pytest
from check_documents import CHAIN, conv, one, run
from onednn_graph.tools.benchdnn.cases import Case
from onednn_graph.tools.benchdnn.check import Outcome, State, check, run_case
from onednn_graph.tools.benchdnn.options import parse
from support.reduced_cases import LARGEST, elements, has_strides, reduced

# --- outcomes, lines, exit codes ----------------------------------------------------------------------


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


# --- real graphs --------------------------------------------------------------------------------------


def failures(cases):
    """Lines of what failed."""
    return [o.line for o in map(run_case, cases) if o.state is State.failed]


@pytest.fixture(scope="module")
def graphs(corpus):
    folder = corpus / "benchdnn_graph"
    if not folder.is_dir():
        pytest.skip("the corpus of graphs is not here")
    return folder


@pytest.mark.parametrize("part", ["op", "pattern", "complex_fusion"])
def test_the_graphs_of_the_corpus_pass(graphs, part):
    files = sorted((graphs / part).rglob("*.json"))
    assert files
    assert failures(map(reduced, parse([str(file) for file in files]).cases)) == []


@pytest.mark.parametrize("down", [("gated-mlp-f16-f32", 15, 16), ("gated-mlp-gelu-f16-f32", 13, 14)])
@pytest.mark.parametrize("halves", ["bf16", "f16"])
def test_what_comes_before_the_last_product_of_a_gated_mlp_is_rounded(graphs, down, halves):
    name, last, result = down
    types = "+".join(f"{tensor}:{halves}" for tensor in (0, 1, 4, last - 1, last, result))
    file = graphs / "complex_fusion" / "mlp" / f"{name}.json"
    shapes = f"0:1x256+1:256x512+4:256x512+{last}:512x256"
    (case,) = parse([f"--in-shapes={shapes}", f"--dt={types}", str(file)]).cases
    assert failures([case]) == []


def test_the_runs_of_the_corpus_pass(graphs):
    cases = parse([f"--batch={graphs / 'harness_ci'}"]).cases
    small = [reduced(case) for case in cases if elements(case) <= LARGEST or not has_strides(case)]
    assert len(small) > 0.9 * len(cases)
    assert failures(small) == []


def test_settings_behind_the_last_file_are_an_error(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(og.ArgumentError, match=r"--mb=2 --dt=bf16 stands behind the last file"):
        parse([str(tmp_path / "a.json"), "--mb=2", "--dt=bf16"])
    parse(["--mb=2", str(tmp_path / "a.json"), "--reset"])
