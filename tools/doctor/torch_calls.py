"""What torch runs: each op of ATen with the module around it, its time, and what oneDNN in torch says of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from .records import Call, Departure
from .torch_subject import TorchSubject, tensors_in
from .verbose import About, Primitive, about, primitives

Watch = Callable[[str, Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]
"""Is given where an op is, the op, its arguments, and what runs it; gives its result."""
TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}
"""How far a result may be off from double precision, of its largest element: roundings of long sums, with room."""


@contextmanager
def inside_modules(module: Any) -> Generator[list[str]]:
    """The path of the module that is running, from the outermost; the first is that of the whole, which is empty.

    A module that is called again has its path with `.2` behind it, as importers name its ops.
    """
    stack: list[str] = [""]
    counts: Counter[str] = Counter()
    handles: list[Any] = []
    for path, part in module.named_modules():
        if not path:
            continue

        def enter(_module: Any, _args: Any, path: str = path) -> None:
            counts[path] += 1
            stack.append(path if counts[path] == 1 else f"{path}.{counts[path]}")

        def leave(_module: Any, _args: Any, _result: Any) -> None:
            if len(stack) > 1:
                stack.pop()

        try:
            handles += [
                part.register_forward_pre_hook(enter),
                part.register_forward_hook(leave, always_call=True),
            ]
        except (RuntimeError, TypeError):  # a compiled part of a script, say, which is one op then
            continue
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


def watched(subject: TorchSubject, watch: Watch) -> Any:
    """The model's result, with each op of ATen that computes something shown to `watch`."""
    torch = subject.torch
    mode_class: Any = torch.utils._python_dispatch.TorchDispatchMode

    class Watching(mode_class):  # pyright: ignore[reportUntypedBaseClass]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            named = kwargs or {}
            if getattr(func, "is_view", False) or str(func).startswith("aten.empty"):
                return func(*args, **named)
            return watch(stack[-1], func, args, named, lambda: func(*args, **named))

    with torch.no_grad(), inside_modules(subject.module) as stack, Watching():
        return subject.run()


def timed_ops(subject: TorchSubject, runs: int) -> list[tuple[str, str, float]]:
    """Module, name and shortest time of each op, in order; of the last run alone where runs differ in what they do."""
    best: list[tuple[str, str, float]] = []
    for _ in range(runs):
        now: list[tuple[str, str, float]] = []

        def watch(
            path: str,
            func: Any,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            run: Callable[[], Any],
            now: list[tuple[str, str, float]] = now,
        ) -> Any:
            del args, kwargs
            begin = time.perf_counter()
            result = run()
            now.append((path, name_of(func), time.perf_counter() - begin))
            return result

        watched(subject, watch)
        same = [one[:2] for one in best] == [one[:2] for one in now]
        best = [(p, n, min(t, u)) for (p, n, t), (_, _, u) in zip(best, now, strict=True)] if same else now
    return best


def name_of(func: Any) -> str:
    """`aten.convolution` of an op."""
    return str(func).removesuffix(".default") if "." in str(func) else str(func)


def traced(subject: TorchSubject, printed: Path) -> tuple[list[Call], About]:
    """The ops in order, with the primitives that oneDNN says it has run for each.

    Args:
        printed: the file that standard output goes to.
    """
    torch = subject.torch
    calls: list[Call] = []
    place = printed.stat().st_size
    said: list[str] = []
    level = torch.backends.mkldnn.VERBOSE_ON

    def watch(
        path: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        nonlocal place
        result = run()
        now = printed.stat().st_size
        ran: tuple[Primitive, ...] = ()
        if now > place:
            lines = _between(printed, place, now)
            said.extend(line for line in lines if ",info," in line)
            ran, place = primitives(lines), now
        given = tensors_in(torch, (args, kwargs))
        calls.append(
            Call(
                item=path,
                op=name_of(func),
                seconds=0.0,
                primitives=ran,
                types=tuple(dict.fromkeys(_short(one.dtype) for one in given)),
                shapes=tuple(tuple(one.shape) for one in given),
            )
        )
        return result

    if torch.backends.mkldnn.is_available():
        with torch.backends.mkldnn.verbose(level):
            watched(subject, watch)
    else:
        watched(subject, watch)
    return calls, about(said)


def least(calls: list[Call], again: list[Call]) -> list[Call]:
    """The same ops with the shorter times of their primitives; as they were where both runs differ."""

    def ran(call: Call) -> tuple[str, str, list[tuple[str, str]]]:
        return call.item, call.op, [(one.implementation, one.problem) for one in call.primitives]

    if list(map(ran, calls)) != list(map(ran, again)):
        return calls
    found: list[Call] = []
    for one, other in zip(calls, again, strict=True):
        pairs = zip(one.primitives, other.primitives, strict=True)
        both = tuple(evolve(a, seconds=min(a.seconds, b.seconds)) for a, b in pairs)
        found.append(evolve(one, primitives=both))
    return found


def _between(file: Path, begin: int, end: int) -> list[str]:
    with file.open("rb") as opened:
        opened.seek(begin)
        return opened.read(end - begin).decode(errors="replace").splitlines()


def _short(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "s8"}.get(
        name, name
    )


def inside_ops(subject: TorchSubject) -> list[tuple[str, ...]]:
    """Names of the further ops that each op calls, `aten::_slow_conv2d_forward`, say, in the order of `traced`."""
    torch = subject.torch
    count = 0

    def watch(
        path: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        nonlocal count
        del path, func, args, kwargs
        number, count = count, count + 1
        with torch.profiler.record_function(f"doctor {number}"):
            return run()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        watched(subject, watch)
    found: list[dict[str, None]] = [{} for _ in range(count)]
    for event in profile.events():
        if not event.name.startswith("aten::"):
            continue
        above = event.cpu_parent
        while above is not None and not above.name.startswith("doctor "):
            above = above.cpu_parent
        if above is not None:
            found[int(above.name.removeprefix("doctor "))][event.name] = None
    return [tuple(names) for names in found]


def departures(subject: TorchSubject, seconds: float) -> tuple[list[Departure], str]:
    """How far each op is from itself in double precision on the same inputs, and why some were not looked at.

    Args:
        seconds: after which no more are looked at.
    """
    torch = subject.torch
    found: list[Departure] = []
    skipped: dict[str, None] = {}
    end = time.perf_counter() + seconds
    late = False

    def watch(
        path: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        nonlocal late
        given = [one for one in tensors_in(torch, (args, kwargs)) if _is_float(one)]
        late = late or time.perf_counter() > end
        if late or not given or not _is_comparable(torch, func, kwargs):
            return run()
        wide = torch.utils._pytree.tree_map(_widened(torch), (args, kwargs))
        result = run()
        try:
            expected = func(*wide[0], **wide[1])
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            skipped[name_of(func)] = None
            return result
        pairs = zip(tensors_in(torch, result), tensors_in(torch, expected), strict=False)
        worst: Departure | None = None
        for got, wanted in pairs:
            if not _is_float(got) or got.shape != wanted.shape or not _is_float(wanted):
                continue
            error = apart(torch, got, wanted)
            kind = str(got.dtype).removeprefix("torch.")
            one = Departure(
                item=path,
                op=name_of(func),
                error=error,
                allowed=TOLERANCES.get(kind, 0.5),
                data_type=_short(got.dtype),
                largest=float(wanted.detach().abs().max()),
            )
            worst = one if worst is None or not error <= worst.error else worst
        if worst is not None:
            found.append(worst)
        return result

    watched(subject, watch)
    reasons = [f"{', '.join(skipped)} can't be computed in double precision"] if skipped else []
    reasons += ["the time was over before all ops were compared"] if late else []
    return found, "; ".join(reasons)


def _is_float(tensor: Any) -> bool:
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1 and tensor.numel() > 0


RANDOM_OR_EMPTY = (
    "empty",
    "rand",
    "dropout",
    "bernoulli",
    "multinomial",
    "_to_copy",
    "new_",
    "normal_",
    "uniform",
)


def _is_comparable(torch: Any, func: Any, kwargs: dict[str, Any]) -> bool:
    name = str(func).rpartition("aten.")[2]
    tags = getattr(func, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags or kwargs.get("dtype") is not None:
        return False
    return not name.startswith(RANDOM_OR_EMPTY)


def _widened(torch: Any) -> Callable[[Any], Any]:
    """A copy in double precision of what is floating-point, and of all else a copy as it is."""

    def wide(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return (
            value.double()
            if value.dtype.is_floating_point and value.dtype != torch.float64
            else value.clone()
        )

    return wide


def apart(torch: Any, got: Any, wanted: Any) -> float:
    """The largest difference over the largest element; infinite where one is finite and the other is not."""
    got, wanted = got.detach().double(), wanted.detach().double()
    finite = torch.isfinite(wanted)
    if not bool((torch.isfinite(got) == finite).all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    scale = float(wanted[finite].abs().max())
    difference = float((got - wanted)[finite].abs().max())
    return difference / scale if scale else difference
