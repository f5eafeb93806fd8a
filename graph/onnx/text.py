"""Text in NumPy: tokens, and counts of their sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ...ops.values import format_value
from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call
from .regular import Expression, expression

START, END = "\x02", "\x03"
"""What Tokenizer puts around the tokens of a text, if it marks them."""


def tokens(call: Call) -> list[Array]:
    """Tokenizer of onnxruntime: the words of each text along a new last axis, filled up with `pad_value`.

    Raises:
        Unmapped: neither separators nor an expression, or none of RE2's.
    """
    x, least = call[0], int(call.get("mincharnum", 1))
    pattern, separators = call.get("tokenexp"), call.get("separators")
    if x.dtype.kind not in "OUT" or least < 1 or (not pattern) == (separators is None):
        raise Unmapped("it must have separators or tokenexp, a mincharnum above 0, and text as its input")
    texts: Sequence[str] = [pattern] if separators is None else separators
    found = call.once("expressions", lambda: [expression(one) for one in texts if one])
    around = bool(call.get("mark", 0))
    rows: list[list[str]] = []
    for text in cast("list[str]", x.reshape(-1).tolist()):
        if separators is None:
            words = [text[start:end] for start, end in found[0].found(text)]
        elif not found:
            words = list(text)
        else:
            words = [text]
            for separator in found:
                words = [part for word in words for part in _split(separator, word)]
        words = [word for word in words if len(word) >= least]
        rows.append([START, *words, END] if around else words)
    longest = max(map(len, rows), default=0)
    check_room((*x.shape, longest), np.dtype(object), call.limit)
    made = np.full((len(rows), longest), call.get("pad_value", ""), object)
    for row, words in zip(made, rows, strict=True):
        row[: len(words)] = words
    return [made.reshape(*x.shape, longest)]


def _split(separator: Expression, text: str) -> list[str]:
    parts, rest = list[str](), 0
    for start, end in separator.found(text):
        parts.append(text[rest:start])
        rest = end
    return [*parts, text[rest:]]


def full_matches(call: Call) -> list[Array]:
    """RegexFullMatch: which texts are matches from their beginnings to their ends.

    Raises:
        Unmapped: no expression, or none of RE2's.
    """
    x, pattern = call[0], call.get("pattern")
    if x.dtype.kind not in "OUT" or not isinstance(pattern, str):
        raise Unmapped("it must have a pattern, and text as its input")
    prepared = call.once("expression", lambda: expression(pattern))
    texts = cast("list[str]", x.reshape(-1).tolist())
    return [np.asarray([prepared.matches(text) for text in texts], np.bool_).reshape(x.shape)]


def counts(call: Call) -> list[Array]:
    """TfIdfVectorizer: how often sequences of tokens are in each row, weighted if that is wanted.

    Raises:
        Unmapped: attributes that say no sequences.
    """
    x, mode = call[0], call.get("mode")
    if mode not in ("TF", "IDF", "TFIDF") or not 1 <= x.ndim <= 2:
        raise Unmapped(f"a mode {format_value(mode)} for an input of rank {x.ndim}")
    grams: Mapping[tuple[Any, ...], int] = call.once("grams", lambda: _grams(call))
    size = 1 + max((int(one) for one in call.get("ngram_indexes", ())), default=-1)
    rows: list[list[Any]] = x.reshape(1, -1).tolist() if x.ndim == 1 else x.tolist()
    check_room((len(rows), size), np.dtype(np.float32), call.limit)
    made = np.zeros((len(rows), size), np.float32)
    least, most = int(call.get("min_gram_length", 1)), int(call.get("max_gram_length", 1))
    skips = int(call.get("max_skip_count", 0))
    known = max(map(len, grams), default=0)
    for row, words in zip(made, rows, strict=True):
        for length in range(max(1, least), min(most, known, len(words)) + 1):
            for step in range(1, 2 if length == 1 else skips + 2):
                reach = (length - 1) * step
                if reach >= len(words):
                    break
                for start in range(len(words) - reach):
                    place = grams.get(tuple(words[start : start + reach + 1 : step]))
                    if place is not None:
                        row[place] += 1
    if mode == "IDF":
        made = np.minimum(made, 1)
    if mode != "TF" and call.get("weights"):
        weights = np.asarray(call.get("weights"), np.float32)
        if len(weights) < size:
            raise Unmapped(f"its weights has {len(weights)} entries for {size} sequences")
        made = made * weights[:size]
    return [made[0] if x.ndim == 1 else made]


def _grams(call: Call) -> dict[tuple[Any, ...], int]:
    """The place in the output of each sequence that is counted."""
    pool: Sequence[Any] = call.get("pool_strings") or call.get("pool_int64s") or ()
    starts = [int(start) for start in call.get("ngram_counts", ())]
    places = [int(place) for place in call.get("ngram_indexes", ())]
    bounds = [*starts, len(pool)]
    if starts[:1] != [0] or any(a > b for a, b in pairwise(bounds)):
        raise Unmapped("its ngram_counts must begin with 0 and grow up to the size of the pool")
    found: list[tuple[Any, ...]] = []
    for length, (start, end) in enumerate(pairwise(bounds), 1):
        if (end - start) % length:
            raise Unmapped(f"its pool has {end - start} tokens for sequences of {length}")
        found += [tuple(pool[at : at + length]) for at in range(start, end, length)]
    if len(found) != len(places) or min(places, default=0) < 0:
        raise Unmapped(f"its ngram_indexes has {len(places)} entries for {len(found)} sequences")
    return dict(zip(found, places, strict=True))
