"""Lowerings onto oneDNN primitives through ctypes."""
