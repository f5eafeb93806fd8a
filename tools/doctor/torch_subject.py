"""The torch module that the user has named, with its inputs; the user's code is executed."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...graph.runtime.libraries import library
from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.values import one_line
from .subjects import arrays_of, made_up, shapes_of

MODELS = ("model", "module", "net")
"""Names that a file's model may have."""
FACTORIES = ("factory", "make", "make_model", "get_model", "build", "build_model")
"""Names of functions that make it."""
INPUTS = ("inputs", "example_inputs")
"""Names of its inputs."""


@frozen(kw_only=True, eq=False)
class TorchSubject:
    """A module and what it is called with.

    Attributes:
        torch: the package.
        module: in inference mode.
        args, kwargs: arguments.
        made_up: names of those inputs that are made up.
    """

    torch: Any
    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made_up: tuple[str, ...] = ()

    def run(self) -> Any:
        """Its result."""
        return self.module(*self.args, **self.kwargs)

    def tensors(self, result: Any) -> list[Any]:
        """The tensors in a result, in order."""
        return tensors_in(self.torch, result)


def tensors_in(torch: Any, value: Any) -> list[Any]:
    """All tensors in a value, however it is nested."""
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def load_torch(task: Mapping[str, Any]) -> TorchSubject:
    """The subject of a task.

    Raises:
        ArgumentError: it has no module, or no inputs, as they are asked for.
        UnsupportedError: torch is not installed.
    """
    torch = library("torch", "torch", "doctor, which examines a torch module,")
    torch.manual_seed(task["seed"])
    space = _space(task)
    module, given = _module(torch, space, task)
    module = module.eval()
    if given is None:
        named = next((name for name in INPUTS if getattr(space, name, None) is not None), None)
        given = None if named is None else getattr(space, named)
    if task["inputs"]:
        args, kwargs, made = *_from_file(torch, module, task["inputs"]), ()
    elif task["shapes"]:
        args, kwargs, made = _from_shapes(torch, module, task)
    elif given is not None:
        args, kwargs = _arguments(given() if callable(given) else given)
        made = ()
    else:
        raise ArgumentError(
            f"{task['text']} has no inputs: define `inputs = (x, …)` beside the model, return (module, inputs) from "
            f"the factory, or give --shape NAME=SIZES or --inputs FILE.npz; forward takes {_signature(module)}"
        )
    return TorchSubject(torch=torch, module=module, args=args, kwargs=kwargs, made_up=made)


def _space(task: Mapping[str, Any]) -> Any:
    """The user's module of Python, executed."""
    try:
        if task["module"]:
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(task["module"])
        path = Path(task["path"])
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ArgumentError(f"{task['text']} is no Python file; doctor takes model.py")
        space = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, space)  # for what it pickles, and for dataclasses
        spec.loader.exec_module(space)
        return space
    except ArgumentError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise ArgumentError(
            f"{task['text']} can't be executed: {type(error).__name__}: {one_line(error)}{_place(error, task)}"
        ) from error


def _place(error: BaseException, task: Mapping[str, Any]) -> str:
    """The last line of the user's file in a traceback."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if task["path"] and trace.tb_frame.f_code.co_filename == task["path"]:
            place = f", in line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _module(torch: Any, space: Any, task: Mapping[str, Any]) -> tuple[Any, Any]:
    """The module, and the inputs that a factory has returned with it."""
    names = [task["name"]] if task["name"] else [*MODELS, *FACTORIES]
    for name in names:
        found = getattr(space, name, None)
        if isinstance(found, torch.nn.Module):
            return found, None
        if callable(found) and not isinstance(found, torch.nn.Module):
            return _made(torch, found, name, task)
    if not task["name"]:
        values = cast("dict[str, Any]", vars(space)).values()
        own = [value for value in values if isinstance(value, torch.nn.Module)]
        if len(own) == 1:
            return own[0], None
    wanted = f"no {task['name']!r}" if task["name"] else f"none of {', '.join(names)}"
    raise ArgumentError(
        f"{task['text']} has {wanted} that is a torch.nn.Module or a function that makes one; name it by "
        f"{Path(task['path']).name if task['path'] else task['module']}:NAME"
    )


def _made(torch: Any, factory: Any, name: str, task: Mapping[str, Any]) -> tuple[Any, Any]:
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise ArgumentError(
            f"{name}() of {task['text']} can't be called: {type(error).__name__}: {one_line(error)}"
            f"{_place(error, task)}"
        ) from error
    if isinstance(made, torch.nn.Module):
        return made, None
    if isinstance(made, tuple | list):
        parts = cast("Sequence[Any]", made)
        if len(parts) == 2 and isinstance(parts[0], torch.nn.Module):
            return parts[0], parts[1]
    raise ArgumentError(
        f"{name}() of {task['text']} must return a torch.nn.Module or (module, inputs), got "
        f"{type(cast('object', made)).__name__}"
    )


def _arguments(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A tuple or list has positional arguments, a mapping named ones; all else is the only one."""
    if isinstance(given, Mapping):
        named = cast("Mapping[Any, Any]", given)
        return (), {str(key): value for key, value in named.items()}
    if isinstance(given, tuple | list):
        return tuple(cast("Sequence[Any]", given)), {}
    return (given,), {}


def _from_file(torch: Any, module: Any, path: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arrays = {key: torch.from_numpy(np.ascontiguousarray(one)) for key, one in arrays_of(path).items()}
    if all(key.startswith("arr_") or key.isdecimal() for key in arrays):
        ordered = sorted(arrays, key=lambda key: int(key.removeprefix("arr_")))
        return tuple(arrays[key] for key in ordered), {}
    return _placed(module, arrays)


def _from_shapes(
    torch: Any, module: Any, task: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[str, ...]]:
    held = [one.dtype for one in (*module.parameters(), *module.buffers()) if one.dtype.is_floating_point]
    usual = held[0] if held else torch.float32
    tensors: dict[str, Any] = {}
    for number, (name, (dtype, shape)) in enumerate(shapes_of(task["shapes"]).items()):
        wanted = getattr(torch, dtype) if dtype else usual
        plain = np.float32 if wanted.is_floating_point else np.dtype(dtype)
        array = made_up(shape, np.dtype(plain), task["seed"] + number)
        tensors[name] = torch.from_numpy(np.asarray(array)).to(wanted)
    args, kwargs = _placed(module, tensors)
    return args, kwargs, tuple(tensors)


def _placed(module: Any, tensors: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in order as far as `forward` names them so, the others by name."""
    names = [
        name
        for name, one in inspect.signature(module.forward).parameters.items()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    stray = [name for name in tensors if name not in names]
    if stray and not _takes_any(module):
        raise ArgumentError(f"forward of the model has no input {stray[0]!r}; it takes {_signature(module)}")
    args: list[Any] = []
    for name in names:
        if name not in tensors:
            break
        args.append(tensors[name])
    placed = names[: len(args)]
    return tuple(args), {name: one for name, one in tensors.items() if name not in placed}


def _takes_any(module: Any) -> bool:
    parameters = inspect.signature(module.forward).parameters.values()
    return any(one.kind is one.VAR_KEYWORD for one in parameters)


def _signature(module: Any) -> str:
    return str(inspect.signature(module.forward)) if callable(getattr(module, "forward", None)) else "unknown"


def fingerprint(subject: TorchSubject) -> str:
    """Changes where weights or inputs do: a model that is made twice may be another each time."""
    torch, total = subject.torch, 0.0
    with torch.no_grad():
        given = tensors_in(torch, (subject.args, subject.kwargs))
        for one in (*subject.module.parameters(), *subject.module.buffers(), *given):
            if one.numel() and not one.is_complex() and one.layout is torch.strided:
                total += float(one.flatten()[:: max(1, one.numel() // 64)].double().abs().sum())
    return f"{total:.12g}"
