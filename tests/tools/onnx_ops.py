"""Writes the table of ONNX's ops in the documentation: who runs each, and in which versions of its definition.

python tests/tools/onnx_ops.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from onnx_ops_page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
