"""The optimizer's state divided among ranks: the numbers of a whole one, a part of its memory, one file."""

import math

import numpy as np
import pytest
import rank_shards
from launching import results

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_numbers_are_those_of_a_whole_state_and_each_rank_keeps_its_part(ranks, tmp_path):
    divided, undivided = tmp_path / "divided", tmp_path / "undivided"
    divided.mkdir()
    undivided.mkdir()
    want = results(ranks, "exactly_in_whole", undivided, module=rank_shards)
    part = sum(math.ceil(size / ranks) for size in rank_shards.SIZES.values())
    for found, whole in zip(results(ranks, "exactly", divided, module=rank_shards), want, strict=True):
        for name, array in whole.items():
            if not name.endswith("bytes"):
                compare = np.testing.assert_array_equal
                if name.startswith("clipped"):  # the norm is a sum in another order
                    compare = np.testing.assert_array_almost_equal_nulp
                compare(found[name], array)
        assert found["momentum bytes"] == 4 * part
        assert found["adam bytes"] == 2 * 4 * part
        assert whole["adam bytes"] == 2 * 4 * sum(rank_shards.SIZES.values())


@pytest.mark.parametrize(("program", "within"), [("training", 1e-5), ("in_bf16", 0.02)])
def test_training_goes_on_with_any_number_of_ranks(program, within, tmp_path):
    pytest.importorskip("safetensors", reason="training goes on from a file")
    trainer, graph = rank_shards.trainer_of(None, rank_shards.OPTIMIZERS["clipped"](), precise=False)
    losses = [trainer.step(rank_shards.whole(step, precise=False)) for step in range(3 * rank_shards.STEPS)]
    told = []
    for ranks in (3, 2, 1):
        each = results(ranks, program, tmp_path, module=rank_shards)
        for found in each:
            assert found["skipped"] == 1
            for name, array in each[0].items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)
        told += each[0]["losses"].tolist()
    np.testing.assert_allclose(told, losses, rtol=within)
    for name, array in graph.parameters.items():
        np.testing.assert_allclose(each[0][name], array, rtol=within, atol=within, err_msg=name)


def test_optimizers_that_need_whole_parameters_are_refused(tmp_path):
    for found in results(2, "needs_whole_parameters", tmp_path, module=rank_shards):
        assert str(found["told"]).startswith(
            "UnsupportedError: shard_optimizer takes optimizers that update each element"
        )
        assert "LAMB of parameter 'w1' has HostUpdate" in str(found["told"])
