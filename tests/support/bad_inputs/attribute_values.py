"""Bad attributes of every op kind, legacy ones included."""

import numpy as np
import onednn_graph as og
from onednn_graph import LogicalTensor
from onednn_graph.errors import AttributeTypeError, AttributeValueError, UnknownAttributeError

from bad_inputs import (
    CONV,
    DROP,
    FILTERS,
    KINDS,
    TRANSPOSED,
    Row,
    attributes,
    make_op,
    nothing,
    schema,
    spell,
    tensors,
)
from bad_inputs.things import (
    X,
)

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
                UnknownAttributeError,
                (f"{kind}: unknown attribute '{wrong}' (did you mean '{right}'?); it has auto_pad, ",),
            )
        other = "filter_shape" if spell(kind, "weights_shape") == "weights_shape" else "weights_shape"
        yield Row(
            f"{kind}: the other spelling's {other}",
            lambda kind=kind, other=other: og.Op(
                0,
                kind,
                tensors(kind),
                [LogicalTensor(9, "f32")],
                **attributes(kind, weights_shape=DROP),
                **{other: [1]},
            ),
            UnknownAttributeError,
            (f"{kind}: unknown attribute '{other}' (did you mean '{spell(kind, 'weights_shape')}'?)",),
        )
        yield Row(
            f"{kind}: an attribute that is nothing like any",
            lambda kind=kind: make_op(kind, **{"x\ny": 1}),
            UnknownAttributeError,
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


# --- attribute types that no op of the convolution family has -----------------------------------------

TYPED = (
    og.extend.AttributeSpec("alpha", "f32", default=1.0),
    og.extend.AttributeSpec("ratio", "f32", default=1.0, rule=og.extend.POSITIVE),
    og.extend.AttributeSpec("scales", "f32[]"),
    og.extend.AttributeSpec("flag", "bool", default=False),
)


def typed(**attributes):
    """Runs an op with attributes of the other types."""
    og.extend.register_op(schema(kind="Typed", attributes=TYPED), nothing)
    try:
        return og.run_op("Typed", [X], attributes)
    finally:
        og.extend.unregister_op("Typed")


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


ROWS = [*attribute_rows(), *FORMAT_ROWS, *TYPED_ROWS]
