"""Bad ports and shapes of every op kind; bad kinds, ids and names."""

import numpy as np
import onednn_graph as og
from onednn_graph import ArgumentError, ArgumentTypeError, DataTypeError, LogicalTensor, ShapeError
from onednn_graph.errors import AttributeValueError, PortError, UnknownOpError

from bad_inputs import (
    CONV,
    DROP,
    DST,
    KINDS,
    SRC,
    WEIGHTS,
    Row,
    attributes,
    graph_of,
    make_op,
    spell,
    tensors,
    transposed,
)

# --- ports --------------------------------------------------------------------------------------------


def port_rows():
    for kind in KINDS:
        src, dst, weights, operand = (
            spell(kind, n) for n in ("src", "diff_dst", "diff_weights", "weights_shape")
        )
        takes = f"it takes 2 to 3 inputs ({src}, {dst}, {operand} (optional))"
        one, two = tensors(kind)
        for what, inputs, error, says in (
            ("no inputs", [], PortError, (f"input '{src}' is missing", takes, "got 0")),
            ("one input", [one], PortError, (f"input '{dst}' is missing", takes, "got 1")),
            ("four inputs", [one, two, LogicalTensor(2, "s32"), one], PortError, (takes, "got 4")),
            ("an array for src", [np.ones(SRC), two], ArgumentTypeError, (f"input '{src}'", "float64 with")),
            (
                "None for diff_dst",
                [one, None],
                ArgumentTypeError,
                (f"input '{dst}'", "None of type NoneType"),
            ),
            ("a bare tensor", one, ArgumentTypeError, ("inputs must be a sequence", "write [tensor]")),
            ("an integer", 5, ArgumentTypeError, ("inputs must be a sequence", src, dst, "got int")),
            ("a string", "ab", ArgumentTypeError, ("inputs must be a sequence", "got str")),
            (
                "an s32 src",
                tensors(kind, "s32"),
                DataTypeError,
                (f"'{src}' must have data type f32", "got s32"),
            ),
            ("a u8 src", tensors(kind, "u8"), DataTypeError, (f"'{src}'", "f32 or bf16", "got u8")),
            (
                "two data types",
                [one, LogicalTensor(1, "bf16")],
                DataTypeError,
                (f"'{dst}' must have the data type of '{src}', f32, got bf16",),
            ),
            (
                "an f32 shape operand",
                [one, two, LogicalTensor(2, "f32", [4])],
                DataTypeError,
                (f"'{operand}' must have data type s32, got f32",),
            ),
            (
                "an s64 shape operand",
                [one, two, LogicalTensor(2, "s64", [4])],
                DataTypeError,
                (f"'{operand}' must have data type s32, got s64",),
            ),
        ):
            yield Row(
                f"{kind}: {what} as inputs",
                lambda kind=kind, inputs=inputs: make_op(kind, inputs=inputs),
                error,
                (f"{kind}: ", *says),
            )
        for what, outputs, error, says in (
            ("none", [], PortError, (f"output '{weights}' is missing; it takes 1 output", "got 0")),
            ("two", [one, two], PortError, ("too many outputs; it takes 1 output", "got 2")),
            ("an array", [np.ones(3)], ArgumentTypeError, (f"output '{weights}' must be a LogicalTensor",)),
            ("None", None, ArgumentTypeError, ("outputs must be a sequence", "got NoneType")),
            (
                "another data type",
                [LogicalTensor(9, "f16")],
                DataTypeError,
                (f"'{weights}' must have the data type of '{src}', f32, got f16",),
            ),
        ):
            yield Row(
                f"{kind}: {what} as outputs",
                lambda kind=kind, outputs=outputs: og.Op(0, kind, tensors(kind), outputs, **attributes(kind)),
                error,
                (f"{kind}: ", *says),
            )


# --- shapes: what is only known when shapes meet attributes -----------------------------------------


def inferred(kind, src=SRC, dst=None, outputs=None, operand=None, **changes):
    """Infers the shapes of an op."""
    inputs = tensors(kind, src=src, dst=dst)
    if operand is not None:
        inputs.append(LogicalTensor(2, "s32", operand))
    graph_of(make_op(kind, inputs, outputs, name="grad", **changes)).finalize()


def shape_cases(kind):
    """What, changes, what the message says; for the names of the kind."""
    src, dst, weights, operand, fmt = (
        spell(kind, n) for n in ("src", "diff_dst", "diff_weights", "weights_shape", "weights_format")
    )
    flip = transposed(kind)
    good = list(WEIGHTS[flip])
    n, c, h, w = DST[flip]
    size = "stride·(src − 1) + extent + output_padding − pads" if flip else "(src + pads − extent) // stride"
    unknown = {"src": None, "dst": (-1, -1, -1, -1)}
    yield "rank 2", {"src": (2, 4)}, (f"'{src}' must have a batch, a channel", "[2, 4] of rank 2")
    yield "rank 40", {"src": (1,) * 40}, (f"'{src}' must have a batch", "of rank 40")
    yield "ranks differ", {"dst": (2, 6, 3)}, (f"'{dst}' must have the rank of '{src}', 4", "rank 3")
    yield "weights' rank", {"weights_shape": [6, 4, 3]}, (f"'{operand}' must have the rank", "[6, 4, 3]")
    yield "batches differ", {"dst": (3, c, h, w)}, (f"'{src}' and '{dst}'", "batch size, got 2 and 3")
    yield "no channels", {"src": (2, 0, 5, 5)}, (f"'{src}'", "positive number of channels", "got 0 channels")
    yield "groups and src", {"groups": 3}, (f"'{src}'", "'groups' = 3 divides, got 4 channels", "'NCX'")
    yield "groups and diff_dst", {"groups": 4}, (f"'{dst}'", "'groups' = 4 divides, got 6 channels")
    yield "groups of 2**40", {"groups": 2**40}, (f"'{src}'", "'groups' = 1099511627776", "got 4 channels")
    yield "empty src", {"src": (2, 4, 0, 5)}, (f"'{src}' must have a positive size on spatial axis 0, got 0",)
    yield "empty diff_dst", {"dst": (n, c, h, 0)}, (f"'{dst}' must have a positive size on spatial axis 1",)
    yield (
        "one too many",
        {"dst": (n, c, h + 1, w)},
        (f"'{dst}' must have size {size}", "axis 0", f"got {h + 1}"),
    )
    yield "one too few", {"dst": (n, c, h, w - 1)}, (f"'{dst}' must have size", "axis 1", f"got {w - 1}")
    yield "stride", {"strides": [2, 1]}, (f"'{dst}' must have size {size}", "axis 0", f"got {h}")
    yield "dilation", {"dilations": [1, 2]}, (f"'{dst}' must have size {size}", "axis 1", f"got {w}")
    yield "pads", {"pads_end": [0, 1]}, (f"'{dst}' must have size {size}", "axis 1", "check strides, pads")
    yield "huge stride", {"strides": [2**40] * 2}, (f"'{dst}' must have size", "1099511627776")
    yield "huge pads", {"pads_begin": [2**40] * 2}, (f"'{dst}' must have size", "1099511627776")
    yield "huge dilation", {"dilations": [2**62] * 2}, (f"'{dst}' must have size", str(2**63 + 1))
    yield "auto_pad", {"auto_pad": "SAME_UPPER"}, (f"'{dst}' must have size {size}", f"got {h}")
    yield "formats swapped", {"data_format": "NXC"}, (f"'{operand}' must have I = ", f"{fmt} '", "'NXC'")
    yield "weights' format", {"weights_format": DROP}, (f"'{operand}' must have I = 4", "check both formats")
    bad = list(good)
    bad[0], bad[1] = good[0] + 1, good[1]
    yield "weights' channels", {"weights_shape": bad}, (f"'{operand}' must have I = 4 and O = 6", str(bad))
    huge = [*good[:2], 2**40, 2**40]
    yield "huge weights", {"weights_shape": huge}, (f"'{operand}' must have fewer than 2**60", str(huge))
    yield "no weights shape", {"weights_shape": DROP}, (f"give attribute '{operand}' or connect input 2",)
    yield (
        "declared output",
        {"outputs": [LogicalTensor(9, "f32", [7, 4, 3, 3])]},
        (f"output '{weights}' is declared with shape [7, 4, 3, 3], but '{operand}' is {good}",),
    )
    yield (
        "declared output, shapes unknown",
        {**unknown, "outputs": [LogicalTensor(9, "f32", [*good[:3], 9])]},
        (f"output '{weights}' is declared", f"but '{operand}' is {good}"),
    )
    yield "operand of rank 2", {"operand": [2, 2]}, (f"input '{operand}' must be a 1-D tensor", "[2, 2]")
    for name in ("strides", "dilations", "pads_begin", "pads_end"):
        for length in (1, 3):
            yield (
                f"{length} {name}",
                {name: [1] * length},
                (
                    f"attribute '{name}' must have one value per spatial axis, 2",
                    f"got {length} in {[1] * length}",
                ),
            )
    yield "no strides", {"strides": []}, ("attribute 'strides' must have one value", "got 0 in []")
    if flip:
        yield "1 output_padding", {"output_padding": [1]}, ("attribute 'output_padding'", "got 1 in [1]")
        yield "output_padding", {"output_padding": [1, 0]}, (f"'{dst}' must have size", "= 8 on", "got 7")
        yield (
            "implied padding above the stride",
            {"output_padding": DROP, "dst": (n, c, h + 1, w)},
            (f"'{dst}' must have size", "check strides, pads, dilations, output_padding", "got 8"),
        )
        yield (
            "groups in the weights",
            {"groups": 2, "weights_shape": [3, 6, 3, 3]},
            (f"'{operand}' must have I = 2 and O = 6 or I = 4 and O = 3", "got I = 3 and O = 6"),
        )
    else:
        yield (
            "groups in the weights",
            {"groups": 2},
            (f"'{operand}' must have I = 2 and O = 6", "groups = 2, got I = 4 and O = 6"),
        )


SHAPE_ROWS = [
    Row(
        f"{kind}: shapes, {what}",
        lambda kind=kind, changes=changes: inferred(kind, **changes),
        ShapeError,
        (f"{kind} 'grad': ", *says),
    )
    for kind in KINDS
    for what, changes, says in shape_cases(kind)
]

# --- kinds, ids and names ---------------------------------------------------------------------------

OP_ROWS = [
    *(
        Row(
            f"Op: kind {kind!r}",
            lambda kind=kind: og.Op(0, kind, [], []),
            UnknownOpError,
            (f"unknown op kind {kind!r}", hint, "onednn_graph.list_ops() lists"),
        )
        for kind, hint in (
            ("ConvolutionBackwardWeight", "did you mean 'ConvolutionBackwardWeights'?"),
            ("convolutionbackwardweights", "did you mean 'ConvolutionBackwardWeights'?"),
            ("ConvolutionBackpropFilter", "did you mean 'ConvolutionBackpropFilters'?"),
            ("ConvTransposeBackwardsWeights", "did you mean 'ConvTransposeBackwardWeights'?"),
            ("xyz", "unknown"),
            ("", "unknown"),
            (5, "unknown"),
            (None, "unknown"),
            (["Add"], "unknown"),
        )
    ),
    *(
        Row(
            f"Op: id, {says}",
            lambda value=value: make_op(op_id=value),
            error,
            (f"{CONV}: ", "id must be", says),
        )
        for value, error, says in (
            ("a", ArgumentTypeError, "'a'"),
            (None, ArgumentTypeError, "None"),
            (1.0, ArgumentTypeError, "1.0"),
            (True, ArgumentTypeError, "True"),
            ([1], ArgumentTypeError, "[1]"),
            (np.array([1, 2]), ArgumentTypeError, "array([1, 2])"),
            (-1, ArgumentError, "got -1"),
            (2**64, ArgumentError, "got 18446744073709551616"),
            (10**5000, ArgumentError, "got a value of type int"),
        )
    ),
    Row("Op: name 5", lambda: make_op(name=5), ArgumentTypeError, (f"{CONV}: name must be a string, got 5",)),
    Row("Op: name None", lambda: make_op(name=None), ArgumentTypeError, ("name must be a string, got None",)),
    Row(
        "Op: a name of two lines",
        lambda: make_op(name="two\nlines", groups=0),
        AttributeValueError,
        (f"{CONV} 'two\\nlines': attribute 'groups' must be a positive s64 value, got 0",),
    ),
    Row("op_schema: 5", lambda: og.op_schema(5), UnknownOpError, ("unknown op kind 5",)),
]


ROWS = [*port_rows(), *SHAPE_ROWS, *OP_ROWS]
