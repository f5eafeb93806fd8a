"""Bad attributes, ports and shapes of every op kind, legacy ones included."""

import numpy as np
import onednn_graph as og
from bad_inputs import (
    CONV,
    DROP,
    DST,
    FILTERS,
    KINDS,
    SRC,
    TRANSPOSED,
    WEIGHTS,
    Row,
    arrays,
    attributes,
    eager,
    graph_of,
    make_op,
    result_array,
    spell,
    tensors,
    transposed,
)
from onednn_graph import (
    ArgumentError,
    ArgumentTypeError,
    AttributeTypeError,
    AttributeValueError,
    DataTypeError,
    LogicalTensor,
    PortError,
    SchemaError,
    ShapeError,
    UnknownOpError,
    UnsupportedError,
)

# --- attributes: a table of values for each type, for each attribute of each kind ---------------------

LIST = "a list of {rule} s64 values"
WRONG_LISTS = (
    # what, value, error, what the message says of it
    ("a string", "1,1", AttributeTypeError, "'1,1' of type str"),
    ("bytes", b"\1\1", AttributeTypeError, "of type bytes"),
    ("a bare integer", 1, AttributeTypeError, "1 of type int"),
    ("a bare float", 1.5, AttributeTypeError, "1.5 of type float"),
    ("a boolean", True, AttributeTypeError, "True of type bool"),
    ("a dict", {0: 1, 1: 1}, AttributeTypeError, "{0: 1, 1: 1} of type dict"),
    ("a set", {1}, AttributeTypeError, "{1} of type set"),
    ("an iterator", iter([1, 1]), AttributeTypeError, "of type list_iterator"),
    ("an array without axes", np.array(1), AttributeTypeError, "array(1) of type ndarray"),
    ("a matrix", np.ones((2, 2), int), AttributeTypeError, "array([1, 1]) of type ndarray"),
    ("a large array", np.ones((9, 9)), AttributeTypeError, "an array of float64 with shape [9, 9]"),
    ("an object", object, AttributeTypeError, "<class 'object'> of type type"),
    ("floats", [1.0, 1.0], AttributeTypeError, "1.0 of type float"),
    ("NumPy floats", [np.float32(1), 1], AttributeTypeError, "of type float32"),
    ("an array of floats", np.ones(2), AttributeTypeError, "of type float64"),
    ("booleans", [True, True], AttributeTypeError, "True of type bool"),
    ("strings", ["1", "1"], AttributeTypeError, "'1' of type str"),
    ("None inside", [None, 1], AttributeTypeError, "None of type NoneType"),
    ("nested lists", [[1], [1]], AttributeTypeError, "[1] of type list"),
    ("a complex number", [1j, 1], AttributeTypeError, "1j of type complex"),
    ("nan", [float("nan"), 1], AttributeTypeError, "nan of type float"),
    ("a negative value", [1, -1], AttributeValueError, "got [1, -1]"),
    ("the smallest integer", [-(2**63), 1], AttributeValueError, "-9223372036854775808"),
    ("2**63", [2**63, 1], AttributeValueError, "must fit in 64 bits, got 9223372036854775808"),
    ("2**70", [1, 2**70], AttributeValueError, "must fit in 64 bits, got 1180591620717411303424"),
    ("thousands of digits", [10**5000, 1], AttributeValueError, "got a value of type int"),
)
WRONG_INTEGERS = (
    ("a string", "1", AttributeTypeError, "'1' of type str"),
    ("a float", 1.0, AttributeTypeError, "1.0 of type float"),
    ("a NumPy float", np.float64(1), AttributeTypeError, "of type float64"),
    ("a boolean", True, AttributeTypeError, "True of type bool"),
    ("a list", [1], AttributeTypeError, "[1] of type list"),
    ("a dict", {}, AttributeTypeError, "{} of type dict"),
    ("an array", np.array([1, 2]), AttributeTypeError, "array([1, 2]) of type ndarray"),
    ("nan", float("nan"), AttributeTypeError, "nan of type float"),
    ("zero", 0, AttributeValueError, "got 0"),
    ("a negative value", -2, AttributeValueError, "got -2"),
    ("2**63", 2**63, AttributeValueError, "must fit in 64 bits, got 9223372036854775808"),
    ("2**70", 2**70, AttributeValueError, "must fit in 64 bits, got 1180591620717411303424"),
)
WRONG_STRINGS = (
    ("an integer", 1, AttributeTypeError, "1 of type int"),
    ("a boolean", True, AttributeTypeError, "True of type bool"),
    ("bytes", b"NCX", AttributeTypeError, "b'NCX' of type bytes"),
    ("a list", ["NCX"], AttributeTypeError, "['NCX'] of type list"),
    ("a dict", {}, AttributeTypeError, "{} of type dict"),
    ("an empty string", "", AttributeValueError, "got ''"),
    ("another word", "sideways", AttributeValueError, "got 'sideways'"),
    ("a line break", "N\nX", AttributeValueError, r"got 'N\nX'"),
)
POSITIVE_LISTS = ("strides", "dilations", "weights_shape")
NON_NEGATIVE_LISTS = ("pads_begin", "pads_end", "output_padding")
REQUIRED = ("strides", "pads_begin", "pads_end", "dilations")
STRINGS = {"auto_pad": "'SAME_UPPER'", "data_format": "'NXC', 'NCX'", "weights_format": "'"}


def attribute_row(kind, name, what, value, error, says, rule):
    written = spell(kind, name)
    return Row(
        f"{kind}: {written} is {what}",
        lambda: make_op(kind, **{name: value}),
        error,
        (f"{kind}: attribute '{written}' must ", *rule, says),
    )


def attribute_rows():
    for kind in KINDS:
        lists = [n for n in (*POSITIVE_LISTS, *NON_NEGATIVE_LISTS) if spell(kind, n) in attributes(kind)]
        for name in lists:
            rule = LIST.format(rule="positive" if name in POSITIVE_LISTS else "non-negative")
            for what, value, error, says in WRONG_LISTS:
                rules = () if "64 bits" in says or "digits" in what else (rule,)
                yield attribute_row(kind, name, what, value, error, says, rules)
            if name in POSITIVE_LISTS:
                yield attribute_row(kind, name, "zero", [1, 0], AttributeValueError, "got [1, 0]", (rule,))
        for what, value, error, says in WRONG_INTEGERS:
            rules = () if "64 bits" in says else ("a positive s64 value",)
            yield attribute_row(kind, "groups", what, value, error, says, rules)
        for name, rule in STRINGS.items():
            for what, value, error, says in WRONG_STRINGS:
                yield attribute_row(kind, name, what, value, error, says, ("one of", rule))
        for name in REQUIRED:
            written = spell(kind, name)
            yield Row(
                f"{kind}: {written} is missing",
                lambda kind=kind, name=name: make_op(kind, **{name: DROP}),
                AttributeValueError,
                (f"{kind}: required attribute '{written}' is missing", "give a list of"),
            )
            yield Row(
                f"{kind}: {written} is None",
                lambda kind=kind, name=name: make_op(kind, **{name: None}),
                AttributeTypeError,
                (f"{kind}: attribute '{written}' must be a list of", "got None"),
            )
        for wrong, right in (
            ("stride", "strides"),
            ("Dilations", "dilations"),
            ("pad_begin", "pads_begin"),
            ("group", "groups"),
            ("dataformat", "data_format"),
            (spell(kind, "weights_shape") + "s", spell(kind, "weights_shape")),
            (spell(kind, "weights_format")[:-1], spell(kind, "weights_format")),
        ):
            yield Row(
                f"{kind}: unknown attribute {wrong}",
                lambda kind=kind, wrong=wrong: make_op(kind, **{wrong: [1, 1]}),
                AttributeValueError,
                (f"{kind}: unknown attribute '{wrong}' (did you mean '{right}'?); it has auto_pad, ",),
            )
        other = "filter_shape" if spell(kind, "weights_shape") == "weights_shape" else "weights_shape"
        yield Row(
            f"{kind}: the other spelling's {other}",
            lambda kind=kind, other=other: og.Op(
                0, kind, tensors(kind), [LogicalTensor(9, "f32")],
                **attributes(kind, weights_shape=DROP), **{other: [1]},
            ),
            AttributeValueError,
            (f"{kind}: unknown attribute '{other}' (did you mean '{spell(kind, 'weights_shape')}'?)",),
        )  # fmt: skip
        yield Row(
            f"{kind}: an attribute that is nothing like any",
            lambda kind=kind: make_op(kind, **{"x\ny": 1}),
            AttributeValueError,
            (f"{kind}: unknown attribute 'x\\ny'; it has auto_pad, data_format, dilations",),
        )


FORMAT_ROWS = [
    Row(
        f"{kind}: {name}={value!r}",
        lambda kind=kind, name=name, value=value: make_op(kind, **{name: value}),
        AttributeValueError,
        (f"{kind}: attribute '{spell(kind, name)}' must be one of", f"got {value!r}", hint),
    )
    for kind, name, value, hint in (
        (CONV, "data_format", "NCHW", "write 'NCX'"),
        (CONV, "data_format", "NDHWC", "write 'NXC'"),
        (CONV, "data_format", "ncx", "write 'NCX'"),
        (CONV, "data_format", "NCXX", "did you mean 'NCX'?"),
        (CONV, "weights_format", "OIHW", "write 'OIX'"),
        (CONV, "weights_format", "HWIO", "write 'XIO'"),
        (CONV, "weights_format", "IOX", "'XIO', 'OIX'"),
        (CONV, "weights_format", "XOI", "'XIO', 'OIX'"),
        (FILTERS, "weights_format", "OIDHW", "write 'OIX'"),
        (TRANSPOSED, "weights_format", "OIX", "'XOI', 'IOX'"),
        (TRANSPOSED, "weights_format", "XIO", "'XOI', 'IOX'"),
        (TRANSPOSED, "weights_format", "IOHW", "write 'IOX'"),
        (CONV, "auto_pad", "SAME", "'SAME_UPPER', 'SAME_LOWER', 'VALID'"),
        (CONV, "auto_pad", "SAME_UPER", "did you mean 'SAME_UPPER'?"),
        (CONV, "auto_pad", "full", "'None', 'SAME_UPPER'"),
        (TRANSPOSED, "auto_pad", "sameupper", "did you mean 'SAME_UPPER'?"),
    )
]

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
            (f"unknown op kind {kind!r}", hint, "onednn_graph.ops() lists"),
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

# --- the eager functions ----------------------------------------------------------------------------

X, DY = arrays()


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
        AttributeValueError,
        (f"{CONV}: unknown attribute 5; it has auto_pad",),
    )
    for name in ("id", "name", "inputs", "kind"):
        yield Row(
            f"run_op: an attribute named {name}",
            lambda name=name: call(CONV, (X, DY), {**attributes(), name: 1}),
            AttributeValueError,
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
        ("an unknown attribute", {"stride": [1, 1]}, AttributeValueError, "did you mean 'strides'?"),
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
            "backend must be one of onednn, numpy, got 'cuda'",
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
        og.OutOfMemoryError,
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


# --- registration -----------------------------------------------------------------------------------

T = {"T": ["f32"]}
PORT = (og.Port("src", "T"),)


def schema(**changes):
    fields = {
        "kind": "Spoiled", "summary": "", "inputs": PORT, "outputs": (og.Port("dst", "T"),),
        "infer_shapes": og.shape_of_first_input, "types": T,
    }  # fmt: skip
    return og.OpSchema(**{**fields, **changes})


def registered(kernel, infer_shapes=og.shape_of_first_input):
    """Registers an op, runs it, and removes it again."""
    og.register_op(schema(infer_shapes=infer_shapes), kernel)
    try:
        return og.run_op("Spoiled", [X], {})
    finally:
        og.unregister_op("Spoiled")


def nothing(op, inputs, outputs):
    """A kernel."""


REGISTRATION_ROWS = [
    *(
        Row(f"OpSchema: {what}", lambda changes=changes: schema(**changes), error, says)
        for what, changes, error, says in (
            (
                "inputs 5",
                {"inputs": 5},
                SchemaError,
                ("the inputs of an OpSchema must be a sequence of Port, got 5",),
            ),
            ("inputs of strings", {"inputs": ("src",)}, SchemaError, ("sequence of Port, got ('src',)",)),
            ("outputs None", {"outputs": None}, SchemaError, ("the outputs of an OpSchema", "got None")),
            (
                "types 5",
                {"types": 5},
                SchemaError,
                ("the types of an OpSchema", "as in {'T': ['f32']}", "got 5"),
            ),
            ("a bare type", {"types": {"T": "f32"}}, SchemaError, ("constraint 'T'", "['f32'], got 'f32'")),
            ("no types", {"types": {"T": []}}, SchemaError, ("constraint 'T'", "got []")),
            ("type f33", {"types": {"T": ["f33"]}}, ArgumentError, ("constraint 'T'", "did you mean 'f32'?")),
            ("types of U", {"types": {"U": ["f32"]}}, SchemaError, ("Spoiled: port 'src'", "'T'", "['U']")),
            (
                "infer_shapes None",
                {"infer_shapes": None},
                SchemaError,
                ("Spoiled: infer_shapes must", "got None"),
            ),
            ("attributes of strings", {"attributes": ("a",)}, SchemaError, ("attributes", "got ('a',)")),
            ("aliases of strings", {"aliases": ("Old",)}, SchemaError, ("aliases", "OpNames, got ('Old',)")),
            ("a port twice", {"outputs": PORT}, SchemaError, ("Spoiled: port 'src' is declared twice",)),
            (
                "an attribute twice",
                {"attributes": (og.AttributeSpec("a", "s64"), og.AttributeSpec("a", "f32"))},
                SchemaError,
                ("Spoiled: attribute 'a' is declared twice",),
            ),
            (
                "an attribute called name",
                {"attributes": (og.AttributeSpec("name", "string"),)},
                SchemaError,
                ("Spoiled: attribute 'name' has the name of a parameter of Op",),
            ),
            (
                "a default of the wrong type",
                {"attributes": (og.AttributeSpec("a", "s64", default="x"),)},
                AttributeTypeError,
                ("Spoiled: default: attribute 'a' must be an s64 value, got 'x' of type str",),
            ),
            (
                "an alias that renames nothing",
                {"aliases": (og.OpNames("Old", {"scr": "x"}),)},
                SchemaError,
                ("Spoiled: alias 'Old' renames 'scr'", "did you mean 'src'?"),
            ),
            (
                "an optional port first",
                {"inputs": (og.Port("a", "T", required=False), og.Port("b", "T"))},
                SchemaError,
                ("Spoiled: an optional input comes before a required one",),
            ),
        )
    ),
    *(
        Row(f"{what}", make, SchemaError, says)
        for what, make, says in (
            (
                "Port: name 5",
                lambda: og.Port(5, "T"),
                ("a port's name must be an identifier such as 'src', got 5",),
            ),
            ("Port: type []", lambda: og.Port("a", []), ("the type constraint of port 'a'", "got []")),
            ("OpNames: kind 5", lambda: og.OpNames(5), ("an op's kind must be an identifier", "got 5")),
            ("OpNames: renamed 5", lambda: og.OpNames("Old", 5), ("alias 'Old': renamed must be", "got 5")),
            ("OpNames: renamed to 5", lambda: og.OpNames("Old", {"a": 5}), ("alias 'Old': a name", "got 5")),
            ("OpSchema: kind 5", lambda: schema(kind=5), ("an op's kind must be an identifier", "got 5")),
            (
                "OpSchema: an array as kind",
                lambda: schema(kind=X),
                ("an op's kind must", "an array of float32"),
            ),
            ("OpSchema: types of 5", lambda: schema(types={5: ["f32"]}), ("a type constraint must", "got 5")),
        )
    ),
    Row("AttributeSpec: type s65", lambda: og.AttributeSpec("a", "s65"), ArgumentError, ("s64", "got 's65'")),
    Row("AttributeSpec: type None", lambda: og.AttributeSpec("a", None), ArgumentTypeError, ("got None",)),
    Row("AttributeSpec: name 5", lambda: og.AttributeSpec(5, "s64"), SchemaError, ("identifier", "got 5")),
    Row(
        "AttributeSpec: rule 5",
        lambda: og.AttributeSpec("a", "s64", rule=5),
        SchemaError,
        ("the rule of attribute 'a'", "got 5"),
    ),
    Row("register_op: 5", lambda: og.register_op(5, nothing), SchemaError, ("an OpSchema first, got int",)),
    Row(
        "register_op: kind of two words",
        lambda: og.register_op(schema(kind="My Op"), nothing),
        SchemaError,
        ("an op's kind must be an identifier such as 'MyOp', got 'My Op'",),
    ),
    Row(
        "register_op: kind 5",
        lambda: og.register_op(schema(kind=5), nothing),
        SchemaError,
        ("identifier", "got 5"),
    ),
    Row(
        "register_op: a kind that is taken",
        lambda: og.register_op(schema(kind=FILTERS), nothing),
        SchemaError,
        (f"op kind '{FILTERS}' is already registered by {CONV}; choose another name",),
    ),
    Row(
        "register_op: an alias that is taken",
        lambda: og.register_op(schema(aliases=(og.OpNames(CONV),)), nothing),
        SchemaError,
        (f"op kind '{CONV}' is already registered",),
    ),
    Row(
        "register_op: no kernel",
        lambda: og.register_op(schema(), None),
        SchemaError,
        ("the NumPy kernel of 'Spoiled' must be a function of (op, inputs, outputs), got None",),
    ),
    Row("unregister_op: unknown", lambda: og.unregister_op("Spoiled"), UnknownOpError, ("'Spoiled'",)),
    Row("unregister_op: []", lambda: og.unregister_op([]), UnknownOpError, ("unknown op kind []",)),
    Row("unregister_op: built in", lambda: og.unregister_op(CONV), SchemaError, (f"'{CONV}' is built in",)),
    Row(
        "a kernel that returns its result",
        lambda: registered(lambda op, inputs, outputs: inputs[0]),
        SchemaError,
        ("Spoiled (op 0): its NumPy kernel returned a value", "return None"),
    ),
    Row(
        "infer_shapes that returns a number",
        lambda: registered(nothing, lambda ctx: 5),
        SchemaError,
        ("Spoiled (op 0): infer_shapes must return a list", "got 5"),
    ),
    Row(
        "infer_shapes that returns two shapes",
        lambda: registered(nothing, lambda ctx: ((1,), (2,))),
        SchemaError,
        ("one shape for each of its 1 outputs, got ((1,), (2,))",),
    ),
    Row(
        "infer_shapes that returns strings",
        lambda: registered(nothing, lambda ctx: ("ab",)),
        ArgumentTypeError,
        ("Spoiled (op 0): what infer_shapes returned for 'dst' must be a sequence of integers, got 'ab'",),
    ),
    Row(
        "infer_shapes that returns a negative size",
        lambda: registered(nothing, lambda ctx: ((-5,),)),
        ShapeError,
        ("what infer_shapes returned for 'dst'", "got -5 in [-5]"),
    ),
]

# --- attribute types that no op of the convolution family has -----------------------------------------

TYPED = (
    og.AttributeSpec("alpha", "f32", default=1.0),
    og.AttributeSpec("ratio", "f32", default=1.0, rule=og.POSITIVE),
    og.AttributeSpec("scales", "f32[]"),
    og.AttributeSpec("flag", "bool", default=False),
)


def typed(**attributes):
    """Runs an op with attributes of the other types."""
    og.register_op(schema(kind="Typed", attributes=TYPED), nothing)
    try:
        return og.run_op("Typed", [X], attributes)
    finally:
        og.unregister_op("Typed")


TYPED_ROWS = [
    Row(
        f"Typed: {name} is {what}",
        lambda name=name, value=value: typed(**{name: value}),
        error,
        (f"Typed: attribute '{name}' must be {rule}, got {says}",),
    )
    for name, rule, what, value, error, says in (
        ("alpha", "an f32 value", "a string", "1", AttributeTypeError, "'1' of type str"),
        ("alpha", "an f32 value", "bytes", b"1", AttributeTypeError, "b'1' of type bytes"),
        ("alpha", "an f32 value", "a boolean", True, AttributeTypeError, "True of type bool"),
        ("alpha", "an f32 value", "a list", [1.0], AttributeTypeError, "[1.0] of type list"),
        ("alpha", "an f32 value", "complex", 1j, AttributeTypeError, "1j of type complex"),
        (
            "alpha",
            "an f32 value",
            "an array",
            np.ones(2),
            AttributeTypeError,
            "array([1., 1.]) of type ndarray",
        ),
        (
            "alpha",
            "an f32 value",
            "a string array",
            np.array("a"),
            AttributeTypeError,
            "array('a', dtype='<U1') of",
        ),
        ("alpha", "an f32 value", "a class", float, AttributeTypeError, "<class 'float'> of type type"),
        ("alpha", "an f32 value", "beyond floats", 10**400, AttributeTypeError, "1000000000"),
        ("alpha", "an f32 value", "nan", float("nan"), AttributeValueError, "nan"),
        ("ratio", "a positive f32 value", "zero", 0.0, AttributeValueError, "0.0"),
        ("ratio", "a positive f32 value", "negative", -1, AttributeValueError, "-1"),
        (
            "scales",
            "a list of f32 values",
            "a float",
            1.0,
            AttributeTypeError,
            "1.0 of type float; write it as",
        ),
        (
            "scales",
            "a list of f32 values",
            "strings",
            ["a"],
            AttributeTypeError,
            "['a'] with the element 'a' of",
        ),
        ("scales", "a list of f32 values", "nan", [1, float("nan")], AttributeValueError, "[1, nan]"),
        ("flag", "True or False", "one", 1, AttributeTypeError, "1 of type int"),
        ("flag", "True or False", "a string", "True", AttributeTypeError, "'True' of type str"),
        ("flag", "True or False", "a list", [True], AttributeTypeError, "[True] of type list"),
        (
            "flag",
            "True or False",
            "an array",
            np.array([True]),
            AttributeTypeError,
            "array([ True]) of type ndarray",
        ),
    )
]

ROWS = [
    *TYPED_ROWS,
    *attribute_rows(),
    *FORMAT_ROWS,
    *port_rows(),
    *SHAPE_ROWS,
    *OP_ROWS,
    *eager_rows(),
    *REGISTRATION_ROWS,
]
