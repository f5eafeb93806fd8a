"""A process of its own for a model, which is asked for one thing after the other; its crash is a result, no loss."""

from __future__ import annotations

import json
import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...ops.records import frozen
from ..ending import signal_name

WORDS = 200
"""Letters of a process's last words that are shown."""


@frozen(kw_only=True)
class Mishap:
    """Why an answer did not come.

    Attributes:
        text: a sentence.
        stage: what was asked for.
        signal: that ended the process, `SIGSEGV` say, or empty.
        late: whether it took too long.
        usage: whether what the user gave makes no sense.
    """

    text: str
    stage: str
    signal: str = ""
    late: bool = False
    usage: bool = False

    @property
    def crashed(self) -> bool:
        """Whether the process is gone by itself."""
        return bool(self.signal)


class Worker:
    """A process, from the first question to the end of the block.

    Args:
        side: which of the modules answers: `torch`, `onnx` or `ours`.
        folder: for what is written; one for each worker.
        task: what it is to work on.
        environment: of the process; this one's for None.
    """

    def __init__(
        self, side: str, folder: Path, task: dict[str, Any], environment: dict[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mishap: Mishap | None = None
        self.folder = folder
        self._said = folder / "said"
        # -P: what lies in the current folder must not pass for a module.
        command = [sys.executable, "-P", "-m", f"{__package__}.child", side, str(folder), json.dumps(task)]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environment,
                cwd=Path.cwd(),
            )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            for line in stream:
                self._answers.put(line)
        self._answers.put(b"")  # the end

    def ask(self, stage: str, limit: float, **values: Any) -> Any:
        """What a stage answers; None where it does not, and `mishap` says why. After a crash nothing is answered.

        Args:
            stage: name of a method of the side.
            limit: seconds after which the process is killed.
            values: its arguments.
        """
        if not self.alive:
            return None
        self.mishap = None
        try:
            stream = self._process.stdin
            assert stream is not None
            stream.write(f"{json.dumps([stage, values])}\n".encode())
            stream.flush()
            line = self._answers.get(timeout=limit)
        except queue.Empty:
            self.close()
            text = f"it took longer than {limit:g} s and was stopped, while {_doing(stage)}"
            self.mishap = Mishap(text=text, stage=stage, late=True)
            return None
        except OSError:
            line = b""
        if not line:
            self.mishap = self._gone(stage)
            return None
        told = json.loads(line)
        if "problem" in told:
            self.mishap = Mishap(text=told["problem"], stage=stage, usage=told.get("usage", False))
            return None
        with open(told["file"], "rb") as file:
            return pickle.load(file)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def _gone(self, stage: str) -> Mishap:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:  # it has closed its stream
            self.close()
            code = self._process.wait()
        died = ""
        if code < 0:
            died = signal_name(-code)
        how = f"it crashed by {died}" if died else f"its process ended with exit code {code}"
        return Mishap(text=f"{how}, while {_doing(stage)}{self._last_words()}", stage=stage, signal=died)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._said.read_text(errors="replace").splitlines() if line.strip()]
        return f": {lines[-1][-WORDS:]}" if lines else ""

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join(1.0)  # longer only where a grandchild holds the stream
        if self._process.stdin is not None:
            with suppress(OSError):  # what was not written yet has no reader
                self._process.stdin.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


STAGES = {
    "load": "loading it",
    "first": "running it for the first time",
    "trace": "looking at its ops",
    "time": "taking times",
    "check": "comparing it with double precision",
    "make": "importing and compiling it",
    "profile": "profiling it",
}
"""What a stage does, for messages."""


def _doing(stage: str) -> str:
    return STAGES.get(stage, stage)
