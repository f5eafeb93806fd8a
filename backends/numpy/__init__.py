"""The executable reference: one NumPy kernel per op."""

from . import convolution

__all__ = ["convolution"]
