"""Trainers that try weight gradients in their first steps: what stays the same to the bit, and what does not matter."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.weight_gradients import online, trial_run

pytest.importorskip("safetensors", reason="checkpoints need the extra 'weights'")
T = og.training


@pytest.fixture(autouse=True)
def made_up_times(onednn, tmp_path, monkeypatch):
    """A cache of the test's own, trials of small problems too, and a clock by which the last candidate is best."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "tuned"))
    monkeypatch.setattr(online, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(online, "PLAUSIBLE", 1e9)
    run, timed = trial_run.TrialRun._timed, []

    def seconds(self, turn, places, scratch):
        run(self, turn, places, scratch)
        timed.append(turn.way)
        return 1e-3 * (len(self.trial.names) - turn.way)

    monkeypatch.setattr(trial_run.TrialRun, "_timed", seconds)
    return timed


def trainer(**options):
    rng = np.random.default_rng(0)
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 10, 10, 8]), graph.input("y", "f32", [-1, 10, 10, 16])
    w = graph.parameter(rng.standard_normal((3, 3, 8, 16)).astype(np.float32), name="w")
    made = graph.op(
        "Convolution", x, w, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1], data_format="NXC",
        weights_format="XIO",
    )  # fmt: skip
    loss = T.mean_squared_error(graph, graph.op("Tanh", made), y)
    return graph, T.Trainer(graph, loss, T.SGD(0.1, momentum=0.9), **options)


def feeds(number, batch=4):
    rng = np.random.default_rng(number)
    return {
        "x": rng.standard_normal((batch, 10, 10, 8)).astype(np.float32),
        "y": rng.standard_normal((batch, 10, 10, 16)).astype(np.float32),
    }


def bits(graph):
    return {name: array.tobytes() for name, array in graph.parameters.items()}


@pytest.mark.parametrize("before", [1, 3, 60])
def test_going_on_is_to_the_bit_also_from_the_midst_of_trials(tmp_path, before, monkeypatch):
    graph, whole = trainer()
    for number in range(before):
        whole.step(feeds(number))
    whole.save(tmp_path / "t.safetensors")
    losses = [whole.step(feeds(n, batch)) for n in range(4) for batch in (4, 3)]
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "another"))  # a file says it all
    other, again = trainer()
    again.step(feeds(77))
    again.load(tmp_path / "t.safetensors")
    assert [again.step(feeds(n, batch)) for n in range(4) for batch in (4, 3)] == losses
    assert bits(other) == bits(graph)


def test_first_steps_try_and_then_stay(made_up_times):
    _, one = trainer()
    for number in range(60):
        one.step(feeds(number))
    count = len(made_up_times)
    assert len(set(made_up_times)) > 1
    for number in range(10):
        one.step(feeds(number))
    assert len(made_up_times) == count


def test_deterministic_neither_tries_nor_reads_what_others_measured(made_up_times):
    graph, first = trainer(deterministic=True)
    losses = [first.step(feeds(n)) for n in range(30)]
    assert not made_up_times
    _, learns = trainer()
    for number in range(60):
        learns.step(feeds(number))
    other, second = trainer(deterministic=True)
    assert [second.step(feeds(n)) for n in range(30)] == losses
    assert bits(other) == bits(graph)


def test_files_without_ways_are_read(tmp_path, made_up_times):
    import json

    from safetensors import safe_open
    from safetensors.numpy import save_file

    _, first = trainer()
    first.step(feeds(0))
    first.save(tmp_path / "t.safetensors")
    with safe_open(tmp_path / "t.safetensors", framework="numpy") as file:
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 -- no mapping
        content = json.loads(file.metadata()["onednn_graph.training"])
    assert content.pop("ways")
    save_file(arrays, tmp_path / "old.safetensors", metadata={"onednn_graph.training": json.dumps(content)})
    _, second = trainer()
    second.load(tmp_path / "old.safetensors")
    count = len(made_up_times)
    second.step(feeds(1))
    assert len(made_up_times) == count  # nothing is tried, so that two that load it do the same
    content["ways"] = {"a": 3}
    save_file(arrays, tmp_path / "bad.safetensors", metadata={"onednn_graph.training": json.dumps(content)})
    with pytest.raises(og.GraphFileError, match="ways must be texts by texts"):
        second.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_deterministic_is_true_or_false(wrong):
    with pytest.raises(og.ArgumentTypeError, match="deterministic must be True or False"):
        trainer(deterministic=wrong)
