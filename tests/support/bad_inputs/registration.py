"""Bad schemas, kernels and registrations."""

import onednn_graph as og
from onednn_graph import ArgumentError, ArgumentTypeError, ShapeError
from onednn_graph.errors import AttributeTypeError, SchemaError, UnknownOpError

from bad_inputs import (
    CONV,
    FILTERS,
    PORT,
    Row,
    nothing,
    schema,
)
from bad_inputs.things import (
    X,
)


def registered(kernel, infer_shapes=og.extend.shape_of_first_input):
    """Registers an op, runs it, and removes it again."""
    og.extend.register_op(schema(infer_shapes=infer_shapes), kernel)
    try:
        return og.run_op("Spoiled", [X], {})
    finally:
        og.extend.unregister_op("Spoiled")


ROWS = [
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
                {"attributes": (og.extend.AttributeSpec("a", "s64"), og.extend.AttributeSpec("a", "f32"))},
                SchemaError,
                ("Spoiled: attribute 'a' is declared twice",),
            ),
            (
                "an attribute called name",
                {"attributes": (og.extend.AttributeSpec("name", "string"),)},
                SchemaError,
                ("Spoiled: attribute 'name' has the name of a parameter of Op",),
            ),
            (
                "a default of the wrong type",
                {"attributes": (og.extend.AttributeSpec("a", "s64", default="x"),)},
                AttributeTypeError,
                ("Spoiled: default: attribute 'a' must be an s64 value, got 'x' of type str",),
            ),
            (
                "an alias that renames nothing",
                {"aliases": (og.extend.OpNames("Old", {"scr": "x"}),)},
                SchemaError,
                ("Spoiled: alias 'Old' renames 'scr'", "did you mean 'src'?"),
            ),
            (
                "an optional port first",
                {"inputs": (og.extend.Port("a", "T", required=False), og.extend.Port("b", "T"))},
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
                lambda: og.extend.Port(5, "T"),
                ("a port's name must be an identifier such as 'src', got 5",),
            ),
            (
                "Port: required 'no'",
                lambda: og.extend.Port("a", "T", required="no"),
                ("port 'a'", "required", "got 'no'"),
            ),
            (
                "Port: shape_operand 1",
                lambda: og.extend.Port("a", "T", shape_operand=1),
                ("port 'a'", "shape_operand", "got 1"),
            ),
            ("Port: type []", lambda: og.extend.Port("a", []), ("the type constraint of port 'a'", "got []")),
            (
                "OpNames: kind 5",
                lambda: og.extend.OpNames(5),
                ("an op's kind must be an identifier", "got 5"),
            ),
            (
                "OpNames: renamed 5",
                lambda: og.extend.OpNames("Old", 5),
                ("alias 'Old': renamed must be", "got 5"),
            ),
            (
                "OpNames: renamed to 5",
                lambda: og.extend.OpNames("Old", {"a": 5}),
                ("alias 'Old': a name", "got 5"),
            ),
            ("OpSchema: kind 5", lambda: schema(kind=5), ("an op's kind must be an identifier", "got 5")),
            (
                "OpSchema: an array as kind",
                lambda: schema(kind=X),
                ("an op's kind must", "an array of float32"),
            ),
            ("OpSchema: types of 5", lambda: schema(types={5: ["f32"]}), ("a type constraint must", "got 5")),
        )
    ),
    Row(
        "AttributeSpec: type s65",
        lambda: og.extend.AttributeSpec("a", "s65"),
        ArgumentError,
        ("s64", "got 's65'"),
    ),
    Row(
        "AttributeSpec: type None",
        lambda: og.extend.AttributeSpec("a", None),
        ArgumentTypeError,
        ("got None",),
    ),
    Row(
        "AttributeSpec: name 5",
        lambda: og.extend.AttributeSpec(5, "s64"),
        SchemaError,
        ("identifier", "got 5"),
    ),
    Row(
        "AttributeSpec: rule 5",
        lambda: og.extend.AttributeSpec("a", "s64", rule=5),
        SchemaError,
        ("the rule of attribute 'a'", "got 5"),
    ),
    Row(
        "register_op: 5",
        lambda: og.extend.register_op(5, nothing),
        SchemaError,
        ("an OpSchema first, got int",),
    ),
    Row(
        "register_op: kind of two words",
        lambda: og.extend.register_op(schema(kind="My Op"), nothing),
        SchemaError,
        ("an op's kind must be an identifier such as 'MyOp', got 'My Op'",),
    ),
    Row(
        "register_op: kind 5",
        lambda: og.extend.register_op(schema(kind=5), nothing),
        SchemaError,
        ("identifier", "got 5"),
    ),
    Row(
        "register_op: a kind that is taken",
        lambda: og.extend.register_op(schema(kind=FILTERS), nothing),
        SchemaError,
        (f"op kind '{FILTERS}' is already registered by {CONV}; choose another name",),
    ),
    Row(
        "register_op: an alias that is taken",
        lambda: og.extend.register_op(schema(aliases=(og.extend.OpNames(CONV),)), nothing),
        SchemaError,
        (f"op kind '{CONV}' is already registered",),
    ),
    Row(
        "register_op: no kernel",
        lambda: og.extend.register_op(schema(), None),
        SchemaError,
        ("the NumPy kernel of 'Spoiled' must be a function of (op, inputs, outputs), got None",),
    ),
    Row("unregister_op: unknown", lambda: og.extend.unregister_op("Spoiled"), UnknownOpError, ("'Spoiled'",)),
    Row("unregister_op: []", lambda: og.extend.unregister_op([]), UnknownOpError, ("unknown op kind []",)),
    Row(
        "unregister_op: built in",
        lambda: og.extend.unregister_op(CONV),
        SchemaError,
        (f"'{CONV}' is built in",),
    ),
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
