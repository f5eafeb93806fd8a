"""What stands in onnxruntime's own domain because ONNX did not have it once, or has it otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ...importing.translation import Unmapped
from .rewriting import Rewrite, Rewriting


def _same(made: Rewriting, inputs: int) -> None:
    """An op that ONNX has under the same name."""
    made.only(inputs, 1)
    names = [made.input(place) for place in range(inputs)]
    while not names[-1]:
        names.pop()
    made(made.node.op_type, *names, into=made.output(0), **made.rest())


def _sampled(made: Rewriting) -> None:
    made.only(2, 1)
    mode = made.attribute("mode", "bilinear")
    if made.opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    made("GridSample", made.input(0), made.input(1), into=made.output(0), mode=mode, **made.rest())


def _with_an_axis(made: Rewriting) -> None:
    """ExpandDims."""
    made.only(2, 1)
    axis = int(made.known(1).reshape(()))
    shape = list(made.sizes(0))
    if not -len(shape) - 1 <= axis <= len(shape):
        raise Unmapped(f"axis {axis} of rank {len(shape)}")
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
    made.reshape(made.input(0), tuple(shape), into=made.output(0))


def _padded(made: Rewriting) -> None:
    made.only(3, 1)
    pads = made.reshape(made.input(1), (2 * made.rank(0),))
    value = [made.reshape(made.input(2), ())] if made.input(2) else []
    made("Pad", made.input(0), pads, *value, into=made.output(0), **made.rest())


def _distances(made: Rewriting) -> None:
    """CDist: of each row to each of other rows."""
    made.only(2, 1)
    metric = made.attribute("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unmapped(f"distances {metric!r}")
    (rows, width), (others, same) = made.sizes(0), made.sizes(1)
    if width != same:
        raise Unmapped(f"rows of {width} and {same} elements")
    made.check_room((rows, others, width), made.dtype())
    apart = made("Sub", made.reshape(made.input(0), (rows, 1, width)), made.input(1))
    ones = made.constant("ones", np.ones((width, 1), made.dtype()))
    squares = made("MatMul", made("Mul", apart, apart), ones)
    into = made.output(0)
    if metric == "sqeuclidean":
        made.reshape(squares, (rows, others), into=into)
    else:
        made("Sqrt", made.reshape(squares, (rows, others)), into=into)


def _range(made: Rewriting) -> None:
    made.only(3, 1)
    step = made.input(2) or made.number("step", 1)
    made("Range", made.input(0), made.input(1), step, into=made.output(0))


def _unique(made: Rewriting) -> None:
    """Unique in the order of the input, without the places of the first ones."""
    made.only(1, 3)
    names = [made.output(0), "", made.output(1), made.output(2)]
    while not names[-1]:
        names.pop()
    made.nodes.append(made.onnx.helper.make_node("Unique", [made.input(0)], names, sorted=0))


REWRITES: Mapping[str, Rewrite] = {
    "CDist": _distances,
    "ExpandDims": _with_an_axis,
    "GatherND": partial(_same, inputs=2),
    "GridSample": _sampled,
    "Pad": _padded,
    "Range": _range,
    "Trilu": partial(_same, inputs=2),
    "Unique": _unique,
}
"""Op → nodes of ONNX's own op set."""
