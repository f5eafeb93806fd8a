"""Writes the table of ATen's ops in the documentation: what each becomes, and who takes it.

    python tests/tools/write_aten_ops.py

Needs the extra `test-oracles`, and a minute.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from aten_ops import becomes, kinds_by_op
from aten_ops_page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(kinds_by_op(becomes())), encoding="utf-8")
