"""Options of `torch.compile(model, backend="onednn_graph", options={…})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, fields

from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.records import frozen
from ...ops.values import format_value
from ..compile.options import CompileOptions, Tune
from ..runtime.threads import get_num_threads

PRECISIONS = ("f32", "bf16")
TUNES = {one.value: one for one in Tune}
"""What may be asked for."""


@frozen(kw_only=True)
class Options:
    """How a torch model is compiled.

    Attributes:
        precision: `bf16` runs it as under `torch.autocast("cpu", torch.bfloat16)`, with results in the types that
            they have without; `f32` leaves every type as the model has it.
        tune: as for `Graph.compile`; the mode `max-autotune` is `measure`.
        verify: check each chosen kernel on integer data against NumPy before using it.
        compare: hold what each region makes against what torch makes of the same inputs, warn of the first result that
            differs, tell of all in the report, and go on with torch's. For the search of a defect: it takes the time of
            both.
        strict: raise errors of ours, at which torch does the ops of a region itself otherwise.

    Raises:
        ArgumentError, ArgumentTypeError: a value that is none.
    """

    precision: str = field(default="f32")
    tune: Tune = field(default=Tune.off)
    verify: bool = field(default=False)
    strict: bool = field(default=False)
    compare: bool = field(default=False)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, mode: str | None = None) -> Options:
        """What a user has passed to torch.compile."""
        if mode not in (None, "default", "max-autotune"):
            raise ArgumentError(
                f"onednn_graph has the modes 'default' and 'max-autotune', got {format_value(mode)}"
            )
        known = [one.name for one in fields(cls)]
        options = dict(given or {})
        for name in options:
            if name not in known:
                raise ArgumentError(
                    f"onednn_graph has no option {format_value(name)}{nearest(str(name), known)}; it takes "
                    f"{', '.join(known)}"
                )
        precision = options.get("precision", "f32")
        if precision not in PRECISIONS:
            raise ArgumentError(f"precision must be 'f32' or 'bf16', got {format_value(precision)}")
        flags = {name: options.get(name, False) for name in ("verify", "strict", "compare")}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise ArgumentTypeError(f"{name} must be True or False, got {format_value(flag)}")
        tune = options.get("tune", "measure" if mode == "max-autotune" else "off")
        if not isinstance(tune, str) or tune not in TUNES:
            raise ArgumentError(f"tune must be one of {', '.join(TUNES)}, got {format_value(tune)}")
        return cls(precision=precision, tune=TUNES[tune], **flags)

    def of_compilation(self, threads: int) -> CompileOptions:
        """Those that regions are compiled with.

        Args:
            threads: as many as torch's own kernels use.
        """
        asked = None if threads == get_num_threads() else threads
        return CompileOptions(tune=self.tune, verify=self.verify, threads=asked)
