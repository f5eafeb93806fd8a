"""`onednn-graph trust`, in processes of its own, and what `info` says of verdicts."""

import json
import os

import processes
import pytest
from onednn_graph.graph.trust.store import NAME, STORE
from onednn_graph.graph.trust.verdict import RIGHT, Kind, Verdict

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
WRONG = Verdict(Kind.wrong, "3 of 4 elements", "matmul [brg]")


def call(*arguments, code=0, stdin=b"", env=None):
    """What the command prints, or says where it ends with another code than 0."""
    done = processes.run(["-m", "onednn_graph", *arguments], input=stdin, env=env)
    assert done.returncode == code, done.stderr.decode()
    return (done.stderr if code else done.stdout).decode()


@pytest.fixture
def kept():
    STORE.put({"a" * 64: WRONG, "b" * 64: RIGHT})


def test_verdicts_are_listed(kept):
    for arguments in (["trust"], ["trust", "list"]):
        text = call(*arguments)
        for expected in ("aaaaaaaaaaaa", "matmul [brg]", "3 of 4 elements", "1 right, 1 wrong", NAME):
            assert expected in text
    assert "bbbb" not in call("trust", "list", "--bad")
    assert json.loads(call("trust", "list", "--json", "--bad")) == {
        "a" * 64: {"kind": "wrong", "seen": "3 of 4 elements", "about": "matmul [brg]"}
    }


def test_there_may_be_none():
    assert "there are no verdicts" in call("trust", "list")
    assert json.loads(call("trust", "list", "--json")) == {}
    assert json.loads(call("trust", "clear", "--json")) == {"forgotten": 0}


def test_they_are_forgotten(kept):
    assert "2 forgotten" in call("trust", "clear")
    assert json.loads(call("trust", "list", "--json")) == {}


def test_one_is_forgotten_by_the_beginning_of_its_key(kept):
    STORE.put({"ab" * 32: RIGHT})
    assert "1 forgotten" in call("trust", "clear", "bbbbbbbbbbbb")
    assert set(json.loads(call("trust", "list", "--json"))) == {"a" * 64, "ab" * 32}
    assert "2 keys begin with 'a'" in call("trust", "clear", "a", code=2)
    assert "no key begins with 'bbbb'" in call("trust", "clear", "bbbb", code=2)
    assert len(json.loads(call("trust", "list", "--json"))) == 2
    STORE.forget("ab" * 32)
    assert set(json.loads(call("trust", "list", "--json"))) == {"a" * 64}


def test_they_are_brought_along(kept, tmp_path):
    call("trust", "export", tmp_path / "v.json")
    assert call("trust", "export", "-").strip() == (tmp_path / "v.json").read_text().strip()
    call("trust", "clear")
    assert "2 imported" in call("trust", "import", tmp_path / "v.json")
    assert json.loads(call("trust", "list", "--json"))["a" * 64]["kind"] == "wrong"
    text = (tmp_path / "v.json").read_bytes()
    call("trust", "clear")
    assert json.loads(call("trust", "import", "-", "--json", stdin=text)) == {"imported": 2}


def test_what_can_be_kept_nowhere_is_not_imported(kept, tmp_path):
    text = call("trust", "export", "-").encode()
    (tmp_path / "file").touch()
    env = {**os.environ, "ONEDNN_GRAPH_CACHE": str(tmp_path / "file" / "below")}
    assert "can't be written; set ONEDNN_GRAPH_CACHE" in call(
        "trust", "import", "-", stdin=text, env=env, code=1
    )


def test_none_may_be_bad():
    STORE.put({"b" * 64: RIGHT})
    assert "none of 1 is bad" in call("trust", "list", "--bad")


def test_files_that_are_none(tmp_path):
    (tmp_path / "v.json").write_text("{}")
    assert "must be of format" in call("trust", "import", tmp_path / "v.json", code=2)
    assert "can't be read" in call("trust", "import", tmp_path / "none", code=2)
    said = call("trust", "export", tmp_path / "no" / "v.json", code=2)
    assert said.strip().endswith(f"{tmp_path / 'no' / 'v.json'} can't be written: No such file or directory")


def test_info_counts_them(kept, monkeypatch):
    monkeypatch.delenv("ONEDNN_GRAPH_VERIFY", raising=False)
    told = json.loads(call("info", "--json"))["verdicts"]
    assert told == f"{STORE.path} (1 right, 1 wrong); verification: child"
