"""Trust in kernels by verdicts: what was found of each problem on this machine, and whether it may run."""
