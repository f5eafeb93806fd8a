"""A profile of a step on several ranks shows buckets filling, exchanges beside the backward pass, and waits."""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import traced_ranks

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")
MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With what two ranks have left."""
    made = tmp_path_factory.mktemp("traces")
    surroundings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(
        [MPIRUN, "-n", "2", sys.executable, traced_ranks.__file__, str(made)],
        env=os.environ | surroundings | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"},
        check=True,
        timeout=120,
    )
    return made


def events(folder, rank):
    """Those of a trace with lengths, by kind and in order; and the names of rows by number."""
    traced = json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in traced if e["ph"] == "M"}
    found = {}
    for event in sorted((e for e in traced if e["ph"] == "X"), key=lambda e: e["ts"]):
        found.setdefault(event["cat"], []).append(event)
    return found, rows


def end(event):
    return event["ts"] + event["dur"]


def test_exchanges_lie_within_the_backward_pass(folder):
    beside = []
    for rank in range(2):
        found, _ = events(folder, rank)
        exchanges = found["exchange"]
        assert len(exchanges) == len(found["filling"]) == traced_ranks.LAYERS  # the loss goes with the first
        products = [e for e in found["primitive"] if "matmul" in e["name"].lower()]
        assert len(products) == 3 * traced_ranks.LAYERS - 1  # nothing flows back through the first layer
        first, last = products[traced_ranks.LAYERS], products[-1]
        begun = [e for e in exchanges if first["ts"] <= e["ts"] < end(last)]
        assert len(begun) >= traced_ranks.LAYERS - 1
        beside += [e for e in begun if any(e["ts"] <= work["ts"] < end(e) for work in products)]
        waits = [e for e in found["host"] if e["name"] == "HostMeanEnd"]
        assert min(e["ts"] for e in waits) >= end(last)
        assert max(map(end, exchanges)) <= max(map(end, waits))
    assert beside  # computation goes on while they are under way


def test_rows_of_a_trace_hold_no_two_events_at_once(folder):
    found, rows = events(folder, 0)
    assert {"filling", "exchange", "wait"} <= set(rows.values())
    for row in rows:
        there = [e for kind in found.values() for e in kind if e["tid"] == row]
        assert there
        for each, then in pairwise(sorted(there, key=lambda e: e["ts"])):
            assert end(each) <= then["ts"] + 1e-3


def test_a_profile_sums_exchanges_apart_from_its_partitions(folder):
    found, _ = events(folder, 1)
    told = json.loads((folder / "1.txt").read_text(encoding="utf-8"))
    assert "with other processes: " in told["told"]
    assert any("0.0164 MB of 1 tensor" in line for line in told["lines"])
    assert "Trainer.step" in told["lines"]
    sums = sum(e["dur"] for e in found["partition"])
    whole = max(map(end, found["partition"])) - min(e["ts"] for e in found["partition"])
    assert sums <= whole * 1.001
    page = (folder / "1.html").read_text(encoding="utf-8")
    assert '"names": ["' in page or '"names":["' in page
