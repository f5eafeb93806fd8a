"""Graph files at random: mutated ones raise our errors only, drawn graphs survive."""

import copy
import json
import math
import time

import onednn_graph as og
import pytest
from graph_documents import KIND, LEGACY, S64_MAX, S64_MIN, chain, described, gradient_op, put, text, valid
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.graph.files import read_graph, to_graph
from onednn_graph.graph.io.serialization import (
    GraphFileError,
    OpRecord,
    dumps,
    loads,
    write_graph,
)
from strategies import SETTINGS


def places(value, path=()):
    """All paths into parsed JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, S64_MIN, S64_MAX, 2**63, 2**64, 10**30]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["f32", "s32", "any", "opaque", "undef", "constant", "s64", "f32[]", KIND, LEGACY, "id"]),
)

JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mutated(draw):
    """A valid file in which values are deleted, replaced, repeated or exchanged."""
    document = draw(st.sampled_from([valid, chain]))()
    for _ in range(draw(st.integers(1, 4))):
        paths = [path for path in places(document) if path]
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        place = document
        for step in way:
            place = place[step]
        match draw(st.sampled_from(["delete", "replace", "repeat", "exchange"])):
            case "delete":
                del place[last]
            case "replace":
                place[last] = draw(JSON)
            case "repeat":
                if isinstance(place, list):
                    place.insert(last, copy.deepcopy(place[last]))
                else:
                    place[draw(st.sampled_from([*place, "other"]))] = copy.deepcopy(place[last])
            case "exchange":
                from_path = draw(st.sampled_from(paths))
                value = document
                for step in from_path:
                    if not isinstance(value, dict | list) or (
                        step not in value if isinstance(value, dict) else not -1 < step < len(value)
                    ):
                        break
                    value = value[step]
                place[last] = copy.deepcopy(value)
    return document


def survives(source):
    began = time.process_time()
    message = "<text>: "
    try:
        document = loads(source)
        assert loads(dumps(document)) == document
        graph = to_graph(document)
        again = read_graph(text=write_graph(graph))
        assert described(again) == described(graph)
    except og.OneDNNGraphError as error:
        message = str(error)
    assert message.startswith("<text>: ")
    assert "\n" not in message
    assert time.process_time() - began < 5


@pytest.mark.no_cover
@given(mutated())
@SETTINGS
def test_mutated_files_raise_our_errors_only(document):
    survives(json.dumps(document))


@given(st.data())
@SETTINGS
def test_mutated_text_raises_our_errors_only(data):
    source = text(valid())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(source)))
        end = data.draw(st.integers(start, min(start + 8, len(source))))
        piece = data.draw(
            st.text(max_size=4) | st.sampled_from(['"', "[", "{", "}", "]", ",", ":", "1e999", "NaN", "\\"])
        )
        source = source[:start] + piece + source[end:]
    survives(source)


@given(JSON)
@SETTINGS
def test_any_json_raises_our_errors_only(value):
    with pytest.raises(GraphFileError):
        loads(json.dumps(value))


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


@st.composite
def descriptions(draw, number):
    shape = draw(st.none() | st.lists(st.integers(-1, 9), min_size=3, max_size=5))
    layout = draw(st.sampled_from(["strided", "strided", "any", "opaque"]))
    strides = None
    if shape is not None and layout == "strided" and draw(st.booleans()):
        strides = draw(
            st.lists(st.integers(0, 99), min_size=len(shape), max_size=len(shape))
            | st.just([math.prod(max(d, 1) for d in shape[i + 1 :]) for i in range(len(shape))])
        )
    return og.LogicalTensor(
        number,
        "f32",
        shape,
        layout_type=layout,
        strides=strides,
        property_type=draw(st.sampled_from(list(og.PropertyType))),
    )


@st.composite
def graphs(draw):
    """Weight gradients of random tensors and of each other's results; not all could be finalized."""
    graph = og.Graph(fpmath_mode=draw(st.sampled_from(list(og.FpmathMode))))
    number = draw(st.integers(1, 4))
    tensors = [draw(descriptions(i)) for i in range(3)]
    ids = draw(st.lists(st.integers(0, 2**64 - 1), min_size=number, max_size=number, unique=True))
    kinds = [
        name
        for schema in og.list_ops()
        if schema.kind.endswith("BackwardWeights")
        for name in (schema.kind, *(alias.kind for alias in schema.aliases))
    ]
    lists = st.lists(st.integers(1, 9), min_size=2, max_size=2)
    for i, op_id in enumerate(ids):
        output = draw(descriptions(100 + i))
        changes = {
            "strides": draw(lists),
            "dilations": draw(lists),
            "pads_begin": draw(lists),
            "groups": draw(st.integers(1, S64_MAX)),
            "data_format": draw(st.sampled_from(["NCX", "NXC"])),
            "auto_pad": draw(st.sampled_from(["None", "VALID", "SAME_UPPER"])),
        }
        inputs = [draw(st.sampled_from(tensors)) for _ in range(2)]
        kind = draw(st.sampled_from(kinds))
        graph.add_op(gradient_op(op_id, inputs, output, kind, draw(NAMES), **changes))
        tensors.append(output)
        if draw(st.booleans()):
            graph.output(output)
    return graph


@pytest.mark.no_cover
@given(graphs())
@SETTINGS
def test_graphs_survive(graph):
    written = write_graph(graph)
    again = read_graph(text=written)
    assert described(again) == described(graph)
    assert write_graph(again) == written


def test_records_compare_by_content():
    assert loads(text(valid()), source="a") == loads(text(valid()), source="b")
    assert loads(text(valid())) != loads(text(put("graph.1.name", "x")))
    assert OpRecord(id=0, kind="x", inputs=[], outputs=[]).inputs == ()
