"""The exceptions of onednn_graph.

Each is also the built-in class that Python people would catch (`ValueError`, `TypeError`,
`RuntimeError`, `NotImplementedError`, `MemoryError`), and each message is one sentence that names the op,
the attribute or port, the rule and the value, and a way out.
"""

from __future__ import annotations

from collections.abc import Iterable


class OneDNNGraphError(Exception):
    """Base class of every error that onednn_graph raises on purpose."""


class UnknownOpError(OneDNNGraphError, ValueError):
    """No op of that kind is registered."""


class SchemaError(OneDNNGraphError, ValueError):
    """A schema, kernel or backend that is being registered contradicts itself or another one."""


class AttributeValueError(OneDNNGraphError, ValueError):
    """An attribute is missing, unknown, out of range or of the wrong length."""


class AttributeTypeError(OneDNNGraphError, TypeError):
    """An attribute has a value of the wrong Python type."""


class UnknownAttributeError(AttributeValueError, AttributeTypeError):
    """An attribute that the op has not; a TypeError as well, as any unknown keyword is in Python."""


class PortError(OneDNNGraphError, ValueError):
    """An op has too few or too many inputs or outputs."""


class DataTypeError(OneDNNGraphError, TypeError):
    """A data type that the op, the port or the array does not allow."""


class ShapeError(OneDNNGraphError, ValueError):
    """Shapes that contradict each other, an attribute or a format."""


class LayoutError(OneDNNGraphError, ValueError):
    """A layout or strides that can't describe the tensor."""


class GraphError(OneDNNGraphError, ValueError):
    """A graph that is not a graph: a cycle, two producers, an unknown tensor, a wrong moment."""


class GraphFileError(OneDNNGraphError, ValueError):
    """A file or text that is no graph in oneDNN Graph's JSON format, or that can't be read or written."""


class ArgumentError(OneDNNGraphError, ValueError):
    """An argument of compile or execute that does not fit what was compiled."""


class ArgumentTypeError(OneDNNGraphError, TypeError):
    """An argument of the wrong Python type."""


class FileAccessError(GraphFileError, ArgumentError, OSError):
    """A file that the system can't open, read or write; `errno` is the system's number for why."""


class MissingFileError(FileAccessError, FileNotFoundError):
    """A file, or the folder that it is to be written to, is not there."""


class UnsupportedError(OneDNNGraphError, NotImplementedError):
    """No backend, or not the one that was forced, can do it; the message gives each one's reason."""


class ResourceError(OneDNNGraphError, RuntimeError):
    """An engine or a stream that is closed, or that belongs to something else."""


class OutOfMemoryError(OneDNNGraphError, MemoryError):
    """An array that is to be allocated does not fit in memory."""


class LibraryError(OneDNNGraphError, RuntimeError):
    """The oneDNN library is missing, is another version, or reported a failure."""


class BackendUnavailableWarning(UserWarning):
    """Said once when the oneDNN library is not there and NumPy does all the work."""


class WeightsLeftOutWarning(UserWarning):
    """Said by `Graph.save` where the file can't hold the constants and parameters of the graph."""


class SkippedStepWarning(UserWarning):
    """Said of each step of training that was skipped because its gradients were not finite."""


class LostRankWarning(UserWarning):
    """Said where ranks can't reach their neighbours, so that one that is lost is noticed late."""


class CheckpointWarning(UserWarning):
    """Said where a damaged checkpoint is passed over, or where one that was loaded leaves `fit` nothing to do."""


class CompiledAgainWarning(UserWarning):
    """Said once where input shapes come by turns that are more than are kept compiled, or grow from call to call."""


class VerdictStoreWarning(UserWarning):
    """The file of verdicts can't be used; what was verified before is verified once more."""


class BusyMachineWarning(UserWarning):
    """Said once on a busy machine where others, as torch, have loaded OpenMP, whose threads wait in long loops."""


class SlowTypeWarning(UserWarning):
    """Said once of a number format in which this machine was measured to be slower than in f32."""


class TuningCacheWarning(UserWarning):
    """A file of remembered times can't be read or written; compilation goes on without."""


NAN_GUIDE = "the guide 'NaN, infinities and zeros' says which ops make, hide and change them"
"""Where an error or a warning of NaN or infinities leads to; the page's title is held to it."""


def _close(word: str, known: Iterable[str]) -> list[str]:
    """The one of these words that is most like a word, if any is."""
    import difflib  # a millisecond of each import of the package, of which nothing need go wrong

    return difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)


def nearest(name: object, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known name closest to `name`, or an empty string."""
    if not isinstance(name, str):
        return ""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = _close(name.casefold(), by_folded)
    return f" (did you mean '{by_folded[close[0]]}'?)" if close else ""


def near_pattern(pattern: str, known: Iterable[str]) -> str:
    """` (did you mean '*x*'?)` for a pattern that fits no name, where one with its words would; or an empty string.

    Elsewhere a part of a name stands for what has it, `linear1` for `encoder.linear1.weight`; here patterns are of
    whole names.
    """
    names, word = list(known), pattern.strip("*.").casefold()
    if not word or any(letter in word for letter in "*?["):
        return nearest(pattern, names)
    for name in names:
        at = name.casefold().find(word)
        if at >= 0:
            return f" (did you mean '*{name[at : at + len(word)]}*'?)"
    parts = {part.casefold(): part for name in names for part in name.split(".")}
    whole = nearest(pattern, names)
    close = [] if whole else _close(word, parts)
    return f" (did you mean '*{parts[close[0]]}*'?)" if close else whole
