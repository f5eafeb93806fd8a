"""The specification: data types, schemas, registry, formats, spatial arithmetic, shape inference. No arrays, no I/O.

Importing the package registers the op set; a family is one module.
"""

from . import convolution

__all__ = ["convolution"]
