"""One function and one builder method for each op, made from its schema; what type checkers see of them."""

import ast
import copy
import inspect
import pickle
import pydoc
import re
from pathlib import Path

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph import _near
from onednn_graph.graph.core import op_methods
from onednn_graph.graph.core.signatures import ByName
from onednn_graph.graph.functions import generate, op_functions
from onednn_graph.graph.model.builder import snake_case
from rows import each

SPELLINGS = list(generate.spellings())
MARKS = ("End", "Wildcard")
EAGER = [(schema, names) for schema, names in SPELLINGS if names.kind not in MARKS]


def by_kind(spellings):
    return each(("schema", "names"), spellings, ids=[names.kind for _, names in spellings])


def stub(module):
    """The functions of a stub: name → its parameters, keyword-only ones after a star, and what it returns."""
    text = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {
        node.name: node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and not node.decorator_list
    }


FUNCTION_STUBS, METHOD_STUBS = stub(op_functions), stub(op_methods)


def parsed(function):
    """`inspect`'s signature of a function as a parsed `def`, to be compared with a stub's."""
    taken = inspect.signature(function)
    parameters, starred = [], False
    for p in taken.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        annotation = "" if p.annotation is p.empty else f": {p.annotation}"
        default = "" if p.default is p.empty else f" = {p.default!r}"
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        parameters.append(f"{star}{p.name}{annotation}{default}")
    return ast.parse(f"def f({', '.join(parameters)}) -> {taken.return_annotation}: ...").body[0]


def assert_as_in_the_stub(function, node):
    made = parsed(function)
    assert ast.dump(made.args) == ast.dump(node.args)
    assert ast.dump(made.returns) == ast.dump(node.returns)
    assert inspect.getdoc(function) == ast.get_docstring(node)


def assert_says_what_the_schema_says(function, schema, names):
    """Ports come first, by position or name; every attribute by name; those that must be given have no default."""
    parameters = {
        name: p for name, p in inspect.signature(function).parameters.items() if name not in ("self", "graph")
    }
    ports = {names.spell(p.name): p for p in schema.inputs}
    assert list(parameters)[: len(ports)] == list(ports)
    for name, port in ports.items():
        p = parameters[name]
        assert p.kind is (p.VAR_POSITIONAL if port.repeat > 1 else p.POSITIONAL_OR_KEYWORD)
        assert (p.default is None) == (not port.required and port.repeat == 1)
    for spec in schema.attributes:
        p = parameters[names.spell(spec.name)]
        if spec.name not in {port.name for port in schema.inputs}:
            assert p.kind is p.KEYWORD_ONLY
            assert (p.default is p.empty) == spec.required
    doc = inspect.getdoc(function)
    assert doc.startswith(schema.summary)
    for name in parameters:
        assert f"\n    {name}: " in doc


@by_kind(EAGER)
def test_every_op_has_its_function(schema, names):
    name = snake_case(names.kind)
    function = getattr(og, name)
    assert name in og.__all__
    assert name in dir(og)
    assert function is getattr(og, name)
    assert inspect.isfunction(function)
    assert (function.__module__, function.__qualname__, function.__name__) == ("onednn_graph", name, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert_as_in_the_stub(function, FUNCTION_STUBS[name])
    assert_says_what_the_schema_says(function, schema, names)


@by_kind(SPELLINGS)
def test_every_op_has_its_method(schema, names):
    name = snake_case(names.kind)
    graph = og.Graph()
    function, method = getattr(og.Graph, name), getattr(graph, name)
    assert name in dir(og.Graph)
    assert inspect.isfunction(function)
    assert inspect.ismethod(method)
    assert (method.__func__, method.__self__) == (function, graph)
    assert (function.__module__, function.__qualname__) == ("onednn_graph.graph.graph", f"Graph.{name}")
    assert_as_in_the_stub(function, METHOD_STUBS[name])
    assert_says_what_the_schema_says(method, schema, names)


def test_nothing_else_is_in_the_stubs():
    assert set(FUNCTION_STUBS) == {snake_case(names.kind) for _, names in EAGER}
    assert set(METHOD_STUBS) == {snake_case(names.kind) for _, names in SPELLINGS}
    assert not set(MARKS) & {names.kind for _, names in EAGER}
    assert not hasattr(og, "end")
    assert not hasattr(og, "wildcard")


def test_help_shows_the_signature():
    text = pydoc.plain(pydoc.render_doc(og.leaky_relu))
    assert "leaky_relu(\n" in text or "leaky_relu(src" in text
    for part in ("alpha", "backend", "Slope", "OneDNNGraphError"):
        assert part in text
    # From Python 3.13 on long signatures have a line for each parameter.
    assert re.search(r"leaky_relu\((\n \|\s+)?self", pydoc.plain(pydoc.render_doc(og.Graph)))


def conv_inputs(graph):
    return graph.input("x", "f32", [1, 3, 8, 8]), graph.input("w", "f32", [4, 3, 3, 3])


CONV = {
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "data_format": "NCX",
    "weights_format": "OIX",
}


@pytest.mark.parametrize("named", [(), ("weights",), ("src", "weights")])
def test_a_method_adds_what_op_adds(named):
    one, other = og.Graph(), og.Graph()
    x, w = conv_inputs(one)
    by_name = {"src": x, "weights": w}
    positional = [tensor for name, tensor in by_name.items() if name not in named]
    y = one.convolution(*positional, **{name: by_name[name] for name in named}, **CONV, name="y")
    assert y == other.op("Convolution", *conv_inputs(other), **CONV, name="y")
    assert y.shape == (1, 4, 6, 6)
    (mine,), (its,) = one.ops, other.ops
    for field in ("kind", "name", "inputs", "outputs", "attributes"):
        assert getattr(mine, field) == getattr(its, field)


def test_methods_return_what_op_returns():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    stats = graph.layer_norm(x, use_affine=False)
    assert isinstance(stats, tuple)
    assert [t.shape for t in stats] == [(2, 3), (2,), (2,)]
    assert graph.concat(x, x, axis=0).shape == (4, 3)
    assert graph.concat([x, x], axis=0).shape == (4, 3)
    assert graph.type_cast(x, output_type="bf16").data_type is og.DataType.bf16
    assert graph.end(x) == ()


def test_legacy_methods_have_legacy_names():
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [1, 3, 8, 8]), graph.input("dy", "f32", [1, 4, 6, 6])
    attributes = {k.replace("weights", "filter"): v for k, v in CONV.items()}
    dw = graph.convolution_backprop_filters(
        input_forward=x, output_delta=dy, filter_shape=[4, 3, 3, 3], **attributes
    )
    assert dw.shape == (4, 3, 3, 3)
    assert graph.ops[0].kind == "ConvolutionBackwardWeights"


def test_wrong_arguments_of_a_method():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    with pytest.raises(og.errors.AttributeValueError, match="did you mean 'alpha'"):
        graph.leaky_relu(x, alhpa=1.0)
    with pytest.raises(og.errors.AttributeValueError, match="alpha"):
        graph.leaky_relu(x)
    with pytest.raises(og.errors.PortError, match="too many inputs"):
        graph.relu(x, x)
    with pytest.raises(og.errors.PortError, match="'src' is given twice"):
        graph.relu(x, src=x)
    with pytest.raises(
        AttributeError, match="'Graph' has no attribute 'leaky_rleu' .did you mean 'leaky_relu'"
    ):
        graph.leaky_rleu(x)
    with pytest.raises(
        AttributeError, match=r"no attribute 'vjp'; gradients\(outputs, wrt, seed=cotangents\)"
    ):
        graph.vjp([x], [x], [x])
    with pytest.raises(AttributeError, match="'Graph' has no attribute '__array__'$"):
        _ = graph.__array__


def test_wrong_arguments_of_a_function():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(
        og.ArgumentTypeError, match="leaky_relu has no argument 'alhpa' .did you mean 'alpha'"
    ):
        og.leaky_relu(x, alhpa=1.0)
    with pytest.raises(TypeError, match="relu has no argument 'axis'; it takes src, out, backend, engine"):
        og.relu(x, axis=None)  # None is no way around the check
    with pytest.raises(og.errors.AttributeValueError, match="alpha"):
        og.leaky_relu(x)
    with pytest.raises(og.errors.PortError, match="src"):
        og.relu()
    with pytest.raises(og.errors.PortError, match="src_1"):
        og.add(x)
    with pytest.raises(og.errors.PortError, match="src_0"):
        og.add(src_1=x)
    with pytest.raises(og.errors.PortError, match="too many inputs; it takes 1 .src., got 2"):
        og.relu(x, x)
    with pytest.raises(og.errors.PortError, match="relu: input 'src' is given twice"):
        og.relu(x, src=x)
    with pytest.raises(TypeError, match="'src_i' is given by position"):
        og.concat(src_i=[x, x], axis=0)
    with pytest.raises(AttributeError, match="has no attribute 'leaky_rleu' .did you mean 'leaky_relu'"):
        og.leaky_rleu(x)
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'$"):
        _ = og.__wrapped__


def schema_of(kind, summary="Twice.", **changes):
    given = {
        "inputs": [og.extend.Port("src", "T", doc="Anything.")],
        "outputs": [og.extend.Port("dst", "T", doc="The shape of src.")],
        "types": {"T": ["f32"]},
        "infer_shapes": og.extend.shape_of_first_input,
    }
    return og.extend.OpSchema(kind=kind, summary=summary, **given | changes)


@pytest.fixture
def register():
    kinds = []

    def add(schema, factor=2):
        def kernel(op, inputs, outputs):
            np.multiply(inputs[0], factor, out=outputs[0])

        og.extend.register_op(schema, kernel)
        kinds.append(schema.kind)

    yield add
    for kind in kinds:
        if kind in [schema.kind for schema in og.list_ops()]:
            og.extend.unregister_op(kind)


def test_a_users_op_has_its_function_and_method(register):
    assert not hasattr(og, "twice_of_it")
    scale = og.extend.AttributeSpec("scale", "f32", doc="Of it.", default=1.0)
    register(
        schema_of("TwiceOfIt", attributes=[scale], aliases=[og.extend.OpNames("OldTwice", {"src": "data"})])
    )
    x = np.arange(4, dtype=np.float32)
    assert og.twice_of_it(x, scale=3.0).tolist() == [0, 2, 4, 6]
    assert og.old_twice(data=x).tolist() == [0, 2, 4, 6]
    text = pydoc.plain(pydoc.render_doc(og.twice_of_it))
    for part in ("twice_of_it(", "Twice.", "scale: Of it. Default 1.0."):
        assert part in text
    assert {"twice_of_it", "old_twice"} <= set(dir(og))
    assert "twice_of_it" not in og.__all__

    graph = og.Graph()
    y = graph.twice_of_it(graph.old_twice(data=graph.input("x", "f32", [4])), scale=2.0, name="y")
    assert {"twice_of_it", "old_twice"} <= set(dir(graph))
    assert y.name == "y"
    assert graph.compile()({"x": x})["y"].tolist() == [0, 4, 8, 12]
    assert list(inspect.signature(graph.twice_of_it).parameters) == ["src", "scale", "name"]

    og.extend.unregister_op("TwiceOfIt")
    assert not hasattr(og, "twice_of_it")
    assert not hasattr(graph, "twice_of_it")


def test_an_op_registered_anew_has_a_new_function(register):
    register(schema_of("Fresh", "First."))
    x = np.ones(2, np.float32)
    assert (og.fresh.__doc__.splitlines()[0], og.fresh(x).tolist()) == ("First.", [2, 2])
    og.extend.unregister_op("Fresh")
    register(schema_of("Fresh", "Second."), factor=3)
    assert (og.fresh.__doc__.splitlines()[0], og.fresh(x).tolist()) == ("Second.", [3, 3])
    assert og.Graph().fresh.__doc__.startswith("Second.")


def test_a_users_op_hides_no_other(register):
    """`relu` stays the built-in one, and `compile` what `Graph` does; `run_op` and `op` have the user's."""
    register(schema_of("Relu"))
    register(schema_of("Compile"))
    x = np.array([-1, 1], np.float32)
    assert ByName(lambda _, schema, names: names.kind).get("relu") == "ReLU"  # whatever was made before
    assert og.relu(x).tolist() == [0, 1]
    assert og.run_op("Relu", [x], {}).tolist() == [-2, 2]
    graph = og.Graph()
    y = graph.op("Compile", graph.relu(graph.input("x", "f32", [2])), name="y")
    assert graph.compile()({"x": x})[y.name].tolist() == [0, 2]


def test_names_of_ports_and_attributes_go_before_options(register):
    """A user's names may be anything, also what the function itself takes, and words of Python's."""
    ports = [og.extend.Port(name, "T") for name in ("self", "name", "lambda")]
    backend = og.extend.AttributeSpec("backend", "f32", doc="", default=1.0)
    yields = og.extend.AttributeSpec("yield", "f32", doc="", default=1.0)
    register(schema_of("Odd", inputs=ports, attributes=[backend, yields]))
    x = np.ones(2, np.float32)
    assert og.odd(x, name=x, backend=3.0, **{"lambda": x, "yield": 2.0}).tolist() == [2, 2]
    assert list(inspect.signature(og.odd).parameters) == [
        "self",
        "name",
        "lambda_",
        "backend",
        "out",
        "engine",
    ]
    graph = og.Graph()
    a, b, c = (graph.input(n, "f32", [2]) for n in "abc")
    graph.odd(a, name=b, backend=3.0, **{"lambda": c, "yield": 2.0})
    assert [t.name for t in graph.ops[0].inputs] == ["a", "b", "c"]
    assert list(inspect.signature(og.Graph().odd).parameters) == ["self_", "name", "lambda_", "backend"]


def test_a_graph_is_copied_as_before():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2]), name="y")
    assert [op.kind for op in copy.copy(graph).ops] == ["ReLU"]


@pytest.mark.parametrize(
    ("module", "name", "wanted"),
    [
        (og, "trainin", "training"),
        (og, "from_onx", "from_onnx"),
        (og, "EarlyStopping", "onednn_graph.training.EarlyStopping"),
        (og, "adam", "onednn_graph.training.Adam"),
        (og, "Linear", "matmul', whose third input is the bias"),
        (og, "linear", "matmul', whose third input is the bias"),
        (og, "Sequential", "Graph"),
        (og, "Wildcard", None),
        (og, "SkippedStepWarnin", None),
        (og.training, "EarlyStoping", "EarlyStopping"),
        (og.training, "CrossEntropy", "cross_entropy"),
        (og.training, "ShapeError", "onednn_graph.errors.ShapeError"),
        (og.errors, "ShapeErr", "ShapeError"),
        (og.profiling, "profil", "profile"),
        (og.extend, "regster_op", "register_op"),
        (og.extend, "_hidden", None),
    ],
)
def test_a_name_that_is_misspelled_leads_to_the_near_one(module, name, wanted):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    said = f"module '{module.__name__}' has no attribute '{name}'"
    quoted = "" if wanted is None else f"'{wanted}" + ("" if "'" in wanted else "'")
    assert str(caught.value) == said + (f" (did you mean {quoted}?)" if quoted else "")
    assert not hasattr(module, name)


def test_names_of_other_modules_are_known_without_their_import():
    """A miss tells where a name is, and costs nothing."""
    for module, names in _near.NAMES.items():
        assert sorted(names.split()) == sorted(getattr(og, module).__all__), module
    imported = processes.printed("""
import json, sys, onednn_graph as og
before = {*sys.modules}
print(json.dumps([hasattr(og, name) for name in ("tools", "EarlyStopping", "Linear", "_hidden")]))
made = sorted(name for name in {*sys.modules} - before if name.startswith("onednn_graph"))
assert not made, made
""")
    assert imported == [False] * 4
