"""setuptools, in a folder that is gone afterwards.

By itself it builds in `build/` and describes the package in `*.egg-info`, both in the checkout, and takes what lies
there into the next build: modules that were renamed or removed since would be installed again. No setting names a
temporary folder, for settings are fixed paths; hence these few lines. (hatchling, which leaves nothing, can't map
folders such as `graph/_facade` to packages in editable installs.)

Two builds of one state are the same, byte by byte: files bear the time of the last commit, or a fixed one where there
is no repository, unless `SOURCE_DATE_EPOCH` is set.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str] | None] | None

SETTINGS = "DIST_EXTRA_CONFIG"
"""Names a file with more settings, for setuptools."""
TIME = "SOURCE_DATE_EPOCH"
"""Seconds that all files of a wheel bear, as https://reproducible-builds.org/specs/source-date-epoch/ has it."""
FIRST_TIME = "315532800"
"""1980 begins, before which archives have no time."""


def _last_commit() -> str:
    ask = ["git", "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() or FIRST_TIME
    except (OSError, subprocess.CalledProcessError):
        return FIRST_TIME


@contextmanager
def _elsewhere() -> Iterator[None]:
    before = os.environ.get(SETTINGS)
    timeless = TIME not in os.environ
    if timeless:
        os.environ[TIME] = _last_commit()
    with tempfile.TemporaryDirectory(prefix="onednn-graph-build-") as folder:
        settings = Path(folder, "settings.cfg")
        given = "" if before is None else Path(before).read_text(encoding="utf-8")
        settings.write_text(
            f"{given}\n[build]\nbuild_base = {folder}\n[egg_info]\negg_base = {folder}\n", encoding="utf-8"
        )
        os.environ[SETTINGS] = str(settings)
        try:
            yield
        finally:
            if before is None:
                del os.environ[SETTINGS]
            else:
                os.environ[SETTINGS] = before
            if timeless:
                del os.environ[TIME]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.get_requires_for_build_sdist(config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.build_sdist(sdist_directory, config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
