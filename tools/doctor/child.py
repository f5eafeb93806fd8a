"""The process that a `Worker` asks: reads questions from its standard input, and answers on its standard output.

What the model or its libraries print goes elsewhere, and what they read is empty.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from ...ops.errors import ArgumentError, OneDNNGraphError
from ...ops.values import one_line


def side_of(name: str, folder: Path, task: dict[str, Any]) -> Any:
    """The object whose methods answer."""
    if name == "torch":
        from .torch_side import TorchSide

        return TorchSide(folder, task)
    if name == "onnx":
        from .onnx_side import OnnxSide

        return OnnxSide(folder, task)
    from .ours_side import OurSide

    return OurSide(folder, task)


def main() -> None:
    """`python -m onednn_graph.tools.doctor.child SIDE FOLDER TASK`."""
    name, folder, task = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    questions = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    printed = os.open(folder / "printed", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv[1:] = []  # what is loaded must not take them for its own
    side: Any = None
    for number, line in enumerate(questions):
        stage, values = json.loads(line)
        try:
            side = side or side_of(name, folder, task)
            answer = getattr(side, stage)(**values)
        except (Exception, SystemExit) as error:  # whatever the model and its libraries raise
            own = isinstance(error, OneDNNGraphError)
            text = str(error) if own else f"{type(error).__name__}: {one_line(error)}"
            told = {"problem": text, "usage": isinstance(error, ArgumentError)}
        else:
            file = folder / f"answer-{number}"
            file.write_bytes(pickle.dumps(answer))
            told = {"file": str(file)}
        answers.write(f"{json.dumps(told)}\n")
        answers.flush()


if __name__ == "__main__":
    main()
