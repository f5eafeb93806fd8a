"""What a library can do beside what every 3.2 can.

From 3.2 to 3.13 the C headers only grew: no enumerator that 3.2 has got another value, no function of its other
arguments, no struct other members. So there is one table of numbers and one of prototypes, and what came later is told
by the functions that a library exports.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class Capabilities:
    """What there is.

    Attributes:
        graph_api: oneDNN Graph, which a build may leave out (`ONEDNN_BUILD_GRAPH=OFF`).
        group_normalization: the primitive, since 3.3.
        select: a binary primitive of three operands, since 3.8.
    """

    graph_api: bool
    group_normalization: bool
    select: bool

    @property
    def later(self) -> tuple[str, ...]:
        """What is there that 3.2 has not, in words."""
        found = {"group normalization": self.group_normalization, "select": self.select}
        return tuple(name for name, there in found.items() if there)


def capabilities_of(c: Any) -> Capabilities:
    """What a loaded library exports."""
    return Capabilities(
        graph_api=hasattr(c, "dnnl_graph_graph_create"),
        group_normalization=hasattr(c, "dnnl_group_normalization_forward_primitive_desc_create"),
        select=hasattr(c, "dnnl_binary_primitive_desc_create_v2"),
    )
