"""What we found in oneDNN: the page of the documentation, and the programs beside it.

    python tests/tools/write_found_in_onednn.py

Of the rules, of their problems in `tests/tools/reproducers`, and of what `tests/tools/sweep.py` has recorded of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from found_in_onednn import PAGE, PROGRAMS, page, programs
from onednn_graph.backends.onednn.library.primitive import NativeEngine


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    PROGRAMS.mkdir(exist_ok=True)
    texts = programs(NativeEngine())
    for file in PROGRAMS.iterdir():
        if file not in texts:
            file.unlink()
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
