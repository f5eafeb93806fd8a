"""A training that is killed at any time, again and again, gives the bits of one that is not."""

import csv
import random
import signal
import subprocess
import sys
import time

import killed_fit
import numpy as np
import pytest

pytestmark = [pytest.mark.long, pytest.mark.no_cover]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_training_ends_as_one_that_was_not(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    want = killed_fit.run(whole)
    draw = random.Random(5)
    folder = tmp_path / "killed"
    folder.mkdir()
    kills = 0
    for _ in range(60):
        before = _newest(folder)
        with subprocess.Popen(
            [sys.executable, killed_fit.__file__, str(folder)], stderr=subprocess.PIPE, text=True
        ) as child:
            while child.poll() is None and _newest(folder) == before:
                time.sleep(0.001)  # it has got somewhere before it is killed
            time.sleep(draw.uniform(0, 0.05))
            if child.poll() is None and kills < 12:
                child.send_signal(draw.choice([signal.SIGKILL, signal.SIGINT]))
                kills += 1
            _, told = child.communicate(timeout=240)
        assert child.returncode in (0, 9, -signal.SIGKILL, -signal.SIGINT), told
        if child.returncode == 0:
            break
    assert kills >= 5
    with np.load(folder / "done.npz") as found:
        for name, array in want.items():
            np.testing.assert_array_equal(found[name], array)
    assert _log(folder) == _log(whole)


def _newest(folder):
    return max((path.name for path in folder.glob("kept/step*")), default="")


def _log(folder):
    with (folder / "log.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
