"""Names that are no text, or mean something to whoever reads them: said by name, or kept as they are."""

import numpy as np
import onednn_graph as og
import pytest

ODD = ["a\nb", "a/b", "../a", "naïve ☃", "<b>&\"'", "[red]x[/red]", "self", "C:\\a", "__metadata__"]
X = np.array([1, -2], np.float32)


def named(name):
    graph = og.Graph()
    x = graph.input(name, "f32", [2])
    graph.output(graph.relu(graph.multiply(x, graph.constant(X, name=f"{name} 1"))), name=f"{name} 2")
    return graph


@pytest.mark.parametrize("name", ODD)
def test_inputs_are_given_by_any_name(name):
    graph = og.Graph()
    graph.relu(graph.input(name, "f32", [2]), name="y")
    graph.finalize()
    model, (partition,) = graph.compile(), graph.get_partitions()
    for one in (model, partition.compile()):
        np.testing.assert_array_equal(one(**{name: X})["y"], [1, 0])
    assert model.report(**{name: X}, repeat=1).partitions == 1


@pytest.mark.parametrize("name", ODD)
def test_models_of_onnx_keep_names(tmp_path, name):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    named(name).to_onnx(tmp_path / "model.onnx")
    found = og.from_onnx(tmp_path / "model.onnx").compile()({name: X})
    assert list(found) == [f"{name} 2"]
    np.testing.assert_array_equal(found.only, [1, 4])


def test_half_a_character_is_in_no_model_of_onnx(tmp_path):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    with pytest.raises(og.GraphFileError, match=r"surrogates, got '\\ud800'"):
        named("\ud800").to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_archives_have_no_part_of_a_name(tmp_path, name):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    from onednn_graph.tools.data_files import save_outputs

    with pytest.raises(og.ArgumentError, match="name it otherwise"):
        save_outputs(tmp_path / "out.npz", {"a": X, name: X})
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("name", ODD)
def test_archives_keep_names(tmp_path, name):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    from onednn_graph.tools.data_files import save_outputs

    save_outputs(tmp_path / "out.npz", {name: X})
    with np.load(tmp_path / "out.npz") as found:
        assert list(found) == [name]
