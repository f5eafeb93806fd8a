"""Writes into a checkout everything that is made from the registry: the stubs and the documentation's tables.

    python -m onednn_graph.tools.generate CHECKOUT

Run it after adding an op, a lowering or a pattern; a test compares the files with what this would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..graph.functions import generate
from . import op_table, precision_table


def main(checkout: Path) -> None:
    """Writes the files."""
    generate.write(checkout)
    op_table.write(checkout)
    precision_table.write(checkout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
