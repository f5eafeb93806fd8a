"""Files of other kinds, handed to each reader: what they are is told by their content, and who reads them."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.kinds_of_files import kind_of
from onednn_graph.tools.graph_files import GraphFile

T = og.training


def graph() -> og.Graph:
    made = og.Graph()
    x, w = made.input("x", "f32", [2, 4]), made.parameter(np.ones((4, 4), np.float32), name="w")
    made.output(made.reduce_sum(made.matmul(x, w), axes=[0, 1], keep_dims=False), name="y")
    return made


def trainer() -> T.Trainer:
    made = graph()
    return T.Trainer(made, made.outputs[0], T.SGD(0.1))


READERS: dict[str, Callable[[Path], Any]] = {
    "command": lambda path: GraphFile.at(path).graph(),
    "Graph.load": og.Graph.load,
    "load_compiled": og.Graph.load_compiled,
    "from_onnx": og.from_onnx,
    "Trainer.load": lambda path: trainer().load(path),
}


def zipped(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"x")


def saved_weights(path: Path) -> None:
    graph().save(path.with_name("g.json"), weights=True)
    path.with_name("g.safetensors").rename(path)


def plain_tensors(path: Path) -> None:
    pytest.importorskip("safetensors.numpy").save_file({"w": np.ones(3, np.float32)}, path)


def onnx_model(path: Path) -> None:
    made = og.Graph()
    made.output(made.relu(made.input("x", "f32", [2])), name="y")
    made.to_onnx(path)


def compiled(path: Path) -> None:
    graph().compile().save_compiled(path)


def ours_as_json(path: Path) -> None:
    graph().save(path, weights=False)


KINDS: dict[str, tuple[Callable[[Path], object], str, set[str]]] = {
    "a.og": (compiled, "og.Graph.load_compiled reads it", {"load_compiled"}),
    "a.bin": (compiled, "og.Graph.load_compiled reads it", {"load_compiled"}),
    "checkpoint.safetensors": (lambda path: trainer().save(path), "a Trainer of the same graph", {"Trainer.load"}),
    "weights.safetensors": (saved_weights, "give the .json that lies beside it", set()),
    "plain.safetensors": (plain_tensors, "weights without a model; load it into the module in torch", set()),
    "a.onnx": (onnx_model, "og.from_onnx reads it", {"from_onnx", "command"}),
    "a.json": (ours_as_json, "og.Graph.load reads those", {"Graph.load", "command", "from_onnx"}),
    "a.npy": (lambda path: np.save(path, np.ones(3)), "np.load reads it", set()),
    "a.npz": (lambda path: np.savez(path, x=np.ones(3)), "np.load reads it", set()),
    "a.pkl": (lambda path: path.write_bytes(pickle.dumps({"w": 1})), "hand the module to og.from_torch", set()),
    "a.pt": (lambda path: zipped(path, "a/data.pkl"), "is a file of torch.save; load it in torch", set()),
    "a.pt2": (lambda path: zipped(path, "a/archive_format"), r"hand torch.export.load\(path\).module\(\) to", set()),
    "a.zip": (lambda path: zipped(path, "a.txt"), "is a zip archive; unpack it first", set()),
    "a.onnx.gz": (lambda path: path.write_bytes(gzip.compress(b"x" * 99)), "packed by gzip; unpack it first", set()),
    "a.gguf": (lambda path: path.write_bytes(b"GGUF\3\0\0\0" + bytes(99)), "is a GGUF file", set()),
    "a.h5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99)), "convert the model to ONNX", set()),
    "a.tflite": (lambda path: path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(99)), "convert the model to ONNX", set()),
    "a.xml": (lambda path: path.write_text('<?xml version="1.0"?><net/>'), "OpenVINO's IR; give the ONNX file", set()),
    "b.onnx": (lambda path: path.write_text("<!DOCTYPE html>404"), "page of the web.*download that again", set()),
    "c.onnx": (lambda path: path.write_text("version https://git-lfs.github.com/"), "git lfs pull fetches", set()),
    "a.onnx.data": (lambda path: path.write_bytes(np.ones(9).tobytes()), "give the .onnx file", set()),
    "d.onnx": (lambda path: path.write_bytes(b""), "is empty", set()),
    "e.onnx": (lambda path: path.write_text("hello\n"), "is a text; it holds no model", set()),
    "folder": (lambda path: path.mkdir(), "is a folder; name a", set()),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", KINDS)
def test_each_reader_says_what_a_file_is(tmp_path: Path, name: str, reader: str) -> None:
    write, message, taken = KINDS[name]
    if name == "a.onnx" or reader == "from_onnx":
        pytest.importorskip("onnx")
    path = tmp_path / name
    write(path)
    if reader in taken:
        if name != "a.json" or reader != "from_onnx":  # which has its own words for ours
            READERS[reader](path)
        return
    with pytest.raises(og.OneDNNGraphError, match=message) as caught:
        READERS[reader](path)
    assert name in str(caught.value)
    assert "corrupt" not in str(caught.value)
    assert isinstance(caught.value, og.GraphFileError | og.ArgumentError)


def test_bytes_are_told_too() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(
        og.ArgumentError, match=r"^from_onnx: what the bytes hold is no ONNX model: it is a GGUF file"
    ):
        og.from_onnx(b"GGUF\3\0\0\0" + bytes(99))


def test_what_is_damaged_is_told_as_such(tmp_path: Path) -> None:
    """A file of the right kind keeps the words of its reader."""
    path = tmp_path / "a.og"
    graph().compile().save_compiled(path)
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(og.GraphFileError, match="cut off or damaged"):
        og.Graph.load_compiled(path)
    (tmp_path / "a.json").write_text('{"version": ')
    with pytest.raises(og.GraphFileError, match="line 1, column 13: must be JSON"):
        og.Graph.load(tmp_path / "a.json")
    assert kind_of(bytes(range(1, 99))) is None  # nothing is guessed
    assert kind_of(b"\xff\xfe" + bytes(99)) is None
