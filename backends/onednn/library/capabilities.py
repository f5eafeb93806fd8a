"""What a library can do beside what every 3.2 can.

From 3.2 to 3.13 the C headers only grew: no enumerator that 3.2 has got another value, no function of its other
arguments, no struct other members. So there is one table of numbers and one of prototypes, and what came later is told
by the functions that a library exports.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

GROUP_NORMALIZATION = "group normalization"
SINCE: dict[str, tuple[tuple[int, int], str]] = {
    GROUP_NORMALIZATION: ((3, 3), "dnnl_group_normalization_forward_primitive_desc_create"),
}
"""What came after 3.2 and is used → the version that brought it, and a function that is there with it."""


def since(name: str) -> str:
    """`from 3.3 on`, say, for a name of `SINCE`."""
    return f"from {'.'.join(map(str, SINCE[name][0]))} on"


@frozen(kw_only=True)
class Capabilities:
    """What there is.

    Attributes:
        graph_api: oneDNN Graph, which a build may leave out (`ONEDNN_BUILD_GRAPH=OFF`).
        later: the names of `SINCE` that are there.
    """

    graph_api: bool
    later: frozenset[str] = frozenset()

    def lacks(self, name: str | None) -> str | None:
        """Why something of `SINCE` can't be used, or None when it can or is None."""
        if name is None or name in self.later:
            return None
        return f"oneDNN has a {name} {since(name)}, and this one has none"


def capabilities_of(c: Any) -> Capabilities:
    """What a loaded library exports."""
    return Capabilities(
        graph_api=hasattr(c, "dnnl_graph_graph_create"),
        later=frozenset(name for name, (_, function) in SINCE.items() if hasattr(c, function)),
    )
