"""Names of former versions: each works for one more, with a warning that says what it is called now."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any
from warnings import warn

from onednn_graph.graph.compile.compiled_graph import CompiledGraph
from onednn_graph.graph.graph import Graph
from onednn_graph.graph.open_graph import OpenGraph
from onednn_graph.ops.errors import ArgumentTypeError

REMOVED_IN = "0.4"
"""The version that does without them."""

RENAMED = {
    "AtLeast": "extend.AtLeast",
    "AttributeSpec": "extend.AttributeSpec",
    "AttributeType": "extend.AttributeType",
    "AttributeTypeError": "errors.AttributeTypeError",
    "AttributeValueError": "errors.AttributeValueError",
    "Attributes": "extend.Attributes",
    "BackendUnavailableWarning": "errors.BackendUnavailableWarning",
    "BoundGraph": "Bound",
    "CompiledAgainWarning": "errors.CompiledAgainWarning",
    "Considered": "profiling.Considered",
    "Event": "profiling.Event",
    "EventKind": "profiling.EventKind",
    "Explanation": "profiling.Explanation",
    "FileAccessError": "errors.FileAccessError",
    "GradientContext": "extend.GradientContext",
    "GradientRule": "extend.GradientRule",
    "InferenceContext": "extend.InferenceContext",
    "Kernel": "extend.Kernel",
    "LayoutError": "errors.LayoutError",
    "LibraryError": "errors.LibraryError",
    "Line": "profiling.Line",
    "MissingFileError": "errors.MissingFileError",
    "NON_NEGATIVE": "extend.NON_NEGATIVE",
    "OneOf": "extend.OneOf",
    "OnlineChoice": "profiling.OnlineChoice",
    "OpNames": "extend.OpNames",
    "OpSchema": "extend.OpSchema",
    "OutOfMemoryError": "errors.OutOfMemoryError",
    "POSITIVE": "extend.POSITIVE",
    "Port": "extend.Port",
    "PortError": "errors.PortError",
    "Profile": "profiling.Profile",
    "Report": "profiling.Report",
    "ResourceError": "errors.ResourceError",
    "SchemaError": "errors.SchemaError",
    "Shape": "extend.Shape",
    "SkippedStepWarning": "errors.SkippedStepWarning",
    "Tried": "profiling.Tried",
    "UNKNOWN_DIM": "extend.UNKNOWN_DIM",
    "UnknownAttributeError": "errors.UnknownAttributeError",
    "UnknownOpError": "errors.UnknownOpError",
    "WeightsLeftOutWarning": "errors.WeightsLeftOutWarning",
    "register_gradient": "extend.register_gradient",
    "register_op": "extend.register_op",
    "shape_of_first_input": "extend.shape_of_first_input",
    "unregister_op": "extend.unregister_op",
}
"""Former name in `onednn_graph` → the name of now, there too."""

FORMER_FUNCTIONS = {"ops": "list_ops", "backends": "list_backends"}
"""Subpackage that a function had the name of → the function's name of now."""


def former(name: str) -> object:
    """What a former name means, with a warning at whoever asks `onednn_graph` for it."""
    module, _, own = f"onednn_graph.{RENAMED[name]}".rpartition(".")
    _warn(name, RENAMED[name], stacklevel=4)
    return getattr(import_module(module), own)


def keep_callable(module: ModuleType, function: Callable[[], object]) -> None:
    """Lets a subpackage be called as the function that had its name."""
    old = module.__name__.rpartition(".")[2]

    class FormerFunction(ModuleType):
        def __call__(self) -> object:
            _warn(f"{old}()", f"{FORMER_FUNCTIONS[old]}()", stacklevel=3)
            return function()

    module.__class__ = FormerFunction


def quantize(function: Callable[..., Any]) -> Callable[..., Any]:
    """The op's function, which graphs were given to as well."""

    @wraps(function)
    def quantize(*inputs: Any, **given: Any) -> Any:
        graph = inputs[0] if inputs else given.get("src")
        if isinstance(graph, CompiledGraph):
            raise ArgumentTypeError(
                "a compiled graph stays as it is; take graph.quantize_static(feeds) of the graph that it was compiled "
                "from, and compile what that gives"
            )
        if not isinstance(graph, Graph | OpenGraph):
            return function(*inputs, **given)
        _warn("quantize(graph, feeds)", "Graph.quantize_static(feeds)", stacklevel=3)
        return graph.quantize_static(
            *inputs[1:], **{name: one for name, one in given.items() if name != "src"}
        )

    return quantize


def _warn(old: str, new: str, *, stacklevel: int) -> None:
    warn(
        f"onednn_graph.{old} is deprecated and will be removed in {REMOVED_IN}; use onednn_graph.{new}",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
