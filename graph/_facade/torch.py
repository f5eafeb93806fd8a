"""`torch.compile(model, backend="onednn_graph")`, which needs no import, and what there is to ask about it."""

import typing as _typing

from onednn_graph._near import refusing as _refusing
from onednn_graph.graph.functions.keywords import tell_of as _tell_of
from onednn_graph.graph.torch_compile.backend import backend
from onednn_graph.graph.torch_compile.mishaps import HandedToTorchWarning
from onednn_graph.graph.torch_compile.options import Options
from onednn_graph.graph.torch_compile.refreshing import refresh
from onednn_graph.graph.torch_compile.report import Report, report
from onednn_graph.graph.torch_compile.run.comparing import RegionDiffersWarning

__all__ = [
    "HandedToTorchWarning",
    "Options",
    "RegionDiffersWarning",
    "Report",
    "backend",
    "refresh",
    "report",
]

_tell_of(globals(), ["Options", "Report", "refresh", "report"])
if not _typing.TYPE_CHECKING:
    __getattr__ = _refusing(__name__, __all__)
