"""Tools on top of the package: the command line and what its commands do."""

import sys


def main() -> None:
    """The command `onednn-graph`; it says what to install where its libraries are missing."""
    try:
        from onednn_graph.tools.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit(f"onednn-graph: {error.name} is not installed; pip install 'onednn-graph[cli]'")
    app()
