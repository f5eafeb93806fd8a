"""Bad arguments of a compiled partition."""

from collections import UserList

import numpy as np
import onednn_graph as og
from numpy.lib.stride_tricks import as_strided
from onednn_graph import ArgumentError, ArgumentTypeError, DataTypeError, LogicalTensor, ShapeError
from onednn_graph.errors import ResourceError

from bad_inputs import (
    CONV,
    FILTERS,
    SRC,
    Row,
    partition,
)
from bad_inputs.things import (
    BACKENDS,
    DY,
    GOOD,
    PORTS,
    X64,
    Broken,
    BrokenArray,
    Exporter,
    OnAnotherDevice,
    X,
    compiled,
    read_only,
    swapped,
    unaligned,
)

BAD_INPUTS = (
    # what, the inputs, error, what the message says; {0} and {1} are the kind's names of the ports
    ("no inputs", [], ArgumentError, ("takes 2 inputs", "'{0}' tensor 0", "'{1}' tensor 1", "got 0")),
    ("one input", [X], ArgumentError, ("takes 2 inputs", "got 1")),
    ("three inputs", [X, DY, DY], ArgumentError, ("takes 2 inputs", "got 3")),
    ("a user's list of three", UserList([X, DY, DY]), ArgumentError, ("takes 2 inputs", "got 3")),
    ("None", None, ArgumentTypeError, ("inputs must be a list of 2 inputs", "got None of type NoneType")),
    (
        "an array",
        X,
        ArgumentTypeError,
        ("inputs must be a list", "an array of float32 with shape [2, 4, 5, 5]"),
    ),
    ("a string", "xy", ArgumentTypeError, ("inputs must be a list", "got 'xy' of type str")),
    ("a dict", {"x": X}, ArgumentTypeError, ("inputs must be a list", "of type dict")),
    ("an iterator", iter([X, DY]), ArgumentTypeError, ("inputs must be a list", "of type list_iterator")),
    ("None for src", [None, DY], ArgumentTypeError, ("input '{0}', tensor 0", "got None of type NoneType")),
    ("a string for src", ["x", DY], ArgumentTypeError, ("input '{0}', tensor 0", "got 'x' of type str")),
    (
        "bytes for diff_dst",
        [X, b"xx"],
        ArgumentTypeError,
        ("input '{1}', tensor 1", "got b'xx' of type bytes"),
    ),
    ("a dict for src", [{}, DY], ArgumentTypeError, ("input '{0}'", "got {{}} of type dict")),
    ("a class for src", [np.ndarray, DY], ArgumentTypeError, ("input '{0}'", "<class 'numpy.ndarray'>")),
    ("a number for src", [1.0, DY], DataTypeError, ("input '{0}'", "must be an array of f32", "got float64")),
    ("a NumPy scalar for src", [np.float32(1), DY], ShapeError, ("input '{0}'", "got []")),
    (
        "lists for src",
        [X.tolist(), DY],
        DataTypeError,
        ("input '{0}'", "got float64; convert it with .astype"),
    ),
    (
        "ragged lists for src",
        [[[1], [1, 2]], DY],
        ArgumentError,
        ("input '{0}'", "of type list can't become"),
    ),
    (
        "lists of None",
        [[None, None], DY],
        ArgumentTypeError,
        ("input '{0}'", "got [None, None] of type list"),
    ),
    ("lists of strings", [X, ["a", "b"]], DataTypeError, ("input '{1}'", "must be an array of f32", "<U1")),
    ("integers of 2**70", [[2**70], DY], ArgumentTypeError, ("input '{0}'", "got [1180591620717411303424]")),
    (
        "f64",
        [X64, DY],
        DataTypeError,
        ("input '{0}'", "must be an array of f32 (NumPy float32), got float64"),
    ),
    (
        "f16",
        [X, DY.astype("f2")],
        DataTypeError,
        ("input '{1}'", "got float16; convert it with .astype('float32')"),
    ),
    ("integers", [X.astype("i4"), DY], DataTypeError, ("input '{0}'", "got int32")),
    ("booleans", [X.astype(bool), DY], DataTypeError, ("input '{0}'", "got bool")),
    ("complex", [X.astype(complex), DY], DataTypeError, ("input '{0}'", "got complex128")),
    ("objects", [X.astype(object), DY], DataTypeError, ("input '{0}'", "got object")),
    ("records", [np.zeros(SRC, [("a", "f4")]), DY], DataTypeError, ("input '{0}'", "[('a', '<f4')]")),
    ("strings", [np.full(SRC, "a"), DY], DataTypeError, ("input '{0}'", "got <U1")),
    ("dates", [np.zeros(SRC, "M8[s]"), DY], DataTypeError, ("input '{0}'", "got datetime64[s]")),
    ("voids", [np.zeros(SRC, "V4"), DY], DataTypeError, ("input '{0}'", "got |V4")),
    (
        "a masked array",
        [np.ma.masked_array(X, X > 0), DY],
        ArgumentTypeError,
        ("input '{0}'", "pass .filled(0)"),
    ),
    (
        "another batch",
        [X[:1], DY],
        ShapeError,
        ("input '{0}'", "must have shape [2, 4, 5, 5], got [1, 4, 5, 5]"),
    ),
    ("another rank", [X, DY[0]], ShapeError, ("input '{1}'", "must have shape [2, 6, 3, 3], got [6, 3, 3]")),
    ("flat", [X.ravel(), DY], ShapeError, ("input '{0}'", "got [200]")),
    ("empty", [X[:0], DY], ShapeError, ("input '{0}'", "got [0, 4, 5, 5]")),
    ("the other way round", [DY, X], ShapeError, ("input '{0}'", "got [2, 6, 3, 3]")),
    (
        "complex through DLPack",
        [Exporter(X.astype("c8")), DY],
        DataTypeError,
        ("DLPack type code 5", "convert it"),
    ),
    ("f64 through DLPack", [Exporter(X64), DY], DataTypeError, ("input '{0}'", "got float64")),
    (
        "a tensor on a GPU",
        [OnAnotherDevice(X), DY],
        ArgumentError,
        ("input '{0}'", "must be in CPU memory, got DLPack device type 2; copy it"),
    ),
    ("no capsule", [Broken("capsule"), DY], ArgumentError, ("input '{0}'", "gave no DLPack capsule")),
    ("a capsule of None", [Broken(None), DY], ArgumentError, ("input '{0}'", "gave no DLPack capsule")),
    (
        "a tensor that is not shared",
        [Broken(BufferError("not\ntoday")), DY],
        ArgumentError,
        ("input '{0}'", "of type Broken can't be shared through DLPack (not today); pass a detached"),
    ),
    (
        "a failing exporter",
        [Broken(TypeError("no")), DY],
        ArgumentError,
        ("can't be shared through DLPack (no)",),
    ),
    ("a failing __array__", [BrokenArray(), DY], ArgumentError, ("can't become an array (no array today)",)),
    (
        "a Tensor of another shape",
        [og.Tensor(LogicalTensor(5, "f32", [3])), DY],
        ShapeError,
        ("input '{0}'", "got [3]"),
    ),
)

BAD_OUTPUTS = (
    ("no outputs", [], ArgumentError, ("takes 1 output, '{2}' tensor 9", "got 0")),
    ("two outputs", [GOOD, GOOD], ArgumentError, ("takes 1 output", "got 2")),
    ("a bare array", GOOD, ArgumentTypeError, ("outputs must be a list of 1 output", "write [array]")),
    ("an integer", 5, ArgumentTypeError, ("outputs must be a list", "got 5 of type int")),
    (
        "a string for it",
        ["dw"],
        ArgumentTypeError,
        ("output '{2}', tensor 9", "written to, got 'dw' of type str"),
    ),
    ("a list for it", [GOOD.tolist()], ArgumentTypeError, ("output '{2}'", "written to", "of type list")),
    ("a number for it", [1.0], ArgumentTypeError, ("output '{2}'", "written to, got 1.0 of type float")),
    ("f64", [GOOD.astype("f8")], DataTypeError, ("output '{2}'", "must be an array of f32", "got float64")),
    ("objects", [GOOD.astype(object)], DataTypeError, ("output '{2}'", "got object")),
    ("another shape", [GOOD[:5]], ShapeError, ("output '{2}'", "shape [6, 4, 3, 3], got [5, 4, 3, 3]")),
    ("another rank", [GOOD.ravel()], ShapeError, ("output '{2}'", "got [216]")),
    (
        "read-only",
        [read_only(GOOD)],
        ArgumentError,
        ("output '{2}'", "must be writeable, got a read-only array"),
    ),
    (
        "broadcast",
        [np.broadcast_to(GOOD[:1], GOOD.shape)],
        ArgumentError,
        ("output '{2}'", "must be writeable"),
    ),
    (
        "broadcast and writeable",
        [as_strided(GOOD, GOOD.shape, (0, 36, 12, 4))],
        ArgumentError,
        ("output '{2}'", "a place of its own for each element, got strides [0, 36, 12, 4]"),
    ),
    (
        "strides that interleave",
        [as_strided(np.zeros(999, "f4"), GOOD.shape, (144, 36, 8, 4))],
        ArgumentError,
        ("output '{2}'", "a place of its own", "got strides [144, 36, 8, 4]"),
    ),
    ("read-only through DLPack", [Exporter(read_only(GOOD))], ArgumentError, ("output '{2}'",)),
    ("a masked array", [np.ma.masked_array(GOOD)], ArgumentTypeError, ("output '{2}'", "MaskedArray")),
)

BAD_STREAMS = (
    (
        "5",
        lambda compiled: 5,
        ArgumentTypeError,
        ("stream must be an onednn_graph.Stream or None, got 5 of type int",),
    ),
    ("an engine", lambda compiled: compiled.engine, ArgumentTypeError, ("stream must be", "of type Engine")),
    (
        "a foreign stream",
        lambda compiled: og.Stream(og.Engine()),
        ArgumentError,
        ("the stream is of another engine", "Stream(compiled.engine)"),
    ),
)


def named(kind, says):
    """The texts with the kind's names of the ports, and the kind itself."""
    return (f"{kind} (op 0): ", *(text.format(*PORTS[kind]) for text in says))


def execute(kind, backend, inputs, outputs=None):
    return lambda: compiled(kind, backend).execute(None, inputs, outputs)


def bind(kind, backend, inputs, outputs):
    return lambda: compiled(kind, backend).bind(inputs, outputs)


def partition_rows():
    for backend in BACKENDS:
        for kind in (CONV, FILTERS):
            label = f"{kind} on {backend}"
            for what, inputs, error, says in BAD_INPUTS:
                says = named(kind, says)
                yield Row(f"{label}, {what} as inputs", execute(kind, backend, inputs), error, says)
                if isinstance(inputs, dict):  # `bind` takes them by name
                    error, says = ArgumentError, ("the partition has no input 'x'", "it has '0', '1'")
                yield Row(
                    f"{label}, {what} as inputs, bound", bind(kind, backend, inputs, [GOOD]), error, says
                )
            for what, outputs, error, says in BAD_OUTPUTS:
                says = named(kind, says)
                yield Row(
                    f"{label}, {what} as outputs", execute(kind, backend, [X, DY], outputs), error, says
                )
                yield Row(
                    f"{label}, {what} as outputs, bound", bind(kind, backend, [X, DY], outputs), error, says
                )
        for what, stream, error, says in BAD_STREAMS:
            yield Row(
                f"{backend}: stream, {what}",
                lambda backend=backend, stream=stream: compiled(CONV, backend).execute(
                    stream(compiled(CONV, backend)), [X, DY]
                ),
                error,
                (CONV, *says),
            )
        for what, inputs, outputs, says in (
            ("strides", [X.transpose(0, 1, 3, 2), DY], [GOOD], ("input 'src'", "strides [400, 100, 4, 20]")),
            (
                "another byte order",
                [X, swapped(DY)],
                [GOOD],
                ("input 'diff_dst'", "native byte order", "of >f4"),
            ),
            ("an unaligned input", [unaligned(X), DY], [GOOD], ("input 'src'", "aligned")),
            (
                "output strides",
                [X, DY],
                [GOOD.transpose(0, 1, 3, 2)],
                ("output 'diff_weights'", "[144, 36, 4, 12]"),
            ),
            ("an unaligned output", [X, DY], [unaligned(GOOD)], ("output 'diff_weights'", "as compiled")),
            ("an output over an input", *over_an_input(), ("output 'diff_weights'", "not share memory")),
        ):
            yield Row(
                f"{backend}, bind: a copy for {what}",
                bind(CONV, backend, inputs, outputs),
                ArgumentError,
                (CONV, *says, "to be bound"),
            )
        yield Row(
            f"{backend}, bind: 5 for an output",
            bind(CONV, backend, [X, DY], [5]),
            ArgumentTypeError,
            ("output 'diff_weights', tensor 9", "written to, got 5"),
        )
        for what, call in (
            ("execute", lambda made: made.execute(None, [X, DY])),
            ("bind", lambda made: made.bind([X, DY], [GOOD])),
        ):
            yield Row(
                f"{backend}, {what}: closed engine",
                lambda backend=backend, call=call: call(closed(backend)),
                ResourceError,
                ("the engine is closed; make a new Engine and compile again",),
            )
        for tensor_id in (77, "x", None, [], np.array([0, 1])):
            yield Row(
                f"{backend}: query_logical_tensor {tensor_id!r}",
                lambda backend=backend, i=tensor_id: compiled(CONV, backend).query_logical_tensor(i),
                ArgumentError,
                (CONV, f"no port has the id {tensor_id!r}; the ports are [0, 1, 9]"),
            )


def over_an_input():
    """Inputs, and outputs in the memory of the first."""
    buffer = np.zeros(GOOD.size + X.size, np.float32)
    return [buffer[: X.size].reshape(SRC), DY], [buffer[: GOOD.size].reshape(GOOD.shape)]


def closed(backend):
    engine = og.Engine()
    made = partition(backend=backend).compile(engine=engine)
    engine.close()
    return made


ROWS = [*partition_rows()]
