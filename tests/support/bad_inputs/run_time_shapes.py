"""Bad values of the weights' shape as a run-time input."""

import numpy as np
from onednn_graph import ArgumentError, ArgumentTypeError, DataTypeError, LogicalTensor, ShapeError

from bad_inputs import (
    CONV,
    DROP,
    FILTERS,
    WEIGHTS,
    Row,
    graph_of,
    make_op,
    tensors,
)
from bad_inputs.things import (
    BACKENDS,
    DY,
    GOOD,
    PORTS,
    X,
    compiled,
)

BAD_SHAPES = (
    # what, value, error, what the message says; {3} is the kind's name of the operand
    ("None", None, ArgumentTypeError, ("input '{3}', tensor 2", "got None of type NoneType")),
    ("a string", "6433", ArgumentTypeError, ("input '{3}'", "got '6433' of type str")),
    (
        "a list",
        [6, 4, 3, 3],
        DataTypeError,
        ("input '{3}'", "1-D array of s32, got int64", ".astype('int32')"),
    ),
    ("a number", 6, DataTypeError, ("input '{3}'", "1-D array of s32, got int64")),
    ("s64", np.array([6, 4, 3, 3]), DataTypeError, ("input '{3}'", "got int64; convert it")),
    ("u32", np.array([6, 4, 3, 3], "u4"), DataTypeError, ("input '{3}'", "got uint32")),
    ("floats", np.array([6, 4, 3, 3], "f4"), DataTypeError, ("input '{3}'", "got float32")),
    ("objects", np.array([6, 4, 3, 3], object), DataTypeError, ("input '{3}'", "got object")),
    ("booleans", np.ones(4, bool), DataTypeError, ("input '{3}'", "got bool")),
    ("strings", np.array(list("6433")), DataTypeError, ("input '{3}'", "got <U1")),
    ("three sizes", np.array([6, 4, 3], "i4"), ShapeError, ("input '{3}'", "must have shape [4], got [3]")),
    ("five sizes", np.array([6, 4, 3, 3, 3], "i4"), ShapeError, ("input '{3}'", "shape [4], got [5]")),
    ("a matrix", np.array([[6, 4], [3, 3]], "i4"), ShapeError, ("input '{3}'", "shape [4], got [2, 2]")),
    ("nothing", np.array([], "i4"), ShapeError, ("input '{3}'", "shape [4], got [0]")),
    ("zero", np.array([6, 4, 0, 3], "i4"), ShapeError, ("input '{3}'", "positive sizes, got [6, 4, 0, 3]")),
    (
        "negative",
        np.array([6, -4, 3, 3], "i4"),
        ShapeError,
        ("input '{3}'", "positive sizes, got [6, -4, 3, 3]"),
    ),
    ("-1 for unknown", np.array([-1, 4, 3, 3], "i4"), ShapeError, ("input '{3}'", "got [-1, 4, 3, 3]")),
    (
        "other channels",
        np.array([6, 5, 3, 3], "i4"),
        ShapeError,
        ("'{3}' must have I = 4 and O = 6", "got I = 5 and O = 6"),
    ),
    (
        "another kernel",
        np.array([6, 4, 2, 3], "i4"),
        ShapeError,
        ("'{1}' must have size", "axis 0, got 3", "'{3}'"),
    ),
    ("2**31 - 1", np.array([6, 4, 2**31 - 1, 3], "i4"), ShapeError, ("'{1}' must have size", "2147483647")),
    ("huge", np.array([6, 4, 2**31 - 1, 2**31 - 1], "i4"), ShapeError, ("'{3}' must have fewer than 2**60",)),
)


def operand_rows():
    for backend in BACKENDS:
        for kind, name in ((CONV, "weights_shape"), (FILTERS, "filter_shape")):
            for what, value, error, says in BAD_SHAPES:
                says = tuple(text.format(*PORTS[kind], name) for text in says)
                yield Row(
                    f"{kind} on {backend}: {name} at run time, {what}",
                    lambda kind=kind, backend=backend, value=value: compiled(
                        kind, backend, operand=True
                    ).execute(None, [X, DY, value]),
                    error,
                    (f"{kind} (op 0): ", *says),
                )
            yield Row(
                f"{kind} on {backend}: {name} at run time, missing",
                lambda kind=kind, backend=backend: compiled(kind, backend, operand=True).execute(
                    None, [X, DY]
                ),
                ArgumentError,
                (
                    f"takes 3 inputs, '{PORTS[kind][0]}' tensor 0",
                    f"'{name}' tensor 2 (s32, shape [4])",
                    "got 2",
                ),
            )
            yield Row(
                f"{kind} on {backend}: {name} at run time, bound, contradictory",
                lambda kind=kind, backend=backend: compiled(kind, backend, operand=True).bind(
                    [X, DY, np.array([6, 4, 1, 3], "i4")], [GOOD]
                ),
                ShapeError,
                (kind, "must have size", "got 3"),
            )
            yield Row(
                f"{kind} on {backend}: {name} at run time, another output shape",
                lambda kind=kind, backend=backend: compiled(kind, backend, operand=True).execute(
                    None, [X, DY, np.array(WEIGHTS[False], "i4")], [GOOD[:5]]
                ),
                ShapeError,
                (f"output '{PORTS[kind][2]}', tensor 9", "shape [6, 4, 3, 3], got [5, 4, 3, 3]"),
            )
        yield Row(
            f"{backend}: explain before a weights shape is known",
            lambda backend=backend: partition_of_unknown(backend).explain().only,
            ArgumentError,
            ("chosen at the first execution", "execute it once before explain()"),
        )
        yield Row(
            f"{backend}: a declared output against the run-time value",
            lambda backend=backend: partition_of_unknown(backend, declared=[6, 4, 2, 3]).execute(
                None, [X, DY, np.array(WEIGHTS[False], "i4")]
            ),
            ShapeError,
            (CONV, "output 'diff_weights' is declared with shape [6, 4, 2, 3]", "[6, 4, 3, 3]"),
        )


def partition_of_unknown(backend, declared=None):
    inputs = [*tensors(), LogicalTensor(2, "s32", [4])]
    graph = graph_of(make_op(inputs=inputs, outputs=[LogicalTensor(9, "f32", declared)], weights_shape=DROP))
    graph.finalize()
    return graph.get_partitions(backend=backend)[0].compile()


ROWS = [*operand_rows()]
