"""The library that `onednn-graph library use` has made the user's default: a path in a file of the user's settings."""

from __future__ import annotations

from pathlib import Path

from ....ops.errors import LibraryError
from ....ops.values import format_value

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
    """What was chosen, whether it is still there or not; None where nothing was, or the home is another user's.

    Raises:
        LibraryError: the choice can't be read, or is no absolute path: whose file that is would depend on the folder
            that a program happens to be started in.
    """
    file = settings_file()
    if file is None:
        return None
    try:
        text = file.read_bytes().decode("utf-8", "surrogateescape").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if _is_anothers(file):
            return None
        raise LibraryError(
            f"what {WHO} has chosen can't be read: {file}: {error.strerror or error}; mend or remove that"
        ) from error
    if text and ("\0" in text or not Path(text).is_absolute()):
        raise LibraryError(
            f"{file}, of {WHO}, must have an absolute path, got {format_value(text)}; {FORGET}"
        )
    return Path(text) if text else None


def _is_anothers(file: Path) -> bool:
    """Whether a file lies where this user may not even look: in the home of another one, as `sudo -E` leaves it set."""
    try:
        file.stat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


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
    file = settings_file()
    try:
        if file is not None:
            file.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return file is not None
