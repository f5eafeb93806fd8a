"""What is barred of group normalisations, which 3.2 does not have."""

from __future__ import annotations

import math

from .rule import Rule, Table

LONG = 1024
"""Positions whose sum is near enough, each added to those before."""

SLOW: Table = {
    "group_normalization_forward": (
        Rule(
            name="slow",
            implementation="ncsp_gnorm",
            condition="always",
            applies=lambda features: True,
            seen="sums one after the other, slower than NumPy",
            since=(3, 3),
        ),
    ),
}

IMPRECISE: Table = {
    "group_normalization_forward": (
        Rule(
            name="sums-one-by-one",
            implementation="ncsp_gnorm",
            condition="always",
            applies=lambda features: True,
            seen="variances of ten thousand numbers are off by 1e-5",
            since=(3, 3),
        ),
        Rule(
            name="channels-one-by-one",
            implementation="jit_instance",
            condition="more than 1024 positions are summed",
            applies=lambda features: math.prod(features.src.shape[2:]) > LONG,
            seen="each channel of a thread's is summed position by position: 1e-5 off with 12544 positions of -3 to 3, "
            "and two of the graph fuzzer's bounds off in f32 (2, 2, 64, 28), of two groups",
            since=(3, 6),
        ),
    ),
}
