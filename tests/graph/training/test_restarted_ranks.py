"""A rank is killed in the middle of training; fewer ranks go on from the last checkpoint, as if nothing had been."""

import launching
import numpy as np
import pytest
import rank_restarts
from launching import launch, results

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")
pytest.importorskip("safetensors", reason="training goes on from a file")


@pytest.mark.parametrize("alone", [False, True])
def test_fewer_ranks_go_on_from_the_last_checkpoint(alone, tmp_path):
    options = launching.alone() if alone else []
    if options is None:
        pytest.skip("this mpirun always ends the others")
    trainer, graph = rank_restarts.trainer_of()
    losses = [trainer.step(rank_restarts.whole(step)) for step in range(rank_restarts.STEPS)]
    status, told = launch(3, "trains", tmp_path, module=rank_restarts, options=options)
    assert status != 0
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"], told
    for found in results(2, "trains", tmp_path, module=rank_restarts):
        assert found["first"] == 4
        np.testing.assert_allclose(found["losses"], losses[4:], rtol=1e-5)
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
