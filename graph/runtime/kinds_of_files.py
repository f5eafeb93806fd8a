"""What a file is that a reader can't read: told by its content, so that an error can say who reads it."""

from __future__ import annotations

import os

from ...ops.records import frozen

SEEN = 4096
"""Bytes of a file that are looked at."""
MAX_TEXTS = 10**8
"""The most that the list of tensors of a safetensors file may take; more is another kind of file."""


@frozen
class Kind:
    """A kind of files.

    Attributes:
        name: for readers, to say which they take.
        what: it is, with its article.
        way: what to do with it.
    """

    name: str
    what: str
    way: str


_TORCH = "load it in torch, and hand the module to og.from_torch"
_UNPACK = "unpack it first"
_AS_ONNX = "convert the model to ONNX, and give that file"
COMPILED = Kind(
    "compiled",
    "a compiled model, as save_compiled writes it",
    "og.Graph.load_compiled reads it, and to look at the graph give the file that it was made of",
)
CHECKPOINT = Kind(
    "checkpoint",
    "a checkpoint, as Trainer.save writes it",
    "a Trainer of the same graph takes it by load, and trainer.model() is the graph",
)
WEIGHTS = Kind(
    "weights",
    "the weights of a graph, as Graph.save writes them",
    "give the .json that lies beside it, with which they are read",
)
TENSORS = Kind(
    "tensors",
    "a safetensors file, weights without a model",
    "load it into the module in torch, and hand that to og.from_torch",
)
JSON = Kind("json", "a JSON document", "og.Graph.load reads those that Graph.save has written")
ONNX = Kind("onnx", "an ONNX model, it seems", "og.from_onnx reads it")
EMPTY = Kind("empty", "empty", "was it cut off, or not yet written?")
FOLDER = Kind("folder", "a folder", "name a file in it")
EXTERNAL = Kind(
    "external", "the weights of an ONNX model, by its name", "give the .onnx file that lies beside it"
)
TEXT = Kind("text", "a text", "it holds no model")
BEGINNINGS: tuple[tuple[bytes, Kind], ...] = (
    (b"\x93NUMPY", Kind("npy", "an array of NumPy", "np.load reads it")),
    (b"GGUF", Kind("gguf", "a GGUF file of llama.cpp", "give the model as torch or ONNX have it")),
    (b"\x89HDF\r\n", Kind("hdf5", "an HDF5 file, as Keras writes them", _AS_ONNX)),
    (b"\x1f\x8b", Kind("gzip", "packed by gzip", _UNPACK)),
    (b"BZh", Kind("bzip2", "packed by bzip2", _UNPACK)),
    (b"\xfd7zXZ\0", Kind("xz", "packed by xz", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Kind("7z", "packed by 7-Zip", _UNPACK)),
    (
        b"version https://git-lfs",
        Kind("lfs", "a pointer of Git LFS in the place of the file", "git lfs pull fetches that"),
    ),
)
"""What files begin with."""
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def kind_of(content: bytes, name: str = "", size: int | None = None) -> Kind | None:
    """What a file is; None where it is nothing that is known.

    Args:
        content: its beginning, or all of it.
        name: of the file, which is asked last.
        size: of the file; that of the content if None.
    """
    begin = content[:SEEN]
    if not begin:
        return EMPTY
    for mark, kind in BEGINNINGS:
        if begin.startswith(mark):
            return kind
    if begin.startswith(PICKLES):
        return Kind("pickle", "a pickle, as torch.save and others write them", _TORCH)
    if begin[4:8] == b"TFL3":
        return Kind("tflite", "a model of TensorFlow Lite", _AS_ONNX)
    return (
        _packed(begin, name)
        or _tensors(begin, len(content) if size is None else size)
        or _by_name(begin, name)
        or _text(begin)
    )


def told(path: str | os.PathLike[str], *taken: Kind) -> str:
    """`it is a compiled model, …; og.Graph.load_compiled reads it` of a file that could not be read.

    Args:
        path: of the file.
        taken: kinds that the reader takes, of which its own error says more.

    Returns:
        An empty text where it is not known, or of a kind that is taken.
    """
    try:
        if os.path.isdir(path):
            return _words(FOLDER)
        with open(path, "rb") as file:
            content, size = file.read(SEEN), os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return ""
    kind = kind_of(content, os.fsdecode(path), size)
    return "" if kind is None or kind in taken else _words(kind)


def _words(kind: Kind) -> str:
    return f"it is {kind.what}; {kind.way}"


def _packed(begin: bytes, name: str) -> Kind | None:
    if not begin.startswith(b"PK"):
        return None
    if b"data.pkl" in begin:
        return Kind("torch", "a file of torch.save", _TORCH)
    if b".npy" in begin:
        return Kind("npz", "an archive of NumPy's arrays", "np.load reads it")
    if b"archive_format" in begin or name.lower().endswith(".pt2"):
        return Kind(
            "pt2",
            "a program of torch.export",
            "hand torch.export.load(path).module() to og.from_torch",
        )
    return Kind("zip", "a zip archive", _UNPACK)


def _tensors(begin: bytes, size: int) -> Kind | None:
    length = int.from_bytes(begin[:8], "little")
    if begin[8:9] != b"{" or not 2 <= length <= min(size - 8, MAX_TEXTS):
        return None
    texts = begin[8 : 8 + length]
    for mark, kind in (
        (b'"onednn_graph_compiled"', COMPILED),
        (b'"onednn_graph.training"', CHECKPOINT),
        (b'"onednn_graph"', WEIGHTS),
    ):
        if mark in texts:
            return kind
    return TENSORS


def _text(begin: bytes) -> Kind | None:
    bare = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    if bare.startswith((b"{", b"[")):
        return JSON
    small = bare[:200].lower()
    if small.startswith((b"<!doctype html", b"<html")):
        return Kind(
            "html", "a page of the web, in the place of what was to be downloaded", "download that again"
        )
    if small.startswith((b"<?xml", b"<net")):
        what = "OpenVINO's IR" if b"<net" in begin else "an XML document"
        return Kind("xml", what, "give the ONNX file that it came from")
    try:
        begin[:-4].decode() if len(begin) == SEEN else begin.decode()  # it may end within a letter
    except UnicodeDecodeError:
        return None
    plain = not any(byte < 32 and byte not in b"\t\n\r\f" for byte in begin)
    return (TEXT if bare else EMPTY) if plain else None


def _by_name(begin: bytes, name: str) -> Kind | None:
    small = name.lower()
    if small.endswith((".onnx.data", ".onnx_data")):
        return EXTERNAL
    return ONNX if begin[:1] == b"\x08" and small.endswith(".onnx") else None
