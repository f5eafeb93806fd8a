"""Plans for CPUs that are not here: the library is told of instruction sets that it then describes kernels for.

What a library finds out about the CPU is one word of bits in its memory. In a child process that word is looked for
and given more bits, until the library itself names the instruction set that is wanted. Kernels can then be described,
and code for them generated, and nothing may run: so verification is off there too. AMX can't be had so, for which the
library asks the system.
"""

import ctypes
import importlib
import os
import sys
from pathlib import Path

import processes
import pytest

AT_LEAST = (*range(3, 10), 12, 14, 15, 20, 21, 22, 33)
"""Bits that are set on every CPU with AVX2: SSE to SSE4.2, POPCNT, OSXSAVE, AVX, FMA, AVX2, BMI1, BMI2, F16C."""
AVX512_CORE = (35, 36, 41, 42)
"""F, DQ, BW, VL."""
BITS = {
    "avx2": (),
    "avx512_core": AVX512_CORE,
    "avx512_core_vnni": (*AVX512_CORE, 54),
    "avx512_core_bf16": (*AVX512_CORE, 54, 57),
    "avx512_core_fp16": (*AVX512_CORE, 54, 57, 62, 11),
}
"""Instruction set, as the library names it → bits that it takes beside those."""
LACKS = "this library can't be told of another CPU"
BEGIN = """
import json, sys
import numpy as np
import onednn_graph as og
from described_cpu import describe

describe(sys.argv[1])
"""


def described(isa, code):
    """What a program prints as JSON where the library describes kernels for an instruction set; it may run nothing.

    Skips the test where the library can't be told.
    """
    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper(), "PYTHONPATH": search}
    try:
        return processes.printed(BEGIN + code, isa, env=environment)
    except AssertionError as error:
        if LACKS in str(error):
            pytest.skip(f"{LACKS} with {isa}")
        raise


def describe(isa):
    """From now on the library describes kernels for an instruction set, in this process, which can run none of them."""
    from onednn_graph.backends.onednn.library.loading import load

    importlib.import_module(
        "onednn_graph.backends.onednn.backend"
    )  # with all whose names are given other meanings
    for module in [module for name, module in sys.modules.items() if name.startswith("onednn_graph.")]:
        if hasattr(module, "is_proven"):
            module.is_proven = lambda *_: True  # what is in doubt would be run
    library = load()
    if library.effective_isa == isa:
        return
    wanted = sum(1 << bit for bit in BITS[isa])
    for word in _words_of_the_cpu(library.path):
        before = word.value
        word.value = before | wanted
        if library.effective_isa == isa:
            return
        word.value = before
    sys.exit(LACKS)


def _words_of_the_cpu(path):
    """Words in the library's own memory that look like the CPU's bits."""
    least = sum(1 << bit for bit in AT_LEAST)
    lines = Path("/proc/self/maps").read_text().splitlines()
    own = [number for number, line in enumerate(lines) if line.endswith(str(path))]
    for line in lines[own[0] : own[-1] + 2]:  # what is zero at first lies behind the file's parts
        span, access, _, _, _, *name = line.split()
        if not access.startswith("rw") or (name and name != [str(path)]):
            continue
        begin, end = (int(text, 16) for text in span.split("-"))
        for number, word in enumerate((ctypes.c_uint64 * ((end - begin) // 8)).from_address(begin)):
            if word & least == least:
                yield ctypes.c_uint64.from_address(begin + 8 * number)
