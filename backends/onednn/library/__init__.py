"""The library through ctypes: loading, enumerators, descriptors, primitives, machine code."""
