"""Options of compile: one place for their names, for graphs, graphs of open sizes and partitions."""

import pickle
import re

import numpy as np
import onednn_graph as og
import pytest
from attrs import fields_dict
from onednn_graph.graph.compile.options import CompileKeywords, PartitionKeywords


@pytest.fixture
def graph():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [2, 3]), name="y")
    graph.finalize()
    return graph


def test_calls_take_all_options_by_name():
    names = {name for name, field in fields_dict(og.CompileOptions).items() if field.init}
    assert set(CompileKeywords.__annotations__) == names
    assert set(PartitionKeywords.__annotations__) == names - {"policy", "backend"}


def test_all_options_are_documented():
    for name, field in fields_dict(og.CompileOptions).items():
        assert re.search(rf"^ +(\w+, )*{name}\b.*:", og.CompileOptions.__doc__, re.M), name
        assert not field.init or f"`{name}`" in og.Graph.compile.__doc__
    for name in PartitionKeywords.__annotations__:
        assert f"`{name}`" in og.Partition.compile.__doc__


def test_an_unknown_option_is_named_with_those_that_there_are(graph):
    with pytest.raises(
        og.ArgumentTypeError,
        match="no option 'tun' .did you mean 'tune'.*; it takes verify, .*policy, backend$",
    ):
        graph.compile(tun="off")
    with pytest.raises(
        og.ArgumentTypeError, match="no option 'policy'; it takes verify, .*choices, kept_shapes$"
    ):
        graph.get_partitions()[0].compile(policy="debug")
    with pytest.raises(TypeError):
        graph.compile(None, "debug")


@pytest.mark.parametrize("compiled", ["graph", "partition"])
def test_options_are_checked_alike(graph, compiled):
    compile_it = graph.compile if compiled == "graph" else graph.get_partitions()[0].compile
    for given, error in (
        ({"tune": "fast"}, og.ArgumentError),
        ({"tune_seconds": 0}, og.ArgumentError),
        ({"strategy": 3}, og.ArgumentTypeError),
        ({"scratch_limit": 1.5}, og.ArgumentTypeError),
        ({"scratch_limit": -1}, og.ArgumentError),
        ({"kept_shapes": 0}, og.ArgumentError),
        ({"kept_shapes": True}, og.ArgumentTypeError),
        ({"verify": "no"}, og.ArgumentTypeError),
        ({"verify": 1}, og.ArgumentTypeError),
        ({"threads": 0}, og.ArgumentError),
        ({"choices": "x"}, og.ArgumentTypeError),
    ):
        with pytest.raises(error, match=next(iter(given))):
            compile_it(**given)


def test_what_is_compiled_again_has_the_options_and_choices_of_its_own(graph):
    choices = og.Choices()
    model = graph.compile(policy="debug", backend="numpy", choices=choices)
    again = pickle.loads(pickle.dumps(model))
    assert again.partitions[0].backend == "numpy"
    np.testing.assert_array_equal(again(np.full((2, 3), -1, np.float32)).only, 0)
    options = og.CompileOptions(threads=2, tune="online", choices=choices)
    assert og.CompileOptions(**options.again()) == options
    assert og.CompileOptions(**options.again()).choices is not choices


def test_a_kernel_that_is_trusted_is_verified_on_request_alone(onednn, graph):
    for given, verified in (({}, False), ({"verify": False}, False), ({"verify": True}, True)):
        (told,) = graph.compile(backend="onednn", **given).explain().values()
        assert told.verified is verified


@pytest.mark.parametrize(
    "given", [{"scratch_limit": np.int64(2**20)}, {"kept_shapes": np.int32(4)}, {"verify": np.bool_(True)}]
)
def test_numbers_of_numpy_are_options_of_what_is_verified_and_saved(onednn, graph, given, tmp_path):
    model = graph.compile(**{"verify": True, **given})
    assert model.explain().only.verified
    model.save_compiled(tmp_path / "m.ogc")
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    np.testing.assert_array_equal(loaded(np.full((2, 3), -1, np.float32)).only, 0)
    assert all(getattr(loaded.options, name) == value for name, value in given.items())
