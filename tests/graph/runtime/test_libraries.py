"""Packages of extras: not there, and there but broken."""

from __future__ import annotations

import sys
from pathlib import Path

import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.libraries import library


def test_a_package_that_is_not_there_names_its_extra() -> None:
    with pytest.raises(
        og.UnsupportedError, match=r"f needs the package nowhere_at_all, which is not installed.*'weights'"
    ):
        library("nowhere_at_all", "weights", "f")


@pytest.mark.parametrize(
    "raised", ["RuntimeError('no libmpi.so')", "OSError('no libmpi.so')", "ImportError('no libmpi.so')"]
)
def test_a_package_that_is_broken_says_why(
    raised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text(f"raise {raised}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        og.UnsupportedError, match=r"broken_package, which is installed, but can't be imported: no libmpi"
    ):
        library("broken_package", "mpi", "og.training.mpi")
    assert "broken_package" not in sys.modules
