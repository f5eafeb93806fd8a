"""Environment variables that change what runs here, for reports of problems."""

from __future__ import annotations

import os

VARIABLES: dict[str, str] = {
    "GOMP_CPU_AFFINITY": "the CPUs that OpenMP's threads are bound to",
    "GOMP_SPINCOUNT": "how long OpenMP's threads wait busily",
    "OMP_DYNAMIC": "whether OpenMP may take fewer threads",
    "OMP_NUM_THREADS": "how many threads kernels use, where nothing else says it",
    "OMP_PLACES": "the places that OpenMP's threads are bound to",
    "OMP_PROC_BIND": "whether OpenMP's threads stay on their CPUs",
    "OMP_THREAD_LIMIT": "the most threads that OpenMP has",
    "OMP_WAIT_POLICY": "whether OpenMP's threads wait busily",
    "ONEDNN_CPU_ISA_HINTS": "what the library prefers among instruction sets",
    "ONEDNN_DEFAULT_FPMATH_MODE": "how far the library may lower f32 where a graph says nothing",
    "ONEDNN_GRAPH_CACHE": "the folder of measured times",
    "ONEDNN_GRAPH_DUMP": "whether the library writes graphs of the backend native to files",
    "ONEDNN_GRAPH_MACHINE_CODE": "0 where no machine code of ours may be placed",
    "ONEDNN_JIT_DUMP": "whether the library writes its generated code to files",
    "ONEDNN_JIT_PROFILE": "what profilers are told of generated code",
    "ONEDNN_MAX_CPU_ISA": "the newest instruction set that the library uses; read when it loads",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "how many primitives the library keeps",
    "ONEDNN_VERBOSE": "what the library prints of its work",
}
"""Those that matter, each with what it says. Older spellings begin with DNNL_."""
_PREFIXES = ("ONEDNN_", "DNNL_", "OMP_", "GOMP_", "KMP_")


def environment() -> dict[str, str]:
    """What the process has of the library's, OpenMP's and our own variables, by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)}
