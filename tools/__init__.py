"""Tools on top of the package: the command line and what its commands do."""

import sys


def main() -> None:
    """The command `onednn-graph`; it says what to install where its libraries are missing."""
    from .ending import run_to_end

    run_to_end(_commands)


def _commands() -> None:
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        print(
            f"onednn-graph: {error.name} is not installed; install onednn-graph with its extra 'cli', in a checkout: "
            "pip install '.[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    app()
