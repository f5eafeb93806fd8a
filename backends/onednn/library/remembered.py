"""The library that `onednn-graph library use` has made the user's default: a path in a file of the user's settings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ....ops.errors import LibraryError

WHO = "`onednn-graph library use`"
FORGET = "`onednn-graph library use default` forgets it"


def settings_file() -> Path | None:
    """Where the choice is kept; None for a user without a home."""
    from platformdirs import user_config_path  # few need it

    try:
        folder = user_config_path("onednn_graph")
    except RuntimeError:  # of platformdirs; its older versions leave `~` as it is
        return None
    return folder / "library" if folder.is_absolute() else None


def remembered() -> Path | None:
    """What was chosen, whether it is still there or not; None where nothing was, or nobody can read it."""
    file = settings_file()
    if file is None:
        return None
    try:
        text = file.read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    return Path(text) if text and "\0" not in text else None


def remember(path: Path) -> Path:
    """Makes a file the default of all later processes of this user; returns where that is kept.

    Raises:
        LibraryError: the user has no home.
        OSError: it can't be written.
    """
    from ....graph.runtime.replacing import replacing

    file = settings_file()
    if file is None:
        raise LibraryError("there is no folder for the user's settings; set XDG_CONFIG_HOME to one, or HOME")
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as (target,):
        target.write(f"{path}\n".encode("utf-8", "surrogateescape"))
    return file


def forget() -> bool:
    """Goes back to what is used by itself; returns whether there was a choice.

    Raises:
        OSError: it can't be removed.
    """
    file, before = settings_file(), remembered()
    if file is not None:
        with suppress(FileNotFoundError, NotADirectoryError):
            file.unlink()
    return before is not None
