"""Measured times, remembered for the user.

The times of a problem's candidates are kept in a small JSON file of their own, named by a hash of everything they
depend on, so that processes don't disturb each other.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import warnings
from pathlib import Path
from typing import Any

from ...graph.runtime.cache_folder import cache_folder
from ...graph.runtime.replacing import replacing
from ...ops.errors import TuningCacheWarning

MAX_BYTES = 2**20
"""Of a file; what is longer is none of ours."""
LOGGER = logging.getLogger(__name__)


def digest(key: dict[str, Any]) -> str:
    """A short name of a problem: a hash of everything that its times depend on."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


def _file(key: dict[str, Any]) -> Path | None:
    """Where its times are kept; None for a user who has no place for that."""
    folder = cache_folder()
    return None if folder is None else folder / f"{digest(key)}.json"


def remembered(key: dict[str, Any]) -> dict[str, float]:
    """Candidate's name → its time; empty where nothing is known."""
    path = _file(key)
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            content: Any = json.loads(file.read(MAX_BYTES).decode())
        times = {str(name): float(seconds) for name, seconds in content["seconds"].items()}
        if json.loads(json.dumps(key)) != content["key"] or not all(0 < t < math.inf for t in times.values()):
            raise ValueError("it is of another problem")
    except (FileNotFoundError, NotADirectoryError):  # as below a home that is /dev/null
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        warnings.warn(
            f"the tuning file {path} is ignored, for it can't be read ({error}); delete it",
            TuningCacheWarning,
            stacklevel=2,
        )
        return {}
    LOGGER.debug("times of %d candidates are remembered in %s", len(times), path)
    return times


def remember(key: dict[str, Any], times: dict[str, float]) -> None:
    """Keeps times for other processes and days."""
    path = _file(key)
    if path is None:
        LOGGER.debug("times of %d candidates are not kept, for the user has no home folder", len(times))
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as (file,):
            file.write(json.dumps({"key": key, "seconds": times}, indent=1).encode())
    except OSError as error:
        warnings.warn(f"times can't be kept in {path} ({error})", TuningCacheWarning, stacklevel=2)


def forget(key: dict[str, Any]) -> bool:
    """Removes what is remembered of it; whether there was something."""
    path = _file(key)
    if path is None:
        return False
    there = path.exists()
    path.unlink(missing_ok=True)
    return there
