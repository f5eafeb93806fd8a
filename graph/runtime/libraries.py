"""The frameworks, imported when they are needed.

Their types are incomplete or not there when the code is checked, so whatever comes from them is `Any`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...ops.errors import UnsupportedError
from ...ops.values import one_line


def library(name: str, extra: str, wanted_by: str) -> Any:
    """The module `name`.

    Args:
        extra: of the package, that installs it.
        wanted_by: the function that needs it.

    Raises:
        UnsupportedError: it is not installed, or can't be imported, as mpi4py can't be where it finds no MPI.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        raise UnsupportedError(
            f"{wanted_by} needs the package {missing.split('.')[0]}, which is not installed; "
            f"install onednn-graph with its extra '{extra}', in a checkout: pip install '.[{extra}]'"
        ) from None
    except (ImportError, OSError, RuntimeError) as error:
        raise UnsupportedError(
            f"{wanted_by} needs the package {name.split('.')[0]}, which is installed, but can't be imported: "
            f"{one_line(error)}; mend that installation, and see that {name} can be imported"
        ) from error
