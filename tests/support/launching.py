"""Programs of `rank_programs` and others like it, started by mpirun."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rank_programs

MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
SECONDS = 90
"""After which ranks that hang are killed, and the test fails."""


def alone():
    """Options of mpirun by which it does not end the others when a rank ends badly; None where it knows no such."""
    told = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True).stdout
    return ["-disable-auto-cleanup"] if "HYDRA" in told else None


def launch(ranks, program, folder, *, module=rank_programs, options=(), **environment):
    """Runs a program of a module on so many ranks."""
    own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    own |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    own |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    with subprocess.Popen(
        [MPIRUN, *options, "-n", str(ranks), sys.executable, module.__file__, program, str(folder)],
        env=own | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun ends the ranks
            out, err = process.communicate()
            pytest.fail(f"{program} on {ranks} ranks hangs\n{out}\n{err}")
    return process.returncode, out + err


def results(ranks, program, folder, **how):
    """What each rank of a program that works has found."""
    status, told = launch(ranks, program, folder, **how)
    assert status == 0, told
    found = []
    for rank in range(ranks):
        with np.load(folder / f"{rank}.npz") as file:
            found.append(dict(file))
    return found
