"""From a torch module to a graph: exporting it, folding what is constant, and translating node by node."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...ops.values import format_value, one_line
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array, as_array, data_type_of
from ..runtime.libraries import library
from .results import finished
from .torch_hosted import TABLE
from .torch_ops import numpy_type_of
from .translation import (
    COMPUTED,
    FAILURES,
    Problem,
    Translation,
    Unmapped,
    Value,
    dtype_of,
    reason_of,
    shape_of,
    unsupported,
)

BROKEN = object()
"""Stands for the outputs of a node that could not be translated."""


def import_torch(module: Any, inputs: Sequence[Any] | None, named: Mapping[str, Any] | None) -> Graph:
    """See `from_torch`."""
    torch = library("torch", "torch", "from_torch")
    export = library("torch.export", "torch", "from_torch")
    if isinstance(module, export.ExportedProgram):
        if inputs is not None or named is not None:
            raise ArgumentError(
                "from_torch takes no example inputs with an ExportedProgram, which has its own; leave them out"
            )
        program = module
    elif isinstance(module, torch.nn.Module):
        program = _exported(torch, export, module, inputs, named)
    else:
        raise ArgumentTypeError(
            f"from_torch takes a torch.nn.Module or an ExportedProgram, got {format_value(module)} of type "
            f"{type(module).__name__}"
        )
    try:
        with _quiet():
            program = program.run_decompositions(_decompositions(export))
    except Exception as error:  # whatever torch's tracing raises
        raise UnsupportedError(
            f"from_torch: torch can't decompose the exported module into ATen ops ({one_line(error)})"
        ) from error
    return _Importer(torch, program).run()


def _exported(
    torch: Any, export: Any, module: Any, inputs: Sequence[Any] | None, named: Mapping[str, Any] | None
) -> Any:
    if inputs is None and named is None:
        raise ArgumentError(
            "from_torch needs example inputs to export a module: a tuple of tensors as it is called with"
        )
    if inputs is not None and not isinstance(inputs, tuple | list):
        raise ArgumentTypeError(
            f"from_torch takes a tuple of example inputs, got {type(inputs).__name__}; write (x,) for one tensor"
        )
    with _inference(torch, module), _quiet():
        try:
            return export.export(module, tuple(inputs or ()), dict(named or {}), strict=False)
        except Exception as error:  # whatever the module and torch's tracing raise
            raise UnsupportedError(
                f"from_torch: torch.export can't export the {type(module).__name__} ({one_line(error)})"
            ) from error


@contextmanager
def _inference(torch: Any, module: Any) -> Generator[None]:
    """The module in inference mode; afterwards each part is as it was."""
    training = [(part, part.training) for part in module.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    module.eval()
    torch.backends.mha.set_fastpath_enabled(False)  # it would hide an encoder layer in one op
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, was in training:
            part.training = was


@contextmanager
def _quiet() -> Generator[None]:
    """Without the warning that torch's own code gives itself while it copies a program."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
        yield


def _decompositions(export: Any) -> Any:
    """Torch's own, but for the ops that have a translation as they are."""
    if not hasattr(export, "default_decompositions"):  # before torch 2.6
        return None
    table = export.default_decompositions()
    for op in list(table.keys()):
        if _translation(op) is not None:
            table.pop(op)
    return table


def _translation(op: Any) -> Any:
    name = str(op)
    return TABLE.get(name) or TABLE.get(name.rpartition(".")[0])


class _Importer:
    """One import."""

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch = torch
        self.program = program
        self.t = Translation()
        self.values: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self._arrays: dict[int, tuple[Any, Array]] = {}

    def run(self) -> Graph:
        self._placeholders()
        for node in self.program.graph.nodes:
            if node.op == "call_function" and node.users:
                self._node(node)
            elif node.op not in ("placeholder", "output", "call_function"):
                self.values[node.name] = BROKEN
                self.problems.append(Problem(node.op, node.name, "there is no translation for it"))
        if self.problems:
            raise unsupported(self.problems, "exported torch program")
        return finished(self.t, self._outputs(), "from_torch")

    # --- inputs and outputs ---

    def _placeholders(self) -> None:
        metas = {
            node.name: node.meta.get("val") for node in self.program.graph.nodes if node.op == "placeholder"
        }
        for spec in self.program.graph_signature.input_specs:
            kind, name = spec.kind.name, spec.arg.name
            if kind == "USER_INPUT":
                meta = metas.get(name)
                if not isinstance(meta, self.torch.Tensor):  # None or a number, which export has fixed
                    self.values[name] = getattr(spec.arg, "value", None)
                    continue
                self.values[name] = self._input(name, meta)
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                held = self.program.state_dict.get(spec.target)
                tensor = self.program.constants[spec.target] if held is None else held
                self.values[name] = tensor.detach()
                self.t.entitle(self._array(self.values[name]), spec.target)
            else:
                self.values[name] = BROKEN
                self.problems.append(Problem(kind.lower(), name, "an input of this kind can't be taken"))

    def _input(self, name: str, meta: Any) -> LogicalTensor:
        dims = list(meta.shape)
        if not all(isinstance(d, int) for d in dims):
            raise UnsupportedError(
                f"from_torch: input {name!r} has sizes that are left open, {one_line(dims)}; export the module "
                "without dynamic_shapes"
            )
        try:
            data_type = data_type_of(np.empty(0, numpy_type_of(meta.dtype)), f"input {name!r}")
        except Unmapped as error:
            raise UnsupportedError(f"from_torch: input {name!r}: {error}") from error
        return self.t.input(name, data_type, dims)

    def _outputs(self) -> dict[str, Value]:
        specs = self.program.graph_signature.output_specs
        changed = [spec for spec in specs if spec.kind.name != "USER_OUTPUT"]
        if changed:
            raise UnsupportedError(
                f"from_torch: the module changes {changed[0].target or changed[0].arg.name!r}, and oneDNN Graph's "
                "ops change nothing; return it as an output instead"
            )
        pytree = library("torch.utils._pytree", "torch", "from_torch")
        structure = pytree.tree_unflatten(list(range(len(specs))), self.program.call_spec.out_spec)
        names = dict(_names(structure, ""))
        results: dict[str, Value] = {}
        for number, spec in enumerate(specs):
            value = self.values.get(spec.arg.name) if hasattr(spec.arg, "name") else None
            if value is not None and not (hasattr(spec.arg, "value") and spec.arg.value is None):
                results[names.get(number, f"output_{number}")] = self._operand(value)
        return results

    # --- values ---

    def _array(self, tensor: Any) -> Array:
        """A tensor's elements where they lie; the same array for the same tensor."""
        known = self._arrays.get(id(tensor))
        if known is None:
            known = (
                tensor,
                as_array(tensor.detach().resolve_neg().resolve_conj(), "a constant of the module"),
            )
            self._arrays[id(tensor)] = known
        return known[1]

    def _operand(self, value: Any) -> Any:
        """An argument as translations take it."""
        if isinstance(value, self.torch.Tensor):
            return self._array(value)
        if isinstance(value, list | tuple):
            return [self._operand(one) for one in cast("Sequence[Any]", value)]
        return value

    def _argument(self, argument: Any) -> Any:
        """An argument with nodes replaced by their values."""
        if isinstance(argument, self.torch.fx.Node):
            return self.values[argument.name]
        if isinstance(argument, list | tuple):
            return [self._argument(one) for one in cast("Sequence[Any]", argument)]
        return argument

    # --- node by node ---

    def _node(self, node: Any) -> None:
        op = node.target
        name = str(op) if op is not operator.getitem else "getitem"
        args = [self._argument(one) for one in node.args]
        named = {key: self._argument(one) for key, one in node.kwargs.items()}
        if any(value is BROKEN for value in _leaves([*args, *named.values()])):
            self.values[node.name] = BROKEN
            if name != "getitem" and _translation(op) is None:
                self.problems.append(Problem(name, node.name, "there is no translation for it"))
            return
        self.t.label = node.name
        try:
            made = self._made(op, args, named)
            _check(made, node.meta.get("val"), self.torch)
        except FAILURES as error:
            self.problems.append(Problem(name, node.name, reason_of(error)))
            made = BROKEN
        self.values[node.name] = made

    def _made(self, op: Any, args: list[Any], named: dict[str, Any]) -> Any:
        if op is operator.getitem:
            values, index = args
            if index >= len(values):
                raise Unmapped(f"output {index} of the op has no counterpart")
            return values[index]
        if not any(isinstance(value, COMPUTED) for value in _leaves([*args, *named.values()])):
            return self._folded(op, args, named)
        translate = _translation(op)
        if translate is None:
            raise Unmapped("there is no translation for it")
        return translate(self.t, *[self._operand(one) for one in _bound(op, args, named)])

    def _folded(self, op: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """The value of an op whose arguments are all constant, by torch."""
        if self.torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()):
            raise Unmapped("it makes random numbers")
        try:
            with self.torch.no_grad():
                return op(*args, **named)
        except Exception as error:  # whatever torch raises
            raise Unmapped(f"its constant value can't be computed ({one_line(error)})") from error


def _bound(op: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """All arguments in the order of the op's schema, with defaults."""
    result: list[Any] = []
    for place, argument in enumerate(op._schema.arguments):
        if place < len(args) and not argument.kwarg_only:
            result.append(args[place])
        else:
            result.append(named.get(argument.name, argument.default_value))
    return result


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(cast("Sequence[Any]", value))
        else:
            yield value


def _check(made: Any, meta: Any, torch: Any) -> None:
    """A translation must have the shape and type that torch says it has.

    Raises:
        Unmapped: it does not.
    """
    several = isinstance(meta, list | tuple)
    pairs: list[tuple[Any, Any]] = (
        list(zip(made, cast("Any", meta), strict=False)) if several else [(made, meta)]
    )
    for value, want in pairs:
        if not isinstance(value, COMPUTED) or not isinstance(want, torch.Tensor):
            continue
        shape, dtype = tuple(want.shape), numpy_type_of(want.dtype)
        if shape_of(value) != shape or dtype_of(value) != dtype:
            raise Unmapped(
                f"it would come out as {dtype_of(value)} {list(shape_of(value))} instead of {dtype} {list(shape)}"
            )


def _names(structure: Any, prefix: str) -> Iterator[tuple[int, str]]:
    """A name for each output, by its number: keys of mappings, fields of named tuples, and places."""
    if isinstance(structure, int):
        yield structure, prefix or "output"
        return
    if isinstance(structure, Mapping):
        items = [(str(key), value) for key, value in cast("Mapping[Any, Any]", structure).items()]
    elif isinstance(structure, list | tuple):
        fields = getattr(cast("Any", structure), "_fields", None) or range(
            len(cast("Sequence[Any]", structure))
        )
        items = [
            (str(key) if isinstance(key, str) else f"{'' if prefix else 'output_'}{key}", value)
            for key, value in zip(fields, cast("Sequence[Any]", structure), strict=True)
        ]
    else:
        return
    for key, value in items:
        yield from _names(value, f"{prefix}.{key}" if prefix else key)
