"""Arrays of a graph's inputs and outputs in .npz files."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from numpy.lib.npyio import NpzFile

from ..graph.graph import Graph
from ..graph.model.logical_tensor import label
from ..graph.onnx.staged_graph import StagedGraph
from ..graph.open_graph import OpenGraph
from ..graph.runtime.arrays import Array, numpy_type
from ..graph.runtime.replacing import replacing
from ..graph.runtime.text_files import is_text
from ..ops.errors import ArgumentError, nearest
from ..ops.records import frozen
from ..ops.values import format_value
from .benchdnn.filling import fill
from .staging import made_up


@frozen(kw_only=True, eq=False)
class Inputs:
    """Arrays for all inputs of a graph.

    Attributes:
        arrays: by name.
        made_up: names of those that were not given.
    """

    arrays: dict[str, Array]
    made_up: tuple[str, ...]


def given_arrays(graph: Graph | OpenGraph, path: Path | None) -> dict[str, Array]:
    """Arrays of a file by the names of the graph's inputs; none where there is no file.

    The keys of the file are names, or ids, of inputs. NumPy writes types that it lacks, such as bfloat16, as raw bytes;
    they are read back as the input's type.

    Args:
        tell: is told where weights of the model are made up, or what a file should have had.

    Raises:
        ArgumentError: the file can't be read, or has an array for no input.
    """
    tensors = {label(t): t for t in graph.inputs}
    by_id = {str(t.id): label(t) for t in graph.inputs}
    given: dict[str, Array] = {}
    stored: Mapping[str, Array] = {} if path is None else _read(path)
    for key, array in stored.items():
        name = key if key in tensors else by_id.get(key)
        if name is None:
            raise ArgumentError(
                f"{path} has an array '{key}', and the graph has no such input{nearest(key, tensors)}; its inputs are "
                f"{', '.join(tensors)}"
            )
        given[name] = array
        if array.dtype.kind == "V":
            dtype = numpy_type(tensors[name].data_type)
            given[name] = array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array
    return given


def inputs_of(graph: Graph | StagedGraph, given: Mapping[str, Array], seed: int) -> Inputs:
    """Arrays for all inputs: those that are given, and made up for the others.

    Args:
        graph: finalized, with all shapes known where arrays are made up; or a model in stages.
        given: by name.
        seed: of what is made up.
    """
    missing = [label(t) for t in graph.inputs if label(t) not in given]
    if not missing:
        return Inputs(arrays=dict(given), made_up=())
    if isinstance(graph, StagedGraph):
        return Inputs(arrays={**given, **made_up(graph, missing, seed)}, made_up=tuple(missing))
    made = fill(graph, seed)
    arrays = {label(t): given.get(label(t), made[t.id]) for t in graph.inputs}
    return Inputs(arrays=arrays, made_up=tuple(missing))


def _read(path: Path) -> Mapping[str, Array]:
    try:
        with path.open("rb") as opened:
            stream = opened if opened.seekable() else io.BytesIO(opened.read())
            file: object = np.load(stream, allow_pickle=False)
            if not isinstance(file, NpzFile):
                raise ArgumentError(
                    f"{path} holds one array; save it by its name, as in np.savez(path, x=array)"
                )
            arrays = cast("Mapping[str, Array]", file)
            return {key: arrays[key] for key in arrays}
    except ArgumentError:
        raise
    except OSError as error:
        raise ArgumentError(f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        # RuntimeError for what is encrypted, and its NotImplementedError for a later version of the format. NumPy
        # advises to unpickle what it does not know, which runs whatever a file says.
        reason = "it holds no arrays of numbers" if "allow_pickle" in str(error) else str(error)
        raise ArgumentError(
            f"{path} is no .npz file that can be read: {reason}; write one by np.savez(path, x=array)"
        ) from error


def save_outputs(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name.

    Raises:
        ArgumentError: the file can't be written, or one is no array of numbers.
    """
    for name, array in arrays.items():
        if "\0" in name or not is_text(name):  # archives cut names at the one, and have none of the others
            raise ArgumentError(
                f"output {format_value(name)} has a null character or a lone surrogate in its name, which no .npz file "
                "can hold; name it otherwise"
            )
        # Of a model in stages it may be anything.
        if not isinstance(cast("object", array), np.ndarray) or array.dtype.kind == "O":
            raise ArgumentError(
                f"output '{name}' is no array of numbers, which files of arrays have no place for"
            )
    try:
        # np.savez has parameters of its own, whose names an array can't have then.
        with replacing(path) as (file,), zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise ArgumentError(f"{path} can't be written: {error.strerror or error}") from error
