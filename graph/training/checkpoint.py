"""Files from which training goes on: one safetensors file each, whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
from attrs import Factory

from ...ops.errors import GraphFileError
from ...ops.records import frozen
from ...ops.values import format_value, integer, one_line
from ..runtime.arrays import Array
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from ..runtime.replacing import replacing
from ..runtime.tensor_files import DTYPES, content, in_words, read_tensors, write_tensors
from ..runtime.text_files import file_error, file_name

KEY = "onednn_graph.training"
"""The entry of a file's metadata that is ours."""
CHECKSUM = f"{KEY}.checksum"
"""The entry with the checksum of that one."""
WAYS = "ways"
"""In it: which way weight gradients go, by problem; files that were written before there were any lack it."""
OPTIMIZERS = "optimizers"
"""In it: the kind of optimizer of each parameter; likewise."""
FIT = "fit"
"""In it: how far `Trainer.fit` is, see `Progress.text`; likewise."""
CHECKSUMS = "checksums"
"""In it: the checksum of each tensor; likewise."""
HIGHEST = 1 << 63
"""One more than the highest number of a counter: it is kept in 64 bits with a sign."""


@frozen(kw_only=True)
class Contents:
    """What a file holds.

    Attributes:
        parameters: by their names in the file.
        optimizers: the kind of optimizer of each parameter that has one.
        numbers: integers by name.
        later: those that files which were written before there were any lack.
        partial: parameters that a file may lack.
        ways: that weight gradients go, see `Choices.settled`.
        fit: how far `Trainer.fit` is, a text; empty where it is not under way.
    """

    parameters: Mapping[str, Parameter]
    optimizers: Mapping[str, str]
    numbers: Mapping[str, int]
    ways: Mapping[str, str]
    fit: str = ""
    later: Mapping[str, int] = Factory(dict[str, int])
    partial: Mapping[str, Parameter] = Factory(dict[str, Parameter])


def write_checkpoint(path: str | os.PathLike[str], contents: Contents) -> None:
    """Writes a file beside, to the disk, and then puts it in its place.

    Raises:
        GraphFileError: it can't be written.
        UnsupportedError: the package safetensors, which reads it, is not installed.
    """
    library("safetensors", "weights", "Trainer.save")
    target = Path(path)
    arrays = {name: _stored(one.array) for name, one in contents.parameters.items()}
    text = json.dumps(
        {
            **contents.numbers,
            **contents.later,
            WAYS: dict(contents.ways),
            FIT: contents.fit,
            OPTIMIZERS: dict(contents.optimizers),
            CHECKSUMS: {name: crc32(content(array)) for name, array in arrays.items()},
        }
    )
    try:
        with replacing(target) as (file,):
            write_tensors(file, arrays, {KEY: text, CHECKSUM: str(crc32(text.encode()))})
    except (OSError, ValueError) as error:
        raise file_error(f"{file_name(target)}: can't be written: {in_words(error)}", error) from error


def read_checkpoint(
    path: str | os.PathLike[str], here: Contents
) -> tuple[dict[str, int], dict[str, str], str, list[tuple[Parameter, Array]]]:
    """The numbers of a file, the ways that weight gradients go, how far `fit` is, and the arrays for each parameter.

    Args:
        here: what a trainer has, of which the file must be another state.

    Raises:
        GraphFileError: it can't be read, is damaged, or is not of this model and these optimizers.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(Path(path))
    arrays, metadata = read_tensors(path)
    said = _said(name, metadata)
    there_too = [key for key in here.later if key in said]
    numbers, ways = _numbers(name, said, [*here.numbers, *there_too]), _texts(name, said, WAYS)
    wanted = {**here.parameters, **{key: one for key, one in here.partial.items() if key in arrays}}
    for what, there, other in (("lacks", wanted, arrays), ("has", arrays, wanted)):
        different = [key for key in there if key not in other]
        if different:
            raise GraphFileError(
                f"{name}: {what} {different[0]!r}, unlike this model and optimizer; load the file of the same ones; "
                "parameters alone are read by safetensors, under 'parameter/…', and taken by graph.set_parameters"
            )
    for key, kind in _texts(name, said, OPTIMIZERS).items():
        if here.optimizers.get(key, kind) != kind:
            raise GraphFileError(
                f"{name}: parameter {key!r} was trained by {kind}, and {here.optimizers[key]} would take its state for "
                "another; load it with the same optimizer"
            )
    for key, parameter in wanted.items():
        have, want = arrays[key], _stored(parameter.array)
        if have.shape != want.shape or have.dtype != want.dtype:
            raise GraphFileError(
                f"{name}: {key!r} must be {want.dtype} of shape {list(want.shape)}, got {have.dtype} of "
                f"{list(have.shape)}; load the file of the same model"
            )
        _check(name, key, said, have)
    fit: object = said.get(FIT, "")
    if not isinstance(fit, str):
        raise GraphFileError(f"{name}: its metadata is damaged ({FIT} must be a text); take another copy")
    return numbers, ways, fit, [(one, arrays[key].view(one.array.dtype)) for key, one in wanted.items()]


def _stored(array: Array) -> Array:
    """An array as files have it: 8-bit floats and 4-bit integers, for which they have no type, as bytes."""
    return array if array.dtype.name in DTYPES else array.view(np.uint8)


def _check(name: str, key: str, said: Mapping[str, Any], array: Array) -> None:
    wanted: Any = said.get(CHECKSUMS, {})
    found = crc32(content(array))
    if isinstance(wanted, dict) and cast("dict[str, object]", wanted).get(key, found) != found:
        raise GraphFileError(
            f"{name}: {key!r} is damaged, for its checksum is {found} and not what was written; take another copy"
        )


def _said(name: str, metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """What the metadata say of the training."""
    text = metadata.get(KEY)
    if text is None:
        raise GraphFileError(
            f"{name}: was not written by Trainer.save, for its metadata has no '{KEY}'; give a file of Trainer.save"
        )
    if metadata.get(CHECKSUM, str(crc32(text.encode()))) != str(crc32(text.encode())):
        raise GraphFileError(
            f"{name}: its metadata is damaged (its checksum is another one); take another copy"
        )
    try:
        said: Any = json.loads(text)
        if not isinstance(said, dict):
            raise ValueError("it must be an object")
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{name}: its metadata is damaged ({one_line(error)})") from error
    return cast("dict[str, Any]", said)


def _texts(name: str, said: Mapping[str, Any], key: str) -> dict[str, str]:
    """Texts by texts, none where there are none."""
    found: Any = said.get(key, {})
    if not isinstance(found, dict) or not all(
        isinstance(text, str) for pair in cast("dict[object, object]", found).items() for text in pair
    ):
        raise GraphFileError(f"{name}: its metadata is damaged ({key} must be texts by texts)")
    return cast("dict[str, str]", found)


def _numbers(name: str, said: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key in wanted:
        number = integer(said.get(key))
        if number is None or not -HIGHEST <= number < HIGHEST:
            raise GraphFileError(
                f"{name}: its metadata is damaged ({key} must be an integer of 64 bits, got "
                f"{format_value(said.get(key))}); take another copy"
            )
        found[key] = number
    return found
