"""From graphs to pictures: what the methods of `Graph` and `CompiledGraph` that draw call."""

from __future__ import annotations

import os

from ..runtime.profiling import Recording
from .description import describe, describe_compiled, preview
from .graphviz import save_dot
from .html import notebook_html, save_html
from .subjects import GraphSubject, ModelSubject


def graph_to_html(
    graph: GraphSubject,
    path: str | os.PathLike[str],
    *,
    policy: str,
    backend: str | None,
    profile: Recording | None,
) -> None:
    """See `Graph.to_html`."""
    save_html(describe(graph, policy=policy, backend=backend, profile=profile), path)


def compiled_to_html(model: ModelSubject, path: str | os.PathLike[str], *, profile: Recording | None) -> None:
    """See `CompiledGraph.to_html`."""
    save_html(describe_compiled(model, profile=profile), path)


def graph_to_dot(
    graph: GraphSubject, path: str | os.PathLike[str], *, policy: str, backend: str | None
) -> None:
    """See `Graph.to_dot`."""
    save_dot(describe(graph, policy=policy, backend=backend, kernels=False), path)


def graph_in_notebook(graph: GraphSubject) -> str:
    """The page in a frame. The graph stays open, and may be incomplete or wrong."""
    return notebook_html(preview(graph))


def compiled_in_notebook(model: ModelSubject) -> str:
    """The page of what was compiled, in a frame."""
    return notebook_html(describe_compiled(model))
