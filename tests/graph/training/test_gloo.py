"""Ranks of torch.distributed over Gloo do what ranks of MPI do: the same programs, with the same results."""

import gloo_ranks
import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
import rank_accumulation
import rank_programs as programs
from gloo_ranks import results

torch = pytest.importorskip("torch", reason="Gloo comes with torch: pip install '.[torch]'")


@pytest.mark.parametrize("ranks", [1, 3])
def test_buckets_over_gloo_give_the_mean(ranks, tmp_path):
    for found in results(ranks, "buckets", tmp_path):
        assert len(found) == 3 * 3 * 5
        for name, have in found.items():
            kind, turn, piece = name.split()
            each = [programs.integers([rank, int(turn), int(piece)], have.shape, 9) for rank in range(ranks)]
            want = np.sum(each, axis=0, dtype=np.float64) / ranks
            if kind != "f64":
                want = want.astype(np.float32)
            if kind == "bf16":
                want = want.astype(ml_dtypes.bfloat16)
            np.testing.assert_array_equal(have, want.astype(have.dtype))


def test_a_trainer_over_gloo_is_one_on_the_whole_batch(tmp_path):
    pytest.importorskip("safetensors", reason="training goes on from a file")
    trainer, graph = programs.trained(programs.BATCH)
    losses = [trainer.step(programs.whole_batch(step)) for step in [*range(programs.STEPS), 9]]
    first, second = results(2, "training", tmp_path)  # with BatchNorm over both
    np.testing.assert_allclose(first["losses"], [*losses, losses[-1]], rtol=1e-5)
    for name, want in graph.parameters.items():
        np.testing.assert_allclose(first[name], want, rtol=1e-4, atol=1e-6, err_msg=name)
    for name, have in first.items():
        np.testing.assert_array_equal(second[name], have, err_msg=name)


def test_parts_count_as_much_as_they_hold_over_gloo(tmp_path):
    trainer, graph = programs.dense()
    want = []
    for step in range(programs.STEPS):
        batch = programs.sentences(step)
        want.append((trainer.step(batch), trainer.validate([batch])["loss"]))
    for found in results(2, "shares", tmp_path):
        np.testing.assert_allclose(np.stack([found["losses"], found["tested"]], 1), want, rtol=1e-5)
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_file_that_is_loaded_between_updates_has_all_begin_anew_over_gloo(tmp_path):
    pytest.importorskip("safetensors", reason="training goes on from a file")
    trainer, graph = rank_accumulation.dense(accumulate=2)
    for step in range(2):
        trainer.step(rank_accumulation.batch(step))
    for found in results(2, "loads_between", tmp_path):
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_step_that_one_rank_of_gloo_cannot_take_is_taken_by_none(tmp_path):
    first, second = results(2, "is_fed_wrongly", tmp_path)
    assert first["steps"] == second["steps"] == 1
    assert str(second["told"]).startswith("ShapeError: input 'x'")
    assert "rank 0 can't go on from Trainer.step, because rank 1 has failed" in str(first["told"])


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("is_killed", "but rank 1 is lost: "),
        ("fails", "ResourceError: rank 0 "),
        ("ends", "rank 0 waits for the mean of a bucket, but rank 1 has ended; let all ranks do the same"),
        ("hangs", "rank 0 has waited 2 s for the mean of a bucket; rank 1 hangs: it"),
        (
            "differs",
            "the sizes of buckets must be the same on all ranks, but rank 0 has (3, 4) and rank 1 (3, 5)",
        ),
    ],
)
def test_a_rank_of_gloo_that_is_lost_ends_the_others(program, told, tmp_path):
    status, texts = gloo_ranks.launch(2, program, tmp_path)
    assert None not in status, texts
    assert status[0], texts
    assert told in texts[0]


def test_a_rank_of_gloo_may_end_while_others_are_busy(tmp_path):
    assert all(found["ok"] for found in results(3, "leaves_late", tmp_path))


def test_without_a_launcher_gloo_is_one_rank():
    with og.training.gloo() as comm:
        assert repr(comm) == "GlooCommunicator(rank 0 of 1)"
        trainer, _ = programs.dense(comm)
        alone, _ = programs.dense()
        assert trainer.step(programs.sentences(0)) == alone.step(programs.sentences(0))
        assert torch.distributed.is_initialized()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"bucket_bytes": 0}, "gloo: bucket_bytes must be above 0, got 0"),
        ({"timeout": "soon"}, "gloo: timeout must be a number of seconds, got 'soon'"),
        ({"data_type": "s8"}, "gloo: data_type must be f32 or bf16, got s8"),
    ],
)
def test_wrong_settings_of_gloo_are_errors(options, error):
    with pytest.raises(og.OneDNNGraphError, match=error):
        og.training.gloo(**options)
