"""What a planner raises where it has to begin anew without some ops."""

from __future__ import annotations

from collections.abc import Mapping


class Refused(Exception):  # noqa: N818 -- never leaves the planner
    """Ops that can't be compiled in a region.

    Attributes:
        nodes: name → reason.
    """

    def __init__(self, nodes: Mapping[str, str]) -> None:
        super().__init__(", ".join(nodes))
        self.nodes = dict(nodes)
