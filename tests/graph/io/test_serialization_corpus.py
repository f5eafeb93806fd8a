"""Graph files: every real one of the corpus survives as a document and as a graph."""

import json
import os
from pathlib import Path

import pytest
from conftest import ROOT
from graph_documents import described
from onednn_graph.graph.files import read_graph, to_graph
from onednn_graph.graph.io.serialization import (
    dumps,
    load,
    loads,
    write_graph,
)

FOLDER = Path(os.environ.get("ONEDNN_GRAPH_CORPUS", ROOT.parent / "shared")) / "benchdnn_graph"

FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.json")) if FOLDER.is_dir() else []


@pytest.fixture(params=FILES or ["no files"])
def file(request, corpus):
    """Each graph of the corpus; skipped, with the reason, where the corpus is not."""
    if not FILES:
        pytest.skip(f"the corpus has no folder {FOLDER.name}")
    return corpus / "benchdnn_graph" / request.param


def test_the_corpus_is_complete(corpus):
    if not FILES:
        pytest.skip(f"the corpus has no folder {FOLDER.name}")
    assert len(FILES) >= 146


def test_a_real_file_survives_as_a_document(file):
    document = load(file)
    assert document.source == str(file)
    text = dumps(document)
    assert loads(text) == document
    assert dumps(loads(text)) == text
    assert json.loads(text) == json.loads(file.read_text(encoding="utf-8"))


def test_a_real_file_survives_as_a_graph(file):
    document = load(file)
    graph = to_graph(document)
    assert [(op.id, op.name, op.names.kind) for op in graph.ops] == [
        (op.id, op.name, op.kind) for op in document.ops
    ]
    for op, record in zip(graph.ops, document.ops, strict=True):
        for tensor, written in zip((*op.inputs, *op.outputs), (*record.inputs, *record.outputs), strict=True):
            assert tensor.id == written.id
            assert tensor.data_type is written.data_type
            assert tensor.shape == written.dims
            assert tensor.property_type is written.property_type
            if written.element_strides is not None:
                assert tensor.element_strides == written.element_strides
            if written.layout_type != "undef":
                assert tensor.layout_type is written.layout_type
    produced = {t.id for op in document.ops for t in op.outputs}
    assert {i for i in document.output_ports or () if i in produced} <= {t.id for t in graph.outputs}
    assert described(read_graph(text=write_graph(graph))) == described(graph)
    graph.finalize()
    assert described(read_graph(text=write_graph(graph))) == described(graph)
