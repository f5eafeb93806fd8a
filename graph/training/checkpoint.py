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
from ..model.patterns import some_of
from ..runtime.arrays import Array
from ..runtime.kinds_of_files import CHECKPOINT, told
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
PARAMETER, EMA, PLATEAU, SUMS = "parameter/", "ema/", "plateau/", "accumulated"
"""What names of tensors in a file begin with; all others are states of optimizers."""
HIGHEST = 1 << 63
"""One more than the highest number of a counter: it is kept in 64 bits with a sign."""
SEED = "seed"
"""The number that is no counter: a seed is any integer."""


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
    other = "" if KEY in metadata else told(path, CHECKPOINT)
    if other:
        raise GraphFileError(f"{name}: was not written by Trainer.save: {other}")
    said = _said(name, metadata)
    there_too = [key for key in here.later if key in said]
    numbers, ways = _numbers(name, said, [*here.numbers, *there_too]), _texts(name, said, WAYS)
    wanted = {**here.parameters, **{key: one for key, one in here.partial.items() if key in arrays}}
    _compare(name, _texts(name, said, OPTIMIZERS), arrays, here, wanted)
    for key, parameter in wanted.items():
        have, want = arrays[key], _stored(parameter.array)
        if have.shape != want.shape or have.dtype != want.dtype:
            raise GraphFileError(
                f"{name}: {key!r} must be {want.dtype} of shape {list(want.shape)}, as in this model, got "
                f"{have.dtype} of {list(have.shape)} in the file; load the file of the same model"
            )
        _check(name, key, said, have)
    fit: object = said.get(FIT, "")
    if not isinstance(fit, str):
        raise GraphFileError(f"{name}: its metadata is damaged ({FIT} must be a text); take another copy")
    return numbers, ways, fit, [(one, arrays[key].view(one.array.dtype)) for key, one in wanted.items()]


def _stored(array: Array) -> Array:
    """An array as files have it: 8-bit floats and 4-bit integers, for which they have no type, as bytes."""
    return array if array.dtype.name in DTYPES else array.view(np.uint8)


def _compare(
    name: str,
    optimizers: Mapping[str, str],
    arrays: Mapping[str, Array],
    here: Contents,
    wanted: Mapping[str, Parameter],
) -> None:
    """Sees to it that a file is of this training, and says in what it is not: what is there, and what is wanted.

    Args:
        optimizers: the kind of each parameter's, in the file.
        arrays: of the file.
        here: what the trainer has. wanted: what it takes of the file, by name.

    Raises:
        GraphFileError: it is of another one.
    """
    # The model comes first, since all else follows from its parameters.
    held, own = _of(PARAMETER, arrays), _of(PARAMETER, here.parameters)
    for key in (*(one for one in own if one not in held), *(one for one in held if one not in own)):
        which = (
            f"has no parameter {key!r}, as this model has" if key in own else f"has a parameter {key!r} more"
        )
        raise GraphFileError(
            f"{name}: {which}; its parameters are {some_of(held)}, and those of the model {some_of(own)}; load the "
            f"file of the same model, or take what is alike by graph.set_parameters({{…}}), which safetensors reads "
            f"under '{PARAMETER}…'"
        )
    for key in {**optimizers, **here.optimizers} if optimizers else ():
        there, mine = optimizers.get(key), here.optimizers.get(key)
        if there != mine:
            raise GraphFileError(
                f"{name}: parameter {key!r} was trained {_by(there)}, and is to be trained {_by(mine)} here, which "
                f"has another state; {_WAY}"
            )
    averages = [bool(_of(EMA, each)) for each in (arrays, here.parameters)]
    if averages[0] != averages[1]:
        raise GraphFileError(
            f"{name}: was written {'with' if averages[0] else 'without'} averages of the parameters (ema), and this "
            f"trainer has {'some' if averages[1] else 'none'}; load it in a "
            f"{'Trainer(…, ema=…)' if averages[0] else 'Trainer without ema'}"
        )
    plateaus = [len(_of(PLATEAU, each)) for each in (arrays, here.parameters)]
    if plateaus[0] != plateaus[1]:
        raise GraphFileError(
            f"{name}: was written with {plateaus[0]} learning rates that are a Plateau, and this trainer has "
            f"{plateaus[1]}; load it with the same learning rates"
        )
    sums = [any(key == SUMS or key.startswith(f"{SUMS}/") for key in each) for each in (arrays, here.partial)]
    if sums[0] and not sums[1]:
        raise GraphFileError(
            f"{name}: was written between two updates, with the accumulated gradients of Trainer(…, accumulate=…), and "
            "this trainer has accumulate=1; load it with the same number, or call flush() before save()"
        )
    for key in (*(one for one in wanted if one not in arrays), *(one for one in arrays if one not in wanted)):
        lacks = key in wanted
        kinds = sorted({*here.optimizers.values()})
        raise GraphFileError(
            f"{name}: {'lacks' if lacks else 'has'} {key!r}, unlike this training by {' and '.join(kinds)}: an "
            f"optimizer keeps what its settings, as momentum, ask for; {_WAY}"
        )


_WAY = (
    "load it with the same optimizer and settings, or take the parameters alone by graph.set_parameters({…}), which "
    f"safetensors reads under '{PARAMETER}…'"
)


def _of(beginning: str, keys: Iterable[str]) -> list[str]:
    """What stands behind a beginning, of those that have it."""
    return [key.removeprefix(beginning) for key in keys if key.startswith(beginning)]


def _by(optimizer: str | None) -> str:
    return "by no optimizer" if optimizer is None else f"by {optimizer}"


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
        if number is None or (key != SEED and not -HIGHEST <= number < HIGHEST):
            raise GraphFileError(
                f"{name}: its metadata is damaged ({key} must be an integer{' of 64 bits' * (key != SEED)}, got "
                f"{format_value(said.get(key))}); take another copy"
            )
        found[key] = number
    return found
