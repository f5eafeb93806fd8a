"""Who runs each op in each type, on each instruction set of this CPU: the data and the page of the documentation.

    python tests/tools/write_who_runs.py                                  # the library that would be loaded
    python tests/tools/write_who_runs.py --library /opt/onednn/libdnnl.so # and this one beside it

Columns of other libraries stay as they are. Kernels that nobody has proven are verified, which takes a minute.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from who_runs_columns import column, text_of, with_columns
from who_runs_page import DATA, ISAS, PAGE, page, read


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--library", type=Path, action="append", default=[], help="another libdnnl.so")
    libraries = [None, *parser.parse_args().library]
    columns = [one for library in libraries for isa in ISAS if (one := column(isa, library)) is not None]
    empty = {"columns": [], "cells": [], "ruled": {}, "rows": {}}
    data = with_columns(read() if DATA.exists() else empty, columns)
    DATA.write_text(text_of(data), encoding="utf-8")
    PAGE.write_text(page(data), encoding="utf-8")


if __name__ == "__main__":
    main()
