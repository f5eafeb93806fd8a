"""From a module to an exported program, in inference mode or in training."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

from ...ops.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...ops.values import one_line
from ..aten.schema import Translate, translation_of
from ..runtime.callers import outside
from .stops import check_hooks, watched


def exported(
    torch: Any,
    export: Any,
    module: Any,
    inputs: Sequence[Any] | None,
    named: Mapping[str, Any] | None,
    dynamic_shapes: object,
    training: bool,
) -> Any:
    """What torch.export makes of a module; see `from_torch` for the arguments.

    Raises:
        UnsupportedError: torch can't export it, or the export would lose what gradients depend on.
        ArgumentError, ArgumentTypeError: example inputs are missing, or are no tuple.
    """
    if inputs is None and named is None:
        raise ArgumentError(
            "from_torch needs example inputs to export a module: a tuple of tensors as it is called with"
        )
    if inputs is not None and not isinstance(inputs, tuple | list):
        raise ArgumentTypeError(
            f"from_torch takes a tuple of example inputs, got {type(inputs).__name__}; write (x,) for one tensor"
        )
    if training:
        check_hooks(module)
    given = each_its_own(torch, (tuple(inputs or ()), dict(named or {})))
    watch = watched(torch) if training else nullcontext()
    gradients = torch.set_grad_enabled(training or torch.is_grad_enabled())
    with telling_numbers(torch, module), _mode(torch, module, training), quiet(), gradients, watch:
        try:
            return export.export(
                module,
                *given,
                dynamic_shapes=dynamic_shapes,
                strict=False,
            )
        except Exception as error:  # whatever the module and torch's tracing raise
            raise UnsupportedError(
                f"from_torch: torch.export can't export the {type(module).__name__} ({one_line(error)})"
                f"{way_out(str(error))}"
            ) from error


def each_its_own(torch: Any, given: Any) -> Any:
    """Example inputs of which no two are one tensor, nor one that the module holds.

    Torch's export knows tensors by their identity: of query, key and value that are one tensor in the example the graph
    would read the last one alone, and an input in the place of a weight that is the example.
    """

    def other(one: Any) -> Any:
        if not torch.is_tensor(one):
            return one
        made = one.detach()
        if one.requires_grad:
            made.requires_grad_()
        made.__dict__ |= one.__dict__  # axes that are marked as dynamic
        return made

    return torch.utils._pytree.tree_map(other, given)


WAYS_OUT = {
    "cumulative_length_int": "a StaticCache for sliding windows counts so: make it of a configuration without windows, "
    'as the guide "Models from torch" shows',
    "fake tensor": "where it reads a tensor's .data, write detach()",
    "DynamicCache": "call it with use_cache=False in a module around it, or with a StaticCache whose tensors are "
    'buffers of that module, as the guide "Models from torch" shows',
    "data-dependent": "what asks Python for the number in a tensor, as rows[count] does, is given a tensor of one "
    "element, rows[count.reshape(1)] = row[None]",
    "expected compiled_fn to be GraphModule": "tensors that it changes share memory with others of it; give each "
    "memory of its own, by clone(), and hand buffers to a StaticCache in forward",
    "is mutated in the forward": "have the module register what it changes, register_buffer(name, tensor), and hand "
    'the buffers to a StaticCache in forward, as the guide "Models from torch" shows',
}
"""What torch says why it can't export a module → what to do."""


def way_out(message: str) -> str:
    """What to do about torch's message, to stand behind it; nothing where that is not known."""
    suggested = re.search(r"Suggested fixes:\n((?:[ \t]+\S.*\n?)+)", message)  # at its end, which is cut off
    if suggested is not None:
        return f"; torch suggests {', '.join(line.strip() for line in suggested[1].splitlines())}"
    return next((f"; {way}" for part, way in WAYS_OUT.items() if part in message), "")


@contextmanager
def _mode(torch: Any, module: Any, training: bool) -> Generator[None]:
    """The module in inference mode, or in training, where parts in inference mode stay so unless all of it is.

    Afterwards each part is as it was.
    """
    modes = [(part, part.training) for part in module.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    if not training or not module.training:
        module.train(training)
    torch.backends.mha.set_fastpath_enabled(False)  # it would hide an encoder layer in one op
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, was in modes:
            part.training = was


@contextmanager
def telling_numbers(torch: Any, module: Any) -> Generator[None]:
    """Warns of numbers of Python's that the forward changes while it is traced: a graph has those of that one call.

    Those of modules torch.export puts back afterwards and says nothing, so that they are seen as they are set. Those in
    other objects, as a cache is one, it leaves changed; they are put back here, that another export begins as this one.
    """
    names = {id(part): name for name, part in module.named_modules()}
    seen: dict[str, tuple[object, object]] = {}
    kinds = (int, float, torch.SymInt, torch.SymFloat)
    usual = torch.nn.Module.__setattr__

    def watching(part: Any, name: str, value: Any) -> None:
        before: object = part.__dict__.get(name) if id(part) in names else None
        number = isinstance(before, int | float) and isinstance(value, kinds) and name != "training"
        if number and differs(before, value):
            seen.setdefault(f"{names[id(part)]}.{name}".lstrip("."), (before, value))
        usual(part, name, value)

    held = list(numbers_outside(torch, module))
    torch.nn.Module.__setattr__ = watching
    try:
        yield
    finally:
        torch.nn.Module.__setattr__ = usual
        for path, place, key, before in held:
            now = _at(place, key)
            if isinstance(now, kinds) and differs(before, now):
                seen.setdefault(path, (before, now))
                place[key] = before
        tell(type(module).__name__, seen)


def tell(name: str, seen: Mapping[str, tuple[object, object]]) -> None:
    """Warns of the numbers that the forward of a class changes, also where the export fails, which they may be why."""
    if seen:
        told = [f"{path!r} from {a} to {b}" for path, (a, b) in seen.items()]
        more = f" and {len(told) - TOLD} more" if len(told) > TOLD else ""
        warnings.warn(
            f"from_torch: the forward of {name} changes numbers of Python's, "
            f"{', '.join(told[:TOLD])}{more}: the graph has what they were in this one call, and changes none; a "
            "buffer, register_buffer(name, torch.tensor(…)), is state that each call of the graph changes"
            f"{way_out(told[0])}",
            UserWarning,
            stacklevel=outside(),
        )


TOLD = 4
"""So many numbers of Python's are named at most: a cache has one for each layer."""


LONG = 4096
"""A list or dict of more than these is data, a vocabulary say, and is not looked into."""


def differs(before: object, now: object) -> bool:
    """Whether a number is another one, as an open size is taken to be: a comparison would fix it in the export."""
    return not isinstance(now, int | float) or now != before


def numbers_outside(torch: Any, module: Any) -> Generator[tuple[str, Any, Any, int | float]]:
    """The numbers in what a module's parts hold that is no module: objects, lists, dicts, and these in one another.

    Each has a path for people, and the list or dict it is in, with its place there.
    """
    parts = list(module.named_modules())
    done = {id(part) for _, part in parts}
    own = {"_parameters", "_buffers", "_modules"}
    waiting = deque[tuple[str, Any]](
        (f"{name}.{key}".lstrip("."), value)
        for name, part in parts
        for key, value in cast("dict[str, Any]", vars(part)).items()
        if key not in own
    )
    strange = (torch.Tensor, torch.nn.Module, type, ModuleType, FunctionType, MethodType)
    while waiting:
        path, value = waiting.popleft()
        if id(value) in done or isinstance(value, strange):
            continue
        done.add(id(value))
        held: list[tuple[str, Any, Any, Any]] = []
        if isinstance(value, list | tuple):
            row = cast("Sequence[Any]", value)
            held += [(f"{path}[{at}]", row, at, each) for at, each in enumerate(row[: LONG + 1])]
        elif isinstance(value, dict):
            table = cast("dict[Any, Any]", value)
            held += [(f"{path}[{key!r}]", table, key, each) for key, each in islice(table.items(), LONG + 1)]
        if len(held) > LONG:
            continue
        inside = cast("dict[str, Any] | None", getattr(cast("object", value), "__dict__", None))
        if isinstance(inside, dict):
            held += [(f"{path}.{key}", inside, key, each) for key, each in inside.items()]
        for name, place, key, each in held:
            if not isinstance(each, int | float):
                waiting.append((name, each))
            elif not isinstance(place, tuple):
                yield name, place, key, each


def _at(place: Any, key: Any) -> object:
    """What is in a list or dict at a place, None where that is gone."""
    try:
        return place[key]
    except LookupError:
        return None


@contextmanager
def quiet() -> Generator[None]:
    """Without the warnings that torch's own code gives itself while it exports or copies a program."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
        # Torch 2.6 gives these, of tensors that a module makes in its forward.
        warnings.filterwarnings(
            "ignore", r"Attempted to insert a get_attr Node with no underlying", UserWarning
        )
        warnings.filterwarnings("ignore", r"Node .* does not reference an nn\.Module", UserWarning)
        # Its recurrent layers give this one.
        warnings.filterwarnings("ignore", r"The tensor attributes? .*\._flat_weights", UserWarning)
        yield


def decompositions(export: Any, table: Mapping[str, Translate]) -> Any:
    """Torch's own, but for the ops that have a translation as they are."""
    if not hasattr(export, "default_decompositions"):  # before torch 2.6
        return None
    known = export.default_decompositions()
    for op in list(known.keys()):
        if translation_of(table, op) is not None:
            known.pop(op)
    return known
