"""Bad logical tensors, graphs, uses of the builder, partitions and compilations."""

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
    attributes,
    built,
    closed_engine,
    graph_of,
    make_op,
    partition,
    tensors,
)
from onednn_graph import (
    ArgumentError,
    ArgumentTypeError,
    AttributeTypeError,
    AttributeValueError,
    DataTypeError,
    GraphError,
    LayoutError,
    LogicalTensor,
    OutOfMemoryError,
    PortError,
    ResourceError,
    ShapeError,
    UnknownOpError,
    UnsupportedError,
)

# --- logical tensors and tensors --------------------------------------------------------------------

PAIR = np.array([1, 2])

LOGICAL_TENSORS = (
    # what, arguments, options, error, what the message says
    ("id a", ("a", "f32"), {}, ArgumentTypeError, ("id must be an integer, got 'a'",)),
    ("id None", (None, "f32"), {}, ArgumentTypeError, ("id must be an integer, got None",)),
    ("id 1.5", (1.5, "f32"), {}, ArgumentTypeError, ("id must be an integer, got 1.5",)),
    ("id True", (True, "f32"), {}, ArgumentTypeError, ("id must be an integer, got True",)),
    ("id [1]", ([1], "f32"), {}, ArgumentTypeError, ("id must be an integer, got [1]",)),
    ("id array", (PAIR, "f32"), {}, ArgumentTypeError, ("id must be an integer, got array([1, 2])",)),
    ("id -1", (-1, "f32"), {}, ArgumentError, ("tensor -1: id must be between 0 and 2**64 - 1, got -1",)),
    ("id 2**64", (2**64, "f32"), {}, ArgumentError, ("id must be between 0", "got 18446744073709551616")),
    ("data_type None", (0, None), {}, ArgumentTypeError, ("tensor 0: data_type", "bf16", "got None of type")),
    ("data_type 5", (0, 5), {}, ArgumentTypeError, ("tensor 0: data_type", "got 5 of type int")),
    (
        "data_type []",
        (0, ["f32"]),
        {},
        ArgumentTypeError,
        ("tensor 0: data_type", "got ['f32'] of type list"),
    ),
    ("data_type f23", (0, "f23"), {}, ArgumentError, ("tensor 0: data_type", "'f23' (did you mean 'f32'?)")),
    ("data_type float32", (0, "float32"), {}, ArgumentError, ("'float32' (did you mean 'f32'?)",)),
    ("data_type F32", (0, "F32"), {}, ArgumentError, ("'F32' (did you mean 'f32'?)",)),
    ("data_type empty", (0, ""), {}, ArgumentError, ("tensor 0: data_type must be one of", "got ''")),
    ("data_type undef", (0, "undef"), {}, ArgumentError, ("a concrete type such as 'f32', got 'undef'",)),
    ("data_type complex64", (0, np.complex64), {}, DataTypeError, ("numpy.complex64", "use 'f32'")),
    ("data_type object", (0, object), {}, DataTypeError, ("tensor 0: data_type", "<class 'object'>")),
    ("data_type str", (0, str), {}, DataTypeError, ("tensor 0: data_type", "<class 'str'>")),
    ("data_type record", (0, np.dtype([("a", "f4")])), {}, DataTypeError, ("dtype([('a', '<f4')])",)),
    ("data_type longdouble", (0, np.dtype("g")), {}, DataTypeError, ("tensor 0: data_type",)),
    ("data_type Tensor", (0, og.Tensor), {}, DataTypeError, ("graph.tensor.Tensor'>",)),
    ("shape 5", (0, "f32", 5), {}, ArgumentTypeError, ("tensor 0: shape must be a sequence", "got 5", "[8]")),
    ("shape 2.5", (0, "f32", 2.5), {}, ArgumentTypeError, ("tensor 0: shape", "got 2.5 of type float")),
    ("shape a string", (0, "f32", "88"), {}, ArgumentTypeError, ("tensor 0: shape", "got '88' of type str")),
    (
        "shape a dict",
        (0, "f32", {8: 8}),
        {},
        ArgumentTypeError,
        ("tensor 0: shape", "got {8: 8} of type dict"),
    ),
    ("shape a set", (0, "f32", {8}), {}, ArgumentTypeError, ("tensor 0: shape", "got {8} of type set")),
    ("shape an iterator", (0, "f32", iter([8])), {}, ArgumentTypeError, ("shape", "of type list_iterator")),
    ("shape array(3)", (0, "f32", np.array(3)), {}, ArgumentTypeError, ("got array(3) of type ndarray",)),
    ("shape a matrix", (0, "f32", np.ones((2, 2), int)), {}, ArgumentTypeError, ("got array([1, 1]) in",)),
    ("shape an image", (0, "f32", np.ones(SRC)), {}, ArgumentTypeError, ("float64 with shape [2, 4, 5, 5]",)),
    (
        "shape [1.5]",
        (0, "f32", [1.5]),
        {},
        ArgumentTypeError,
        ("shape must hold integers, got 1.5 in [1.5]",),
    ),
    ("shape [None]", (0, "f32", [None, 8]), {}, ArgumentTypeError, ("integers, got None in [None, 8]",)),
    ("shape ['8']", (0, "f32", ["8"]), {}, ArgumentTypeError, ("integers, got '8' in ['8']",)),
    ("shape [True]", (0, "f32", [True]), {}, ArgumentTypeError, ("integers, got True in [True]",)),
    (
        "shape [-2]",
        (0, "f32", [8, -2]),
        {},
        ShapeError,
        ("tensor 0: shape", "-1 for unknown, got -2 in [8, -2]"),
    ),
    ("shape [-2**70]", (0, "f32", [-(2**70)]), {}, ShapeError, ("got -1180591620717411303424",)),
    (
        "shape [2**63]",
        (0, "f32", [2**63]),
        {},
        ShapeError,
        ("fewer than 2**60 elements, got [9223372036854775808]",),
    ),
    ("shape [2**30]*2", (0, "f32", [2**30] * 2), {}, ShapeError, ("2**60 elements, got [1073741824, 10737",)),
    ("shape [0, 2**70]", (0, "f32", [0, 2**70]), {}, ShapeError, ("2**60 elements, got [0, 11805916207",)),
    (
        "shape of 65 axes",
        (0, "f32", [1] * 65),
        {},
        ShapeError,
        ("tensor 0: shape must have at most 64 axes, got 65",),
    ),
    ("shape of 10**5 axes", (0, "f32", [1] * 10**5), {}, ShapeError, ("at most 64 axes, got 100000",)),
    (
        "strides 1",
        (0, "f32", [8]),
        {"strides": 1},
        ArgumentTypeError,
        ("tensor 0: strides", "got 1 of type int"),
    ),
    (
        "strides 'ab'",
        (0, "f32", [8, 8]),
        {"strides": "ab"},
        ArgumentTypeError,
        ("tensor 0: strides", "got 'ab'"),
    ),
    (
        "strides [1.0]",
        (0, "f32", [8]),
        {"strides": [1.0]},
        ArgumentTypeError,
        ("integers, got 1.0 in [1.0]",),
    ),
    ("strides of one axis", (0, "f32", [8, 8]), {"strides": [1]}, LayoutError, ("shape [8, 8], got [1]",)),
    ("strides of no shape", (0, "f32"), {"strides": [1]}, LayoutError, ("shape unknown, got [1]",)),
    (
        "strides [-1]",
        (0, "f32", [8]),
        {"strides": [-1]},
        LayoutError,
        ("non-negative", "got [-1]", "reverse"),
    ),
    (
        "strides [2**63]",
        (0, "f32", [8]),
        {"strides": [2**63]},
        LayoutError,
        ("64-bit", "got [9223372036854775808]"),
    ),
    (
        "strides [2**70]",
        (0, "f32", [1]),
        {"strides": [2**70]},
        LayoutError,
        ("64-bit addresses, got [11805916207",),
    ),
    (
        "strides of any",
        (0, "f32", [8]),
        {"strides": [1], "layout_type": "any"},
        LayoutError,
        ("tensor 0: strides need layout_type 'strided', got strides [1] with 'any'",),
    ),
    ("layout strided?", (0, "f32"), {"layout_type": "stride"}, ArgumentError, ("(did you mean 'strided'?)",)),
    (
        "layout blocked",
        (0, "f32"),
        {"layout_type": "blocked"},
        ArgumentError,
        ("layout_type", "got 'blocked'"),
    ),
    (
        "layout 3",
        (0, "f32"),
        {"layout_type": 3},
        ArgumentTypeError,
        ("tensor 0: layout_type", "got 3 of type int"),
    ),
    ("layout None", (0, "f32"), {"layout_type": None}, ArgumentTypeError, ("layout_type", "got None")),
    ("property const", (0, "f32"), {"property_type": "const"}, ArgumentError, ("did you mean 'constant'?",)),
    (
        "property 1",
        (0, "f32"),
        {"property_type": 1},
        ArgumentTypeError,
        ("property_type", "got 1 of type int"),
    ),
    (
        "layout_id a",
        (0, "f32"),
        {"layout_type": "opaque", "layout_id": "a"},
        ArgumentTypeError,
        ("tensor 0: layout_id must be a non-negative integer or None, got 'a'",),
    ),
    (
        "layout_id -1",
        (0, "f32"),
        {"layout_type": "opaque", "layout_id": -1},
        ArgumentTypeError,
        ("layout_id must be a non-negative integer or None, got -1",),
    ),
    (
        "layout_id of strided",
        (0, "f32"),
        {"layout_id": 1},
        LayoutError,
        ("layout_id needs layout_type 'opaque', got layout_id 1 with 'strided'",),
    ),
    ("name 5", (0, "f32"), {"name": 5}, ArgumentTypeError, ("tensor 0: name must be a string, got 5",)),
    ("name None", (0, "f32"), {"name": None}, ArgumentTypeError, ("name must be a string, got None",)),
    ("in its own name", (0, "f32", [-3]), {"name": "a\nb"}, ShapeError, ("tensor 'a\\nb': shape", "got -3")),
)

EIGHT = LogicalTensor(0, "f32", [8])

TENSOR_ROWS = [
    *(
        Row(
            f"LogicalTensor: {what}",
            lambda arguments=arguments, options=options: LogicalTensor(*arguments, **options),
            error,
            ("tensor", *says),
        )
        for what, arguments, options, error, says in LOGICAL_TENSORS
    ),
    *(
        Row(f"Tensor: {what}", make, error, says)
        for what, make, error, says in (
            ("5", lambda: og.Tensor(5), ArgumentTypeError, ("a LogicalTensor first, got 5 of type int",)),
            ("None", lambda: og.Tensor(None), ArgumentTypeError, ("a LogicalTensor first, got None",)),
            (
                "no shape",
                lambda: og.Tensor(LogicalTensor(0, "f32")),
                ShapeError,
                ("tensor 0 (f32, shape unknown)",),
            ),
            (
                "integers",
                lambda: og.Tensor(EIGHT, list(range(8))),
                DataTypeError,
                ("array of f32", "got int64"),
            ),
            (
                "a string",
                lambda: og.Tensor(EIGHT, "12345678"),
                ArgumentTypeError,
                ("got '12345678' of type str",),
            ),
            (
                "too short",
                lambda: og.Tensor(EIGHT, np.ones(7, "f4")),
                ShapeError,
                ("have shape [8], got [7]",),
            ),
            ("engine 5", lambda: og.Tensor(EIGHT, engine=5), ArgumentTypeError, ("engine must be", "got 5")),
            (
                "closed engine",
                lambda: og.Tensor(EIGHT, engine=closed_engine()),
                ResourceError,
                ("is closed",),
            ),
            (
                "layout any",
                lambda: og.Tensor(LogicalTensor(0, "f32", [8], layout_type="any")),
                LayoutError,
                ("a Tensor needs layout_type 'strided', got 'any'",),
            ),
            (
                "overlapping strides",
                lambda: og.Tensor(LogicalTensor(0, "f32", [2, 2], strides=[1, 1])),
                LayoutError,
                ("strides [1, 1] overlap",),
            ),
            (
                "2**59 elements",
                lambda: og.Tensor(LogicalTensor(0, "f32", [2**59])),
                OutOfMemoryError,
                ("tensor 0", "needs 2305843009213693952 bytes of memory"),
            ),
            (
                "2**61 bytes by strides",
                lambda: og.Tensor(LogicalTensor(0, "f32", [2, 2], strides=[2**59, 1])),
                OutOfMemoryError,
                ("tensor 0", "bytes of memory"),
            ),
            (
                "another type without a copy",
                lambda: og.Tensor(EIGHT).__array__(np.float64, copy=False),
                ArgumentError,
                ("tensor 0", "can't become float64 without a copy"),
            ),
        )
    ),
]

# --- graphs -----------------------------------------------------------------------------------------


def of(inputs, output, op_id=0, **more):
    """An op on tensors of unknown shape, or of those given."""
    made = [LogicalTensor(i, "f32") if isinstance(i, int) else i for i in inputs]
    return make_op(
        inputs=made, outputs=[LogicalTensor(output, "f32", **more)], op_id=op_id, name=f"op{op_id}"
    )


def finalized(*ops):
    graph = graph_of(*(ops or [make_op()]))
    graph.finalize()
    return graph


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
            lambda: graph_of(EIGHT),
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
            ("backend must be one of onednn, numpy, got 'cuda'",),
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
        ("tensor 'x'", lambda: finalized().tensor("x"), GraphError, ("no tensor with the id 'x'",)),
    )
]

# --- the builder ------------------------------------------------------------------------------------


def build(*inputs, kind=CONV, **more):
    graph, x, dy, _ = built()
    named = {"x": x, "dy": dy}
    return graph.op(kind, *[named.get(i, i) if isinstance(i, str) else i for i in inputs], **more)


def after_compile(use):
    graph, *_ = made = built()
    graph.compile()
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
            "input after compile",
            lambda: after_compile(lambda graph, *_: graph.input("z", "f32")),
            GraphError,
            ("input 'z' can't be added, the graph is finalized",),
        ),
        (
            "op after compile",
            lambda: after_compile(lambda graph, x, dy, _: graph.op(CONV, x, dy, **attributes())),
            GraphError,
            (f"{CONV} can't be added, the graph is finalized",),
        ),
        (
            "output after compile",
            lambda: after_compile(lambda graph, x, dy, dw: graph.output(dw)),
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
            "output of no op",
            lambda: built()[0].output(LogicalTensor(0, "f32")),
            GraphError,
            ("tensor 0", "is produced by no op of the graph"),
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
            AttributeValueError,
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

# --- compilation ------------------------------------------------------------------------------------


def compiled(inputs=None, outputs=None, engine=None, **changes):
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


COMPILE_ROWS = [
    Row(f"compile: {what}", make, error, says)
    for what, make, error, says in (
        ("inputs 5", lambda: compiled(5), ArgumentTypeError, (CONV, "inputs must be a sequence", "got 5")),
        (
            "a bare input",
            lambda: compiled(ONE),
            ArgumentTypeError,
            ("inputs must be", "got one, tensor 0", "write [tensor]"),
        ),
        (
            "arrays",
            lambda: compiled([np.ones(SRC)]),
            ArgumentTypeError,
            ("an array of float64", "to execute"),
        ),
        ("outputs 'y'", lambda: compiled(None, ["y"]), ArgumentTypeError, ("outputs must hold", "got 'y'")),
        (
            "one input",
            lambda: compiled([ONE]),
            ArgumentError,
            ("each input port once, 'src' tensor 0", "ids [0]"),
        ),
        (
            "one input twice",
            lambda: compiled([ONE, ONE]),
            ArgumentError,
            ("'diff_dst' tensor 1", "ids [0, 0]"),
        ),
        (
            "an unknown input",
            lambda: compiled([ONE, LogicalTensor(7, "f32", SRC)]),
            ArgumentError,
            ("each input port once", "got the ids [0, 7]"),
        ),
        (
            "inputs and more",
            lambda: compiled([ONE, TWO, LogicalTensor(7, "f32")]),
            ArgumentError,
            ("got the ids [0, 1, 7]",),
        ),
        (
            "no outputs",
            lambda: compiled(None, []),
            ArgumentError,
            ("each output port once, 'diff_weights'", "[]"),
        ),
        (
            "an unknown output",
            lambda: compiled(None, [ONE]),
            ArgumentError,
            ("each output port once", "ids [0]"),
        ),
        (
            "another size",
            lambda: compiled([LogicalTensor(0, "f32", [2, 4, 5, 6]), TWO]),
            ShapeError,
            ("input 'src', tensor 0", "[2, 4, 5, 5] in the graph, got [2, 4, 5, 6] at compile"),
        ),
        ("another data type", wrong_type, DataTypeError, ("input 'src'", "was f32 in the graph, got bf16")),
        (
            "another output shape",
            lambda: compiled(None, output(shape=[6, 4, 3, 4])),
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
            lambda: compiled([LogicalTensor(0, "f32", SRC, layout_type="any"), TWO]),
            LayoutError,
            ("input 'src', tensor 0", "got layout_type 'any'; only outputs may be 'any'"),
        ),
        (
            "an input of no layout",
            lambda: compiled([ONE, LogicalTensor(1, "f32", DST[False], layout_type="undef")]),
            LayoutError,
            ("input 'diff_dst', tensor 1", "got layout_type 'undef'"),
        ),
        (
            "an opaque output",
            lambda: compiled(None, output(layout_type="opaque", layout_id=3)),
            LayoutError,
            ("output 'diff_weights', tensor 9", "got layout_type 'opaque'"),
        ),
        (
            "an output of no layout",
            lambda: compiled(None, output(layout_type="undef")),
            LayoutError,
            ("output 'diff_weights', tensor 9", "got layout_type 'undef'"),
        ),
        (
            "overlapping output strides",
            lambda: compiled(None, output(strides=[36, 9, 3, 0])),
            LayoutError,
            ("output 'diff_weights', tensor 9", "strides [36, 9, 3, 0] that overlap"),
        ),
        (
            "output strides that interleave",
            lambda: compiled(None, output(strides=[3, 6, 1, 1])),
            LayoutError,
            ("strides [3, 6, 1, 1] that overlap",),
        ),
        ("engine 5", lambda: compiled(engine=5), ArgumentTypeError, ("engine must be", "got 5", "Engine()")),
        ("engine cpu", lambda: compiled(engine="cpu"), ArgumentTypeError, ("engine must be", "got 'cpu'")),
        ("closed engine", lambda: compiled(engine=closed_engine()), ResourceError, ("the engine is closed",)),
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

ROWS = [*TENSOR_ROWS, *GRAPH_ROWS, *BUILDER_ROWS, *COMPILE_ROWS]
