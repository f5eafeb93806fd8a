"""setuptools, in a folder that is gone afterwards.

By itself it builds in `build/` and describes the package in `*.egg-info`, both in the checkout, and takes what lies
there into the next build: modules that were renamed or removed since would be installed again. No setting names a
temporary folder, for settings are fixed paths; hence these few lines. (hatchling, which leaves nothing, can't map
folders such as `graph/_facade` to packages in editable installs.)
"""

import os
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


@contextmanager
def _elsewhere() -> Iterator[None]:
    before = os.environ.get(SETTINGS)
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
