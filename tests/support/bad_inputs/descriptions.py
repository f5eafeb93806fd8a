"""Bad logical tensors and tensors."""

import numpy as np
import onednn_graph as og
from onednn_graph import ArgumentError, ArgumentTypeError, DataTypeError, LogicalTensor, ShapeError
from onednn_graph.errors import LayoutError, OutOfMemoryError, ResourceError

from bad_inputs import (
    SRC,
    Row,
    closed_engine,
)

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
    ("data_type float", (0, "float"), {}, ArgumentError, ("'float' (did you mean 'f32'?)",)),
    ("data_type F32", (0, "F32"), {}, ArgumentError, ("'F32' (did you mean 'f32'?)",)),
    ("data_type empty", (0, ""), {}, ArgumentError, ("tensor 0: data_type must be one of", "got ''")),
    ("data_type undef", (0, "undef"), {}, ArgumentError, ("a concrete type such as 'f32', got 'undef'",)),
    ("data_type complex64", (0, np.complex64), {}, DataTypeError, ("numpy.complex64", "use 'f32'")),
    ("data_type object", (0, object), {}, DataTypeError, ("tensor 0: data_type", "<class 'object'>")),
    ("data_type str", (0, str), {}, DataTypeError, ("tensor 0: data_type", "<class 'str'>")),
    ("data_type record", (0, np.dtype([("a", "f4")])), {}, DataTypeError, ("dtype([('a', '<f4')])",)),
    ("data_type longdouble", (0, np.dtype("g")), {}, DataTypeError, ("tensor 0: data_type",)),
    ("data_type Tensor", (0, og.Tensor), {}, DataTypeError, ("graph.runtime.tensor.Tensor'>",)),
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

ROWS = [
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
