"""What a library can do beside what every 3.2 can.

From 3.2 to 3.13 the C headers only grew: no enumerator that 3.2 has got another value, no function of its other
arguments, no struct other members. So there is one table of numbers and one of prototypes, and what came later is told
by the functions that a library exports.
"""

from __future__ import annotations

from typing import Any

from ....ops.records import frozen

GROUP_NORMALIZATION = "group normalization"
DECOMPRESSION = "products that decompress weights"
SINCE = {
    GROUP_NORMALIZATION: ("dnnl_group_normalization_forward_primitive_desc_create",),
    DECOMPRESSION: (
        "dnnl_primitive_attr_set_fpmath_mode_v2",
        "dnnl_primitive_attr_set_scales",
        "dnnl_primitive_attr_set_zero_points",
    ),
}
"""What came after 3.2 and is used → functions that are there with it. For which types, groups and CPUs there is a
kernel that decompresses is what the library says when it is asked for one."""


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
        later=frozenset(name for name, needed in SINCE.items() if all(hasattr(c, one) for one in needed)),
    )
