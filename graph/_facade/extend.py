"""To add ops: the vocabulary of schemas, and where schemas, kernels and gradients are registered."""

import typing as _typing

from onednn_graph._near import refusing as _refusing
from onednn_graph.backends.numpy.custom import register_op, unregister_op
from onednn_graph.backends.numpy.kernels import Kernel
from onednn_graph.graph.functions.keywords import tell_of as _tell_of
from onednn_graph.graph.gradients.context import GradientContext
from onednn_graph.graph.gradients.rules import GradientRule, register_gradient
from onednn_graph.ops.attributes import (
    NON_NEGATIVE,
    POSITIVE,
    AtLeast,
    Attributes,
    AttributeSpec,
    AttributeType,
    OneOf,
)
from onednn_graph.ops.schema import (
    UNKNOWN_DIM,
    InferenceContext,
    OpNames,
    OpSchema,
    Port,
    Shape,
    shape_of_first_input,
)

__all__ = [
    "NON_NEGATIVE",
    "POSITIVE",
    "UNKNOWN_DIM",
    "AtLeast",
    "AttributeSpec",
    "AttributeType",
    "Attributes",
    "GradientContext",
    "GradientRule",
    "InferenceContext",
    "Kernel",
    "OneOf",
    "OpNames",
    "OpSchema",
    "Port",
    "Shape",
    "register_gradient",
    "register_op",
    "shape_of_first_input",
    "unregister_op",
]

_tell_of(globals(), __all__)
if not _typing.TYPE_CHECKING:
    __getattr__ = _refusing(__name__, __all__)
