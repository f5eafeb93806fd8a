"""What the names of the library's implementations tell, and what its kernels have in common."""

from __future__ import annotations

LANES = 16
"""f32 lanes of AVX-512, to which channels are padded."""
REFERENCE = "ref"
"""How the names of the library's reference loops begin; they run only where a user forces the backend."""


def is_reference(implementation: str) -> bool:
    """Whether an implementation of that name is a reference loop."""
    return implementation.startswith(REFERENCE)


def is_called(implementation: str, name: str) -> bool:
    """Whether an implementation has the name, or is of that name for some instruction set."""
    return implementation == name or implementation.startswith(f"{name}:")
