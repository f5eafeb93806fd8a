"""`onednn-graph show`: how a graph came to its partitions."""

import json

import onednn_graph as og
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have


@pytest.fixture
def file(tmp_path):
    graph = og.Graph()
    y = graph.relu(graph.matmul(graph.input("x", "f32", [4, 4]), graph.input("w", "f32", [4, 4]), name="fc"))
    graph.greater_equal(y, graph.input("limit", "f32", [1]), name="mask")
    graph.save(tmp_path / "graph.json")
    return tmp_path / "graph.json"


def test_steps_are_shown_where_they_are_asked_for(onednn, file):
    assert "matmul with post-ops" not in call("show", file)
    text = " ".join(call("show", file, "--partitioning", "--all").split())
    assert "3 steps: 2 took, 1 refused" in text
    for expected in (
        "matmul with post-ops",
        "single op",
        "no lowering of GreaterEqual",
        "it takes no GreaterEqual along",
    ):
        assert expected in text


def test_json_has_the_steps(onednn, file):
    data = json.loads(call("show", file, "--json"))
    steps = data["partitioning"]["steps"]
    assert [(step["backend"], step["pattern"], step["partition"], step["reason"]) for step in steps] == [
        ("onednn", "matmul with post-ops", 0, ""),
        ("onednn", "single op", None, "no lowering of GreaterEqual"),
        ("numpy", "single op", 1, ""),
    ]
    assert [step["ops"] for step in steps] == [
        data["partitions"][0]["ops"],
        data["partitions"][1]["ops"],
        data["partitions"][1]["ops"],
    ]
    assert ["onednn", "attention"] in data["partitioning"]["unmatched"]
    assert data["partitioning"]["policy"] == "fusion"


def test_many_ops_of_a_step_are_counted(onednn, tmp_path):
    graph = og.Graph()
    y = graph.matmul(graph.input("x", "f32", [4, 4]), graph.input("w", "f32", [4, 4]))
    for _ in range(9):
        y = graph.relu(y)
    graph.save(tmp_path / "graph.json")
    assert "4 more" in " ".join(call("show", tmp_path / "graph.json", "--partitioning").split())
    assert "4 more" not in call("show", tmp_path / "graph.json", "--partitioning", "--all")
