"""The words of CONTRIBUTING are the names of the code: each class that has one stands where its row says."""

import ast
import re

import pytest
from conftest import ROOT
from rows import each

FOLDERS = ("ops", "graph", "backends")
CODE = re.compile(r"`([^`]+)`")


def words():
    """Row's name → its words and its files."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Words\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    found = {}
    for names, what, where in rows:
        of_row = [*CODE.findall(names), *(one for one in CODE.findall(what) if one[0].isupper())]
        found[names] = (of_row, set(CODE.findall(where)))
    return found


def classes():
    """Name of a class → the files that define one."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).add(path.relative_to(ROOT).as_posix())
    return found


ROWS = words()


@pytest.fixture(scope="module")
def defined():
    return classes()


@each("names, files", [pytest.param(*row, id=name) for name, row in ROWS.items()])
def test_words_are_classes_where_they_are_said_to_be(names, files, defined):
    assert set().union(*(defined.get(name, {f"no class {name}"}) for name in names)) == files


def test_there_are_words():
    assert len(ROWS) > 15
