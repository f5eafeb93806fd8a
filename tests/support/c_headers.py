"""What the library's C headers say, where they are installed."""

import os
import re
import sys
from pathlib import Path

import pytest


def _without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def text_of_headers():
    """The text of the C headers, without comments."""
    places = [os.environ.get("ONEDNN_INCLUDE"), Path(sys.prefix) / "include", "/usr/include"]
    for place in places:
        folder = Path(place or "/nowhere") / "oneapi" / "dnnl"
        if (folder / "dnnl_types.h").exists():
            return "\n".join(_without_comments(file.read_text()) for file in sorted(folder.glob("dnnl*.h")))
    pytest.skip(
        "oneDNN's C headers are not installed; pip install onednn-devel-cpu-gomp or set ONEDNN_INCLUDE"
    )


def enumerators(headers):
    """Name → value of every enumerator and #define with an integer."""
    values = {}
    for body in re.findall(r"typedef enum\s*\w*\s*{(.*?)}", headers, flags=re.DOTALL):
        following = 0
        for item in body.split(","):
            name, _, value = (part.strip() for part in item.partition("="))
            if name:
                following = _number(value, values) if value else following
                values[name] = following
                following += 1
    for name, value in re.findall(r"#define (DNNL_ARG_\w+|DNNL_MAX_NDIMS) (\w+)\s", headers):
        values[name] = _number(value, values)
    return values


def _number(text, known):
    text = text.rstrip("uU")
    return known[text] if text in known else int(text, 0)
