"""Bad eager calls."""

import numpy as np
import onednn_graph as og
from onednn_graph import ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, UnsupportedError
from onednn_graph.errors import AttributeTypeError, AttributeValueError, PortError, UnknownAttributeError

from bad_inputs import (
    CONV,
    KINDS,
    Row,
    arrays,
    attributes,
    eager,
    result_array,
    spell,
)
from bad_inputs.things import (
    DY,
    X,
)


def call(kind, inputs, given=None, **more):
    return og.run_op(kind, inputs, attributes(kind) if given is None else given, **more)


def eager_rows():
    yield Row("run_op: None for inputs", lambda: call(CONV, None), ArgumentTypeError, ("a list", "NoneType"))
    yield Row("run_op: an array for inputs", lambda: call(CONV, X), ArgumentTypeError, ("a list", "ndarray"))
    yield Row(
        "run_op: 5 for attributes", lambda: call(CONV, (X, DY), 5), ArgumentTypeError, ("mapping", "int")
    )
    yield Row(
        "run_op: an attribute named 5",
        lambda: call(CONV, (X, DY), {5: 1, "x": 1}),
        UnknownAttributeError,
        (f"{CONV}: unknown attribute 5; it has auto_pad",),
    )
    for name in ("id", "name", "inputs", "kind"):
        yield Row(
            f"run_op: an attribute named {name}",
            lambda name=name: call(CONV, (X, DY), {**attributes(), name: 1}),
            UnknownAttributeError,
            (f"{CONV}: unknown attribute '{name}'",),
        )
    for kind in KINDS:
        x, dy = arrays(kind)
        src, dst, operand = (spell(kind, n) for n in ("src", "diff_dst", "weights_shape"))
        for what, inputs, error, says in (
            ("no src", (None, dy), PortError, (f"input '{src}' is missing", f"'{dst}' after it")),
            ("no diff_dst", (x, None), PortError, (f"input '{dst}' is missing", "got 1")),
            ("nothing", (None, None), PortError, (f"input '{src}' is missing", "got 0")),
            ("four inputs", (x, dy, None, None), PortError, ("too many inputs", src, dst, operand, "got 4")),
            ("a string", ("x", dy), ArgumentTypeError, (f"input '{src}'", "'x' of type str")),
            ("ragged lists", ([[1], [1, 2]], dy), ArgumentError, (f"input '{src}'", "type list can't")),
            ("strings", ([["a"]], dy), DataTypeError, (f"input '{src}'", "<U1", "convert it")),
            ("complex", (x.astype(complex), dy), DataTypeError, (f"input '{src}'", "complex128")),
            ("objects", (x, dy.astype(object)), DataTypeError, (f"input '{dst}'", "object")),
            ("integers", (x.astype("i4"), dy), DataTypeError, (f"'{src}' must have data type f32", "s32")),
            ("two types", (x, dy.astype("f8")), DataTypeError, (f"'{dst}'", f"of '{src}', f32, got f64")),
            ("a matrix", (x[0, 0], dy), ShapeError, (f"'{src}' must have a batch", "[5, 5] of rank 2")),
            ("batches", (x[:1], dy), ShapeError, (f"'{src}' and '{dst}'", "got 1 and 2")),
            ("a class", (np.ndarray, dy), ArgumentTypeError, (f"input '{src}'", "numpy.ndarray'> of type")),
        ):
            yield Row(
                f"{kind}, eagerly: {what}",
                lambda kind=kind, inputs=inputs: call(kind, inputs),
                error,
                (kind, *says),
            )
        for what, shape, error, says in (
            ("a string", "6433", AttributeTypeError, "'6433' of type str"),
            ("an integer", 6, AttributeTypeError, "6 of type int"),
            ("a set", {6}, AttributeTypeError, "{6} of type set"),
            ("floats", np.array([6.0, 4, 3, 3]), AttributeTypeError, "6.0 of type float"),
            ("a matrix", np.ones((2, 2), int), AttributeTypeError, "[1, 1] of type list"),
            ("zero", [6, 4, 3, 0], AttributeValueError, "got [6, 4, 3, 0]"),
            ("a negative array", np.array([6, 4, 3, -3]), AttributeValueError, "got [6, 4, 3, -3]"),
            ("2**70", [6, 4, 3, 2**70], AttributeValueError, "got 1180591620717411303424"),
        ):
            yield Row(
                f"{kind}, eagerly: {operand} is {what}",
                lambda kind=kind, shape=shape: eager(kind, weights_shape=shape),
                error,
                (f"{kind}: attribute '{operand}' must", says),
            )
    for what, changes, error, says in (
        (
            "a missing attribute",
            {"strides": None},
            AttributeValueError,
            "required attribute 'strides' is missing",
        ),
        ("an unknown attribute", {"stride": [1, 1]}, UnknownAttributeError, "did you mean 'strides'?"),
        ("an array without axes", {"strides": np.array(1)}, AttributeTypeError, "array(1) of type ndarray"),
        ("a dict", {"strides": {1: 1, "a": 2}}, AttributeTypeError, "{1: 1, 'a': 2} of type dict"),
        (
            "backend 5",
            {"backend": 5},
            ArgumentTypeError,
            "backend must be a name such as 'numpy' or None, got 5",
        ),
        (
            "backend []",
            {"backend": []},
            ArgumentTypeError,
            "backend must be a name such as 'numpy' or None, got []",
        ),
        (
            "backend cuda",
            {"backend": "cuda"},
            ArgumentError,
            "backend must be one of onednn, numpy, native, got 'cuda'",
        ),
        ("backend onednm", {"backend": "onednm"}, ArgumentError, "(did you mean 'onednn'?)"),
        (
            "engine cpu",
            {"engine": "cpu"},
            ArgumentTypeError,
            "engine must be an onednn_graph.Engine, got 'cpu'",
        ),
        (
            "out 5",
            {"out": 5},
            ArgumentTypeError,
            "output 'diff_weights', tensor 2 (f32, shape [6, 4, 3, 3]), must",
        ),
        ("out in a list", {"out": [result_array()]}, ArgumentTypeError, "of type list"),
        (
            "out of another type",
            {"out": result_array(dtype=np.float64)},
            DataTypeError,
            "got float64; convert",
        ),
        (
            "out of another shape",
            {"out": np.ones((6, 4, 3), "f4")},
            ShapeError,
            "shape [6, 4, 3, 3], got [6, 4, 3]",
        ),
    ):
        yield Row(f"eagerly: {what}", lambda changes=changes: eager(**changes), error, (says,))
    yield Row(
        "eagerly: more than memory",
        lambda: eager(
            dst=np.ones((2, 6, 1, 1), "f4"), weights_shape=[6, 4, 2**24, 2**24], pads_begin=[2**24 - 5] * 2
        ),
        og.errors.OutOfMemoryError,
        (f"{CONV} (op 0): output 'diff_weights', tensor 2", "needs 27021597764222976 bytes"),
    )
    yield Row(
        "eagerly: a stride beyond 32 bits forced on oneDNN",
        lambda: eager(
            dst=np.ones((2, 6, 1, 1), "f4"),
            strides=[2**40, 1],
            pads_end=[0, 0],
            src=X[..., :3],
            backend="onednn",
        ),
        UnsupportedError,
        (CONV, "onednn", "forced"),
    )
    yield Row(
        "eagerly: f64 forced on oneDNN",
        lambda: eager(src=X.astype("f8"), dst=DY.astype("f8"), backend="onednn"),
        UnsupportedError,
        (CONV, "backend 'onednn' was forced and can't run it", "leave backend out"),
    )


ROWS = [*eager_rows()]
