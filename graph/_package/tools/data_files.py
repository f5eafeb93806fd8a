"""Arrays of a graph's inputs and outputs in .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onednn_graph.graph.arrays import Array, numpy_type
from onednn_graph.graph.compiled_graph import label
from onednn_graph.graph.graph import Graph
from onednn_graph.ops.errors import ArgumentError, nearest
from onednn_graph.tools.filling import fill


def inputs_of(graph: Graph, path: Path | None, seed: int) -> dict[str, Array]:
    """Arrays for all inputs by name: from a file, and made up where it has none or there is no file.

    The keys of the file are names, or ids, of inputs. NumPy writes types that it lacks, such as bfloat16, as raw bytes;
    they are read back as the input's type.

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
        dtype = numpy_type(tensors[name].data_type)
        raw = array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize
        given[name] = array.view(dtype) if raw else array
    if given.keys() == tensors.keys():
        return given
    made = fill(graph, seed)
    return {name: given.get(name, made[tensor.id]) for name, tensor in tensors.items()}


def _read(path: Path) -> Mapping[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise ArgumentError(f"{path} is no .npz file that can be read: {error}") from error


def save_outputs(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name.

    Raises:
        ArgumentError: the file can't be written.
    """
    try:
        with path.open("wb") as file:
            np.savez(file, **dict(arrays))  # pyright: ignore[reportArgumentType] -- its stub takes allow_pickle for a key
    except OSError as error:
        raise ArgumentError(f"{path} can't be written: {error.strerror}") from error
