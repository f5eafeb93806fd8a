"""Kinds of machine, of which each has a page of results."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen
from onednn_graph.backends.onednn.library.cpu import CPUINFO, cpu_family, cpu_name

PAGES = Path(__file__).with_name("results")


@frozen
class Kind:
    """A kind of machine.

    Attributes:
        name: as people say it.
        family: vendor and family, as the system says them.
        models: of that family, as numbers.
    """

    name: str
    family: str
    models: range


KINDS = (
    Kind("AMD Zen 5", "AuthenticAMD 26", range(256)),
    Kind("AMD Zen 4", "AuthenticAMD 25", range(0x10, 0x20)),
    Kind("AMD Zen 4", "AuthenticAMD 25", range(0x60, 0xB0)),
    Kind("AMD Zen 3", "AuthenticAMD 25", range(256)),
    Kind("AMD Zen 2", "AuthenticAMD 23", range(0x30, 256)),
    Kind("Intel Sapphire Rapids", "GenuineIntel 6", range(0x8F, 0x90)),
    Kind("Intel Emerald Rapids", "GenuineIntel 6", range(0xCF, 0xD0)),
    Kind("Intel Granite Rapids", "GenuineIntel 6", range(0xAD, 0xAF)),
    Kind("Intel Ice Lake", "GenuineIntel 6", range(0x6A, 0x6D)),
    Kind("Intel Skylake or Cascade Lake", "GenuineIntel 6", range(0x55, 0x56)),
)
"""The first that fits counts. Sources: the vendors' lists of family and model numbers."""


def kind(file: Path = CPUINFO) -> str:
    """What this machine's kind is called: the CPU's own name where its model is not known here.

    A virtual machine may hide instructions that all CPUs of a model have, and is a kind of its own then.
    """
    text = _read(file)
    found = re.search(r"^model\s*:\s*(\d+)", text, re.M)
    model, family = int(found.group(1)) if found else -1, cpu_family(file)
    names = [one.name for one in KINDS if one.family == family and model in one.models]
    if not names:
        return cpu_name() or "another machine"
    flags = _flags(text)
    hidden = bool(flags) and names[0] not in WITHOUT_AVX512 and "avx512f" not in flags
    return f"{names[0]} with AVX2 alone" if hidden else names[0]


WITHOUT_AVX512 = ("AMD Zen 2", "AMD Zen 3")


def sums_saturate(file: Path = CPUINFO) -> bool:
    """Whether the CPU adds pairs of products of 8-bit integers in 16 bits, where large ones are cut off."""
    flags = _flags(_read(file))
    return bool(flags) and not {"avx512_vnni", "avx_vnni"} & flags


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _flags(text: str) -> set[str]:
    """Instructions that the first CPU shows."""
    found = re.search(r"^flags\s*:(.*)", text, re.M)
    return set() if found is None else {*found.group(1).split()}


def page_of(name: str) -> Path:
    """Where the results of a kind of machine are."""
    return PAGES / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.md"
