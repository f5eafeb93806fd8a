"""How fast language models are beside others, from the table that `language.py` has written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

TITLE = "A language model, two threads"
"""Of the section of a page of results."""
ENGINES = {"eager": "eager torch", "openvino": "OpenVINO", "llama_cpp": "llama.cpp"}
"""Engine in the table → what it is called elsewhere."""


def speeds(tables: Iterable[Sequence[Mapping[str, str]]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """What was run, against whom, and the speed of ours ÷ theirs by model; weights of both have as many bits."""
    rows = [row for table in tables for row in table]
    found = {
        (row["model"], row["weights"], row["engine"]): float(row["decode, tokens/s"])
        for row in rows
        if row["decode, tokens/s"]
    }
    for bits in dict.fromkeys(row["weights"] for row in rows):
        for engine, against in ENGINES.items():
            values = {
                model: speed / found[model, bits, engine]
                for (model, own, ours), speed in found.items()
                if (own, ours) == (bits, "ours") and (model, bits, engine) in found
            }
            if values:
                yield f"tokens of a language model, weights in {bits}", against, values
