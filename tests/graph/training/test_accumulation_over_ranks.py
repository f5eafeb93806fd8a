"""Steps that accumulate on several ranks are one on the whole batch, and exchange nothing before the update."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="several ranks need mpi4py: pip install '.[mpi]'")

import rank_accumulation as programs
from launching import results


@pytest.mark.parametrize("ranks", [1, 2])
def test_halves_on_each_rank_are_the_whole_batch(ranks: int, tmp_path: Path) -> None:
    trainer, graph = programs.dense()
    losses = [trainer.step(programs.batch(step)) for step in range(programs.STEPS)]
    for found in results(ranks, "halves", tmp_path, module=programs):
        assert found["losses"][0] == losses[0]
        np.testing.assert_allclose(found["losses"], losses, rtol=1e-5)
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
            average = trainer._state.averages[name].array
            np.testing.assert_allclose(found[f"ema {name}"], average, rtol=1e-5, atol=1e-6, err_msg=name)


def test_parts_of_any_size_count_as_much_as_they_hold(tmp_path: Path) -> None:
    trainer, graph = programs.dense()
    for step in range(programs.STEPS):
        trainer.step(programs.batch(step))
    for found in results(2, "uneven", tmp_path, module=programs):
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_rank_that_fails_between_updates_has_all_begin_anew(tmp_path: Path) -> None:
    trainer, graph = programs.dense()
    trainer.step(programs.batch(0))
    for found in results(2, "fails_between", tmp_path, module=programs):
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_file_that_is_loaded_between_updates_has_all_begin_anew(tmp_path: Path) -> None:
    trainer, graph = programs.dense(accumulate=2)
    for step in range(2):
        trainer.step(programs.batch(step))
    for found in results(2, "loads_between", tmp_path, module=programs):
        for name, array in graph.parameters.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
