"""Columns of the table of who runs each op: what a child process finds, and the data with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from who_runs_page import ISAS


def column(isa, library=None):
    """What a child process finds with an instruction set; None where this CPU does not have it."""
    with tempfile.TemporaryDirectory() as cache:
        more = {"ONEDNN_MAX_CPU_ISA": isa.upper(), "OMP_NUM_THREADS": "2", "ONEDNN_GRAPH_CACHE": cache}
        if library:
            more["ONEDNN_GRAPH_LIBRARY"] = str(library)
        told = subprocess.run(
            [sys.executable, Path(__file__).with_name("who_runs.py")],
            env=os.environ | more,
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(told.stdout)
    return found if found["isa"] == isa else None


def with_columns(data, columns):
    """The data with these columns in the place of their like, or behind all others."""
    known = {
        tuple(name): {row: data["cells"][numbers[place]] for row, numbers in data["rows"].items()}
        for place, name in enumerate(data["columns"])
    }
    known |= {(one["version"], one["isa"]): one["rows"] for one in columns}
    names = sorted(known, key=lambda name: ([*map(int, name[0].split("."))], list(ISAS).index(name[1])))
    rows = list(columns[0]["rows"])
    ruled: dict[str, set[str]] = {kind: set(functions) for kind, functions in data["ruled"].items()}
    cells: list[dict] = []
    numbered: dict[str, list[int]] = {}
    for row in rows:
        for name in names:
            cell = dict(known[name].get(row, {"by": ""}))
            ruled.setdefault(row.split(" ")[0], set()).update(cell.pop("ruled", ()))
            if cell not in cells:
                cells.append(cell)
            numbered.setdefault(row, []).append(cells.index(cell))
    return {
        "columns": names,
        "cells": cells,
        "ruled": {kind: sorted(functions) for kind, functions in ruled.items() if functions},
        "rows": numbered,
    }


def text_of(data):
    """The file's text, a row in each line."""
    parts = []
    for name, value in data.items():
        lines = [json.dumps(one, ensure_ascii=False) for one in value]
        if isinstance(value, dict):
            lines = [f"{line}: {json.dumps(value[one])}" for line, one in zip(lines, value, strict=True)]
        brackets = "{}" if isinstance(value, dict) else "[]"
        parts.append(f' "{name}": {brackets[0]}\n  ' + ",\n  ".join(lines) + f"\n {brackets[1]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
