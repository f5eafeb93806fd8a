"""What `onednn-graph trust` does: verdicts about kernels, which verification keeps for later compilations."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..graph.runtime.replacing import replacing
from ..graph.trust.store import STORE
from ..ops.errors import ArgumentError
from .console import command, console, emit_json, failure, table
from .ending import Exit, code_of
from .usage import Commands

trust = typer.Typer(
    cls=Commands,
    help="""Show what verification has found of kernels on this machine: right, wrong, crashed, endless.

A kernel that no sweep has proven is verified when it is first compiled, on integers and in a process of its own, and
what was found is kept for every program of the user: what is right is not verified again, and what is not is not
chosen, but that compile(verify=True) verifies all anew, and keeps out only what crashed or never ended.
Without a command the verdicts are listed.

The environment variable ONEDNN_GRAPH_VERIFY says where that is done: child, the default, inline, in the process that
compiles, or off.
""",
    no_args_is_help=False,
    invoke_without_command=True,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Write JSON for scripts instead of tables.")]
KEY_LETTERS = 12
"""Of a key that tables show."""


@trust.callback()
def _trust(context: typer.Context) -> None:
    """Lists the verdicts where nothing else is asked for."""
    if context.invoked_subcommand is None:
        list_verdicts()


@trust.command("list")
@command
def list_verdicts(
    as_json: Json = False,
    bad: Annotated[bool, typer.Option("--bad", help="Only kernels that must not run.")] = False,
) -> None:
    """List the verdicts, those that were used last first.

    \b
    Examples:
      onednn-graph trust list
      onednn-graph trust list --bad --json
    """
    known = STORE.rows()
    rows = {key: one for key, one in known.items() if not (bad and one.right)}
    if as_json:
        emit_json(
            {k: {"kind": one.kind.value, "about": one.about, "seen": one.seen} for k, one in rows.items()}
        )
        return
    if rows:
        shown = [(key[:KEY_LETTERS], one.kind.value, one.about, one.seen) for key, one in rows.items()]
        table("", ("key", "verdict", "kernel", "seen"), shown, wide=True)
    kinds = Counter(one.kind.value for one in rows.values())
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or (
        f"none of {len(known)} is bad" if known else "there are no verdicts: nothing had to be verified yet"
    )
    console.print(f"{told}, in {STORE.path or 'memory'}", markup=False, soft_wrap=True)


@trust.command("clear")
@command
def _clear(
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="The beginning of a key, as `list` shows it; all if left out."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Forget all verdicts, or one. Kernels that are not proven are verified anew.

    \b
    Examples:
      onednn-graph trust clear
      onednn-graph trust clear 6a1d149947fa
    """
    try:
        if key is None:
            count = STORE.clear()
        else:
            STORE.forget(_whole_key(key))
            count = 1
    except OSError as error:
        raise failure(f"{STORE.path} can't be removed: {error.strerror or error}", Exit.failed) from error
    if as_json:
        emit_json({"forgotten": count})
    else:
        console.print(f"{count} forgotten", markup=False)


def _whole_key(begin: str) -> str:
    """The key that begins so."""
    keys = [key for key in STORE.rows() if key.startswith(begin)]
    if len(keys) != 1 or not begin:
        many = f"{len(keys)} keys begin" if keys else "no key begins"
        raise failure(
            f"{many} with '{begin}'; give letters of one key, as `onednn-graph trust list` shows them",
            Exit.usage,
        )
    return keys[0]


@trust.command("export")
@command
def _export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write, or - for standard output.")],
) -> None:
    """Write all verdicts as JSON. It is for machines of the same kind: keys have the CPU and the library in them.

    \b
    Example:
      onednn-graph trust export verdicts.json
    """
    text = STORE.exported()
    if str(file) == "-":
        typer.echo(text)
        return
    try:
        with replacing(file) as (target,):
            target.write(text.encode())
    except OSError as error:
        raise failure(f"{file} can't be written: {error.strerror or error}", code_of(error)) from error


@trust.command("import")
@command
def _import(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `export` wrote, or - for standard input.")
    ],
    as_json: Json = False,
) -> None:
    """Add verdicts of another machine. They are trusted as your own, except that what is bad here stays bad.

    \b
    Example:
      onednn-graph trust import verdicts.json
    """
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise failure(f"{file} can't be read: {error.strerror or error}", code_of(error)) from error
    try:
        count = STORE.imported(text)
    except ArgumentError as error:
        raise failure(f"{file}: {error}", Exit.usage) from error
    if count and STORE.path is not None and not STORE.path.exists():
        raise failure(
            f"{STORE.path} can't be written; set ONEDNN_GRAPH_CACHE to a folder that can be", Exit.failed
        )
    if as_json:
        emit_json({"imported": count})
    else:
        console.print(f"{count} imported into {STORE.path or 'memory'}", markup=False, soft_wrap=True)
