"""Bad arrays, streams and run-time weights shapes at execution, on every backend that is there."""

from collections import UserList
from functools import cache

import numpy as np
import onednn_graph as og
from bad_inputs import (
    CONV,
    DROP,
    DST,
    FILTERS,
    SRC,
    WEIGHTS,
    Row,
    arrays,
    attributes,
    built,
    closed_engine,
    eager,
    graph_of,
    make_op,
    partition,
    result_array,
    tensors,
)
from numpy.lib.stride_tricks import as_strided
from onednn_graph import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    LogicalTensor,
    ResourceError,
    SchemaError,
    ShapeError,
    UnsupportedError,
)
from onednn_graph.graph import arrays as dlpack
from onednn_graph.graph.backend import BACKENDS as REGISTERED
from onednn_graph.ops.registry import REGISTRY

BACKENDS = [name for name, reason in og.backends().items() if reason is None]
X, DY = arrays()
X64 = X.astype(np.float64)
GOOD = result_array()
GOOD_X = X.copy()
PORTS = {
    CONV: ("src", "diff_dst", "diff_weights"),
    FILTERS: ("input_forward", "output_delta", "filter_delta"),
}


class Exporter:
    """Exports an array through DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class OnAnotherDevice(Exporter):
    """Exports an array as if it were in the memory of a GPU."""

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        struct = dlpack._Managed.from_address(dlpack._capsule_pointer(capsule, b"dltensor"))
        struct.tensor.device_type = 2
        return capsule


class Broken:
    """Has `__dlpack__` that gives something else, or raises."""

    def __init__(self, answer):
        self.answer = answer

    def __dlpack__(self, **options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class BrokenArray:
    """Has `__array__` that raises."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError("no\narray today")


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


@cache
def compiled(kind, backend, operand=False):
    """The compiled partition of an op; with the weights' shape as an input if `operand`."""
    if not operand:
        return partition(kind, backend).compile()
    inputs = [*tensors(kind), LogicalTensor(2, "s32", [4])]
    graph = graph_of(make_op(kind, inputs, weights_shape=DROP))
    graph.finalize()
    return graph.get_partitions(backend=backend)[0].compile()


# --- inputs and outputs of a compiled partition -----------------------------------------------------

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
            f"{backend}, bind: None for an output",
            bind(CONV, backend, [X, DY], [None]),
            ArgumentTypeError,
            ("output 'diff_weights', tensor 9", "written to, got None"),
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


def unaligned(array):
    """A copy that begins at an odd address."""
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def over_an_input():
    """Inputs, and outputs in the memory of the first."""
    buffer = np.zeros(GOOD.size + X.size, np.float32)
    return [buffer[: X.size].reshape(SRC), DY], [buffer[: GOOD.size].reshape(GOOD.shape)]


def closed(backend):
    engine = og.Engine()
    made = partition(backend=backend).compile(engine=engine)
    engine.close()
    return made


# --- the weights' shape as a run-time input ---------------------------------------------------------

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
            lambda backend=backend: partition_of_unknown(backend).explain(),
            ArgumentError,
            (CONV, "chosen at the first execution", "execute it once before explain()"),
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


# --- a compiled graph -------------------------------------------------------------------------------


@cache
def model(backend):
    return built()[0].compile(backend=backend)


@cache
def model_of_two(backend):
    """Two ops, so two partitions."""
    graph = og.Graph()
    x, dy = graph.input("x", "f32", SRC), graph.input("dy", "f32", DST[False])
    for name in ("one", "two"):
        graph.op(CONV, x, dy, **attributes(), name=name)
    return graph.compile(backend=backend, policy="debug")


BOTH = {"x": X, "dy": DY}
SHARED = np.zeros((2, *GOOD.shape), np.float32)

GRAPH_CALLS = (
    # what, arguments, options, error, what the message says
    ("None", (None,), {}, ArgumentTypeError, ("inputs must be a mapping", "NoneType", "{'x': …, 'dy': …}")),
    ("a list", ([X, DY],), {}, ArgumentTypeError, ("inputs must be a mapping", "got list")),
    ("an array", (X,), {}, ArgumentTypeError, ("inputs must be a mapping", "got ndarray")),
    ("nothing", ({},), {}, ArgumentError, ("input 'x' is missing; the graph takes 'x', 'dy', got none",)),
    ("no dy", ({"x": X},), {}, ArgumentError, ("input 'dy' is missing; the graph takes 'x', 'dy', got 'x'",)),
    ("an unknown name", ({**BOTH, "z": X},), {}, ArgumentError, ("the graph has no input 'z'", "'x', 'dy'")),
    (
        "a name nearly right",
        ({"x": X, "dyy": DY},),
        {},
        ArgumentError,
        ("no input 'dyy' (did you mean 'dy'?)",),
    ),
    ("an unknown id", ({**BOTH, 77: X},), {}, ArgumentError, ("the graph has no input 77",)),
    ("True for id 1", ({"x": X, True: DY},), {}, ArgumentError, ("the graph has no input True",)),
    ("None as a name", ({**BOTH, None: X},), {}, ArgumentError, ("the graph has no input None",)),
    ("a tuple as a name", ({**BOTH, (1, 2): X},), {}, ArgumentError, ("the graph has no input (1, 2)",)),
    ("one input twice", ({**BOTH, 0: X},), {}, ArgumentError, ("input 0 is given twice",)),
    ("None for x", ({**BOTH, "x": None},), {}, ArgumentTypeError, ("input 'x' must be", "got None")),
    ("f64 for x", ({**BOTH, "x": X64},), {}, DataTypeError, ("input 'x' must be an array of f32", "float64")),
    ("objects for x", ({**BOTH, "x": X.astype(object)},), {}, DataTypeError, ("input 'x'", "got object")),
    (
        "another shape",
        ({**BOTH, "x": X[:1]},),
        {},
        ShapeError,
        ("input 'x' must have shape", "got [1, 4, 5, 5]"),
    ),
    ("a list for outputs", (BOTH, [GOOD]), {}, ArgumentTypeError, ("outputs must be a mapping", "{'dw': …}")),
    ("an unknown output", (BOTH, {"dv": GOOD}), {}, ArgumentError, ("no output 'dv'", "it has 'dw'")),
    ("an output twice", (BOTH, {"dw": GOOD, 3: GOOD}), {}, ArgumentError, ("output 3 is given twice",)),
    (
        "5 as an output",
        (BOTH, {"dw": 5}),
        {},
        ArgumentTypeError,
        (f"{CONV} 'dw': output", "got 5 of type int"),
    ),
    (
        "f64 as an output",
        (BOTH, {"dw": GOOD.astype("f8")}),
        {},
        DataTypeError,
        ("output 'diff_weights', tensor 'dw'",),
    ),
    ("read-only", (BOTH, {"dw": read_only(GOOD)}), {}, ArgumentError, ("output 'diff_weights'", "read-only")),
    ("stream 5", (BOTH,), {"stream": 5}, ArgumentTypeError, (f"{CONV} 'dw': stream must be", "got 5")),
    (
        "foreign stream",
        (BOTH,),
        {"stream": og.Stream(og.Engine())},
        ArgumentError,
        (f"{CONV} 'dw': the stream is of another engine",),
    ),
)


def graph_rows():
    for backend in BACKENDS:
        for what, arguments, options, error, says in GRAPH_CALLS:
            yield Row(
                f"compiled graph on {backend}: {what}",
                lambda backend=backend, arguments=arguments, options=options: model(backend)(
                    *arguments, **options
                ),
                error,
                says,
            )
        for key in ("dv", 77, None, True, (1,), X):
            yield Row(
                f"compiled graph on {backend}: results[{key if key is not X else 'array'!r}]",
                lambda backend=backend, key=key: model(backend)(BOTH)[key],
                ArgumentError,
                ("the graph has no output ", "it has 'dw'"),
            )
        for what, outputs, says in (
            ("two outputs in one array", {"one": SHARED[0], "two": SHARED[0]}, ("'two'", "with 'one'")),
            ("an output over an input", {"two": X.ravel()[:1]}, ("'two'", "with 'x'", "in 2 parts")),
        ):
            yield Row(
                f"compiled graph of two on {backend}: {what}",
                lambda backend=backend, outputs=outputs: model_of_two(backend)(BOTH, outputs),
                ArgumentError,
                ("output ", "must not share memory", *says),
            )
        yield Row(
            f"compiled graph on {backend}: closed engine",
            lambda backend=backend: closed_model(backend)(BOTH),
            ResourceError,
            ("the engine is closed",),
        )


def closed_model(backend):
    engine = og.Engine()
    made = built()[0].compile(engine, backend=backend)
    engine.close()
    return made


# --- ops and outputs of other kinds -----------------------------------------------------------------

PAIR_SCHEMA = og.OpSchema(
    kind="Pair", summary="", inputs=(og.Port("src", "T"),), outputs=(og.Port("one", "T"), og.Port("two", "T")),
    types={"T": ["f32"]}, infer_shapes=lambda ctx: (ctx.inputs[0], ctx.inputs[0]),
)  # fmt: skip


def pair(out):
    """An op with two outputs."""
    og.register_op(PAIR_SCHEMA, lambda op, inputs, outputs: None)
    try:
        return og.run_op("Pair", [X], {}, out=out)
    finally:
        og.unregister_op("Pair")


def without_kernel(backend=None, compiling=True):
    """An op that has a schema and nothing else."""
    REGISTRY.register(PAIR_SCHEMA)
    try:
        outputs = [LogicalTensor(i, "f32") for i in (1, 2)]
        graph = graph_of(og.Op(0, "Pair", [LogicalTensor(0, "f32", SRC)], outputs, name="p"))
        graph.finalize()
        (part,) = graph.get_partitions(backend=backend)
        return part.compile() if compiling else part
    finally:
        REGISTRY.unregister("Pair")


def opaque(outputs):
    """Executes a partition that left its output in a layout of the library's choice."""
    for size in (16, 32):
        inputs = [LogicalTensor(0, "f32", (2, size, 5, 5)), LogicalTensor(1, "f32", (2, size, 3, 3))]
        free = LogicalTensor(9, "f32", layout_type="any")
        graph = graph_of(make_op(inputs=inputs, outputs=[free], weights_shape=[size, size, 3, 3]))
        graph.finalize()
        made = graph.get_partitions(backend="onednn")[0].compile()
        if made.outputs[0].layout_type == "opaque":
            arrays = [np.ones(t.shape, "f4") for t in inputs]
            return made.execute(None, arrays, outputs)
    raise AssertionError("no layout was opaque")


def opaque_rows():
    if "onednn" not in BACKENDS:
        return
    for what, out, error in (
        ("of floats", np.zeros((16, 16, 3, 3), "f4"), ArgumentError),
        ("of too few bytes", np.zeros(5, "u1"), ArgumentError),
        ("of every second byte", np.zeros(99999, "u1")[::2], ArgumentError),
        ("that is read-only", read_only(np.zeros(99999, "u1")), ArgumentError),
        ("that is a string", "dw", ArgumentTypeError),
    ):
        yield Row(
            f"onednn: an opaque output, a buffer {what}",
            lambda out=out: opaque([out]),
            error,
            (f"{CONV} (op 0): output 'diff_weights', tensor 9",),
        )


OTHER_ROWS = [
    *opaque_rows(),
    Row(
        "two outputs: one array",
        lambda: pair(X.copy()),
        ArgumentTypeError,
        ("Pair (op 0): outputs must be a list",),
    ),
    Row(
        "two outputs: one in a list",
        lambda: pair([X.copy()]),
        ArgumentError,
        ("takes 2 outputs, 'one'", "got 1"),
    ),
    Row(
        "two outputs: an array twice",
        lambda: pair([GOOD_X, GOOD_X]),
        ArgumentError,
        ("Pair (op 0): two outputs",),
    ),
    Row(
        "an op without a kernel",
        without_kernel,
        UnsupportedError,
        ("Pair 'p': no backend can run it", "numpy: Pair has no NumPy kernel; register one with"),
    ),
    Row(
        "an op without a kernel, forced on NumPy",
        lambda: without_kernel("numpy", compiling=False),
        UnsupportedError,
        ("Pair 'p': backend 'numpy' was forced and can't run it: Pair has no NumPy kernel",),
    ),
    Row(
        "a backend of a name that is taken",
        lambda: REGISTERED.register(REGISTERED.get("numpy")),
        SchemaError,
        ("backend 'numpy' is already registered; choose another name",),
    ),
    Row(
        "eagerly: a closed engine",
        lambda: eager(engine=closed_engine()),
        ResourceError,
        ("engine is closed",),
    ),
    *(
        Row(
            f"eagerly: {what}",
            lambda array=array: eager(src=array),
            error,
            (f"{CONV}: input 'src'", *says),
        )
        for what, array, error, says in (
            ("a masked array", np.ma.masked_array(X), ArgumentTypeError, ("MaskedArray", ".filled(0)")),
            (
                "complex through DLPack",
                Exporter(X.astype("c8")),
                DataTypeError,
                ("DLPack type code 5 of 64 bits",),
            ),
            ("no capsule", Broken(5), ArgumentError, ("gave no DLPack capsule",)),
            ("not shared", Broken(RuntimeError("grad")), ArgumentError, ("through DLPack (grad)",)),
        )
    ),
]

# --- torch ------------------------------------------------------------------------------------------


def torch_rows():
    """Tensors that can't be shared, or would be misread."""
    try:
        import torch
    except ImportError:
        return
    x = torch.ones(SRC)
    imaginary = torch.ones(SRC, dtype=torch.complex64).conj().imag
    cases = (
        (
            "requires_grad",
            x.clone().requires_grad_(),
            ArgumentError,
            ("through DLPack", "pass a detached CPU tensor"),
        ),
        ("complex", x.to(torch.complex64), DataTypeError, ("DLPack type code 5 of 64 bits and 1 lanes",)),
        ("a conjugate", x.to(torch.complex64).conj(), ArgumentError, ("through DLPack",)),
        ("a negated view", imaginary, ArgumentError, ("negative bit", ".resolve_neg()")),
        ("float8", x.to(torch.float8_e5m2), DataTypeError, ("of 8 bits", "convert it to f32")),
        ("sparse", x.to_sparse(), ArgumentError, ("through DLPack",)),
        ("meta", x.to("meta"), ArgumentError, ("through DLPack",)),
        ("a class", torch.Tensor, ArgumentTypeError, ("<class 'torch.Tensor'>",)),
    )
    for what, tensor, error, says in cases:
        yield Row(
            f"eagerly: torch, {what}", lambda t=tensor: eager(src=t), error, (f"{CONV}: input 'src'", *says)
        )
        for backend in BACKENDS:
            yield Row(
                f"{backend}: torch, {what}",
                lambda t=tensor, backend=backend: compiled(CONV, backend).execute(None, [t, DY]),
                error,
                (f"{CONV} (op 0): input 'src'", *says),
            )
    grad = torch.zeros(WEIGHTS[False]).requires_grad_()
    yield Row(
        "eagerly: torch, out requires_grad",
        lambda: eager(out=grad),
        ArgumentError,
        (f"{CONV} (op 0): output 'diff_weights'", "pass a detached CPU tensor"),
    )
    yield Row(
        "LogicalTensor: data_type torch.float32",
        lambda: LogicalTensor(0, torch.float32),
        ArgumentTypeError,
        ("tensor 0: data_type must be one of", "got torch.float32 of type dtype"),
    )


ROWS = [*partition_rows(), *operand_rows(), *graph_rows(), *OTHER_ROWS, *torch_rows()]
