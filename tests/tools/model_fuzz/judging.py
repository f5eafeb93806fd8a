"""Holds a drawn module, taken one of four ways, against eager torch in double precision."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest import mock

os.environ.setdefault("TORCHDYNAMO_VERBOSE", "0")

import numpy as np
import onednn_graph as og
import onednn_graph.torch
import torch
from onednn_graph.graph.torch_compile.run.region import Region

from .spec import Spec

WAYS = ("from_torch", "from_onnx", "inference", "training", "handed")
"""`handed` is training in which all regions of torch.compile fail when they run, so that torch does their ops."""
BY_COMPILE = ("inference", "training", "handed")
LIMIT, OF_GRADIENTS = 1e-4, 1e-3
"""Distances from double precision, in norm, that are always good; gradients jump where ReLUs have their kinks."""
FACTOR = 6.0
"""How much farther than eager torch a result may be."""
WORST = 1e-2
"""Eager torch's own distance from which on a module says nothing."""
SAMPLES = 3
"""Inputs and weights by which a wrong number is told from a rounding at a kink."""


@dataclass
class Found:
    """What became of a module.

    Attributes:
        status: `ok`; `refused`, by name; `skipped`, as it says nothing or torch can't do it; `wrong`; `error`.
        what: in a few words, the same for what looks alike.
        detail: more of it.
    """

    status: str
    what: str = ""
    detail: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether it is one."""
        return self.status in ("wrong", "error")


class Unusable(Exception):  # noqa: N818 -- says something of a module
    """A module that eager torch can't do, or whose results are no measure."""


@dataclass
class Results:
    """Tensors that a run has made, by name."""

    tensors: dict[str, Any] = field(default_factory=dict)

    def add(self, group: str, name: str, tensor: Any) -> None:
        """One more."""
        self.tensors[f"{group} {name}"] = tensor.detach().clone()


def built(spec: Spec, sample: int = 0) -> Any:
    """The module."""
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(compile(spec.source(), "<drawn>", "exec"), scope)
    torch.manual_seed(spec.seed + sample)
    return scope["Drawn"]()


def inputs_of(spec: Spec, dtype: Any, sample: int = 0) -> list[Any]:
    """What it is called with."""
    generator = torch.Generator().manual_seed(spec.seed + 1000 * sample + 17)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in spec.inputs.values()]


def evaluated(spec: Spec, module: Any, call: Callable[..., Any], dtype: Any, sample: int) -> Results:
    """Two calls in inference mode, and what they leave in inputs and buffers."""
    found = Results()
    module.eval()
    for turn in range(2):
        given = inputs_of(spec, dtype, sample + 10 * turn)
        with torch.no_grad():
            made = call(*given)
        for number, one in enumerate(made):
            found.add("output", f"{turn}.{number}", one)
        for number, one in enumerate(given):
            found.add("input", f"{turn}.{number}", one)
    for name, one in module.named_buffers():
        found.add("buffer", name, one)
    return found


def trained(spec: Spec, module: Any, call: Callable[..., Any], dtype: Any, sample: int) -> Results:
    """Two steps of training: outputs, gradients and buffers."""
    found = Results()
    module.train()
    for turn in range(2):
        leaves = [one.requires_grad_() for one in inputs_of(spec, dtype, sample + 10 * turn)]
        module.zero_grad(set_to_none=True)
        made = call(*[one * 1 for one in leaves])
        loss: Any = 0.0
        for number, one in enumerate(made):
            found.add("output", f"{turn}.{number}", one)
            if one.requires_grad:
                ways = torch.randn(one.shape, generator=torch.Generator().manual_seed(number)).to(one.dtype)
                loss = loss + (one * ways).sum() / max(one.numel(), 1) ** 0.5
        if not isinstance(loss, torch.Tensor):
            raise Unusable("nothing has a gradient")
        loss.backward()
        for number, one in enumerate(leaves):
            if one.grad is not None:
                found.add("gradient", f"{turn} of input {number}", one.grad)
        for name, one in module.named_parameters():
            if one.grad is not None:
                found.add("gradient", f"{turn} of {name}", one.grad)
    for name, one in module.named_buffers():
        found.add("buffer", name, one)
    return found


def eager(spec: Spec, way: str, dtype: Any, sample: int = 0) -> Results:
    """What torch itself makes of it.

    Raises:
        Unusable: nothing.
    """
    run = evaluated if way in ("inference", "from_torch", "from_onnx") else trained
    module = built(spec, sample).to(dtype)
    try:
        made = run(spec, module, module, dtype, sample)
    except Unusable:
        raise
    except Exception as error:
        raise Unusable(f"eager torch: {error}") from error
    if not all(bool(torch.isfinite(one).all()) for one in made.tensors.values()):
        raise Unusable("not finite")
    return made


def distances(have: Results, want: Results) -> dict[str, float]:
    """Of each tensor, in norm, relative to the wanted norm or what is nothing beside it."""
    made: dict[str, float] = {}
    of_all = {}
    for group in ("output", "input", "buffer", "gradient"):
        squares = [
            one.double().square().mean().item()
            for name, one in want.tensors.items()
            if name.startswith(group)
        ]
        of_all[group] = max([*squares, 1e-4]) ** 0.5
    for name, exact in want.tensors.items():
        away = torch.linalg.vector_norm(have.tensors[name].double() - exact.double()).item()
        norm = torch.linalg.vector_norm(exact.double()).item()
        floor = 1e-2 * of_all[name.split()[0]] * exact.numel() ** 0.5
        made[name] = away / max(norm, floor)
    return made


def compiled(spec: Spec, way: str, sample: int, backend: str = "onednn_graph") -> Results:
    """By torch.compile."""
    torch._dynamo.reset()
    module = built(spec, sample)
    strict = way != "handed"
    options = {"options": {"strict": strict}} if backend == "onednn_graph" else {}
    call = torch.compile(module, backend=backend, **options)
    run = evaluated if way == "inference" else trained
    with nullcontext() if strict else mock.patch.object(Region, "run", _fail):
        return run(spec, module, call, torch.float32, sample)


def _fail(*given: Any) -> None:
    raise RuntimeError("regions fail where all is handed over")


def imported(spec: Spec, way: str, sample: int) -> Results:
    """By an importer, in inference.

    Raises:
        OneDNNGraphError: a refusal, among others.
    """
    module = built(spec, sample).eval()
    given = tuple(inputs_of(spec, torch.float32, sample))
    if way == "from_torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = og.from_torch(module, given)
    else:
        graph = og.from_onnx(exported(module, given))
    call = graph.compile()
    found = Results()
    for number, one in enumerate(call(*[one.numpy() for one in given]).values()):
        found.add("output", f"0.{number}", torch.from_numpy(np.array(one)))
    return found


def exported(module: Any, given: Sequence[Any]) -> Any:
    """The ONNX model.

    Raises:
        Unusable: torch can't export it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(module, tuple(given), dynamo=True, verbose=False)
        data = io.BytesIO()
        program.save(data)
    except Exception as error:
        raise Unusable(f"torch.onnx: {type(error).__name__}") from error
    return data.getvalue()


def measured(spec: Spec, way: str, sample: int) -> dict[str, tuple[float, float]]:
    """Distances from double precision, ours and eager torch's, by the tensor's name.

    Raises:
        Unusable: it says nothing.
        Mismatch: results are others by their types, shapes or number.
    """
    exact, single = eager(spec, way, torch.float64, sample), eager(spec, way, torch.float32, sample)
    torchs = distances(single, exact)
    if max(torchs.values()) > WORST:
        raise Unusable("eager torch is far from double precision")
    ours = compiled(spec, way, sample) if way in BY_COMPILE else imported(spec, way, sample)
    if way in ("from_torch", "from_onnx"):
        for one in (exact, single):
            # The first call alone: what an ONNX model does to buffers nobody sees.
            one.tensors = {
                name: tensor for name, tensor in one.tensors.items() if name.startswith("output 0.")
            }
    check_alike(ours, single)
    near = distances(ours, exact)
    return {name: (near[name], torchs[name]) for name in near}


class Mismatch(Exception):  # noqa: N818 -- says something of results
    """Results are others by their types, shapes or number."""


def check_alike(ours: Results, single: Results) -> None:
    """Names, shapes and types must be eager torch's.

    Raises:
        Mismatch: they are not.
    """
    if ours.tensors.keys() != single.tensors.keys():
        raise Mismatch(f"names: {sorted(ours.tensors.keys() ^ single.tensors.keys())[:4]}")
    for name, tensor in ours.tensors.items():
        want = single.tensors[name]
        if (tensor.shape, tensor.dtype) != (want.shape, want.dtype):
            raise Mismatch(f"{name}: {tensor.dtype} {list(tensor.shape)} for {want.dtype} {list(want.shape)}")


def is_good(name: str, ours: float, torchs: float) -> bool:
    """Whether a tensor's distance is one of rounding."""
    return ours <= (OF_GRADIENTS if name.startswith("gradient") else LIMIT) or ours <= FACTOR * torchs


def judged(spec: Spec, way: str) -> Found:
    """What becomes of a module one way."""
    try:
        rows = measured(spec, way, 0)
        bad = [name for name, pair in rows.items() if not is_good(name, *pair)]
        if not bad:
            return Found("ok")
        samples = [rows, *(measured(spec, way, sample) for sample in range(1, SAMPLES))]
        for name in bad:
            ours, torchs = (median(one[name][place] for one in samples) for place in (0, 1))
            if not is_good(name, ours, torchs):
                return blamed(
                    spec,
                    way,
                    Found("wrong", f"wrong {name.split()[0]}", f"{name}: {ours:.2e}, eager {torchs:.2e}"),
                )
        return Found("ok", "near a kink")
    except Unusable as error:
        return Found("skipped", str(error)[:80])
    except Mismatch as error:
        return blamed(spec, way, Found("wrong", "mismatch", str(error)))
    except og.UnsupportedError as error:
        status = "refused" if way in ("from_torch", "from_onnx") else "error"
        return Found(status, f"UnsupportedError: {short(error)}", str(error)[:600])
    except Exception as error:
        return blamed(spec, way, Found("error", f"{type(error).__name__}: {short(error)}", traced(error)))


def blamed(spec: Spec, way: str, found: Found) -> Found:
    """A finding, unless torch's own compilation has it as well."""
    if way not in BY_COMPILE:
        return found
    try:
        made = compiled(spec, way, 0, "aot_eager")
        exact, single = (eager(spec, way, dtype) for dtype in (torch.float64, torch.float32))
        check_alike(made, single)
        near, torchs = distances(made, exact), distances(single, exact)
    except Exception as error:
        return Found("skipped", f"aot_eager as well: {type(error).__name__}")
    if found.status == "wrong" and not all(is_good(name, near[name], torchs[name]) for name in near):
        return Found("skipped", "aot_eager as well")
    return found


def short(error: BaseException) -> str:
    """The beginning of a message without what differs from module to module."""
    text = " ".join(str(error).split())
    return "".join("#" if letter.isdigit() else letter for letter in text)[:100]


def traced(error: BaseException) -> str:
    """A message with the last frames."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return (
        str(error)[:600]
        + " | "
        + " < ".join(f"{one.filename.rsplit('/', 1)[-1]}:{one.lineno} {one.name}" for one in frames[::-1])
    )


__all__ = ["WAYS", "Found", "built", "judged"]
