"""Bad graphs, and bad uses of the builder."""

import numpy as np
import onednn_graph as og
from onednn_graph import ArgumentError, ArgumentTypeError, GraphError, LogicalTensor, ShapeError
from onednn_graph.errors import (
    AttributeTypeError,
    LayoutError,
    PortError,
    UnknownAttributeError,
    UnknownOpError,
)

from bad_inputs import (
    CONV,
    DROP,
    DST,
    FILTERS,
    SRC,
    Row,
    attributes,
    built,
    finalized,
    graph_of,
    make_op,
)

# --- graphs -----------------------------------------------------------------------------------------


def of(inputs, output, op_id=0, **more):
    """An op on tensors of unknown shape, or of those given."""
    made = [LogicalTensor(i, "f32") if isinstance(i, int) else i for i in inputs]
    return make_op(
        inputs=made, outputs=[LogicalTensor(output, "f32", **more)], op_id=op_id, name=f"op{op_id}"
    )


def described_again(**changes):
    """A second op that describes tensor 0 anew."""
    first = LogicalTensor(0, "f32", SRC, name="x")
    again = {"data_type": "f32", "shape": SRC, "name": "x", **changes}
    second = LogicalTensor(0, again.pop("data_type"), again.pop("shape"), **again)
    other = LogicalTensor(1, second.data_type)
    return graph_of(
        of([first, LogicalTensor(2, "f32")], 3),
        make_op(inputs=[second, other], outputs=[LogicalTensor(4, other.data_type)], op_id=1, name="op1"),
    )


GRAPH_ROWS = [
    Row(f"Graph: {what}", make, error, says)
    for what, make, error, says in (
        ("kind gpu", lambda: og.Graph("gpu"), ArgumentError, ("engine kind must be 'cpu'", "got 'gpu'")),
        ("kind []", lambda: og.Graph([]), ArgumentError, ("engine kind must be 'cpu'", "got []")),
        (
            "kind array",
            lambda: og.Graph(np.array(["cpu", "cpu"])),
            ArgumentError,
            ("engine kind must be 'cpu'",),
        ),
        ("fpmath bf17", lambda: og.Graph(fpmath_mode="bf17"), ArgumentError, ("fpmath_mode", "mean 'bf16'?")),
        ("fpmath 5", lambda: og.Graph(fpmath_mode=5), ArgumentTypeError, ("fpmath_mode", "tf32, got 5")),
        ("fpmath None", lambda: og.Graph(fpmath_mode=None), ArgumentTypeError, ("fpmath_mode", "got None")),
        (
            "finalize when empty",
            lambda: og.Graph().finalize(),
            GraphError,
            ("the graph has no ops; add one",),
        ),
        ("compile when empty", lambda: og.Graph().compile(), GraphError, ("the graph has no ops",)),
        ("add_op 5", lambda: graph_of(5), ArgumentTypeError, ("add_op takes an onednn_graph.Op, got 5",)),
        ("add_op None", lambda: graph_of(None), ArgumentTypeError, ("add_op takes", "got None")),
        (
            "add_op a tensor",
            lambda: graph_of(LogicalTensor(0, "f32", [8])),
            ArgumentTypeError,
            ("add_op takes", "of type LogicalTensor"),
        ),
        (
            "one id twice",
            lambda: graph_of(of([0, 1], 2), of([0, 1], 3)),
            GraphError,
            (f"{CONV} 'op0' has the id 0, which another op",),
        ),
        (
            "two producers",
            lambda: graph_of(of([0, 1], 2), of([0, 1], 2, op_id=1)),
            GraphError,
            ("tensor 2", f"is produced by {CONV} 'op0' and again by {CONV} 'op1'"),
        ),
        (
            "an op on its own output",
            lambda: graph_of(of([0, 1], 1)),
            GraphError,
            ("tensor 1", f"is an input and an output of {CONV} 'op0', a cycle"),
        ),
        (
            "a cycle of two",
            lambda: finalized(of([0, 1], 2), of([2, 1], 0, op_id=1)),
            GraphError,
            ("the graph has a cycle", f"{CONV} 'op0'", f"{CONV} 'op1'"),
        ),
        (
            "a cycle of three behind an op",
            lambda: finalized(
                of([7, 8], 9, op_id=3), of([9, 3], 1), of([1, 8], 2, op_id=1), of([2, 8], 3, op_id=2)
            ),
            GraphError,
            ("the graph has a cycle through or before", "'op0'", "'op1'", "'op2'"),
        ),
        (
            "one id, two data types",
            lambda: described_again(data_type="bf16"),
            GraphError,
            (f"{CONV} 'op1': tensor 'x'", "data_type bf16, but", "the id 0 has f32"),
        ),
        (
            "one id, two shapes",
            lambda: described_again(shape=(2, 4, 5, 6)),
            ShapeError,
            ("'op1'", "has shape [2, 4, 5, 6], but the graph's tensor with the id 0 has [2, 4, 5, 5]"),
        ),
        (
            "one id, two ranks",
            lambda: described_again(shape=(2, 4, 5)),
            ShapeError,
            ("shape [2, 4, 5], but",),
        ),
        (
            "one id, two layouts",
            lambda: described_again(layout_type="any"),
            GraphError,
            ("layout_type any, but", "strided"),
        ),
        (
            "one id, two strides",
            lambda: described_again(strides=[200, 1, 20, 4]),
            GraphError,
            ("strides (200, 1,",),
        ),
        ("one id, two names", lambda: described_again(name="y"), GraphError, ("name y, but", "has x")),
        (
            "one id, two properties",
            lambda: described_again(property_type="constant"),
            GraphError,
            ("property_type constant, but", "undef"),
        ),
        (
            "add_op after finalize",
            lambda: finalized().add_op(make_op(op_id=7)),
            GraphError,
            (f"{CONV} (op 7) can't be added, the graph is finalized",),
        ),
        ("partitions first", lambda: graph_of(make_op()).get_partitions(), GraphError, ("call finalize()",)),
        (
            "policy fuse",
            lambda: finalized().get_partitions("fuse"),
            ArgumentError,
            ("policy", "mean 'fusion'?"),
        ),
        (
            "policy 5",
            lambda: finalized().get_partitions(5),
            ArgumentTypeError,
            ("policy", "got 5 of type int"),
        ),
        ("policy None", lambda: finalized().get_partitions(None), ArgumentTypeError, ("policy", "got None")),
        (
            "backend cuda",
            lambda: finalized().get_partitions(backend="cuda"),
            ArgumentError,
            ("backend must be one of onednn, numpy, native, got 'cuda'",),
        ),
        (
            "backend Numpy",
            lambda: finalized().get_partitions(backend="Numpy"),
            ArgumentError,
            ("got 'Numpy' (did you mean 'numpy'?)",),
        ),
        (
            "backend 5",
            lambda: finalized().get_partitions(backend=5),
            ArgumentTypeError,
            ("backend must", "got 5"),
        ),
        (
            "tensor 77",
            lambda: finalized().tensor(77),
            GraphError,
            ("no tensor with the id 77; it has [0, 1, 9]",),
        ),
        ("tensor []", lambda: finalized().tensor([]), GraphError, ("no tensor with the id []",)),
        (
            "tensor 'x'",
            lambda: finalized().tensor("x"),
            GraphError,
            ("the graph has no tensor 'x'; it has [",),
        ),
    )
]

# --- the builder ------------------------------------------------------------------------------------


def build(*inputs, kind=CONV, **more):
    graph, x, dy, _ = built()
    named = {"x": x, "dy": dy}
    return graph.op(kind, *[named.get(i, i) if isinstance(i, str) else i for i in inputs], **more)


def after_finalize(use):
    graph, *_ = made = built()
    graph.finalize()
    return use(graph, *made[1:])


def add_input(*arguments, **more):
    return built()[0].input(*arguments, **more)


BUILDER_ROWS = [
    Row(f"builder: {what}", make, error, says)
    for what, make, error, says in (
        ("input 5", lambda: add_input(5, "f32"), ArgumentTypeError, ("an input's name must be", "got 5")),
        (
            "input without a name",
            lambda: add_input("", "f32"),
            ArgumentTypeError,
            ("non-empty string, got ''",),
        ),
        ("input x again", lambda: add_input("x", "f32"), GraphError, ("the name 'x' is taken",)),
        ("input named as an op", lambda: add_input("dw", "f32"), GraphError, ("the name 'dw' is taken",)),
        ("input f33", lambda: add_input("z", "f33"), ArgumentError, ("tensor 'z': data_type", "mean 'f32'?")),
        (
            "input of shape 5",
            lambda: add_input("z", "f32", 5),
            ArgumentTypeError,
            ("tensor 'z': shape", "got 5"),
        ),
        (
            "input of shape [-3]",
            lambda: add_input("z", "f32", [-3]),
            ShapeError,
            ("tensor 'z': shape", "got -3"),
        ),
        (
            "input with strides of another rank",
            lambda: add_input("z", "f32", [2, 3], strides=[1]),
            LayoutError,
            ("tensor 'z': strides", "[2, 3], got [1]"),
        ),
        (
            "input with property const",
            lambda: add_input("z", "f32", property_type="const"),
            ArgumentError,
            ("tensor 'z': property_type", "mean 'constant'?"),
        ),
        (
            "input after finalize",
            lambda: after_finalize(lambda graph, *_: graph.input("z", "f32")),
            GraphError,
            ("input 'z' can't be added, the graph is finalized",),
        ),
        (
            "op after finalize",
            lambda: after_finalize(lambda graph, x, dy, _: graph.op(CONV, x, dy, **attributes())),
            GraphError,
            (f"{CONV} can't be added, the graph is finalized",),
        ),
        (
            "output after finalize",
            lambda: after_finalize(lambda graph, x, dy, dw: graph.output(dw)),
            GraphError,
            ("output tensor 'dw'", "can't be added, the graph is finalized"),
        ),
        (
            "output 5",
            lambda: built()[0].output(5),
            ArgumentTypeError,
            ("output takes a LogicalTensor, got 5",),
        ),
        (
            "output of no tensor",
            lambda: built()[0].output(LogicalTensor(77, "f32")),
            GraphError,
            ("tensor 77", "is no tensor of the graph"),
        ),
        (
            "output without a name",
            lambda: (lambda graph, x, dy, dw: graph.output(dw, name=""))(*built()),
            ArgumentTypeError,
            ("an output's name must be a non-empty string or None, got ''",),
        ),
        (
            "two outputs of one name",
            lambda: (lambda graph, x, dy, dw: (graph.output(dw), graph.output(x, name="dw")))(*built()),
            GraphError,
            ("two outputs of the graph would be called 'dw'",),
        ),
        (
            "output of another graph",
            lambda: built()[0].output(LogicalTensor(3, "bf16", name="dw")),
            GraphError,
            ("tensor 'dw' (bf16", "data_type bf16, but", "f32"),
        ),
        (
            "op of an unknown kind",
            lambda: build("x", "dy", kind="Conv"),
            UnknownOpError,
            ("unknown op kind 'Conv'",),
        ),
        ("op 5", lambda: build("x", "dy", kind=5), UnknownOpError, ("unknown op kind 5",)),
        (
            "op without inputs",
            lambda: build(**attributes()),
            PortError,
            (f"{CONV} '", "input 'src' is missing; it takes 2 to 3 inputs", "got 0"),
        ),
        (
            "op with one input",
            lambda: build("x", **attributes()),
            PortError,
            ("input 'diff_dst' is missing",),
        ),
        (
            "op without src",
            lambda: build(None, "dy", **attributes()),
            PortError,
            (f"{CONV}: input 'src' is missing, but 'diff_dst' after it is given",),
        ),
        (
            "legacy op without input_forward",
            lambda: build(None, "dy", kind=FILTERS, **attributes(FILTERS)),
            PortError,
            (f"{FILTERS}: input 'input_forward' is missing, but 'output_delta' after it",),
        ),
        (
            "op with four inputs",
            lambda: build("x", "dy", None, None, **attributes()),
            PortError,
            (f"{CONV}: too many inputs; it takes at most 3 (src, diff_dst, weights_shape), got 4",),
        ),
        (
            "op with src twice",
            lambda: build("x", src=LogicalTensor(0, "f32")),
            PortError,
            (f"{CONV}: input 'src' is given twice, by position and by name",),
        ),
        (
            "op with weights_shape twice",
            lambda: build("x", "dy", [6, 4, 3, 3], **attributes()),
            PortError,
            (f"{CONV}: input 'weights_shape' is given twice",),
        ),
        (
            "op on arrays",
            lambda: build(np.ones(SRC), np.ones(DST[False]), **attributes()),
            ArgumentTypeError,
            (
                f"{CONV} '",
                "input 'src' must be a LogicalTensor, got an array of float64 with shape [2, 4, 5, 5]",
            ),
        ),
        (
            "op on numbers",
            lambda: build(5, "dy", **attributes()),
            ArgumentTypeError,
            ("input 'src' must", "got 5"),
        ),
        (
            "op with a tensor of another graph",
            lambda: build(LogicalTensor(0, "f32", SRC, name="other"), "dy", **attributes()),
            GraphError,
            ("tensor 'other'", "has name other, but", "has x", "in the graph that made it"),
        ),
        (
            "op name 5",
            lambda: build("x", "dy", name=5),
            ArgumentTypeError,
            (f"{CONV}: name must be", "got 5"),
        ),
        (
            "op name x",
            lambda: build("x", "dy", name="x", **attributes()),
            GraphError,
            ("the name 'x' is taken",),
        ),
        (
            "op with stride",
            lambda: build("x", "dy", **attributes(strides=DROP), stride=[1, 1]),
            UnknownAttributeError,
            ("unknown attribute 'stride' (did you mean 'strides'?)",),
        ),
        (
            "op with weights_shape 5",
            lambda: build("x", "dy", **attributes(weights_shape=5)),
            AttributeTypeError,
            ("attribute 'weights_shape' must be a list", "got 5 of type int"),
        ),
        (
            "op with shapes that don't fit",
            lambda: build("x", "dy", **attributes(groups=3), name="dw3"),
            ShapeError,
            (f"{CONV} 'dw3': 'src'", "'groups' = 3", "got 4 channels"),
        ),
    )
]


ROWS = [*GRAPH_ROWS, *BUILDER_ROWS]
