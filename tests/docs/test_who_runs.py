"""The page of who runs each op in each type: of today, and as this machine finds it."""

import pytest
from onednn_graph.backends.onednn.library.loading import load
from strategies import has_isa
from who_runs import rows
from who_runs_columns import column, text_of, with_columns
from who_runs_page import DATA, ISAS, PAGE, page, read

AGAIN = "run tests/tools/write_who_runs.py"


def test_the_page_is_of_today():
    """With every op, and every rule that bars a kernel."""
    data = read()
    assert set(data["rows"]) == {f"{schema.kind} {data_type}" for schema, data_type in rows()}, AGAIN
    assert page(data) == PAGE.read_text(encoding="utf-8"), AGAIN
    assert text_of(data) == DATA.read_text(encoding="utf-8")


def test_columns_take_the_place_of_their_like():
    first = {"version": "3.2", "isa": "avx2", "rows": {"Abs f32": {"by": "NumPy", "ruled": ["reorder"]}}}
    data = with_columns({"columns": [], "cells": [], "ruled": {}, "rows": {}}, [first])
    assert data["ruled"] == {"Abs": ["reorder"]}
    wide = {"version": "3.2", "isa": "avx512_core", "rows": {"Abs f32": {"by": "view"}}}
    later = {"version": "3.13", "isa": "avx2", "rows": {"Abs f32": {"by": "view"}}}
    data = with_columns(data, [later, wide])
    assert data["columns"] == [("3.2", "avx2"), ("3.2", "avx512_core"), ("3.13", "avx2")]
    assert [data["cells"][number]["by"] for number in data["rows"]["Abs f32"]] == ["NumPy", "view", "view"]
    data = with_columns(data, [{**first, "rows": {"Abs f32": {"by": "view"}}}])
    assert data["rows"] == {"Abs f32": [0, 0, 0]}


@pytest.mark.parametrize("isa", ISAS)
def test_this_machine_finds_the_same(onednn, isa):
    """What runs under an instruction set that this CPU has; the last one that it has may know more of the CPU."""
    if not has_isa(isa):
        pytest.skip(f"no {isa} here")
    if load().effective_isa == isa != list(ISAS)[-1]:
        pytest.skip(f"this CPU has {isa} and no more, unlike that of the page")
    data, found = read(), column(isa)
    known = [tuple(one) for one in data["columns"]]
    if (found["version"], isa) not in known:
        pytest.skip(f"oneDNN {found['version']} is not on the page")
    place = known.index((found["version"], isa))
    for row, cell in found["rows"].items():
        cell.pop("ruled", None)
        assert data["cells"][data["rows"][row][place]] == cell, f"{row}: {AGAIN}"
