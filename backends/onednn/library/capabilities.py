"""What a library can do beside what every 3.2 can.

From 3.2 to 3.13 the C headers only grew: no enumerator that 3.2 has got another value, no function of its other
arguments, no struct other members. So there is one table of numbers and one of prototypes, and what came later is told
by the functions that a library exports.
"""

from __future__ import annotations

from typing import Any

from ....ops.records import frozen

GROUP_NORMALIZATION = "group normalization"
SINCE = {GROUP_NORMALIZATION: "dnnl_group_normalization_forward_primitive_desc_create"}
"""What came after 3.2 and is used → a function that is there with it."""


@frozen(kw_only=True)
class Capabilities:
    """What there is.

    Attributes:
        graph_api: oneDNN Graph, which a build may leave out (`ONEDNN_BUILD_GRAPH=OFF`).
        later: the names of `SINCE` that are there.
    """

    graph_api: bool
    later: frozenset[str] = frozenset()


def capabilities_of(c: Any) -> Capabilities:
    """What a loaded library exports."""
    return Capabilities(
        graph_api=hasattr(c, "dnnl_graph_graph_create"),
        later=frozenset(name for name, function in SINCE.items() if hasattr(c, function)),
    )
