"""Several ranks of MPI: means of buckets, steps as one process does them on the whole batch, and what ends badly."""

import os
import re
import time

import ml_dtypes
import numpy as np
import pytest
import rank_programs as programs
from launching import SECONDS, launch, results
from onednn_graph.graph.training.cores import share_of

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_buckets_give_the_mean(ranks, tmp_path):
    for found in results(ranks, "buckets", tmp_path):
        assert len(found) == 3 * 3 * 5
        for name, have in found.items():
            kind, turn, piece = name.split()
            shape = have.shape
            each = [programs.integers([rank, int(turn), int(piece)], shape, 9) for rank in range(ranks)]
            total = np.sum(each, axis=0, dtype=np.float64)
            want = (total / ranks).astype(have.dtype)
            if kind == "bf16":
                want = (total.astype(np.float32) / np.float32(ranks)).astype(ml_dtypes.bfloat16)
            elif kind == "f32":
                want = total.astype(np.float32) / np.float32(ranks)
            np.testing.assert_array_equal(have, want.astype(have.dtype))


def test_means_in_bf16_are_rounded_twice_whatever_the_number_of_ranks(tmp_path):
    ranks = 4
    given = [np.random.default_rng(rank).normal(size=1000).astype(np.float32) for rank in range(ranks)]
    total = np.zeros(1000, np.float32)
    for values in given:
        total += values.astype(ml_dtypes.bfloat16).astype(np.float32)
    want = (total / np.float32(ranks)).astype(ml_dtypes.bfloat16).astype(np.float32)
    for found in results(ranks, "rounding", tmp_path):
        np.testing.assert_array_equal(found["mean"], want)
        np.testing.assert_array_equal(found["half"], want)


@pytest.mark.parametrize(("ranks", "program"), [(2, "steps"), (4, "steps"), (2, "steps_on_numpy")])
def test_steps_are_those_of_one_process_on_the_whole_batch(ranks, program, tmp_path):
    alone = programs.network(programs.BATCH).compile(backend="numpy")
    for found in results(ranks, program, tmp_path):
        assert len(found) == programs.STEPS * (1 + len(programs.PARAMETERS))
        for step in range(programs.STEPS):
            want = alone({**programs.whole_batch(step), **programs.PARAMETERS})
            for name in alone.output_names:
                assert np.any(want[name])
                np.testing.assert_array_equal(found[f"{step} {name}"], want[name], err_msg=name)


@pytest.mark.parametrize(("program", "within"), [("batch_norm", 1e-12), ("batch_norm_f32", 1e-5)])
def test_batch_norm_over_all_ranks_is_that_of_the_whole_batch(program, within, tmp_path):
    alone = programs.normalised(programs.BATCH).compile(backend="numpy")
    want = alone(programs.normalised_feeds())
    ranks = 2
    all_ranks = results(ranks, program, tmp_path)
    for rank, found in enumerate(all_ranks):
        for name in programs.NORMALISED:
            whole = np.asarray(want[name])
            if name in ("y", "by_x"):
                whole = np.array_split(whole, ranks)[rank]
            if name == "by_x":
                whole = whole * ranks  # the loss of a rank is the mean over its own part
            np.testing.assert_allclose(found[name], whole, rtol=within, atol=within, err_msg=name)


def test_a_trainer_on_several_ranks_is_one_on_the_whole_batch(tmp_path):
    pytest.importorskip("safetensors", reason="training goes on from a file")
    trainer, graph = programs.trained(programs.BATCH)
    steps = [*range(programs.STEPS), 9]
    losses = [trainer.step(programs.whole_batch(step)) for step in steps]
    first, second = results(2, "training", tmp_path)
    np.testing.assert_allclose(first["losses"], [*losses, losses[-1]], rtol=1e-5)
    for name, want in graph.parameters.items():
        np.testing.assert_allclose(first[name], want, rtol=1e-4, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(first[f"again {name}"], first[name], err_msg=name)
    for name, have in first.items():
        np.testing.assert_array_equal(second[name], have, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 4])
def test_parts_of_any_size_count_as_much_as_they_hold(ranks, tmp_path):
    trainer, graph = programs.dense()
    want = []
    for step in range(programs.STEPS):
        batch = programs.sentences(step)
        want.append((trainer.step(batch), trainer.validate([batch])["loss"]))
    for found in results(ranks, "shares", tmp_path):
        np.testing.assert_allclose(np.stack([found["losses"], found["tested"]], 1), want, rtol=1e-5)
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 4])
def test_labels_count_on_all_ranks_as_they_do_in_the_whole_batch(ranks, tmp_path):
    trainer, graph = programs.tagger()
    want = [trainer.step(programs.labelled(step)) for step in range(programs.STEPS)]
    told = trainer.validate([programs.labelled(0)], programs.SCORES)
    for found in results(ranks, "weighs", tmp_path):
        np.testing.assert_allclose(found["scores"], [told[name] for name in programs.SCORES], rtol=1e-9)
        np.testing.assert_allclose(found["losses"], want, rtol=1e-5)
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_each_rank_makes_programs_when_its_data_need_them(tmp_path):
    first, *others = results(3, "lengths", tmp_path)
    for other in others:
        for name, array in first.items():
            np.testing.assert_array_equal(other[name], array, err_msg=name)


def test_a_step_that_one_rank_cannot_take_is_taken_by_none(tmp_path):
    first, second = results(2, "is_fed_wrongly", tmp_path)
    assert first["steps"] == second["steps"] == 1
    assert str(second["told"]).startswith("ShapeError: input 'x'")
    assert "ResourceError: rank 0 can't go on from Trainer.step, because rank 1 has failed" in str(
        first["told"]
    )


def test_rank_0_alone_needs_the_disk_and_tells_all_when_it_fails(tmp_path):
    pytest.importorskip("safetensors", reason="files of training")
    for rank, found in enumerate(results(3, "files_of_rank_0", tmp_path)):
        for name, told in zip(("save", "load"), found["told"].tolist(), strict=True):
            assert ("FileError: " if not rank else f"because rank 0 has failed in Trainer.{name}: ") in told
            assert "disk of 0/a: can't be" in told
        assert found["same"]
        assert found["steps"] == 1


def test_what_is_not_in_buckets(tmp_path):
    ranks = 2
    cpus = sorted(os.sched_getaffinity(0))
    for rank, found in enumerate(results(ranks, "at_once", tmp_path)):
        np.testing.assert_array_equal(found["first"], programs.integers(0, (3, 4)))
        assert found["second"] == 0
        np.testing.assert_array_equal(found["total"], np.full((2, 2), 3.0))
        assert found["mean"] == 0.5
        assert found["cpus"].tolist() == list(share_of(cpus, rank, ranks))
        assert 1 <= found["threads"] <= max(1, len(cpus) // ranks)


def test_the_users_number_of_threads_stands(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    for found in results(2, "at_once", tmp_path, OMP_NUM_THREADS="3"):
        assert found["threads"] == 3
        assert found["cpus"].tolist() == cpus


@pytest.mark.parametrize(
    ("cpus", "ranks", "shares"),
    [
        (range(4), 2, [(0, 1), (2, 3)]),
        (range(5), 2, [(0, 1), (2, 3, 4)]),
        ([7, 3], 2, [(3,), (7,)]),
        ([3], 1, [(3,)]),
        (range(2), 3, [(0, 1)] * 3),
    ],
)
def test_cpus_are_divided(cpus, ranks, shares):
    assert [share_of(cpus, rank, ranks) for rank in range(ranks)] == shares


@pytest.mark.parametrize(
    ("program", "ranks", "told"),
    [
        ("fails", 2, "ValueError: the data ends in the middle\nrank 1 of 2 has failed, and ends all others"),
        ("fails", 4, "the middle\nrank 3 of 4 has failed"),
        ("is_killed", 2, "signal 9"),
        ("ends", 2, "rank 0 waits for the mean of a bucket, but rank 1 has ended; let all ranks do the same"),
        ("exits_in_a_block", 2, ""),  # MPI itself ends all, and what it says of that may be lost with them
        (
            "hangs",
            2,
            "rank 0 has waited 2 s for the mean of a bucket; rank 1 hangs: it came last to the mean of a bucket, ",
        ),
        (
            "differs",
            2,
            r"the sizes of buckets must be the same on all ranks, but rank [01] has \(3, [45]\) and rank",
        ),
        (
            "normalises_unequal_parts",
            2,
            "sync_batch_norm takes parts of one length on all ranks, got 3 to 4; leave out",
        ),
        (
            "trains_other_parameters",
            2,
            r"the ops of the graph must be the same on all ranks, but rank [01] has",
        ),
        (
            "validates_alone",
            2,
            r"but rank 0 is at Trainer.step and rank 1 at Trainer.validate; let all make the",
        ),
    ],
)
def test_a_rank_that_is_lost_ends_the_others(program, ranks, told, tmp_path):
    begun = time.monotonic()
    status, text = launch(ranks, program, tmp_path)
    assert status != 0
    assert re.search(told, text), text
    assert not list(tmp_path.iterdir())
    assert time.monotonic() - begun < SECONDS


def test_a_rank_may_end_while_others_are_busy(tmp_path):
    assert all(found["ok"] for found in results(3, "leaves_late", tmp_path))
