"""Ranks that are lost, as `rank_programs` has those that go on: rank 1 is, and the others must not wait for it."""

import ctypes
import os
import signal
import subprocess
import time

import numpy as np
from rank_programs import main

LOST = 1


def working(comm, end, steps=3):
    """What ranks do all day; the one that is lost ends after the first step."""
    for step in range(steps):
        comm.meet("a step", step)
        if step == 0 and comm.rank == LOST:
            end()
    return {"ok": np.array(1)}


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def is_killed(comm):
    return working(comm, kill)


def is_stopped(comm):
    return working(comm, stop)


def exits(comm):
    return working(comm, lambda: os._exit(0))


def raises(comm):
    def end():
        raise ValueError("the data ends")

    return working(comm, end)


def sleeps(comm):
    return working(comm, lambda: time.sleep(60))


def is_killed_while_others_are_busy(comm):
    comm.meet("a step")
    if comm.rank == LOST:
        kill()
    time.sleep(60)
    return {}


def is_killed_at_the_end(comm):
    comm.meet("a step")
    if comm.rank == LOST:
        time.sleep(1)
        kill()
    return {}


def is_silent(comm):
    """It keeps all other threads from running."""
    return working(comm, lambda: ctypes.PyDLL(None).sleep(5))


def all_are_stopped(comm):
    """As a machine is that is suspended."""
    own = str(os.getpid())
    subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -STOP {own}; sleep 5; kill -CONT {own}"])
    return working(comm, lambda: time.sleep(1))


OPTIONS = {
    **{key: {"lost_after": 2} for key in ["is_stopped", "is_silent", "all_are_stopped"]},
    "sleeps": {"timeout": 2},
}

if __name__ == "__main__":
    main(globals(), OPTIONS)
