"""Commands called within the test's own process."""

import pytest
from onednn_graph.tools.cli import app
from typer.testing import CliRunner


def call(*arguments, code=0):
    """The command's output; it must end with that exit code."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output + result.stderr
    return result.stdout if code == 0 else result.stderr


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch, tmp_path):
    """Tables are not folded, and nothing is remembered beyond the test."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr("onednn_graph.tools.console.console.width", 400)
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "cache"))
