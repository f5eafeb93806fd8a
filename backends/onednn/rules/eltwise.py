"""What is barred of functions of each element."""

from __future__ import annotations

from ....ops.data_types import DataType
from .features import Features
from .rule import Rule, Table

WITHOUT_F16C = ("jit:sse41", "jit:avx")
"""Kernels of instruction sets that have no instruction for reading f16."""


def _cannot_read(features: Features) -> bool:
    return features.implementation in WITHOUT_F16C and features.ends[0].data_type is DataType.f16


UNREAD = Rule(
    name="f16-unread",
    implementation="jit:",
    condition="f16 goes by the kernel of SSE4.1, or by that of AVX itself",
    applies=_cannot_read,
    seen="functions of what a register held, in nearly all of 850 random tensors: these instruction sets have nothing "
    "that reads f16, and their kernels are offered where the CPU has AVX512-FP16; so are all below that for f8, which "
    "nothing here asks for; bf16 is right",
    since=(3, 11),
)

WRONG: Table = {"eltwise_backward": (UNREAD,), "eltwise_forward": (UNREAD,)}
