"""Bad calls of a compiled graph; arrays of torch; outputs of other kinds."""

from functools import cache

import numpy as np
import onednn_graph as og
from onednn_graph import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    LogicalTensor,
    ShapeError,
    UnsupportedError,
)
from onednn_graph.errors import ResourceError, SchemaError
from onednn_graph.graph.compile.backend import BACKENDS as REGISTERED
from onednn_graph.ops.registry import REGISTRY

from bad_inputs import (
    CONV,
    DROP,
    DST,
    SRC,
    WEIGHTS,
    Row,
    attributes,
    built,
    closed_engine,
    eager,
    graph_of,
)
from bad_inputs.things import (
    BACKENDS,
    DY,
    GOOD,
    GOOD_X,
    X64,
    Broken,
    Exporter,
    X,
    compiled,
    read_only,
)

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
    ("None", (None,), {}, ArgumentError, ("input 'dy' is missing; the graph takes 'x', 'dy', got 'x'",)),
    ("None twice", (None, None), {}, ArgumentTypeError, ("input 'x' must be", "got None")),
    ("a list", ([X, DY],), {}, ArgumentError, ("input 'dy' is missing",)),
    ("an array", (X,), {}, ArgumentError, ("input 'dy' is missing; the graph takes 'x', 'dy', got 'x'",)),
    ("no argument", (), {}, ArgumentError, ("input 'x' is missing", "got none")),
    ("three arrays", (X, DY, DY), {}, ArgumentError, ("takes 2 inputs, 'x', 'dy', got 3 by position",)),
    ("x by position and by name", (X,), {"x": X}, ArgumentError, ("input 'x' is given twice",)),
    ("x in a mapping and by name", (BOTH,), {"x": X}, ArgumentError, ("input 'x' is given twice",)),
    ("an unknown keyword", (X, DY), {"z": X}, ArgumentError, ("the graph has no input 'z'", "'x', 'dy'")),
    ("a keyword nearly right", (X,), {"dyy": DY}, ArgumentError, ("no input 'dyy' (did you mean 'dy'?)",)),
    (
        "a mapping and an array",
        (X, BOTH),
        {},
        ArgumentTypeError,
        ("input 'dy' must be a NumPy array", "dict"),
    ),
    (
        "outputs twice",
        (BOTH, {"dw": GOOD}),
        {"outputs": {"dw": GOOD}},
        ArgumentTypeError,
        ("input 'x'", "dict"),
    ),
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
    ("an array for outputs", (BOTH, GOOD), {}, ArgumentTypeError, ("outputs must be a mapping", "{'dw': …}")),
    ("two outputs", (BOTH, [GOOD, GOOD]), {}, ArgumentError, ("the graph has 1 output, 'dw', got 2 arrays",)),
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

PAIR_SCHEMA = og.extend.OpSchema(
    kind="Pair",
    summary="",
    inputs=(og.extend.Port("src", "T"),),
    outputs=(og.extend.Port("one", "T"), og.extend.Port("two", "T")),
    types={"T": ["f32"]},
    infer_shapes=lambda ctx: (ctx.inputs[0], ctx.inputs[0]),
)


def pair(out):
    """An op with two outputs."""
    og.extend.register_op(PAIR_SCHEMA, lambda op, inputs, outputs: None)
    try:
        return og.run_op("Pair", [X], {}, out=out)
    finally:
        og.extend.unregister_op("Pair")


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
    """Executes a partition that left its output in a layout of the library's choice, as any CPU's kernels have one."""
    inputs = [LogicalTensor(0, "f32", (2, 16, 5, 5)), LogicalTensor(1, "f32", (16, 16, 3, 3))]
    free = LogicalTensor(9, "f32", layout_type="any")
    graph = graph_of(og.Op(0, "Convolution", inputs, [free], **attributes(weights_shape=DROP)))
    graph.finalize()
    made = graph.get_partitions(backend="onednn")[0].compile()
    assert made.outputs[0].layout_type == "opaque"
    return made.execute(None, [np.ones(t.shape, "f4") for t in inputs], outputs)


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
            ("Convolution (op 0): output 'dst', tensor 9",),
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
        "LogicalTensor: data_type torch.complex64",
        lambda: LogicalTensor(0, torch.complex64),
        ArgumentTypeError,
        ("tensor 0: data_type must be one of", "got torch.complex64 of type dtype"),
    )


ROWS = [*graph_rows(), *OTHER_ROWS, *torch_rows()]
