"""The backend that torch finds under `onednn_graph`."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from ...ops.data_types import DataType
from ...ops.errors import CompiledAgainWarning
from ..precision.rates import tell_if_slow
from ..runtime.callers import outside
from ..runtime.locking import Lock
from .framework import inner, torch
from .mishaps import Mishaps
from .options import Options
from .plan.handover import whole_graph
from .plan.joint import partition
from .plan.planner import Uses, planned
from .precision import with_autocast
from .report import remember
from .run.comparing import Differences
from .run.steps import Program
from .tensors import KnownMemory, memory_of
from .tracing import resizings_whole
from .versions import steady_arguments, tracing

_get_num_threads, _is_grad_enabled = torch.get_num_threads, torch.is_grad_enabled
KEPT_PROGRAMS = 16
"""Programs that a graph keeps for different sizes."""
MANY_SIZES = 9
"""So many sets of sizes of one graph are a sign of sizes that grow from call to call."""


class CompiledFunction:
    """One ATen graph: a program for each set of sizes that it was called with.

    Attributes:
        role: `forward`, `backward` or `inference`.
        programs: the latest ones, by sizes.
        seconds: that planning and compiling took.
        mishaps: errors of ours, at which torch did a part itself.
        differences: results that were held against torch's, and are others.
        group: the same for graphs that were traced together.
    """

    def __init__(
        self,
        module: Any,
        role: str,
        uses: Uses,
        options: Options,
        group: int,
        mishaps: Mishaps,
    ) -> None:
        self.group = group
        self._weights: dict[int, KnownMemory] = {}
        self._first: int | None = None  # number of the first parameter among the arguments
        self.role = role
        self.options = options
        self.programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()
        self.seconds = 0.0
        self._planned_before = 0
        self.mishaps = mishaps
        self.differences = Differences(options.compare)
        self._module = module
        self._graph = module.graph
        self._uses = uses
        self._lock = Lock()
        self._boxed_call = True  # torch gives a list of its own, and nothing else holds the tensors
        placeholders = [node for node in self._graph.nodes if node.op == "placeholder"]
        self._varying = tuple(
            number for number, node in enumerate(placeholders) if _varies(node.meta.get("val"))
        )

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """The graph's outputs; the list is emptied."""
        try:
            key: tuple[Any, ...] | None = (_get_num_threads(),)
            if self._varying:
                key = (*key, *[_sizes(arguments[number]) for number in self._varying])
            program = self.programs.get(key)
            if program is None:
                program = self._planned(key, arguments)
            if self._first is not None and memory_of(arguments[self._first]) not in self._weights:
                self._note(arguments)
        except Exception as error:
            self.mishaps.note(error, (), "preparing a call")
            program = whole_graph(self._graph, self._module, self.role == "backward")
            key = None
        if not _is_grad_enabled():
            return program.run(arguments) if program.proven else self._run(program, key, arguments)
        with torch.no_grad():
            return self._run(program, key, arguments)

    def _run(self, program: Program, key: tuple[Any, ...] | None, arguments: list[Any]) -> list[Any]:
        if program.proven or key is None or self.options.strict:
            return program.run(arguments)
        return program.try_out(arguments, partial(self._handed_over, key))

    def _handed_over(self, key: tuple[Any, ...], error: Exception, arguments: list[Any]) -> list[Any]:
        """What torch makes of the whole graph, where a step of its own could not do what was planned."""
        program = whole_graph(self._graph, self._module, self.role == "backward")
        made = program.run(arguments)
        self.mishaps.note(error, (), "a step that torch was to do")
        self.programs[key] = program
        return made

    def weights(self) -> set[int | None]:
        """Numbers of the memory of parameters that it was called with; None for what is gone."""
        return {None if one.is_gone() else number for number, one in self._weights.items()}

    def _note(self, arguments: Sequence[Any]) -> None:
        """Has the parameters among arguments be known as its own."""
        places = [place for place, one in enumerate(arguments) if _is_parameter(one)]
        there = [*self._weights.values(), *(KnownMemory(arguments[place]) for place in places)]
        self._weights = {one.number: one for one in there if not one.is_gone()}
        self._first = next(iter(places), None)

    def _planned(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Program:
        with self._lock:
            if key in self.programs:
                return self.programs[key]
            start = perf_counter()
            self._note(arguments)
            with torch.no_grad():
                made = planned(
                    *(self._graph, self._module, arguments, self._uses, self.options),
                    self.mishaps,
                    self.differences,
                )
            self.seconds += perf_counter() - start
            self._planned_before += 1
            if self._planned_before == MANY_SIZES:
                warnings.warn(
                    f"torch.compile: a graph was compiled for {MANY_SIZES} sets of sizes, in {self.seconds:.1f} s; "
                    "where each token makes a cache longer take one of a fixed length, as by generate with "
                    "cache_implementation='static', and elsewhere pad inputs to a few sizes",
                    CompiledAgainWarning,
                    stacklevel=outside(),
                )
            while len(self.programs) >= KEPT_PROGRAMS:
                self.programs.popitem(last=False)
            self.programs[key] = made
            return made


def _sizes(argument: Any) -> Any:
    """What a program depends on: how a tensor lies, or a number."""
    if isinstance(argument, torch.SymInt):
        return None  # another one for each nested tensor
    if not isinstance(argument, torch.Tensor):
        return argument
    return (argument.shape, argument.stride() if argument.layout is torch.strided else ())


def _is_parameter(argument: Any) -> bool:
    """Whether it is a parameter with memory of its own to be known by; a sparse one has several."""
    return isinstance(argument, torch.nn.Parameter) and argument.layout is torch.strided


def _varies(meta: Any) -> bool:
    """Whether torch has not promised that an argument has the same sizes and lies the same way at each call."""
    if isinstance(meta, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*meta.shape, *meta.stride()))
    return True


def backend(module: Any, inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """Compiles what torch has traced: `torch.compile(model, backend="onednn_graph")`.

    Args:
        module: a `torch.fx.GraphModule`.
        inputs: examples.
        given: `options` and `mode`, as torch.compile passes them on; see `Options`. The mode is `default`, or
            `max-autotune` for the option `tune="measure"`.

    Raises:
        ArgumentError, ArgumentTypeError: an option that there is none of.
    """
    aot_autograd = inner("torch._dynamo.backends.common", "aot_autograd")

    options = Options.of(given.pop("options", None), given.pop("mode", None))
    group = next(_groups)
    mishaps = Mishaps(strict=options.strict)
    compiler = partial(_compiler, group, options, mishaps)
    control = inner("torch._dynamo.exc", "TorchDynamoException")  # by which torch begins anew, or gives up
    made = module
    try:
        if options.precision == "bf16":
            made = with_autocast(module)
            tell_if_slow(DataType.bf16)
        with resizings_whole():
            return aot_autograd(
                fw_compiler=compiler("forward"),
                bw_compiler=compiler("backward"),
                inference_compiler=compiler("inference"),
                partition_fn=partial(partition, mishaps),
                keep_inference_input_mutations=True,
            )(made, inputs)
    except control:
        raise
    except Exception as error:
        mishaps.note(error, (), "tracing")
        return module.forward


_groups = itertools.count()


def _compiler(
    group: int, options: Options, mishaps: Mishaps, role: str
) -> Callable[[Any, Sequence[Any]], CompiledFunction]:
    def compiled(module: Any, inputs: Sequence[Any]) -> CompiledFunction:
        own = mishaps.again()
        try:
            uses = _uses(module, role)
        except Exception as error:
            own.note(error, (), "reading what torch knows of a graph's arguments")
            uses = Uses(frozenset(), frozenset(), frozenset(), backward=role == "backward")
        function = CompiledFunction(module, role, uses, options, group, own)
        remember(function)
        return function

    return compiled


def _uses(module: Any, role: str) -> Uses:
    """What is known of a graph's arguments and outputs."""
    context = tracing()
    static = saved = frozenset[int]()
    if context is not None and context.fw_metadata is not None:
        if role == "inference":
            static = steady_arguments(context)
        elif role == "forward":
            saved = frozenset(range(context.fw_metadata.num_forward_returns, _outputs(module)))
    # Gradients come and go at each step, as what is saved does.
    passing = frozenset(range(_outputs(module))) if role == "backward" else saved
    return Uses(static, saved, passing, backward=role == "backward")


def _outputs(module: Any) -> int:
    return len(next(node for node in reversed(module.graph.nodes) if node.op == "output").args[0])
