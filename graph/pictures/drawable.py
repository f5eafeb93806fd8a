"""What a Graph can be drawn as."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from ..compile.partitioner import Policy
from ..runtime.profiling import Profile
from .listing import listing

if TYPE_CHECKING:
    from ..graph import Graph


class Drawable:
    """The methods of `Graph` that draw it. Pictures are made from descriptions, which come after graphs."""

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
        profile: Profile | None = None,
    ) -> None:
        """Finalizes the graph and draws it into one page of HTML, with its partitions and what runs in them.

        The page loads nothing from anywhere. Ops can be found, and clicked for attributes, tensors, kernels and
        reasons. Graphs of some thousand ops are placed more simply; the page says so.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.
            profile: of executions with the same policy and backend; adds times.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .description import describe
        from .html import save_html

        described = describe(self._graph, policy=policy, backend=backend, profile=profile)
        save_html(described, path)

    def to_dot(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
    ) -> None:
        """Finalizes the graph and writes it for Graphviz, with a cluster around each partition.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .description import describe
        from .graphviz import save_dot

        save_dot(describe(self._graph, policy=policy, backend=backend, kernels=False), path)

    def __str__(self) -> str:
        """A line for each input and op, in the order in which they were added."""
        graph = self._graph
        heading = f"{graph!r}, fpmath_mode {graph.fpmath_mode.value}"
        return listing(heading, graph.inputs, graph.ops, graph.outputs)

    def _repr_html_(self) -> str:
        """For notebooks: the page of `to_html` in a frame. The graph stays open, and may be incomplete or wrong."""
        from .description import preview
        from .html import notebook_html

        return notebook_html(preview(self._graph))

    @property
    def _graph(self) -> Graph:
        return cast("Graph", self)  # nothing else is a Drawable
