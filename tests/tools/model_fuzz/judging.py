"""Holds a drawn module, taken one of four ways, against eager torch in double precision."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import Any
from unittest import mock

os.environ.setdefault("TORCHDYNAMO_VERBOSE", "0")

import ml_dtypes
import numpy as np
import onednn_graph as og
import onednn_graph.torch
import torch
from onednn_graph.graph.torch_compile.run.region import Region

from . import functions
from .results import Results, distances
from .slopes import are_slopes
from .spec import Spec

WAYS = ("from_torch", "from_onnx", "inference", "training", "handed")
"""`handed` is training in which all regions of torch.compile fail when they run, so that torch does their ops."""
BY_COMPILE = ("inference", "training", "handed")
LIMIT, OF_GRADIENTS = 1e-4, 1e-3
"""Distances from double precision, in norm, that are always good; gradients jump where ReLUs have their kinks."""
OF_LOW = 100
"""How much more that is in half precision, autocast's too."""
FACTOR = 6.0
"""How much farther than eager torch a result may be."""
WORST, WORST_OF_LOW = 1e-2, 0.1
"""Eager torch's own distance from which on a module says nothing."""
FEW = {"from_torch": 8, "from_onnx": 16}
"""Lines of a module that is not taken in halves; torch's export to ONNX takes its time."""
CORNERS = re.compile(r"scale_factor=(0\.5|1\.5).*align_corners=True")
"""Where ONNX's own tests differ from torch and onnxruntime: they want sizes that a scale makes, before rounding."""
TELL: list[Callable[[str], None]] = [lambda what: None]
"""The last one is told who else is at work, so that a crash is none of ours; empty for nobody."""
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


def built(spec: Spec, sample: int = 0) -> Any:
    """The module."""
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "fn": functions}
    exec(compile(spec.source(), "<drawn>", "exec"), scope)
    torch.manual_seed(spec.seed + sample)
    module = scope["Drawn"]().to(getattr(torch, spec.dtype))
    for name in spec.frozen:
        getattr(module, name).requires_grad_(False)
    return module


def inputs_of(spec: Spec, dtype: Any, sample: int = 0, batch: int | None = None) -> list[Any]:
    """What it is called with."""
    generator = torch.Generator().manual_seed(spec.seed + 1000 * sample + 17)
    # Rounded to the module's type, and then exact: in double precision they are the same numbers.
    rounded = getattr(torch, spec.dtype)
    return [one.tensor(generator, dtype, batch, rounded=rounded) for one in spec.inputs.values()]


def turns_of(spec: Spec) -> tuple[int | None, ...]:
    """Sizes of the batch, call after call; None where it is not open."""
    return spec.batches or (None, None)


def turns_imported(spec: Spec) -> dict[int, int | None]:
    """Number → size of the batch, of those that an imported graph is called with: once where forward writes, as
    nobody sees what it does to buffers, and only sizes that torch's export leaves open."""
    turns = dict(enumerate(turns_of(spec)))
    if not spec.batches or any(line.writes for line in spec.lines):
        return {0: turns[0]}
    return {turn: size for turn, size in turns.items() if size is None or size > 1}


def is_low(spec: Spec) -> bool:
    """Whether anything is computed in half precision that single precision could do."""
    if spec.dtype != "float32" or spec.context == "autocast":
        return True
    return any(word in line.code for line in spec.lines for word in ("float16", "autocast"))


def around(spec: Spec, way: str) -> Any:
    """What a module is called in."""
    if spec.context == "autocast":
        return torch.autocast("cpu", torch.bfloat16)
    if way in ("training", "handed") or spec.context == "grad":
        return nullcontext()
    return torch.inference_mode() if spec.context == "inference_mode" else torch.no_grad()


def evaluated(spec: Spec, module: Any, call: Callable[..., Any], dtype: Any, sample: int) -> Results:
    """Calls in inference mode, and what they leave in inputs and buffers."""
    found = Results()
    module.eval()
    for turn, batch in enumerate(turns_of(spec)):
        given = inputs_of(spec, dtype, sample + 10 * turn, batch)
        with around(spec, "inference"), torch.no_grad() if spec.context == "autocast" else nullcontext():
            made = call(*given)
        for number, one in enumerate(made):
            found.add("output", f"{turn}.{number}", one)
        for number, one in enumerate(given):
            found.add("input", f"{turn}.{number}", one)
    for name, one in module.named_buffers():
        found.add("buffer", name, one)
    return found


def trained(spec: Spec, module: Any, call: Callable[..., Any], dtype: Any, sample: int) -> Results:
    """Steps of training: outputs, gradients and buffers."""
    found = Results()
    module.train()
    for turn, batch in enumerate(turns_of(spec)):
        given = inputs_of(spec, dtype, sample + 10 * turn, batch)
        leaves = [
            one.requires_grad_(one.is_floating_point() and name not in spec.still)
            for one, name in zip(given, spec.inputs, strict=True)
        ]
        module.zero_grad(set_to_none=True)
        with around(spec, "training"):
            # Copies that lie as the inputs do, so that they may be written to.
            made = call(*[one.clone() for one in leaves])
        for number, one in enumerate(made):
            found.add("output", f"{turn}.{number}", one)
        loss_of(made).backward()
        for number, one in enumerate(leaves):
            if one.grad is not None:
                found.add("gradient", f"{turn} of input {number}", one.grad)
        for name, one in module.named_parameters():
            if one.grad is not None:
                found.add("gradient", f"{turn} of {name}", one.grad)
    for name, one in module.named_buffers():
        found.add("buffer", name, one)
    return found


def loss_of(made: Sequence[Any]) -> Any:
    """A number of all outputs that have gradients.

    Raises:
        Unusable: none has.
    """
    loss: Any = 0.0
    for number, one in enumerate(made):
        if one.requires_grad:
            ways = torch.randn(one.shape, generator=torch.Generator().manual_seed(number)).to(one.dtype)
            loss = loss + (one * ways).sum() / max(one.numel(), 1) ** 0.5
    if not isinstance(loss, torch.Tensor):
        raise Unusable("nothing has a gradient")
    return loss


def eager_has_slopes(spec: Spec) -> bool:
    """Whether eager torch's gradients are the slopes of its own outputs."""
    if is_low(spec):
        return True

    def loss(given: list[Any]) -> Any:
        module = built(spec).double()
        module.train()
        return loss_of(module(*[one.clone() for one in given]))

    return all(
        are_slopes(spec.source(), loss, inputs_of(spec, torch.float64, 10 * turn, batch))
        for turn, batch in enumerate(turns_of(spec))
    )


def eager(spec: Spec, way: str, dtype: Any, sample: int = 0) -> Results:
    """What torch itself makes of it.

    Raises:
        Unusable: nothing.
    """
    run = evaluated if way in ("inference", "from_torch", "from_onnx") else trained
    module = built(spec, sample).to(dtype)
    if dtype == torch.float64:
        spec = replace(spec, context="" if spec.context == "autocast" else spec.context)
    try:
        made = run(spec, module, module, dtype, sample)
    except Unusable:
        raise
    except Exception as error:
        raise Unusable(f"eager torch: {error}") from error
    if not all(bool(torch.isfinite(one).all()) for one in made.tensors.values()):
        raise Unusable("not finite")
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
        return run(spec, module, call, getattr(torch, spec.dtype), sample)


def _fail(*given: Any) -> None:
    raise RuntimeError("regions fail where all is handed over")


def imported(spec: Spec, way: str, sample: int) -> Results:
    """By an importer, in inference, at the sizes of the batch that torch's export leaves open.

    Raises:
        OneDNNGraphError: a refusal, among others.
    """
    module = built(spec, sample).eval()
    dtype = getattr(torch, spec.dtype)
    turns = turns_imported(spec)
    given = tuple(inputs_of(spec, dtype, sample, turns[0]))
    sizes = sizes_of(spec)
    if way == "from_torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = og.from_torch(module, given, dynamic_shapes=sizes)
    else:
        graph = og.from_onnx(exported(module, given, sizes))
    call = graph.compile()
    found = Results()
    for turn, batch in turns.items():
        given = tuple(inputs_of(spec, dtype, sample + 10 * turn, batch))
        for number, one in enumerate(call(*[array_of(one) for one in given]).values()):
            found.add("output", f"{turn}.{number}", tensor_of(np.array(one)))
    return found


def array_of(tensor: Any) -> Any:
    """A tensor's array, of bfloat16 too."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def tensor_of(array: Any) -> Any:
    """An array's tensor, of bfloat16 too."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def by_onnxruntime(spec: Spec) -> str:
    """What becomes of torch's ONNX model there: `right`, `wrong`, `unknown` where it lacks an op, or `error`."""
    import onnxruntime  # judged models need it, and tests of the judge do not

    module = built(spec).eval()
    turns = turns_imported(spec)
    dtype = getattr(torch, spec.dtype)
    exact, made = eager(spec, "from_onnx", torch.float64), Results()
    try:
        model = exported(module, inputs_of(spec, dtype, 0, turns[0]), sizes_of(spec))
        session = onnxruntime.InferenceSession(model)
        for turn, batch in turns.items():
            given = inputs_of(spec, dtype, 10 * turn, batch)
            named = {
                one.name: array_of(tensor) for one, tensor in zip(session.get_inputs(), given, strict=True)
            }
            for number, one in enumerate(session.run(None, named)):
                made.add("output", f"{turn}.{number}", torch.from_numpy(one))
    except Exception as error:
        return "unknown" if "NOT_IMPLEMENTED" in str(error) else "error"
    exact.tensors = {name: exact.tensors[name] for name in made.tensors}
    single = eager(spec, "from_onnx", dtype).tensors
    if any(
        (one.shape, one.dtype) != (single[name].shape, single[name].dtype)
        for name, one in made.tensors.items()
    ):
        return "wrong"
    good = (is_good(spec, name, away, 0.0) for name, away in distances(made, exact).items())
    return "right" if all(good) else "wrong"


def sizes_of(spec: Spec) -> Any:
    """What stays open of the inputs' shapes, as torch's exports take it."""
    if not spec.batches:
        return None
    return tuple({0: torch.export.Dim.DYNAMIC} if one.batched else None for one in spec.inputs.values())


def exported(module: Any, given: Sequence[Any], sizes: Any) -> Any:
    """The ONNX model.

    Raises:
        Unusable: torch can't export it.
    """
    try:
        TELL[-1]("torch.onnx")  # it may end the process
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, tuple(given), dynamo=True, verbose=False, dynamic_shapes=sizes
            )
        data = io.BytesIO()
        program.save(data)
    except Exception as error:
        raise Unusable(f"torch.onnx: {type(error).__name__}") from error
    finally:
        TELL[-1]("")
    return data.getvalue()


def measured(spec: Spec, way: str, sample: int) -> dict[str, tuple[float, float]]:
    """Distances from double precision, ours and eager torch's, by the tensor's name.

    Raises:
        Unusable: it says nothing.
        Mismatch: results are others by their types, shapes or number.
    """
    exact, single = (eager(spec, way, dtype, sample) for dtype in (torch.float64, getattr(torch, spec.dtype)))
    if exact.tensors.keys() != single.tensors.keys() or any(
        one.shape != single.tensors[name].shape for name, one in exact.tensors.items()
    ):
        raise Unusable("eager torch makes something else in double precision")
    torchs = distances(single, exact)
    if max(torchs.values()) > (WORST_OF_LOW if is_low(spec) else WORST):
        raise Unusable("eager torch is far from double precision")
    ours = compiled(spec, way, sample) if way in BY_COMPILE else imported(spec, way, sample)
    if way in ("from_torch", "from_onnx"):
        for one in (exact, single):
            outputs = tuple(f"output {turn}." for turn in turns_imported(spec))
            one.tensors = {name: tensor for name, tensor in one.tensors.items() if name.startswith(outputs)}
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


def is_good(spec: Spec, name: str, ours: float, torchs: float) -> bool:
    """Whether a tensor's distance is one of rounding."""
    limit = (OF_GRADIENTS if name.startswith("gradient") else LIMIT) * (OF_LOW if is_low(spec) else 1)
    return ours <= limit or ours <= FACTOR * torchs


def judged(spec: Spec, way: str) -> Found:
    """What becomes of a module one way: where it can't be imported, what becomes of its halves, and of theirs."""
    if way in BY_COMPILE:
        return judged_whole(spec, way)
    found = judged_whole(replace(spec, context=""), way)
    if found.status == "refused" or found.what.startswith("torch.onnx"):
        parts = [judged(one, way) for one in halves(spec)] if len(spec.lines) >= FEW[way] else []
        for part in parts:
            if part.is_finding:
                return part
        if any(part.status == "ok" for part in parts):
            return Found("ok", "in parts")
    return found


def halves(spec: Spec) -> list[Spec]:
    """Its front, with what the back reads of it as outputs, and its back, with that as inputs."""
    middle = len(spec.lines) // 2
    front = {line.out for line in spec.lines[:middle]}
    read = {name for line in spec.lines[middle:] for name in line.uses} & front
    outputs = tuple(sorted(read or {spec.lines[middle - 1].out}))
    return [replace(spec, lines=spec.lines[:middle], outputs=outputs).needed(), spec.cut(front)]


def judged_whole(spec: Spec, way: str) -> Found:
    """What becomes of a module, as it is, one way."""
    try:
        rows = measured(spec, way, 0)
        bad = [name for name, pair in rows.items() if not is_good(spec, name, *pair)]
        if not bad:
            return Found("ok")
        samples = [rows, *(measured(spec, way, sample) for sample in range(1, SAMPLES))]
        for name in bad:
            ours, torchs = (median(one[name][place] for one in samples) for place in (0, 1))
            if not is_good(spec, name, ours, torchs):
                return blamed(
                    spec,
                    way,
                    Found("wrong", f"wrong {name.split()[0]}", f"{name}: {ours:.2e}, eager {torchs:.2e}"),
                )
        return Found("ok", "near a kink")
    except Unusable as error:
        return Found("skipped", str(error)[:80])
    except og.ShapeError as error:
        if "as the module was exported" in str(error):
            return Found("skipped", "torch's export does not take this batch")
        return blamed(spec, way, Found("error", f"ShapeError: {short(error)}", traced(error)))
    except Mismatch as error:
        return blamed(spec, way, Found("wrong", "mismatch", str(error)))
    except og.UnsupportedError as error:
        status = "refused" if way in ("from_torch", "from_onnx") else "error"
        return Found(status, f"UnsupportedError: {short(error)}", str(error)[:600])
    except Exception as error:
        return blamed(spec, way, Found("error", f"{type(error).__name__}: {short(error)}", traced(error)))


def blamed(spec: Spec, way: str, found: Found) -> Found:
    """A finding, unless torch's own compilation has it as well, or onnxruntime with the same ONNX model."""
    if way == "from_torch":
        return found
    if way == "from_onnx":
        if by_onnxruntime(spec) == found.status:
            return Found("skipped", f"onnxruntime as well: {found.status}")
        if any(CORNERS.search(line.code) for line in spec.lines):
            return Found("skipped", "ONNX's own tests of align_corners want it")
        return found
    try:
        made = compiled(spec, way, 0, "aot_eager")
        exact, single = (eager(spec, way, dtype) for dtype in (torch.float64, getattr(torch, spec.dtype)))
        check_alike(made, single)
        near, torchs = distances(made, exact), distances(single, exact)
    except Exception as error:
        return Found("skipped", f"aot_eager as well: {type(error).__name__}")
    if found.what == "wrong gradient" and not eager_has_slopes(spec):
        return Found("skipped", "eager torch's gradient is not its output's slope")
    if found.status == "wrong" and not all(is_good(spec, name, near[name], torchs[name]) for name in near):
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
