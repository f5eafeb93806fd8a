"""Graphs that were wrong once, as the fuzzer shrank them; each runs in a process of its own."""

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
TABLE = HERE / "found_graphs.json"
ENTRIES = json.loads(TABLE.read_text())


@lru_cache
def outcomes(isa):
    """What came of all entries of an instruction set; those without one run on what the tests run on."""
    entries = [entry for entry in ENTRIES if entry.get("isa") == isa]
    command = [sys.executable, str(HERE / "tools" / "fuzz_graphs.py"), "--replay", "-", "--results"]
    command += ["--isa", isa] if isa else []
    run = subprocess.run(
        command, input=json.dumps(entries), capture_output=True, text=True, env=dict(os.environ)
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(entries), run.stderr
    return {entry["name"]: outcome for entry, outcome in zip(entries, found, strict=True)}


@pytest.mark.no_cover
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_what_was_wrong_once_is_right(entry, onednn):
    outcome = outcomes(entry.get("isa"))[entry["name"]]
    assert outcome["status"] == "ok", f"{outcome['detail']}; {outcome['kernels']}"


def test_names_are_unique():
    names = [entry["name"] for entry in ENTRIES]
    assert len(names) == len(set(names))
