"""Bad compilations, engines and streams."""

import numpy as np
import onednn_graph as og
from onednn_graph import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    GraphError,
    LogicalTensor,
    ShapeError,
    UnsupportedError,
)
from onednn_graph.errors import LayoutError, ResourceError

from bad_inputs import (
    CONV,
    DST,
    SRC,
    WEIGHTS,
    Row,
    built,
    closed_engine,
    finalized,
    graph_of,
    make_op,
    partition,
    tensors,
)


def compile_with(inputs=None, outputs=None, engine=None, **changes):
    return partition(**changes).compile(inputs, outputs, engine)


def output(**more):
    return [LogicalTensor(9, more.pop("data_type", "f32"), more.pop("shape", WEIGHTS[False]), **more)]


def forced(backend, data_type):
    graph = finalized(make_op(inputs=tensors(data_type=data_type), outputs=[LogicalTensor(9, data_type)]))
    return graph.get_partitions(backend=backend)


UNKNOWN = [LogicalTensor(0, "f32", [-1, 4, 5, 5]), LogicalTensor(1, "f32", [-1, 6, 3, 3])]
ONE, TWO = tensors()


def wrong_type():
    """A partition of unknown rank compiled for bf16."""
    inputs = [LogicalTensor(0, "f32"), LogicalTensor(1, "f32")]
    graph = finalized(make_op(inputs=inputs))
    return graph.get_partitions()[0].compile(tensors(data_type="bf16"))


def two_named_a():
    inputs = [LogicalTensor(0, "f32", SRC, name="a"), LogicalTensor(1, "f32", DST[False], name="a")]
    return graph_of(make_op(inputs=inputs)).compile()


ROWS = [
    Row(f"compile: {what}", make, error, says)
    for what, make, error, says in (
        (
            "inputs 5",
            lambda: compile_with(5),
            ArgumentTypeError,
            (CONV, "inputs must be a sequence", "got 5"),
        ),
        (
            "a bare input",
            lambda: compile_with(ONE),
            ArgumentTypeError,
            ("inputs must be", "got one, tensor 0", "write [tensor]"),
        ),
        (
            "arrays",
            lambda: compile_with([np.ones(SRC)]),
            ArgumentTypeError,
            ("an array of float64", "to execute"),
        ),
        (
            "outputs 'y'",
            lambda: compile_with(None, ["y"]),
            ArgumentTypeError,
            ("outputs must hold", "got 'y'"),
        ),
        (
            "one input",
            lambda: compile_with([ONE]),
            ArgumentError,
            ("each input port once, 'src' tensor 0", "ids [0]"),
        ),
        (
            "one input twice",
            lambda: compile_with([ONE, ONE]),
            ArgumentError,
            ("'diff_dst' tensor 1", "ids [0, 0]"),
        ),
        (
            "an unknown input",
            lambda: compile_with([ONE, LogicalTensor(7, "f32", SRC)]),
            ArgumentError,
            ("each input port once", "got the ids [0, 7]"),
        ),
        (
            "inputs and more",
            lambda: compile_with([ONE, TWO, LogicalTensor(7, "f32")]),
            ArgumentError,
            ("got the ids [0, 1, 7]",),
        ),
        (
            "no outputs",
            lambda: compile_with(None, []),
            ArgumentError,
            ("each output port once, 'diff_weights'", "[]"),
        ),
        (
            "an unknown output",
            lambda: compile_with(None, [ONE]),
            ArgumentError,
            ("each output port once", "ids [0]"),
        ),
        (
            "another size",
            lambda: compile_with([LogicalTensor(0, "f32", [2, 4, 5, 6]), TWO]),
            ShapeError,
            ("input 'src', tensor 0", "[2, 4, 5, 5] in the graph, got [2, 4, 5, 6] at compile"),
        ),
        ("another data type", wrong_type, DataTypeError, ("input 'src'", "was f32 in the graph, got bf16")),
        (
            "another output shape",
            lambda: compile_with(None, output(shape=[6, 4, 3, 4])),
            ShapeError,
            ("output 'diff_weights'", "[6, 4, 3, 3] in the graph, got [6, 4, 3, 4]"),
        ),
        (
            "unknown sizes",
            lambda: finalized(make_op(inputs=UNKNOWN)).get_partitions()[0].compile(),
            ShapeError,
            ("input 'src', tensor 0 (f32, shape [?, 4, 5, 5]), must have all its sizes at compile",),
        ),
        (
            "sizes that don't fit",
            lambda: (
                finalized(make_op(inputs=UNKNOWN))
                .get_partitions()[0]
                .compile([LogicalTensor(0, "f32", [3, 4, 5, 5]), TWO])
            ),
            ShapeError,
            (CONV, "'src' and 'diff_dst'", "batch size, got 3 and 2"),
        ),
        (
            "an input of any layout",
            lambda: compile_with([LogicalTensor(0, "f32", SRC, layout_type="any"), TWO]),
            LayoutError,
            ("input 'src', tensor 0", "got layout_type 'any'; only outputs may be 'any'"),
        ),
        (
            "an input of no layout",
            lambda: compile_with([ONE, LogicalTensor(1, "f32", DST[False], layout_type="undef")]),
            LayoutError,
            ("input 'diff_dst', tensor 1", "got layout_type 'undef'"),
        ),
        (
            "an opaque output",
            lambda: compile_with(None, output(layout_type="opaque", layout_id=3)),
            LayoutError,
            ("output 'diff_weights', tensor 9", "got layout_type 'opaque'"),
        ),
        (
            "an output of no layout",
            lambda: compile_with(None, output(layout_type="undef")),
            LayoutError,
            ("output 'diff_weights', tensor 9", "got layout_type 'undef'"),
        ),
        (
            "overlapping output strides",
            lambda: compile_with(None, output(strides=[36, 9, 3, 0])),
            LayoutError,
            ("output 'diff_weights', tensor 9", "strides [36, 9, 3, 0] that overlap"),
        ),
        (
            "output strides that interleave",
            lambda: compile_with(None, output(strides=[3, 6, 1, 1])),
            LayoutError,
            ("strides [3, 6, 1, 1] that overlap",),
        ),
        (
            "engine 5",
            lambda: compile_with(engine=5),
            ArgumentTypeError,
            ("engine must be", "got 5", "Engine()"),
        ),
        (
            "engine cpu",
            lambda: compile_with(engine="cpu"),
            ArgumentTypeError,
            ("engine must be", "got 'cpu'"),
        ),
        (
            "closed engine",
            lambda: compile_with(engine=closed_engine()),
            ResourceError,
            ("the engine is closed",),
        ),
        ("graph, engine 5", lambda: built()[0].compile(5), ArgumentTypeError, ("engine must be", "got 5")),
        ("graph, closed engine", lambda: built()[0].compile(closed_engine()), ResourceError, ("is closed",)),
        ("graph, backend cuda", lambda: built()[0].compile(backend="cuda"), ArgumentError, ("got 'cuda'",)),
        ("graph, policy 5", lambda: built()[0].compile(policy=5), ArgumentTypeError, ("policy", "got 5")),
        (
            "graph, two inputs of one name",
            two_named_a,
            GraphError,
            ("two inputs", "called 'a', the tensors 0 and 1"),
        ),
        (
            "f64 forced on oneDNN",
            lambda: forced("onednn", "f64"),
            UnsupportedError,
            (f"{CONV} (op 0): backend 'onednn' was forced and can't run it", "leave backend out"),
        ),
        ("Engine gpu", lambda: og.Engine("gpu"), ArgumentError, ("engine kind must be 'cpu'", "got 'gpu'")),
        ("Engine 5", lambda: og.Engine(5), ArgumentError, ("engine kind must be 'cpu'", "got 5")),
        (
            "Engine of arrays",
            lambda: og.Engine(np.array(["cpu"] * 2)),
            ArgumentError,
            ("engine kind", "array(['cpu'"),
        ),
        ("Engine 1", lambda: og.Engine("cpu", 1), ArgumentError, ("engine index must be 0", "got 1")),
        ("Engine '0'", lambda: og.Engine("cpu", "0"), ArgumentError, ("engine index must be 0", "got '0'")),
        ("Stream 5", lambda: og.Stream(5), ArgumentTypeError, ("engine must be", "got 5")),
        ("Stream None", lambda: og.Stream(None), ArgumentTypeError, ("engine must be", "got None")),
        (
            "Stream of a closed engine",
            lambda: og.Stream(closed_engine()),
            ResourceError,
            ("the engine is closed",),
        ),
        (
            "with a closed engine",
            lambda: closed_engine().__enter__(),
            ResourceError,
            ("the engine is closed",),
        ),
    )
]
