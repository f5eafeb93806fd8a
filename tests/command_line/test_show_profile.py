"""`onednn-graph show --html --profile`: the page of a graph with times."""

import json
import re

import onednn_graph as og
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have


@pytest.fixture
def file(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 4])
    graph.greater_equal(graph.relu(graph.abs(x)), graph.input("limit", "f32", [1]), name="mask")
    graph.save(tmp_path / "graph.json")
    return tmp_path / "graph.json"


def partitions(page):
    """Of the data that a page draws from."""
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S)
    return json.loads(data)["partitions"]


@pytest.mark.parametrize("backend", [[], ["--backend", "numpy"]], ids=["usual", "numpy"])
def test_a_profiled_page_has_a_time_for_each_partition(file, tmp_path, backend):
    page = tmp_path / "graph.html"
    call("show", file, "--html", page, *backend)
    assert [part["seconds"] for part in partitions(page)] == [None] * len(partitions(page))
    call("show", file, "--html", page, "--profile", *backend)
    found = partitions(page)
    assert found
    assert all(part["seconds"] > 0 for part in found)


def test_a_profile_belongs_to_a_page(file):
    assert "--profile colours a page; give --html FILE" in call("show", file, "--profile", code=2)


def test_sizes_must_be_known_for_a_run(tmp_path):
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [-1, 4]), name="y")
    graph.save(tmp_path / "open.json")
    page = tmp_path / "graph.html"
    call("show", tmp_path / "open.json", "--html", page)
    assert "--shape" in call("show", tmp_path / "open.json", "--html", page, "--profile", code=2)
    call("show", tmp_path / "open.json", "--html", page, "--profile", "--shape", "x=2x4")
    assert all(part["seconds"] > 0 for part in partitions(page))
