"""Files of trainers whose process is killed while it saves all the time, or whose disk is full."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import numpy as np
import processes
import pytest
from test_checkpoints import SAVING, feeds, trainer

pytest.importorskip("safetensors", reason="checkpoints need the extra 'weights'")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL and limits of files are POSIX's")


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.long)])
def test_a_file_is_whole_whenever_its_process_is_killed(tmp_path: Path, kills: int) -> None:
    path, rng = tmp_path / "t.safetensors", random.Random(0)
    _, first = trainer(size=200_000)
    first.save(path)
    for _ in range(kills):
        with processes.start(
            ["-c", SAVING, str(Path(__file__).parent), str(path)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0, 0.1))
            child.kill()
        first.load(path)
        assert all(np.isfinite(array).all() for array in first.evaluate(feeds(0)).values())


FULL = """
import resource, signal, sys
import onednn_graph as og
sys.path.insert(0, sys.argv[1])
from test_checkpoints import feeds, trainer
_, made = trainer(size=20_000)
made.step(feeds(0))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    made.save(sys.argv[2])
except og.GraphFileError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    _, made = trainer(size=20_000)
    made.save(path)
    before = path.read_bytes()
    assert len(before) > 200_000
    with processes.start(
        ["-c", FULL, str(Path(__file__).parent), str(path)], stdout=subprocess.PIPE
    ) as child:
        told = child.stdout.read().decode()
    assert "t.safetensors: can't be written: File too large" in told
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
    made.load(path)
