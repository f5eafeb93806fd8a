"""Which ops of onnxruntime's own domain become ONNX's, and the nodes of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ops.errors import UnsupportedError
from ...importing.translation import Unmapped, Value
from ...runtime.arrays import Array
from ..checks import label_of
from ..functions import graphs_in
from . import attention, integers, layers, others
from .rewriting import Rewrite, Rewriting

DOMAIN = "com.microsoft"
LAYOUTS = "com.microsoft.nchwc"

_NAMED: Mapping[str, Rewrite] = {
    **layers.REWRITES,
    **attention.REWRITES,
    **integers.REWRITES,
    **others.REWRITES,
}
REWRITES: Mapping[str, Rewrite] = {
    **{f"{DOMAIN}.{name}": rewrite for name, rewrite in _NAMED.items()},
    # onnxruntime writes this op into ONNX's own domain.
    "SimplifiedLayerNormalization": _NAMED["SimplifiedLayerNormalization"],
}
"""Op → nodes of ONNX's own op set."""


def rewritten(
    onnx: Any,
    node: Any,
    kind: str,
    values: Mapping[str, Value],
    kept: dict[str, Array],
    scope: str,
    opset: int,
    limit: int,
) -> tuple[list[Any], Mapping[str, Array]]:
    """The nodes in the place of one, and the constants that these read.

    Args:
        onnx: the package.
        node: whose op is in REWRITES.
        kind: its op.
        values: what names of the model stand for.
        kept: what earlier imports of the model have made of its weights.
        scope: what its names there begin with, for those of branches may be those of others, too.
        opset: the version of ONNX's op set.
        limit: bytes that a constant may take.

    Raises:
        Unmapped: it is more than is known here, or depends on sizes that are not known now.
    """
    if not node.output or not node.output[0]:
        raise Unmapped("its first output is missing")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    made = Rewriting(onnx, node, node.output[0], attributes, values, kept, scope, opset, limit, {}, [])
    REWRITES[kind](made)
    made.end()
    return made.nodes, made.constants


def check_layouts(proto: Any) -> None:
    """Checks that no node is for a layout that onnxruntime has alone.

    Raises:
        UnsupportedError: one is.
    """
    for graph in graphs_in(proto.graph):
        for number, node in enumerate(graph.node):
            if node.domain == LAYOUTS:
                raise UnsupportedError(
                    f"from_onnx: node {label_of(node, number)!r} ({node.domain}.{node.op_type}) is for a layout that "
                    "onnxruntime has alone; save the model without its layout optimisations, at most 'extended'"
                )
