"""oneDNN Graph for Python.

    import onednn_graph as og

Build a `Graph` of `LogicalTensor`s and ops, compile it, call it with arrays; or call an op eagerly. oneDNN
primitives run what they can, NumPy the rest. Names and semantics are oneDNN Graph's.
"""

import logging as _logging
import signal as _signal
import sys as _sys
import typing as _typing
from importlib import import_module as _import_module
from pathlib import Path as _Path

if __name__ != "onednn_graph":  # a checkout offers this folder by its path too, and backends register once
    raise ImportError(
        f"{__name__} is where the sources of onednn_graph lie; import onednn_graph", name=__name__
    )

# The command `onednn-graph` comes through here before it can see to anything itself. Until then Ctrl-C ends it like any
# program, and is no error in the middle of an import. "-m" is the program's name while Python looks for the module.
if (
    _Path(*_sys.argv[:1]).stem in ("onednn-graph", "-m")
    and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
):
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


from onednn_graph import _near, _renamed, errors
from onednn_graph import backends as _backends
from onednn_graph import ops as _ops
from onednn_graph.graph.compile.backend import BACKENDS as _BACKENDS
from onednn_graph.graph.compile.backend import Backend as _Backend
from onednn_graph.graph.compile.compiled_graph import CompiledGraph
from onednn_graph.graph.compile.compiled_partition import CompiledPartition
from onednn_graph.graph.compile.options import CompileOptions, Policy, Tune
from onednn_graph.graph.compile.partition import Partition
from onednn_graph.graph.compile.signature import Bound, Results
from onednn_graph.graph.compile.trials import Choices
from onednn_graph.graph.functions import op_functions as _functions
from onednn_graph.graph.functions.eager import run_op
from onednn_graph.graph.functions.keywords import tell_of as _tell_of
from onednn_graph.graph.functions.keywords import telling as _telling
from onednn_graph.graph.graph import Graph
from onednn_graph.graph.model.fpmath import FpmathMode
from onednn_graph.graph.model.logical_tensor import LayoutType, LogicalTensor, PropertyType
from onednn_graph.graph.model.op import Op
from onednn_graph.graph.onnx import from_onnx
from onednn_graph.graph.open_graph import OpenGraph
from onednn_graph.graph.runtime.engine import Engine, Stream, default_engine
from onednn_graph.graph.runtime.tensor import Tensor
from onednn_graph.graph.runtime.threads import get_num_threads, set_num_threads
from onednn_graph.graph.torch_export import from_torch
from onednn_graph.ops.data_types import DataType
from onednn_graph.ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    GraphError,
    GraphFileError,
    OneDNNGraphError,
    ShapeError,
    UnsupportedError,
)
from onednn_graph.ops.registry import REGISTRY as _REGISTRY
from onednn_graph.ops.schema import OpSchema as _OpSchema

_LATER = {
    "extend": "onednn_graph.extend",
    "profile": "onednn_graph.graph.pictures.profile",
    "profiling": "onednn_graph.profiling",
    "training": "onednn_graph.training",
    "use_library": "onednn_graph.backends.onednn.library.loading",
}
"""Public name → its module. Who only runs a model needs none of them, and its first result comes the sooner."""

if _typing.TYPE_CHECKING:
    from onednn_graph import extend, profiling, training
    from onednn_graph.backends.onednn.library.loading import use_library
    from onednn_graph.graph.pictures.profile import profile

    __version__: str
    from onednn_graph.graph.functions.op_functions import *  # noqa: F403 -- one function for each op # pyright: ignore[reportWildcardImportFromLibrary]
else:

    def __getattr__(name: str) -> object:
        """What is imported or made at its first use: `_LATER`, functions of ops, the version. Former names warn."""
        if name in _LATER:
            module = _import_module(_LATER[name])
            found = _telling(getattr(module, name, module))
            globals()[name] = found
            return found
        if name == "__version__":
            from importlib.metadata import version

            return version("onednn-graph")
        if name in _renamed.RENAMED:
            return _renamed.former(name)
        function = _functions.FUNCTIONS.get(name)
        if function is None:
            raise _near.unknown(__name__, name, __dir__())
        if name == "quantize":
            function = _renamed.quantize(function)
        if name in _functions.__all__:  # built in, and those stay: the next access finds it at once
            globals()[name] = function
        return function

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER, "__version__", *dir(_functions)})


# Says at DEBUG what runs where, why, and what is kept; silent until a program asks for it.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())


def _onednn() -> _Backend:
    from onednn_graph.backends.onednn.backend import OnednnBackend

    return OnednnBackend()


def _numpy() -> _Backend:
    from onednn_graph.backends.numpy.backend import NumpyBackend

    return NumpyBackend()


def _native() -> _Backend:
    from onednn_graph.backends.native.backend import NativeBackend

    return NativeBackend()


# In order of preference where priorities are equal; NumPy comes last and takes the rest.
_BACKENDS.register_later("onednn", _onednn)
_BACKENDS.register_later("numpy", _numpy)
_BACKENDS.register_later("native", _native, on_request=True)


def list_ops() -> tuple[_OpSchema, ...]:
    """The schemas of all registered ops, by kind."""
    return tuple(_REGISTRY)


def op_schema(kind: str) -> _OpSchema:
    """The schema of a kind or legacy name.

    Raises:
        UnknownOpError: nothing of that name is registered.
    """
    return _REGISTRY.resolve(kind)[0]


def list_backends() -> dict[str, str | None]:
    """Backend name → why it can't be used on this machine, or None when it can."""
    return {backend.name: backend.unavailable() for backend in _BACKENDS}


_renamed.keep_callable(_ops, list_ops)
_renamed.keep_callable(_backends, list_backends)

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "Bound",
    "Choices",
    "CompileOptions",
    "CompiledGraph",
    "CompiledPartition",
    "DataType",
    "DataTypeError",
    "Engine",
    "FpmathMode",
    "Graph",
    "GraphError",
    "GraphFileError",
    "LayoutType",
    "LogicalTensor",
    "OneDNNGraphError",
    "Op",
    "OpenGraph",
    "Partition",
    "Policy",
    "PropertyType",
    "Results",
    "ShapeError",
    "Stream",
    "Tensor",
    "Tune",
    "UnsupportedError",
    "default_engine",
    "errors",
    "extend",
    "from_onnx",
    "from_torch",
    "get_num_threads",
    "list_backends",
    "list_ops",
    "op_schema",
    "profile",
    "profiling",
    "run_op",
    "set_num_threads",
    "training",
    "use_library",
]
_tell_of(globals(), [name for name in __all__ if name not in _LATER])
__all__ += _functions.__all__
