"""What ran, where, why and for how long: profiles, reports, and what `explain()` and `partitioning()` return."""

import typing as _typing

from onednn_graph._near import refusing as _refusing
from onednn_graph.graph.compile.partitioning import Partitioning, PartitioningStep
from onednn_graph.graph.compile.record import Explanations
from onednn_graph.graph.compile.report import Report
from onednn_graph.graph.functions.keywords import tell_of as _tell_of
from onednn_graph.graph.pictures.profile import Profile, profile
from onednn_graph.graph.runtime.executable import (
    Considered,
    ExplainedStep,
    Explanation,
    OnlineChoice,
    Tried,
)
from onednn_graph.graph.runtime.memory import (
    HeldMemory,
    MemoryPeak,
    MemoryStep,
    MemoryTimeline,
    StageMemory,
    Temporary,
)
from onednn_graph.graph.runtime.profiling import Event, EventKind, Line

__all__ = [
    "Considered",
    "Event",
    "EventKind",
    "ExplainedStep",
    "Explanation",
    "Explanations",
    "HeldMemory",
    "Line",
    "MemoryPeak",
    "MemoryStep",
    "MemoryTimeline",
    "OnlineChoice",
    "Partitioning",
    "PartitioningStep",
    "Profile",
    "Report",
    "StageMemory",
    "Temporary",
    "Tried",
    "profile",
]

_tell_of(globals(), __all__)
if not _typing.TYPE_CHECKING:
    __getattr__ = _refusing(__name__, __all__)
