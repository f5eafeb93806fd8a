"""What is barred of group normalisations, which 3.2 does not have."""

from __future__ import annotations

from .rule import Rule, Table

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
    ),
}
