"""setuptools, in a folder that is gone afterwards.

By itself it builds in `build/` and describes the package in `*.egg-info`, both in the checkout, and takes what lies
there into the next build: modules that were renamed or removed since would be installed again. No setting names a
temporary folder, for settings are fixed paths; hence these few lines. (hatchling, which leaves nothing, can't map
folders such as `graph/_facade` to packages in editable installs.)

Two wheels of one state are the same, byte by byte, be they made from a checkout or from the source distribution: files
bear the day of the last release in the changelog, unless `SOURCE_DATE_EPOCH` is set, and may be read by all. The
time of the last commit would not do, for only a checkout knows it.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

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


MODE = stat.S_IFREG | 0o644
"""Of each file, whatever a checkout or an archive was unpacked with."""


def _last_release() -> str:
    """What both a checkout and the source distribution know."""
    changes = Path("CHANGELOG.md")
    text = changes.read_text(encoding="utf-8") if changes.exists() else ""
    found = re.search(r"^## \[\d.*\] - (\d{4}-\d\d-\d\d)$", text, re.M)
    return f"{datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp():.0f}" if found else FIRST_TIME


def _readable_by_all(wheel: Path) -> None:
    """Packs a wheel again with equal modes."""
    with ZipFile(wheel) as archive:
        content = [(info, archive.read(info)) for info in archive.infolist()]
    with ZipFile(wheel, "w") as archive:
        for info, data in content:
            info.external_attr = MODE << 16
            archive.writestr(info, data)


@contextmanager
def _elsewhere() -> Iterator[None]:
    before = os.environ.get(SETTINGS)
    timeless = TIME not in os.environ
    if timeless:
        os.environ[TIME] = _last_release()
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
        name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    _readable_by_all(Path(wheel_directory, name))
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.build_sdist(sdist_directory, config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """See PEP 517."""
    with _elsewhere():
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
