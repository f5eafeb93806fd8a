"""Command lines that make no sense: what there is instead, and where it stands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from ..ops.errors import nearest
from ..ops.values import format_value

BEFORE = "--threads"
"""An option of all commands."""
PLACE = f"{BEFORE} N stands before the command: onednn-graph {BEFORE} 4 run graph.json"

STDIN = "standard input"
"""What the help of an argument says that takes it."""


class Commands(TyperGroup):
    """A group of commands that says which there are, whatever typer's version does."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(
                f"there is no command {format_value(name)}{nearest(name, self.commands)}; there are "
                f"{', '.join(sorted(self.list_commands(ctx)))}"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            told = getattr(error, "message", "")
            if getattr(error, "option_name", "") == BEFORE and PLACE not in told:
                error.message = f"{told}; {PLACE}"  # pyright: ignore[reportAttributeAccessIssue] -- click's, which typer has a copy of
            parameter = getattr(error, "param", None)
            if type(error).__name__ == "MissingParameter" and STDIN in (getattr(parameter, "help", "") or ""):
                error.message = f"Give a file, or - for {STDIN}"  # pyright: ignore[reportAttributeAccessIssue] -- likewise
            raise
