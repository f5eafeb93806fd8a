"""Pictures of graphs: a page of HTML that needs nothing else, and what notebooks show of it.

The page holds the graph as JSON, scripts of ours that draw it, and dagre, which places it (`assets/`). It loads
nothing: its content security policy allows these very scripts, by their hashes, and no request at all. Names and other
strings of the graph come into the page as text only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
from functools import cache
from importlib import resources
from string import Template
from typing import Any, cast

from ...ops.values import counted
from ..runtime.text_files import save_text
from .description import GraphDescription

SCRIPTS = (
    "words.js",
    "model.js",
    "layout.js",
    "drawing.js",
    "colours.js",
    "details.js",
    "finding.js",
    "view.js",
    "overview.js",
    "culling.js",
    "minimap.js",
    "memory.js",
    "partitioning.js",
    "page.js",
)
"""Our own, in the order in which they need each other."""
LIBRARY, LICENCE = "dagre.min.js", "dagre.LICENSE"

LARGEST_EXACT = 2**53 - 1
"""Of the integers that JavaScript's numbers hold."""
FRAME_HEIGHTS = (240, 560)
"""Least and most pixels of a frame in a notebook."""
HEIGHT_OF_OP = 85


def html_page(graph: GraphDescription) -> str:
    """The page, ASCII but for what is in the assets."""
    return filled_page("page.html", SCRIPTS, html.escape(title(graph)), graph.as_data(), library=True)


def filled_page(
    template: str, scripts: tuple[str, ...], title: str, data: object, *, library: bool, **more: str
) -> str:
    """A page that loads nothing and runs these scripts alone.

    Args:
        template: the asset to fill.
        scripts: assets of ours, in the order in which they need each other.
        title: as HTML.
        data: for the scripts, as JSON.
        library: whether they need dagre.
        more: other names of the template, as HTML.
    """
    running = [*([_library()] if library else []), _script(scripts)]
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in running)
    return Template(_asset(template)).substitute(
        more,
        policy=(
            "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src {hashes}"
        ),
        title=title,
        style=_asset("page.css"),
        data=embedded(data),
        library=running[0] if library else "",
        script=running[-1],
    )


def save_html(graph: GraphDescription, path: str | os.PathLike[str]) -> None:
    """Writes the page.

    Raises:
        GraphFileError: the file can't be written.
        ArgumentTypeError: no path.
    """
    save_text(html_page(graph), path)


def notebook_html(graph: GraphDescription) -> str:
    """The page in a frame of its own, which can't touch the notebook around it."""
    least, most = FRAME_HEIGHTS
    height = min(most, max(least, HEIGHT_OF_OP * (2 + len(graph.ops))))
    return (
        f'<iframe srcdoc="{html.escape(html_page(graph))}" sandbox="allow-scripts" loading="lazy" '
        f'title="{html.escape(title(graph))}" width="100%" height="{height}" '
        'style="border: 1px solid #8884; border-radius: 6px; resize: vertical"></iframe>'
    )


def title(graph: GraphDescription) -> str:
    """How many ops and partitions there are."""
    counts = [counted(len(graph.ops), "op")]
    if graph.partitions:
        counts.append(counted(len(graph.partitions), "partition"))
    return f"Graph: {', '.join(counts)}"


def embedded(data: object) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or a line."""
    text = json.dumps(_exact(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _exact(value: Any) -> Any:
    """The same data without numbers that JavaScript or JSON has not: they become strings."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_EXACT:
        return str(value)
    return value


@cache
def _asset(name: str) -> str:
    folder = resources.files(__name__.rpartition(".")[0]).joinpath("assets")
    return folder.joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """The library with its notice, and without the name of a file beside it, which is not there."""
    code = re.sub(r"//# sourceMappingURL=.*", "", _asset(LIBRARY))
    return f"/*! dagre\n{_asset(LICENCE)}*/\n{code}"


@cache
def _script(names: tuple[str, ...]) -> str:
    return "\n".join(["(() => {", '"use strict";', *map(_asset, names), "})();"])


def _hash(text: str) -> str:
    """As content security policies want it, of what stands between the tags."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
