"""What is barred of group normalisations, which 3.2 does not have."""

from __future__ import annotations

from .rule import Rule, Table

KERNELS = ("ncsp_gnorm", "nspc_gnorm")

SLOW: Table = {
    "group_normalization_forward": tuple(
        Rule(
            name=f"slow-{kernel}",
            implementation=kernel,
            condition="always",
            applies=lambda features: True,
            seen="sums one after the other, slower than NumPy",
            since=(3, 3),
        )
        for kernel in KERNELS
    ),
}

IMPRECISE: Table = {
    "group_normalization_forward": tuple(
        Rule(
            name=f"sums-of-{kernel}",
            implementation=kernel,
            condition="always",
            applies=lambda features: True,
            seen="sums one after the other: variances of ten thousand numbers are off by 1e-5",
            since=(3, 3),
        )
        for kernel in KERNELS
    ),
}
