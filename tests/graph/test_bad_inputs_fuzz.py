"""Garbage thrown at every door: the result is right in shape and equal on both backends, or the error is ours."""

from functools import cache

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from bad_inputs import CONV, KINDS, SRC, attributes, built, spell, transposed
from bad_inputs.things import BACKENDS, Broken, BrokenArray, Exporter, compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph import LogicalTensor

pytestmark = pytest.mark.no_cover  # many times what other tests cover

# --- garbage -----------------------------------------------------------------------------------------

INTEGERS = st.one_of(
    st.integers(-3, 8),
    st.sampled_from([2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**70, -(2**63), 10**400]),
    st.integers(),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.sampled_from(
        ["NCX", "NXC", "OIX", "XIO", "IOX", "XOI", "VALID", "SAME_UPPER", "None", "f32", "any", "strided"]
    ),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int16, st.integers(-9, 9)),
    st.builds(np.bool_),
    st.sampled_from(
        [np.nan, np.ma.masked, np.array(1), np.array(True), object(), int, np.ndarray, len, ..., og]
    ),
)
DTYPES = st.sampled_from(
    [
        "f4",
        "f4",
        "f4",
        "f8",
        "f2",
        ml_dtypes.bfloat16,
        ">f4",
        "i4",
        "u1",
        "?",
        "c8",
        "O",
        "U2",
        "M8[s]",
        "V4",
        "g",
        ml_dtypes.float8_e5m2,
        ml_dtypes.int4,
        [("a", "f4")],
    ]
)
SHAPES = st.one_of(
    st.lists(st.integers(0, 4), max_size=5),
    st.sampled_from(
        [SRC, (2, 6, 3, 3), (2, 6, 7, 7), (6, 4, 3, 3), (4, 6, 3, 3), (1,) * 33, (4,), (2, 4, 5)]
    ),
)


@st.composite
def any_array(draw):
    """An array of any dtype, shape and layout."""
    array = np.zeros(draw(SHAPES), np.dtype(draw(DTYPES)))
    match draw(st.integers(0, 9)):
        case 0:
            return array.T
        case 1 if array.ndim:
            return array[::-1]
        case 2:
            return np.broadcast_to(array, (2, *array.shape)) if array.ndim < 5 else array
        case 3:
            array.flags.writeable = False
        case 4 if array.dtype != object:
            return np.ma.masked_array(array)
        case 5:
            return Exporter(array)
        case 6 if array.dtype != object:
            return array.tolist()
        case _:
            pass
    return array


THINGS = st.one_of(
    SCALARS,
    any_array(),
    st.builds(
        Broken, st.sampled_from([None, 5, "capsule", ValueError("a\nb"), TypeError(), AttributeError("x")])
    ),
    st.builds(BrokenArray),
    st.builds(LogicalTensor, st.integers(0, 3), st.sampled_from(["f32", "s32", "bf16"])),
)
GARBAGE = st.recursive(
    THINGS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(-2, 9), st.none()), inner, max_size=3),
        st.builds(iter, st.lists(inner, max_size=3)),
    ),
    max_leaves=6,
)
LISTS = st.one_of(st.lists(INTEGERS, max_size=4), st.lists(st.integers(0, 3), min_size=2, max_size=2))


def refused(call):
    """What `call` returns, or None for an error of ours; any other exception is a failure."""
    try:
        return call()
    except og.OneDNNGraphError as error:
        message = str(error)
    assert "\n" not in message
    assert message.strip()
    return None


@st.composite
def spoiled(draw):
    """A kind, and its attributes with up to three of them replaced."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    values = attributes(kind)
    for name in draw(st.lists(st.sampled_from(sorted(values)), max_size=3)):
        values[name] = draw(st.one_of(LISTS, GARBAGE))
    if draw(st.integers(0, 9)) == 0:
        values[draw(st.text(max_size=8))] = draw(GARBAGE)
    return kind, values


# --- eager calls ------------------------------------------------------------------------------------


@settings(max_examples=250)
@given(spoiled(), st.sampled_from([1, 1, 1, 2, 3]))
def test_attributes(problem, batch):
    kind, values = problem
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-2, 3, (batch, *shape[1:])).astype(np.float32)
        for shape in (SRC, (2, 6, 7, 7) if transposed(kind) else (2, 6, 3, 3))
    ]
    result = refused(lambda: og.run_op(kind, inputs, values, backend="numpy"))
    if result is not None:
        assert result.shape == tuple(values[spell(kind, "weights_shape")])
        assert result.dtype == np.float32
    for backend in BACKENDS:
        if backend != "numpy":
            native = refused(lambda: og.run_op(kind, inputs, values, backend=backend))  # noqa: B023 -- called at once
            assert native is None or result is not None, "one backend takes what the other refuses"
            if native is not None:
                np.testing.assert_array_equal(native, result)


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(KINDS)), st.lists(st.one_of(any_array(), GARBAGE), max_size=4), GARBAGE, st.data()
)
def test_arrays(kind, inputs, out, data):
    more = {}
    if data.draw(st.integers(0, 4)) == 0:
        more = {"backend": data.draw(GARBAGE), "engine": data.draw(GARBAGE)}
    result = refused(lambda: og.run_op(kind, inputs, attributes(kind), out=out, **more))
    assert result is None or result.shape == tuple(attributes(kind)[spell(kind, "weights_shape")])


@settings(max_examples=100)
@given(GARBAGE, GARBAGE, GARBAGE)
def test_run_op(kind, inputs, values):
    assert refused(lambda: og.run_op(kind, inputs, values)) is None
    assert refused(lambda: og.run_op(CONV, inputs, values)) is None


# --- a compiled partition and a compiled graph ------------------------------------------------------

GOOD = st.sampled_from([np.ones(SRC, "f4"), np.ones((2, 6, 3, 3), "f4"), np.ones((6, 4, 3, 3), "f4")])
ANYTHING = st.one_of(GARBAGE, any_array(), GOOD)
SEVERAL = st.one_of(GARBAGE, st.lists(ANYTHING, min_size=1, max_size=3))


@settings(max_examples=300)
@given(
    st.sampled_from(BACKENDS),
    st.booleans(),
    st.one_of(st.none(), GARBAGE),
    SEVERAL,
    st.one_of(st.none(), SEVERAL),
)
def test_partition(backend, operand, stream, inputs, outputs):
    made = compiled(CONV, backend, operand=operand)
    results = refused(lambda: made.execute(stream, inputs, outputs))
    if results is not None:
        assert [r.shape for r in results] == [(6, 4, 3, 3)]
    call = refused(lambda: made.bind(inputs, outputs))
    if call is not None:
        call()
    refused(lambda: made.query_logical_tensor(stream))


@settings(max_examples=200)
@given(st.sampled_from(BACKENDS), st.one_of(LISTS, GARBAGE, any_array()), DTYPES)
def test_weights_shape_at_run_time(backend, value, dtype):
    made = compiled(CONV, backend, operand=True)
    values = [value]
    if isinstance(value, list) and all(isinstance(v, int) and abs(v) < 2**31 for v in value):
        values.append(np.array(value, "i4"))
    for each in values:
        results = refused(lambda: made.execute(None, [np.ones(SRC, "f4"), np.ones((2, 6, 3, 3), "f4"), each]))  # noqa: B023
        if results is not None:
            assert results[0].shape == tuple(np.asarray(each))


@cache
def model(backend):
    return built()[0].compile(backend=backend)


KEYS = st.one_of(
    st.sampled_from(["x", "dy", "dw", 0, 1, 2, 3]), st.text(max_size=2), st.integers(), st.none()
)
CALLS = st.one_of(GARBAGE, st.dictionaries(KEYS, ANYTHING, max_size=4))


@settings(max_examples=200)
@given(st.sampled_from(BACKENDS), CALLS, st.one_of(st.none(), CALLS), st.one_of(st.none(), GARBAGE), GARBAGE)
def test_compiled_graph(backend, inputs, outputs, stream, key):
    results = refused(lambda: model(backend)(inputs, outputs, stream=stream))
    if results is not None:
        assert results["dw"].shape == (6, 4, 3, 3)
        refused(lambda: results[key])
        assert isinstance(key in results, bool)
        results.get(key)


# --- graphs -----------------------------------------------------------------------------------------

TYPES = st.sampled_from(["f32", "f32", "bf16", "s32", "f64", np.float32, og.DataType.f16])
DIMS = st.one_of(
    st.none(),
    st.sampled_from([SRC, (2, 6, 3, 3), (6, 4, 3, 3), (-1, 4, 5, 5), (-1, -1, -1, -1), (4,), (1,) * 12]),
    st.lists(st.integers(-2, 9), max_size=5),
    LISTS,
    GARBAGE,
)


@st.composite
def fields(draw):
    """Keyword arguments of a LogicalTensor, some of them garbage."""
    values = {"id": draw(st.integers(0, 3)), "data_type": draw(TYPES), "shape": draw(DIMS)}
    others = {
        "layout_type": st.sampled_from(["any", "strided", "opaque", "undef"]),
        "strides": st.one_of(st.none(), LISTS, st.just([100, 25, 5, 1])),
        "property_type": st.sampled_from(["constant", "variable"]),
        "layout_id": st.one_of(st.none(), st.integers(-1, 3)),
        "name": st.sampled_from(["", "x", "dy"]),
    }
    for name, strategy in others.items():
        if draw(st.integers(0, 2)) == 0:
            values[name] = draw(strategy)
    for name in draw(st.lists(st.sampled_from(sorted({*values, *others})), max_size=1)):
        values[name] = draw(GARBAGE)
    return values


@settings(max_examples=200)
@given(fields(), GARBAGE, GARBAGE)
def test_tensors(values, data, engine):
    tensor = refused(lambda: LogicalTensor(**values))
    if tensor is None:
        return
    str(tensor), repr(tensor)
    small = tensor.shape is None or np.prod([float(max(d, 1)) for d in tensor.shape]) < 1e6
    if small and not (tensor.strides and max(tensor.strides) > 1e6):
        refused(lambda: og.Tensor(tensor).numpy())
    refused(lambda: og.Tensor(tensor, data))
    refused(lambda: og.Tensor(tensor, data, engine))


@st.composite
def logical_tensors(draw):
    values = draw(fields())
    return refused(lambda: LogicalTensor(**values)) or draw(GARBAGE)


@settings(max_examples=120)
@given(st.data())
def test_graphs(data):
    """Random ops in a graph; what compiles must run."""
    graph = og.Graph()
    for number in range(data.draw(st.integers(0, 3))):
        kind, values = data.draw(spoiled())
        if data.draw(st.booleans()):
            values = attributes(kind)
        inputs = data.draw(st.one_of(GARBAGE, st.lists(logical_tensors(), min_size=2, max_size=3)))
        outputs = data.draw(st.one_of(GARBAGE, st.lists(logical_tensors(), min_size=1, max_size=1)))
        op_id = data.draw(st.one_of(st.just(number), GARBAGE))
        name = data.draw(st.one_of(st.just(""), GARBAGE))
        op = refused(lambda: og.Op(op_id, kind, inputs, outputs, name=name, **values))  # noqa: B023
        refused(lambda: graph.add_op(op))  # noqa: B023
    refused(lambda: graph.tensor(data.draw(GARBAGE)))
    refused(lambda: graph.output(data.draw(logical_tensors())))
    refused(lambda: graph.compile(data.draw(st.one_of(st.none(), GARBAGE))))


@settings(max_examples=150)
@given(st.data())
def test_the_builder(data):
    graph = og.Graph()
    made = [
        refused(
            lambda: graph.input(
                data.draw(st.one_of(st.sampled_from(["x", "dy"]), GARBAGE)), data.draw(TYPES), data.draw(DIMS)
            )
        )
        for _ in range(2)
    ]
    kind, values = data.draw(spoiled())
    given_ = data.draw(st.lists(st.one_of(st.sampled_from(made), logical_tensors()), max_size=4))
    values.pop("kind", None), values.pop("self", None)
    refused(lambda: graph.op(data.draw(st.one_of(st.just(kind), GARBAGE)), *given_, **values))
    refused(lambda: graph.compile(policy=data.draw(GARBAGE), backend=data.draw(GARBAGE)))


@settings(max_examples=150)
@given(st.sampled_from(BACKENDS), st.data())
def test_compilation(backend, data):
    """Inputs and outputs described anew: what compiles runs and gives the same numbers."""
    graph = og.Graph()
    op = og.Op(
        0, CONV, [LogicalTensor(0, "f32"), LogicalTensor(1, "f32")], [LogicalTensor(2, "f32")], **attributes()
    )
    graph.add_op(op)
    graph.finalize()
    (part,) = graph.get_partitions(backend=backend)
    good = [LogicalTensor(0, "f32", SRC), LogicalTensor(1, "f32", (2, 6, 3, 3))]
    inputs = data.draw(st.one_of(st.just(good), st.lists(logical_tensors(), max_size=3), GARBAGE))
    outputs = data.draw(st.one_of(st.none(), st.lists(logical_tensors(), max_size=2), GARBAGE))
    made = refused(lambda: part.compile(inputs, outputs, data.draw(st.one_of(st.none(), GARBAGE))))
    if made is not None and [t.shape for t in made.inputs] == [t.shape for t in good]:
        arrays = [np.ones(t.shape, "f4") for t in made.inputs]
        (result,) = made.execute(None, arrays)
        lies = made.outputs[0]
        if lies.layout_type == "opaque":
            result = og.Tensor.from_opaque(lies, result, made.engine).numpy()
        plain = result
        assert (plain == 18).all()


@settings(max_examples=80)
@given(st.data())
def test_registration(data):
    values = {
        "kind": "Garbage",
        "summary": "",
        "inputs": (og.extend.Port("a", "T"),),
        "outputs": (og.extend.Port("b", "T"),),
        "infer_shapes": og.extend.shape_of_first_input,
        "types": {"T": ["f32"]},
        "attributes": (),
        "aliases": (),
    }
    names = ["kind", "inputs", "outputs", "infer_shapes", "types", "attributes", "aliases"]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        values[name] = data.draw(GARBAGE)
    schema = refused(lambda: og.extend.OpSchema(**values))
    if (
        schema is not None
        and refused(lambda: og.extend.register_op(schema, lambda op, ins, outs: None)) is not None
    ):
        og.extend.unregister_op(schema.kind)
    refused(lambda: og.extend.Port(data.draw(GARBAGE), data.draw(GARBAGE)))
    refused(lambda: og.extend.OpNames(data.draw(GARBAGE), data.draw(GARBAGE)))
    refused(lambda: og.extend.AttributeSpec(data.draw(GARBAGE), data.draw(GARBAGE), rule=data.draw(GARBAGE)))
    for use in (og.op_schema, og.extend.unregister_op, og.Engine, og.Stream, og.Graph, og.Tensor):
        thing = data.draw(GARBAGE)
        refused(lambda: use(thing))  # noqa: B023
