"""fit on several ranks of MPI: the numbers of one process, one end for all, and what ends badly."""

import csv
import re

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")
import rank_fits
from launching import launch, results


@pytest.mark.parametrize(
    ("program", "batch"),
    [("shares", 5), ("shares_of_a_template", 5), ("shares_of_single_examples", 2)],
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_share_batches_do_what_one_does(program, batch, ranks, tmp_path):
    alone = rank_fits.fitted(batch=batch)
    rounding = 20 * np.spacing(
        np.float32(np.abs(rank_fits.columns()["y"]).max())
    )  # of residuals: labels are large
    for found in results(ranks, program, tmp_path, module=rank_fits):
        assert found["steps"] == alone["steps"]
        np.testing.assert_allclose(found["w"], alone["w"], rtol=1e-5)
        np.testing.assert_allclose(found["values"], alone["values"], rtol=1e-5, atol=rounding)


def test_all_ranks_end_where_one_does(tmp_path):
    ranks = 3
    found = results(ranks, "stops", tmp_path, module=rank_fits)
    for one in found:
        for who in range(ranks):
            assert one[f"epochs {who}"].tolist() == [0]
            assert one[f"steps {who}"] == 3 + 2
            np.testing.assert_array_equal(one[f"w {who}"], found[0][f"w {who}"])


def test_the_callbacks_of_the_first_rank_alone_end_all(tmp_path):
    for one in results(2, "stops_by_the_first_alone", tmp_path, module=rank_fits):
        assert one["steps"] == 4
    with (tmp_path / "log.csv").open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0"]


def test_training_goes_on_with_another_number_of_ranks(tmp_path):
    for one in results(3, "goes_on", tmp_path, module=rank_fits):
        assert one["taken"] == ""
        assert one["epochs"].tolist() == [0, 1]
        assert one["steps"] == 7
    damaged = tmp_path / "kept" / "step-0000000006.safetensors"
    damaged.write_bytes(b"")
    alone = rank_fits.fitted()
    for number, one in enumerate(results(2, "goes_on", tmp_path, module=rank_fits)):
        assert one["taken"] == "step-0000000004.safetensors"
        assert one["warnings"] == (number == 0)
        assert one["first"] == 4
        assert one["epochs"].tolist() == [1, 2]
        assert one["steps"] == 9  # the best one is the last
        np.testing.assert_allclose(one["w"], alone["w"], rtol=1e-5)


def test_what_fails_on_one_rank_is_told_to_all(tmp_path):
    reasons = [
        (1, "OSError: no such image"),
        (0, "KeyError: 'a callback'"),
        (0, "KeyError: 'a callback'"),
        (0, "KeyError: 'a callback'"),
        (1, "ValueError: a metric"),
        (1, "ValueError: an order"),
        (
            1,
            "ArgumentError: epoch 0 has no batches; give a list, or a function that makes them for each epoch",
        ),
    ]
    texts = [found["texts"].tolist() for found in results(2, "fails", tmp_path, module=rank_fits)]
    for number, (rank, reason) in enumerate(reasons):
        other = texts[1 - rank][number]
        assert texts[rank][number] == reason
        assert other.startswith(f"ResourceError: rank {1 - rank} can't go on from ")
        assert f"because rank {rank} has failed in " in other
        assert other.endswith(reason.partition(": ")[2])


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("has_fewer", "rank [01] is at (Trainer.step|the end of an epoch) and rank [01] at (the end|Trainer.step)"),
        ("trains_longer", r"Trainer.fit must be the same on all ranks, but rank [01] has \([23], "),
    ],
)  # fmt: skip
def test_ranks_that_do_not_agree(program, message, tmp_path):
    status, told = launch(2, program, tmp_path, module=rank_fits)
    assert status
    assert re.search(message, told)
