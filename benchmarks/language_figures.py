"""How fast language models are beside others, from the table that `language.py` has written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

ENGINES = {"eager": "eager torch", "openvino": "OpenVINO", "llama_cpp": "llama.cpp"}
"""Engine in the table → what it is called elsewhere."""


def speeds(rows: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Type of the weights, against whom, and the speed of ours divided by theirs, by model; both have as many bits."""
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
                yield bits, against, values
