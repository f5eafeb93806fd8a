"""Documents whose code is run: blocks of a Markdown page, in order, in one namespace and one folder.

What a page may write:

* ```` ```python ```` blocks are run, statement by statement. `print(x)  # → 3` promises what that statement prints.
* An error that a block is to show stands in comments at its end: `# ShapeError: the message …`.
* ```` ```sh ```` blocks are run by bash and have to exit with 0.
* A ```` ```text ```` block behind either is all else that it prints. `…` stands for anything within a line, and
  a line of nothing else for any lines.
* Comments before a block change that: `<!-- notest: reason -->` leaves it alone, `<!-- needs: torch -->` leaves it out
  where that module is missing, `<!-- output: measured -->` lets numbers, kernels' names and the width of columns differ
  from what is shown, `<!-- output: varies -->` takes the text for an example of what is printed, and `<!-- exit: 1 -->`
  expects another exit code.
"""

import ast
import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

import processes
from markdown_it import MarkdownIt

MARK = re.compile(r"<!--\s*(notest|needs|output|exit):\s*(.+?)\s*-->")
PROMISE = re.compile(r"\s# → (.*)$")
ERROR = re.compile(r"^# (\w+(?:Error|Warning)): ")
RUN_BY_SHELL = ("onednn-graph", "cat ", "ls", "ONEDNN_")
SHELL_SECONDS = 120
COMMAND = "onednn-graph "
SHELLS = re.compile(r"[|<>$&;*`(){}#~]")
"""What a shell makes something of."""


@dataclass
class Block:
    """A fenced block: its language, text, first line in the page, and the marks before it."""

    language: str
    text: str
    line: int
    marks: dict = field(default_factory=dict)

    @property
    def runs(self):
        return self.language in ("python", "sh") and "notest" not in self.marks

    @property
    def missing(self):
        """The first module that the block needs and that is not installed."""
        return next((name for name in self.needed if importlib.util.find_spec(name) is None), None)

    @property
    def needed(self):
        """The modules that the block needs."""
        return self.marks.get("needs", "").replace(",", " ").split()


def blocks_of(text):
    """The fenced blocks of a page, in order."""
    found, marks = [], {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            marks |= dict(MARK.findall(token.content))
        elif token.type == "fence":
            language = (token.info.split() or [""])[0]
            found.append(Block(language, token.content, token.map[0] + 2, marks))
            marks = {}
        elif token.type not in ("paragraph_open", "paragraph_close"):
            marks = {}
    return found


def needed_by(path):
    """The modules that blocks of a page need beyond the package, in order."""
    blocks = [block for block in blocks_of(Path(path).read_text(encoding="utf-8")) if block.runs]
    return sorted({name for block in blocks for name in block.needed})


def with_needs(path, root):
    """The id of a page's test: its place, and `needs-torch` where a block needs that, for `-k` to go by."""
    return " ".join([Path(path).relative_to(root).as_posix(), *(f"needs-{name}" for name in needed_by(path))])


def matches(printed, promised):
    """Whether the text is as promised; `…` is anything within a line, and alone on one any lines."""
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + "[ ]*\n"
        for line in promised.rstrip().splitlines()
    )
    lines = "".join(line.rstrip() + "\n" for line in printed.rstrip().splitlines())
    return re.fullmatch(pattern, lines) is not None


NUMBER = re.compile(r"\d+(\.\d+)?")
KERNEL = re.compile(r"\b[a-z][\w]*(:[a-z][\w]*)+")


def measured(text):
    """The text without what another run or another CPU changes: numbers, names of kernels, widths of columns."""
    return "".join(
        re.sub(r" +", " ", NUMBER.sub("0", KERNEL.sub("kernel", line))).strip() + "\n"
        for line in text.splitlines()
    )


class PageError(AssertionError):
    """A block that does not do what its page says."""


class Page:
    """A page being run.

    Args:
        path: of the Markdown file, or a name for messages.
        text: its content; read from the file if None.
        folder: where blocks run.
    """

    def __init__(self, path, folder, text=None):
        self.path = Path(path)
        self.blocks = blocks_of(self.path.read_text(encoding="utf-8") if text is None else text)
        self.folder = folder
        self.left_out = []
        self._module = types.ModuleType(f"page_{re.sub(r'[^a-z0-9]', '_', self.path.stem.lower())}")

    def run(self):
        """Runs every block; what was left out for a missing module is in `left_out`."""
        printed = None
        sys.modules[self._module.__name__] = self._module  # classes of a page look their module up
        try:
            for block in self.blocks:
                if block.language == "text":
                    if printed is not None:
                        self._compare(block, printed)
                    printed = None
                elif block.runs and block.missing:
                    self.left_out.append(f"{self.path.name}:{block.line} needs {block.missing}")
                    printed = None
                elif block.runs:
                    printed = self._python(block) if block.language == "python" else self._shell(block)
                else:
                    printed = None
        finally:
            del sys.modules[self._module.__name__]

    def _fail(self, block, message):
        raise PageError(f"{self.path}:{block.line}: {message}")

    def _compare(self, block, printed):
        if block.marks.get("output") == "varies":
            if not printed.strip():
                self._fail(block, "the block before printed nothing")
        elif block.marks.get("output") == "measured":
            if not matches(measured(printed), measured(block.text)):
                self._fail(block, f"promised, but for numbers and kernels\n{block.text}\nprinted\n{printed}")
        elif not matches(printed, block.text):
            self._fail(block, f"promised\n{block.text}\nprinted\n{printed}")

    def _python(self, block):
        promised_error = _promised_error(block.text)
        everything = io.StringIO()
        try:
            tree = ast.parse(block.text, str(self.path))
            ast.increment_lineno(tree, block.line - 1)
            lines = block.text.splitlines()
            for statement in tree.body:
                out = io.StringIO()
                code = compile(ast.Module([statement], []), str(self.path), "exec")
                with contextlib.redirect_stdout(out):
                    exec(code, self._module.__dict__)
                promise = PROMISE.search(lines[statement.end_lineno - block.line])
                if promise is None:
                    everything.write(out.getvalue())
                elif not matches(out.getvalue(), promise.group(1)):
                    self._fail(
                        block,
                        f"promised {promise.group(1)!r} in line {statement.end_lineno}, got {out.getvalue()!r}",
                    )
        except PageError:
            raise
        except Exception as error:
            if promised_error is None:
                raise
            message = " ".join(f"{type(error).__name__}: {error}".split())
            if not matches(message, promised_error):
                raise PageError(
                    f"{self.path}:{block.line}: promised\n{promised_error}\ngot\n{message}"
                ) from error
        else:
            if promised_error is not None:
                self._fail(block, f"nothing was raised, promised {promised_error}")
        return everything.getvalue()

    def _shell(self, block):
        for line in _commands(block.text):
            if not line.startswith(RUN_BY_SHELL):
                self._fail(
                    block, f"{line!r} is no command that a page runs; mark the block with notest and a reason"
                )
        folder = str(Path(sys.executable).parent)
        environment = os.environ | {
            "PATH": folder + os.pathsep + os.environ["PATH"],
            "COLUMNS": "110",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PYTHONUTF8": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        commands = _commands(block.text)
        if all(line.startswith(COMMAND) and not SHELLS.search(line) for line in commands):
            run = self._own_commands(commands, environment)
        else:
            run = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text],
                cwd=self.folder,
                capture_output=True,
                text=True,
                encoding="utf-8",
                check=False,
                timeout=SHELL_SECONDS,
                env=environment,
            )
        wanted = int(block.marks.get("exit", "0"))
        if run.returncode != wanted:
            self._fail(
                block, f"exit code {run.returncode}, not {wanted}\n{block.text}\n{run.stdout}{run.stderr}"
            )
        return run.stdout + run.stderr

    def _own_commands(self, commands, environment):
        """Commands of ours in which a shell has nothing to do, without one and without importing the package anew."""
        out, errors, code = "", "", 0
        for line in commands:
            arguments = ["-m", "onednn_graph", *shlex.split(line.removeprefix(COMMAND))]
            done = processes.run(arguments, env=environment, cwd=self.folder, timeout=SHELL_SECONDS)
            out, errors, code = out + done.stdout.decode(), errors + done.stderr.decode(), done.returncode
            if code:
                break
        return subprocess.CompletedProcess(commands, code, out, errors)


def _promised_error(text):
    """The error in the comments at the end of a block, on one line, or None."""
    lines = text.rstrip().splitlines()
    for number, line in enumerate(lines):
        if ERROR.match(line) and all(rest.startswith("#") for rest in lines[number:]):
            return " ".join(" ".join(rest.lstrip("# ") for rest in lines[number:]).split())
    return None


def _commands(text):
    """The commands of a shell block, without comments; continued lines are one."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]
