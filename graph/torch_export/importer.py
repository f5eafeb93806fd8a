"""From a torch module to a graph: exporting it, folding what is constant, and translating node by node."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError, UnsupportedError
from ...ops.records import frozen
from ...ops.values import format_value, one_line
from ..aten.complex_numbers import OPS as COMPLEX
from ..aten.complex_numbers import Complex, translation_of_parts
from ..aten.schema import Translate, bound, draws, numpy_type_of, translation_of
from ..aten.symbols import Sizes, example_shape, open_sizes
from ..aten.table import TABLE, TRAINING, TRAINING_SINCE_2_14
from ..compile.compiled_open_graph import open_ports
from ..graph import Graph
from ..importing.expressions import reshape
from ..importing.results import finished
from ..importing.translation import (
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
from ..model.logical_tensor import LogicalTensor
from ..open_graph import OpenGraph
from ..runtime.arrays import Array, as_array, data_type_of
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from .exporting import decompositions, exported, quiet, way_out
from .modules import titles
from .programs import leaves, metas_of, needed_nodes, output_names, returned, tensors_of
from .state import CHANGES, State, changing
from .stops import with_stops

Table = Mapping[str, Translate]
RANDOM = (
    "it makes random numbers, which a graph has none of; draw them before and give them as an input, or, of a dropout, "
    "import the module with training=True"
)
"""What is said of what draws."""
BROKEN = object()
"""Stands for the outputs of a node that could not be translated."""


@frozen(eq=False)
class Number:
    """A number of Python's that is known in a call only.

    Attributes:
        tensor: of integers, without axes.
    """

    tensor: LogicalTensor


NUMBER = "aten._local_scalar_dense.default"
"""What makes a number of Python's of a tensor."""
ROWS = ("aten.select.int", "aten.select_scatter.default")
"""What may take such a number: a row is read, or written."""
ONE_ROW = (
    "only one row can be read or written by it, as rows[count]; elsewhere give the tensor, of one element, "
    "count.reshape(1), and not count.item()"
)
"""What may be done with such a number."""


def import_torch(
    module: Any,
    inputs: Sequence[Any] | None,
    named: Mapping[str, Any] | None,
    dynamic_shapes: object = None,
    *,
    training: bool = False,
) -> Graph | OpenGraph:
    """See `from_torch`."""
    torch = library("torch", "torch", "from_torch")
    export = library("torch.export", "torch", "from_torch")
    if isinstance(module, export.ExportedProgram):
        if inputs is not None or named is not None or dynamic_shapes is not None:
            raise ArgumentError(
                "from_torch takes no example inputs and no dynamic_shapes with an ExportedProgram, which has its own; "
                "leave them out"
            )
        program = module
    elif isinstance(module, torch.nn.Module):
        program = exported(torch, export, module, inputs, named, dynamic_shapes, training)
    else:
        raise ArgumentTypeError(
            f"from_torch takes a torch.nn.Module or an ExportedProgram, got {format_value(module)} of type "
            f"{type(module).__name__}"
        )
    if training:
        with quiet():
            program = with_stops(torch, program)
    table = _table(torch, training)
    try:
        # With gradients torch can't take apart what writes values with gradients into a buffer.
        with quiet(), torch.set_grad_enabled(training):
            program = program.run_decompositions(decompositions(export, table))
    except Exception as error:  # whatever torch's tracing raises
        raise UnsupportedError(
            f"from_torch: torch can't decompose the exported module into ATen ops ({one_line(error)})"
            f"{way_out(str(error))}"
        ) from error

    held: dict[str, Parameter] | None = {} if training or changing(program.graph_signature) else None
    imported = _Imported(torch, program, held, training=training)
    given = tensors_of(torch, program, program.graph_signature.user_inputs)
    if not open_ports(list(given.values())):
        return imported({})
    metas = {name: meta.shape for name, meta in metas_of(torch, program, given).items()}
    example = {name: example_shape(shape) for name, shape in metas.items()}
    known = {name: shape for name, shape in example.items() if shape is not None}
    if len(known) == len(example):
        imported(known)  # what has no translation for any sizes is said now
    names = output_names(program)
    made = [getattr(spec.arg, "name", None) for spec in returned(program)]
    outputs = tensors_of(torch, program, [name for name in made if name is not None], len(given))
    return OpenGraph(
        list(given.values()),
        [(names[number], outputs[name]) for number, name in enumerate(made) if name in outputs],
        imported,
        known if len(known) == len(example) else None,
        open_sizes(metas, program.range_constraints, dynamic_shapes),
    )


def _table(torch: Any, training: bool) -> Table:
    if not training:
        return TABLE
    return TRAINING if torch.__version__ < (2, 14) else TRAINING_SINCE_2_14


@frozen(eq=False)
class _Imported:
    """Makes the graphs for all sizes of an exported program.

    Attributes:
        torch: the package.
        program: decomposed.
        held: parameters, which these graphs share; None where there are none.
        training: whether these are trained.
    """

    torch: Any
    program: Any
    held: dict[str, Parameter] | None
    training: bool

    def __call__(self, shapes: Mapping[str, Sequence[int]]) -> Graph:
        """The graph for inputs of these shapes, by name; none where the program leaves no size open."""
        table = _table(self.torch, self.training)
        importer = _Importer(self.torch, self.program, shapes, table, self.held, training=self.training)
        return importer.run(for_sizes=bool(shapes))

    def __reduce__(self) -> tuple[Callable[..., _Imported], tuple[object, ...]]:
        if self.held is not None:  # which parameters share memory is not in what torch writes
            raise GraphError(
                f"a graph {'for training' if self.training else 'with state'} whose ops depend on sizes that are open "
                "can't be pickled; pickle the graph for some sizes, graph.with_shapes({…})"
            )
        written = io.BytesIO()
        with quiet():
            library("torch.export", "torch", "from_torch").save(self.program, written)
        return _imported_again, (written.getvalue(),)


def _imported_again(program: bytes) -> _Imported:
    """What makes the graphs of a pickle."""
    asked = "a pickle of a model from torch"
    torch, export = library("torch", "torch", asked), library("torch.export", "torch", asked)
    with quiet():
        return _Imported(torch, export.load(io.BytesIO(program)), None, training=False)


class _Importer:
    """One import.

    Args:
        torch: the package.
        program: what was exported, decomposed.
        shapes: of the inputs, by name; none where the program leaves no size open.
        table: the translations.
        held: parameters of the graphs for other sizes, to which those of this one are added; None for no parameters.
        training: whether they are trained.
    """

    def __init__(
        self,
        torch: Any,
        program: Any,
        shapes: Mapping[str, Sequence[int]],
        table: Table,
        held: dict[str, Parameter] | None,
        *,
        training: bool,
    ) -> None:
        self.torch = torch
        self.program = program
        self.shapes = shapes
        self.sizes = Sizes(program.range_constraints)
        self.table = table
        self.t = Translation()
        self.training = training
        self.state = None if held is None else State(program, self.t, held, training=training)
        self.values: dict[str, Any] = {}
        self.titles: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._arrays: dict[int, tuple[Any, Array]] = {}

    def run(self, for_sizes: bool) -> Graph:
        """The graph. For `for_sizes` see `finished`."""
        self._check_changes()
        self._placeholders()
        needed = needed_nodes(self.program.graph.nodes)
        self.titles = titles(node for node in self.program.graph.nodes if node in needed)
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                if node in needed:
                    self._node(node)
            elif node.op not in ("placeholder", "output"):
                self.values[node.name] = BROKEN
                self.problems.append(Problem(node.op, node.name, "there is no translation for it"))
        if self.problems:
            raise unsupported(self.problems, "exported torch program")
        outputs = self._outputs()
        if self.state is not None:
            self.state.assign(self.program.graph_signature.output_specs, self.values)
            if self.training:
                self.state.record(self.program, self._array)
        return finished(self.t, outputs, "from_torch", for_sizes=for_sizes)

    # --- inputs and outputs ---

    def _check_changes(self) -> None:
        for spec in self.program.graph_signature.output_specs:
            kind = spec.kind.name
            if kind != "USER_OUTPUT" and kind not in CHANGES:
                raise UnsupportedError(
                    f"from_torch: the module changes {spec.target or spec.arg.name!r}, and oneDNN Graph's ops change "
                    "nothing but what a graph holds; return it as an output instead, or make it a buffer"
                )

    def _placeholders(self) -> None:
        metas = {
            node.name: node.meta.get("val") for node in self.program.graph.nodes if node.op == "placeholder"
        }
        specs = self.program.graph_signature.input_specs
        # The user's come first: where a parameter is called the same, they keep the name.
        for spec in sorted(specs, key=lambda spec: spec.kind.name != "USER_INPUT"):
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
                self.values[name] = self._held(spec.target, tensor)
            else:
                self.values[name] = BROKEN
                self.problems.append(Problem(kind.lower(), name, "an input of this kind can't be taken"))
        if self.state is not None:
            self.state.check_apart()

    def _held(self, key: str, tensor: Any) -> Any:
        """A parameter of the graph, or a tensor that becomes a constant of it."""
        constant = tensor.detach()
        if constant.is_complex() or "float8" in str(constant.dtype):  # constants that torch computes with
            return constant
        array = self._array(constant)
        parameter = None if self.state is None else self.state.taken(key, tensor, array)
        if parameter is None:
            self.t.entitle(array, key)
        return constant if parameter is None else parameter

    def _input(self, name: str, meta: Any) -> LogicalTensor:
        self.sizes.bind(name, meta.shape, self.shapes.get(name, meta.shape))
        dims = [self.sizes.of(dim) for dim in meta.shape]
        try:
            data_type = data_type_of(np.empty(0, numpy_type_of(meta.dtype)), f"input {name!r}")
        except Unmapped as error:
            raise UnsupportedError(f"from_torch: input {name!r}: {error}") from error
        return self.t.input(name, data_type, dims)

    def _outputs(self) -> dict[str, Value]:
        specs = returned(self.program)
        names = output_names(self.program)
        results: dict[str, Value] = {}
        for number, spec in enumerate(specs):
            value = self.values.get(spec.arg.name) if hasattr(spec.arg, "name") else None
            if value is not None and not (hasattr(spec.arg, "value") and spec.arg.value is None):
                made = self._operand(value)
                if isinstance(made, Complex):
                    raise UnsupportedError(
                        f"from_torch: output {names[number]!r} is of complex numbers, which oneDNN Graph has no type "
                        "for; return torch.view_as_real(…) of it"
                    )
                results[names[number]] = made
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
        if self._is_complex(value):
            parts = (value.resolve_conj().real, value.resolve_conj().imag)
            return Complex(*(self._array(one.contiguous()) for one in parts))
        if isinstance(value, self.torch.Tensor):
            return self._array(value)
        if isinstance(value, list | tuple):
            return [self._operand(one) for one in cast("Sequence[Any]", value)]
        return value

    def _is_complex(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor) and value.is_complex()

    def _argument(self, argument: Any) -> Any:
        """An argument with nodes replaced by their values."""
        if isinstance(argument, self.torch.fx.Node):
            return self.values[argument.name]
        if isinstance(argument, list | tuple):
            return [self._argument(one) for one in cast("Sequence[Any]", argument)]
        return argument

    def _tensors(self, values: Iterable[Any]) -> list[Any]:
        """Arguments as torch takes them: what translations have made constant is a tensor again."""
        return [
            self._tensors(cast("Sequence[Any]", value))
            if isinstance(value, list | tuple)
            else self._tensor(cast("Array", value))
            if isinstance(value, np.ndarray)
            else value
            for value in values
        ]

    def _tensor(self, array: Array) -> Any:
        copied = np.array(array)
        if copied.dtype.name == "bfloat16":
            return self.torch.from_numpy(copied.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(copied)

    # --- node by node ---

    def _node(self, node: Any) -> None:
        op = node.target
        name = str(op) if op is not operator.getitem else "getitem"
        args = [self._argument(one) for one in node.args]
        named = {key: self._argument(one) for key, one in node.kwargs.items()}
        if any(value is BROKEN for value in leaves([*args, *named.values()])):
            self.values[node.name] = BROKEN
            if name != "getitem" and translation_of(self.table, op) is None:
                self.problems.append(Problem(name, node.name, "there is no translation for it"))
            return
        self.t.label = self.titles.get(node.name) or node.name
        try:
            made = self._made(op, args, named, node.meta.get("val"))
            self._check(made, node.meta.get("val"))
        except FAILURES as error:
            self.problems.append(Problem(name, node.name, reason_of(error)))
            made = BROKEN
        self.values[node.name] = made

    def _made(self, op: Any, args: list[Any], named: dict[str, Any], meta: Any) -> Any:
        if any(isinstance(one, Number) for one in leaves([*args, *named.values()])):
            if str(op) not in ROWS:
                raise Unmapped(f"it takes a number that is known in a call only, and {ONE_ROW}")
            args = [one.tensor if isinstance(one, Number) else one for one in args]
        if str(op) == NUMBER and isinstance(args[0], COMPUTED):
            if dtype_of(args[0]).kind != "i":
                raise Unmapped(f"a number of {dtype_of(args[0])} that is known in a call only, and {ONE_ROW}")
            return Number(self.t.tensor(reshape(self.t, args[0], [])))
        if op is operator.getitem:
            values, index = args
            if index >= len(values):
                raise Unmapped(f"output {index} of the op has no counterpart")
            return values[index]
        given = list(leaves([*args, *named.values()]))
        constant = not any(isinstance(value, (*COMPUTED, Complex)) for value in given)
        translate = translation_of(self.table, op)
        if constant and not (self.training and translate and draws(op, args, named)):
            return self._folded(op, args, named)
        if self._is_complex(meta) or any(isinstance(one, Complex) or self._is_complex(one) for one in given):
            whole = translation_of(COMPLEX, op)
            translate = translation_of_parts(str(op), translate) if whole is None else whole
            if translate is None:
                raise Unmapped("there is no translation for it where numbers are complex")
        if translate is None:
            in_training = translation_of(_table(self.torch, True), op) is not None
            raise Unmapped(
                "it is an op of training; import the module with training=True, or put it into inference mode"
                if in_training
                else RANDOM
                if draws(op, args, named)
                else "there is no translation for it"
            )
        return translate(self.t, *[self._operand(one) for one in bound(op, args, named)])

    def _check(self, made: Any, meta: Any) -> None:
        """A translation must have the shape and type that torch says it has.

        Raises:
            Unmapped: it does not.
        """
        several = isinstance(meta, list | tuple)
        pairs: list[tuple[Any, Any]] = (
            list(zip(made, cast("Any", meta), strict=False)) if several else [(made, meta)]
        )
        for value, want in pairs:
            value = value.real if isinstance(value, Complex) else value
            if not isinstance(value, COMPUTED) or not isinstance(want, self.torch.Tensor):
                continue
            type_of_parts = want.dtype.to_real() if want.is_complex() else want.dtype
            shape, dtype = tuple(self.sizes.of(d) for d in want.shape), numpy_type_of(type_of_parts)
            have = shape_of(value)
            agree = len(have) == len(shape) and all(a == b or b < 0 for a, b in zip(have, shape, strict=True))
            if not agree or dtype_of(value) != dtype:
                raise Unmapped(
                    f"it would come out as {dtype_of(value)} {list(have)} instead of {dtype} {list(shape)}"
                )

    def _folded(self, op: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """The value of an op whose arguments are all constant, by torch."""
        if draws(op, args, named):
            raise Unmapped(RANDOM)
        try:
            with self.torch.no_grad():
                return op(
                    *self._tensors(args), **dict(zip(named, self._tensors(named.values()), strict=True))
                )
        except Exception as error:  # whatever torch raises
            raise Unmapped(f"its constant value can't be computed ({one_line(error)})") from error
