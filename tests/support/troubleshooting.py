"""The page of troubleshooting as tests read it."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "help" / "troubleshooting.md"
OF_TORCH = ("HandedToTorchWarning", "RegionDiffersWarning")
"""Entries that torch.compile's own tests provoke."""


def entries():
    """What stands below each heading of an error or a warning."""
    parts = re.split(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.partition("\n## ")[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)}


ENTRIES = entries()


def quoted(name):
    """The message that an entry quotes, `…` for whatever, as a pattern."""
    lines = re.findall(r"^> (.*)$", ENTRIES[name], flags=re.MULTILINE)
    text = " ".join(lines)
    assert re.fullmatch("`[^`]+`", text), f"{name}: the page quotes no message, on lines that begin with '> '"
    return "[^\n]*".join(re.escape(part) for part in text.strip("`").split("…"))


def check_quoted(name, message):
    """Sees to it that the page has a message as it is."""
    assert re.fullmatch(quoted(name), message), f"{name}: the page quotes another message than\n{message}"
