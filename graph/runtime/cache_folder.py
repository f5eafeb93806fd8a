"""Where what is remembered for the user lies on the disk: measured times, verdicts about kernels."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ONEDNN_GRAPH_CACHE"
"""Environment variable that names another folder."""


def cache_folder() -> Path | None:
    """The folder that `ONEDNN_GRAPH_CACHE` names, or one in the user's cache; None for a user without a home."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path  # few need it

    try:
        folder = user_cache_path("onednn_graph") / "tuned"
    except RuntimeError:  # of platformdirs; its older versions leave `~` as it is
        return None
    return folder if folder.is_absolute() else None
