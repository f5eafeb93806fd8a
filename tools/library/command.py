"""The commands `onednn-graph library …`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backends.onednn.library.finding import VARIABLE, check_named, find_library
from ...backends.onednn.library.remembered import forget, remember
from ...ops.errors import LibraryError
from ..arguments import Json
from ..console import command, emit_json, failure, plainly, table, working
from ..ending import Exit
from ..usage import Commands
from .packing import pack
from .places import Place, of_version, places, used_path
from .probing import Build, probe

DEFAULT = "default"

library = typer.Typer(
    cls=Commands,
    help="""Show which builds of oneDNN there are, and make another one than the wheel's the default.

What runs is, in this order: what og.use_library names; what ONEDNN_GRAPH_LIBRARY names; the choice of `library use`;
the wheel onednn-graph-library, which `library pack` makes; the wheel onednn-cpu-gomp.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)
FilePath = Annotated[Path, typer.Argument(metavar="FILE", help="A libdnnl.so.")]


@library.command("list")
@command
def _list(as_json: Json = False) -> None:
    """List the builds that are found, and which of them runs.

    \b
    Examples:
      onednn-graph library list
      onednn-graph library list --json | jq '.[] | select(.used) | .path'
    """
    with working("loading each build in a process of its own"):
        found = [(place, probe(place.path)) for place in places()]
    if as_json:
        emit_json([_data(place, build) for place, build in found])
        return
    if not found:
        plainly(
            "no libdnnl.so.3 was found; pip install onednn-cpu-gomp, or name one: onednn-graph library use FILE"
        )
        return
    rows = [
        (
            "runs" if place.used else "",
            build.version or "none",
            build.threads,
            build.problem or build.swept,
            place.source,
            place.path,
        )
        for place, build in found
    ]
    table("", ("", "version", "threads", "swept", "named by or in", "file"), rows)


@library.command("info")
@command
def _info(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A libdnnl.so; what runs if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a build is: version, threads, whether it is swept, what it has beyond 3.2 and what it lacks.

    \b
    Examples:
      onednn-graph library info
      onednn-graph library info $CONDA_PREFIX/lib/libdnnl.so.3 --json
    """
    if file is None:
        found = find_library()
        path, source, build = found.path, found.source, probe(found.path)
        if build.problem:
            raise failure(build.problem, Exit.failed)
    else:
        source = "the command line"
        path, build = _of_file(file)
    data = _data(Place(path=path, source=source, used=path == used_path()), build)
    if as_json:
        emit_json(data)
        return
    told = data | {name: ", ".join(data[name]) or "nothing" for name in ("has", "lacks")}
    told["used"] = "yes" if data["used"] else "no"
    table(
        "",
        ("what", "value"),
        [(name, value) for name, value in told.items() if name != "problem"],
    )


@library.command("use")
@command
def _use(
    which: Annotated[
        str,
        typer.Argument(
            metavar="FILE|VERSION|default", help="A libdnnl.so, or the version of one that `list` shows."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Make a build the default of all your programs from now on; `default` undoes it.

    The file is loaded in a process of its own first. It stays where it is.

    \b
    Examples:
      onednn-graph library use $CONDA_PREFIX/lib/libdnnl.so.3
      onednn-graph library use 3.13
      onednn-graph library use default
    """
    if which == DEFAULT:
        had = forget()
        found = find_library()
        if as_json:
            emit_json({"forgotten": had, "path": str(found.path), "source": found.source})
        else:
            plainly(f"{'forgotten' if had else 'there was no choice'}; {found.path} runs, by {found.source}")
        return
    with working("loading it in a process of its own"):
        path, build = _chosen(which)
    kept = remember(path)
    over = os.environ.get(VARIABLE)
    if as_json:
        emit_json({"path": str(path), "version": build.version, "kept": str(kept), "overruled": over})
        return
    plainly(f"oneDNN {build.version} on {build.threads} is the default: {path}")
    plainly(f"kept in {kept}; onednn-graph library use default undoes it")
    if over:
        plainly(f"{VARIABLE} is set, which counts more: unset it")


def _chosen(which: str) -> tuple[Path, Build]:
    """The file that is meant, and what it is; links stay, which lead to the next patch after an update."""
    if which.replace(".", "").isdecimal() and not Path(which).exists():
        found = of_version(which)
        if not found:
            raise failure(
                f"no oneDNN {which} is found; `onednn-graph library list` shows those that are, or name a file",
                Exit.usage,
            )
        place, build = found[0]
        return place.path, build
    return Path(which).expanduser().absolute(), _of_file(Path(which))[1]


def _of_file(file: Path) -> tuple[Path, Build]:
    """A file that the command line names, without links, and what it is."""
    try:
        path = check_named(file, "the command line").path
    except LibraryError as error:
        raise failure(error, Exit.usage) from error
    build = probe(path)
    if build.problem:
        raise failure(build.problem, Exit.usage)
    return path, build


@library.command("pack")
@command
def _pack(
    file: FilePath,
    out: Annotated[Path, typer.Option(help="The folder that the wheel goes to.")] = Path(),
    as_json: Json = False,
) -> None:
    """Pack a build into a wheel, onednn-graph-library, which is preferred to onednn-cpu-gomp where it is installed.

    The same file gives the same wheel, with SOURCE_DATE_EPOCH as its time. Licences that lie beside the file go along.

    \b
    Example:
      onednn-graph library pack libdnnl.so.3 --out wheels && pip install wheels/onednn_graph_library-*.whl
    """
    with working(f"packing {file}"):
        wheel, build, licences = pack(_of_file(file)[0], out)
    if as_json:
        emit_json({"wheel": str(wheel), "version": build.version, "licences": [str(one) for one in licences]})
        return
    plainly(f"oneDNN {build.version} on {build.threads}: {wheel}")
    plainly(
        f"licences: {', '.join(map(str, licences)) or 'none were found beside it; add them before you pass it on'}"
    )


def _data(place: Place, build: Build) -> dict[str, Any]:
    return {
        "path": str(place.path),
        "named by": place.source,
        "used": place.used,
        "version": build.version,
        "commit": build.commit,
        "threads": build.threads,
        "swept": build.swept,
        "has": list(build.has),
        "lacks": list(build.lacks),
        "problem": build.problem,
    }
