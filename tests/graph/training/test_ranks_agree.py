"""Ranks that are not of one mind: nobody hangs, all hear of it, and all have the same state afterwards."""

import numpy as np
import pytest
import rank_agreements
from launching import results

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")

STEPS = {
    "takes_fewer": ("", "", 3, 0),
    "takes_narrower": ("ShapeError: input 'x'", "rank 1 has failed in Trainer.step: input 'x'", 2, 0),
    "takes_another_type": ("DataTypeError: input 'x'", "rank 1 has failed in Trainer.step: input 'x'", 2, 0),
    "leaves_something_out": (
        "ArgumentError: input 't' is missing",
        "in Trainer.step: input 't' is missing",
        2,
        0,
    ),
    "has_nan": ("", "", 2, 1),
    "fails_to_compile": (
        "LibraryError: no kernel for that",
        "failed in Trainer.step: no kernel for that",
        2,
        0,
    ),
    "is_out_of_memory": ("Error: ", "rank 1 has failed in Trainer.step: ", 2, 0),
    "breaks_off": ("found no memory, no room", "in the end of a skipped step: HostMeanStart", 2, 0),
    "breaks_off_at_once": (
        "found no memory, no room",
        "in the end of a skipped step: HostMeanStart",
        2,
        0,
    ),
    "does_another_step_than_others": ("rank 0 at Trainer.step", "rank 1 at Trainer.validate", 2, 0),
    "has_another_rate": (
        'but rank 1 has "learning rates [',
        "Trainer.step must be the same on all ranks, but rank",
        2,
        0,
    ),
}
MAKES = {
    "makes_another_op": 'the ops of the graph must be the same on all ranks, but rank {0} has ["#0 MatMul(x, w',
    "makes_more_ops": "the number of the ops of the graph must be the same on all ranks, but rank {0} has ",
    "makes_another_optimizer": "the parameters of the graph must be the same on all ranks, but rank {0} has ",
    "makes_another_precision": "the settings of Trainer must be the same on all ranks, but rank {0} has '",
    "makes_another_parameter": "the parameters must be the same on all ranks, but rank {0} has [((",
}


@pytest.mark.parametrize("program", STEPS)
def test_a_step_is_done_by_all_or_none(program, tmp_path):
    first, other, third = results(3, program, tmp_path, module=rank_agreements)
    own, others, steps, skipped = STEPS[program]
    assert own in str(other["told"])
    assert others in str(first["told"])
    assert others in str(third["told"])
    assert bool(own) == bool(str(first["told"])) == bool(str(third["told"]))
    for found in (first, other, third):
        assert (found["steps"], found["skipped"]) == (steps, skipped)
        for name, array in first.items():
            if name != "told":
                assert np.all(np.isfinite(array))
                np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("program", MAKES)
def test_what_is_trained_is_the_same(program, tmp_path):
    for rank, found in enumerate(results(3, program, tmp_path, module=rank_agreements)):
        assert str(found["told"]).startswith("ResourceError: " + MAKES[program].format(rank))
