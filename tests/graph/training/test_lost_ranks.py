"""A rank that is lost ends the others within 30 s, which say its number; whether the launcher helps or not."""

import re
import time

import launching
import pytest
import rank_losses
from launching import launch, results

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")
SECONDS = 30
"""In which all have ended."""


LOST = {
    "is_killed": r"rank [02]: rank 1 is lost: its process has ended without a word",
    "is_stopped": r"rank [02]: rank 1 is lost: it has given no sign of life for 2 s",
    "exits": r"rank [02]: rank 1 is lost: its process has ended without a word",
    "raises": r"ValueError: the data ends\nrank 1 of 3 has failed, and ends all others",
    "sleeps": r"has waited 2 s for a step; rank 1 hangs: it came last to a step, \d s ago, .*rank_losses\.py:\d+ in",
    "is_killed_while_others_are_busy": r"rank [02]: rank 1 is lost",
    "is_killed_at_the_end": r"rank [02]: rank 1 is lost",
}


@pytest.mark.parametrize("program", LOST)
@pytest.mark.parametrize("alone", [False, True])
def test_all_end_and_say_who_is_lost(program, alone, tmp_path):
    options = launching.alone() if alone else []
    if options is None:
        pytest.skip("this mpirun always ends the others")
    begun = time.monotonic()
    status, text = launch(3, program, tmp_path, module=rank_losses, options=options)
    assert time.monotonic() - begun < SECONDS
    assert not (tmp_path / "1.npz").exists()
    if alone or ("kill" not in program and program != "exits"):  # else the launcher is as fast as the ranks
        assert status != 0
        assert re.search(LOST[program], text), text


@pytest.mark.parametrize("program", ["is_silent", "all_are_stopped"])
def test_a_rank_that_will_go_on_is_not_lost(program, tmp_path):
    assert all(found["ok"] for found in results(3, program, tmp_path, module=rank_losses))
