"""Programs of `rank_programs` and `rank_accumulation` on ranks of Gloo, started as torchrun does.

One rank is `RANK=0 … gloo_ranks.py PROGRAM FOLDER`.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import rank_accumulation
import rank_programs as programs
from onednn_graph.graph.training.gloo import gloo


def launch(ranks, program, folder, seconds=90):
    """Runs a program on so many ranks.

    Returns:
        The exit status of each rank, None for one that hangs, and what each wrote.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    environment = os.environ | {name: str(value) for name, value in own.items()}
    logs = [Path(folder) / f"{rank}.log" for rank in range(ranks)]
    started = []
    for rank, log in enumerate(logs):
        with log.open("wb") as file:
            command = [sys.executable, __file__, program, str(folder)]
            started.append(
                subprocess.Popen(command, env=environment | {"RANK": str(rank)}, stdout=file, stderr=file)
            )
    end = time.monotonic() + seconds
    found = []
    for one in started:
        try:
            found.append(one.wait(max(0.0, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
            found.append(None)
    return found, [log.read_text() for log in logs]


def results(ranks, program, folder):
    """What each rank of a program that works has found."""
    status, told = launch(ranks, program, folder)
    assert status == [0] * ranks, told
    found = []
    for rank in range(ranks):
        with np.load(folder / f"{rank}.npz") as file:
            found.append(dict(file))
    return found


def main():
    program, folder = sys.argv[1:]
    comm = gloo(**programs.OPTIONS.get(program, {}))
    made = getattr(programs if hasattr(programs, program) else rank_accumulation, program)(comm)
    np.savez(Path(folder) / f"{comm.rank}.npz", **made)


if __name__ == "__main__":
    main()
