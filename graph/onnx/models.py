"""What becomes of an ONNX model: one graph, one for each set of input sizes, or stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import evolve

from ...ops.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...ops.values import format_value, listed
from ..graph import Graph
from ..open_graph import OpenGraph
from .importer import Importer
from .reading import Model, read_model
from .staged_graph import StagedGraph
from .training import trainable
from .untying import untied


def import_onnx(
    model: object,
    shapes: Mapping[str, Sequence[int]] | None,
    fold_limit: int,
    reference: bool,
    training: bool,
    frozen: Sequence[str],
) -> Graph | OpenGraph:
    """See `from_onnx`."""
    read = read_model(model, positive(fold_limit), reference=reference)
    if not training:
        if listed(frozen) != []:
            raise ArgumentError("from_onnx: frozen is of training; give training=True, or leave it out")
        return _imported(read, shapes or {})
    read = untied(read)
    trained = trainable(read.proto.graph, read.constants, frozen)
    if not trained:
        raise ArgumentError(
            "from_onnx: the model has nothing to train: no initializer is of f32, read as weights alone, and not "
            "frozen"
        )
    made = _imported(evolve(read, trained=trained, parameters={}), shapes or {})
    if isinstance(made, StagedGraph):
        raise UnsupportedError(
            "from_onnx: the model is no single graph, for parts of it have no ops or depend on values that are not "
            "known, and can't be trained as it is; give the sizes of its inputs, shapes={…}, where these are open"
        )
    return made


def positive(fold_limit: object) -> int:
    """The limit, if it is one."""
    if isinstance(fold_limit, bool) or not isinstance(fold_limit, int) or fold_limit < 0:
        raise ArgumentTypeError(
            f"from_onnx: fold_limit must be a number of bytes, an integer of at least 0, got {format_value(fold_limit)}"
        )
    return fold_limit


def _imported(model: Model, shapes: Mapping[str, Sequence[int]]) -> Graph | OpenGraph:
    importer = Importer(model, shapes)
    importer.translate()
    importer.check()
    if importer.in_stages:
        return StagedGraph(*importer.ports(typed=False), model)
    graph = importer.graph()
    if graph is not None:
        return graph
    made = partial(_imported, model)
    return OpenGraph(*importer.ports(typed=True), made, sizes=importer.open_sizes())
