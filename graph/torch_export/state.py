"""The state of a torch module: its parameters and buffers, and what becomes of them in a step or a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.errors import UnsupportedError
from ..importing.translation import Translation, Value
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter

CHANGES = ("BUFFER_MUTATION", "PARAMETER_MUTATION")
"""Torch's words for outputs of a program that are what a buffer or a parameter becomes."""


def changing(signature: Any) -> set[str]:
    """Names of the buffers and parameters that a program changes."""
    return {spec.target for spec in signature.output_specs if spec.kind.name in CHANGES}


class State:
    """Which of a program's tensors are parameters of the graph.

    Args:
        program: exported and decomposed.
        t: where the parameters go.
        held: those that there are already, by key; new ones are added.
        training: whether what needs gradients is trained; else only what the module changes is a parameter.
    """

    def __init__(self, program: Any, t: Translation, held: dict[str, Parameter], *, training: bool) -> None:
        self._training = training
        self._t = t
        self._held = held
        signature = program.graph_signature
        self._changing = changing(signature)
        self._changed: dict[str, Array] = {}
        self._fixed: dict[str, Array] = {}
        self._trained: set[str] = set()
        self._of_memory: dict[object, LogicalTensor] = {}
        self._by_key: dict[str, LogicalTensor] = {}

    def taken(self, key: str, tensor: Any, array: Array) -> LogicalTensor | None:
        """The parameter that stands for a tensor, one for all that share their memory; None for a constant.

        Parameters that are not trained are constants, and so are buffers that nothing changes.
        """
        trained = self._training and tensor.requires_grad
        (self._changed if key in self._changing else self._fixed)[key] = array
        if not trained and key not in self._changing:
            return None
        if trained:
            self._trained.add(key)
        memory = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype))
        shared: object = memory if tensor.numel() else id(tensor)
        if shared not in self._of_memory:
            if key not in self._held:  # copied, so that the module stays as it is
                self._held.setdefault(key, Parameter(array, array.dtype))
            self._of_memory[shared] = self._t.parameter(key, self._held[key])
        self._by_key[key] = self._of_memory[shared]
        return self._by_key[key]

    def check_apart(self) -> None:
        """Whether what changes is the memory of nothing that stays, which would then be read as it was.

        Raises:
            UnsupportedError: it is.
        """
        for key, array in self._changed.items():
            for other, fixed in self._fixed.items():
                if other not in self._by_key and np.may_share_memory(array, fixed):
                    raise UnsupportedError(
                        f"from_torch: the module changes {key!r}, whose memory {other!r} shares; give one of them "
                        "memory of its own, by clone()"
                    )

    def record(self, program: Any, array_of: Callable[[Any], Array]) -> None:
        """Has the graph know the module's `state_dict`.

        Args:
            program: the one that the state is of.
            array_of: the elements of a tensor that is no parameter.
        """
        self._t.graph.name_state(
            {
                key: self._by_key[key] if key in self._by_key else array_of(tensor.detach())
                for key, tensor in program.state_dict.items()
            }
        )

    def assign(self, specs: Any, values: Mapping[str, Value]) -> None:
        """Has each step put into the buffers what the program says that they become."""
        for spec in specs:
            if spec.kind.name in CHANGES:
                parameter = self._by_key.get(spec.target)
                if parameter is None:
                    raise UnsupportedError(
                        f"from_torch: the module changes {spec.target!r}, which is no buffer"
                    )
                if spec.target in self._trained:
                    raise UnsupportedError(
                        f"from_torch: the module changes its parameter {spec.target!r} in forward, which is to be "
                        "trained; change it between steps, or give it requires_grad=False"
                    )
                self._t.graph.assign(parameter, self._t.tensor(values[spec.arg.name]))
