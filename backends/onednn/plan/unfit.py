"""How an attempt at a plan ends that comes to nothing."""

from __future__ import annotations


class Unfit(Exception):  # noqa: N818 -- it ends an attempt, it is no error
    """Something that can't be done this way, with the reason."""


class NoKernel(Unfit):
    """The library has no kernel that may run for these types and layouts; it may have one for others."""
