"""ONNX's interface of backends, so that its own test runner and other tools of ONNX can run models here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError, OneDNNGraphError
from ...ops.values import format_value
from ..compile.compiled_graph import CompiledGraph
from ..runtime.libraries import library
from . import from_onnx
from .types import NUMBERS, STRING

_onnx: Any = library("onnx", "onnx", "onednn_graph.onnx_backend")
_base: Any = library("onnx.backend.base", "onnx", "onednn_graph.onnx_backend")


class BackendRep(_base.BackendRep):  # pyright: ignore[reportUntypedBaseClass]
    """A model that is ready to run.

    Attributes:
        compiled: what runs.
    """

    def __init__(self, compiled: CompiledGraph) -> None:
        self.compiled = compiled

    def run(self, inputs: object, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of the model, in order and by name.

        Args:
            inputs: arrays in order, a mapping from names to them, or the one array of a model with one input.
            kwargs: nothing is done with them.

        Raises:
            OneDNNGraphError: see `CompiledGraph`.
        """
        del kwargs
        if isinstance(inputs, Mapping):
            given = cast("Mapping[str, object]", inputs)
        else:
            listed = cast("Sequence[object]", inputs) if isinstance(inputs, list | tuple) else [inputs]
            given = dict(zip(self.compiled.input_names, listed, strict=False))
        made = self.compiled(given)
        names = self.compiled.output_names
        return _base.namedtupledict("Outputs", names)(*[made[name] for name in names])


class Backend(_base.Backend):  # pyright: ignore[reportUntypedBaseClass]
    """onednn_graph as a backend of ONNX, on the CPU."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model can be prepared for a device."""
        try:
            cls.prepare(model, device, **kwargs)
        except OneDNNGraphError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Imports and compiles a model.

        Args:
            model: an `onnx.ModelProto`, or what else `from_onnx` takes.
            device: `CPU`.
            kwargs: nothing is done with them.

        Raises:
            ArgumentError: another device.
            OneDNNGraphError: see `from_onnx`.
        """
        del kwargs
        _check_device(device)
        return BackendRep(from_onnx(model).compile())

    @classmethod
    def run_model(cls, model: Any, inputs: object, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model, which is prepared for this one run; see `prepare` and `BackendRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Sequence[Any] | Mapping[str, Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node for some inputs.

        Args:
            node: an `onnx.NodeProto`.
            inputs: in the node's order without those that it leaves out, or by name.
            device: `CPU`.
            outputs_info: not needed.
            kwargs: `opset_version`, the op set of the node; the newest of the package onnx if it is not there.

        Raises:
            OneDNNGraphError: as for a model.
        """
        del outputs_info
        names = list(dict.fromkeys(name for name in node.input if name))
        feeds = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        helper = _onnx.helper
        version = kwargs.get("opset_version", _onnx.defs.onnx_opset_version())
        imports = [helper.make_opsetid("", version)]
        if node.domain:
            schema = _onnx.defs.get_schema(node.op_type, node.domain)
            imports.append(helper.make_opsetid(node.domain, schema.since_version))
        graph = helper.make_graph(
            [node],
            "one_node",
            [_described(name, value) for name, value in feeds.items()],
            [_onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        return cls.run_model(helper.make_model(graph, opset_imports=imports), feeds, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the CPU."""
        return device.partition(":")[0] == "CPU"


def _check_device(device: str) -> None:
    if not Backend.supports_device(device):
        raise ArgumentError(f"device must be 'CPU', got {format_value(device)}; use that")


def _described(name: str, value: object) -> Any:
    array = np.asarray(value)
    kind = STRING if array.dtype.kind in "OUT" else NUMBERS[array.dtype]
    return _onnx.helper.make_tensor_value_info(name, kind, array.shape)


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
