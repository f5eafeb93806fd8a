"""Checks of what is slow: loops, types, copies, what goes by between ops, and what ours would gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .examination import Case
from .judging import FASTER, PART, SHOWN, gain_of, hits_of, items_of, ms, names_of, run_here, times, total_of
from .kernels import is_loop
from .records import Call, Finding, Layer


def slow_paths(case: Case) -> Iterator[Finding]:
    """Ops for which torch has no kernel of oneDNN, and takes a loop of its own."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in case.peer.calls:
        if slow := _slow(call):
            kind = next((one for one in call.types if one in ("f16", "bf16", "f32", "f64")), "")
            found.setdefault((slow, kind), []).append(call)
    for (slow, kind), calls in found.items():
        items, seconds = items_of(calls), sum(call.seconds for call in calls)
        gain = gain_of(case, items)
        small = kind == "f32" and gain is None
        reason = {
            "f64": "oneDNN has no f64 convolutions: each image is spread into columns and multiplied",
            "f16": "torch takes oneDNN for f16 only on CPUs with f16 arithmetic (AVX512-FP16, AMX-FP16)",
        }.get(kind, "torch leaves small, dilated transposed and some other convolutions to a loop of its own")
        if small:
            reason = "for so little work that costs less than calls of oneDNN"
        other = {"f64": "compute it in f32", "f16": "compute it in f32 or bf16"}.get(kind, "")
        yield Finding(
            code="slow-path",
            severity="note" if small else "slow",
            layers=names_of(case, items),
            what=f"torch runs {len(items)} layer{'s' if len(items) > 1 else ''} in {kind} by {slow}, in {ms(seconds)}",
            why=reason,
            do="; or ".join(filter(None, [run_here(case, gain), other])),
            gain=gain,
        )


def _slow(call: Call) -> str:
    """Torch's own loop that an op was run by, or empty."""
    return "" if call.primitives else next((name for name in call.inside if "slow_conv" in name), "")


def loops(case: Case) -> Iterator[Finding]:
    """Primitives of the peer's oneDNN that are reference loops, or known to be slow."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in case.peer.calls:
        barred_here = [id(ran) for ran, hit in hits_of(case, call) if hit.table == "slow"]
        for ran in call.primitives:
            barred = id(ran) in barred_here
            if is_loop(ran.implementation) or barred:
                found.setdefault((ran.kind, ran.implementation), []).append(call)
    for (kind, implementation), calls in found.items():
        items = items_of(calls)
        gain = gain_of(case, items)
        yield Finding(
            code="reference-loop",
            severity="slow",
            layers=names_of(case, items),
            what=f"oneDNN in {case.peer.name} runs {kind} by {implementation}, in "
            f"{ms(sum(call.seconds for call in calls))}",
            why="the library has no kernel for these types, shapes or layouts, and takes a loop without vectors",
            do=run_here(case, gain),
            gain=gain,
        )


def halves(case: Case) -> Iterator[Finding]:
    """16-bit numbers on a CPU that has no arithmetic for them."""
    total = total_of(case)
    for kind, name, names in (("f16", "f16", ("f16", "float16")), ("bf16", "bf16", ("bf16", "bfloat16"))):
        if getattr(case.machine, kind):
            continue
        calls = [call for call in case.peer.calls if set(names).intersection(call.types) and not _slow(call)]
        seconds = sum(call.seconds for call in calls)
        if not calls or seconds < PART * total:
            continue
        items = items_of(calls)
        gain = gain_of(case, items)
        yield Finding(
            code=f"{kind}-without-hardware",
            severity="slow",
            layers=names_of(case, items),
            what=f"{len(items)} layers compute in {name}, in {ms(seconds)}, and this CPU has no arithmetic for it",
            why="each number is converted to f32 and back, or multiplied one by one",
            do="; or ".join(filter(None, [run_here(case, gain), "convert the model to f32"])),
            gain=gain,
        )


def reorders(case: Case) -> Iterator[Finding]:
    """Copies between layouts that take a good part of the time."""
    total = total_of(case)
    inside = [(call, _copied(call)) for call in case.peer.calls if _copied(call)]
    nodes = [call for call in case.peer.calls if call.op in ("ReorderInput", "ReorderOutput")]
    seconds = sum(part for _, part in inside) + sum(call.seconds for call in nodes)
    if total and seconds > 2 * PART * total:
        items = items_of([*(call for call, _ in inside), *nodes])
        do = (
            "hold the model and its inputs in channels_last: module.to(memory_format=torch.channels_last)"
            if case.peer.name == "torch"
            else "nothing there decides about it; larger channels make copies rarer"
        )
        yield Finding(
            code="reorders",
            severity="slow",
            layers=names_of(case, items),
            what=f"copies between layouts take {ms(seconds)}, {seconds / total:.0%} of all ops, in {len(items)} layers",
            why="kernels want channels in blocks or last, and each layer gets and leaves them plain",
            do=do,
            gain=seconds,
        )


def _copied(call: Call) -> float:
    """Seconds of an op that go into copies: its own time, as its primitives have shared it."""
    together = sum(ran.seconds for ran in call.primitives)
    copies = sum(ran.seconds for ran in call.primitives if ran.kind == "reorder")
    return call.seconds * copies / together if together else 0.0


def casts(case: Case) -> Iterator[Finding]:
    """Conversions that onnxruntime has put in because it has no kernel for a type."""
    if case.peer.name != "onnxruntime":
        return
    known = {node for layer in case.layers for node in layer.items}
    calls = [call for call in case.peer.calls if call.op == "Cast" and call.note.startswith("inserted")]
    if calls:
        seconds, items = sum(call.seconds for call in calls), items_of(calls)
        yield Finding(
            code="inserted-casts",
            severity="slow",
            layers=names_of(case, known.intersection(items)),
            what=f"onnxruntime has put in {len(calls)} conversions of types, which take {ms(seconds)}",
            why="it has no kernels for these ops in f16 on a CPU, and runs them in f32",
            do="convert the model to f32",
            gain=seconds,
        )
    others = [
        call
        for call in case.peer.calls
        if call.note and "CPU" not in call.note and "inserted" not in call.note
    ]
    if others:
        yield Finding(
            code="other-provider",
            severity="note",
            layers=names_of(case, items_of(others)),
            what=f"{len(others)} nodes run by {others[0].note}",
        )


MOST_BETWEEN = 60e-6
"""Seconds for each op, above which it is no overhead but threads that wait for each other."""


def unfused(case: Case) -> Iterator[Finding]:
    """Layers of 8-bit integers that onnxruntime computes in f32."""
    layers = [layer for layer in case.layers if _is_unfused(layer)]
    if case.peer.name != "onnxruntime" or not layers:
        return
    items = [item for layer in layers for item in layer.items]
    seconds, gain = sum(layer.peer_seconds for layer in layers), gain_of(case, items)
    yield Finding(
        code="unfused-quantization",
        severity="slow",
        layers=tuple(layer.name for layer in layers),
        what=f"onnxruntime computes {len(layers)} layers of 8-bit integers in f32, in {ms(seconds)}",
        why="it has not taken DequantizeLinear, the op and QuantizeLinear together: a bias that is no constant of "
        "32-bit integers, a missing QuantizeLinear or types without a kernel keep it from that",
        do="; or ".join(
            filter(
                None, [run_here(case, gain), "prepare the model by quant_pre_process and quantise it anew"]
            )
        ),
        gain=gain,
    )


def _is_unfused(layer: Layer) -> bool:
    ops = {call.op for call in layer.calls}
    return "DequantizeLinear" in ops and not ops.isdisjoint(
        ("Conv", "FusedConv", "Gemm", "MatMul", "FusedMatMul")
    )


def overhead(case: Case) -> Iterator[Finding]:
    """Time of the peer in which no op runs."""
    timed, total = case.peer.timed, total_of(case)
    if case.peer.name != "torch" or timed is None or not case.peer.calls:
        return
    lost = timed.least - total
    if lost > 0.25 * timed.least and lost < MOST_BETWEEN * len(case.peer.calls):
        yield Finding(
            code="between-ops",
            severity="slow",
            what=f"{ms(lost)} of {ms(timed.least)} go by between the ops, {len(case.peer.calls)} of them",
            why="Python and torch's dispatcher take some microseconds for each op",
            do="compile the model: og.from_torch(model, inputs).compile() has one call for all",
            gain=lost,
        )


def gains(case: Case) -> Iterator[Finding]:
    """Layers that one side runs faster, and the whole."""
    total = total_of(case)
    compared = [
        (layer, layer.our_seconds) for layer in case.layers if layer.calls and layer.our_seconds is not None
    ]
    slower = [(one, mine - one.peer_seconds) for one, mine in compared if mine > FASTER * one.peer_seconds]
    lost = sum(seconds for _, seconds in slower)
    if lost > PART * total:
        worst = sorted(slower, key=lambda pair: -pair[1])
        first, most = worst[0]
        yield Finding(
            code="ours-slower",
            severity="note",
            layers=tuple(one.name for one, _ in worst),
            what=f"ours takes {ms(lost)} longer in {len(slower)} of {len(compared)} layers, most in {first.name}: "
            f"{ms(most)} more, by {_kernels(first)}",
            do=TUNED.get(case.ours.way, ""),
        )
    speed = case.speedup
    if speed is None or case.peer.timed is None or case.ours.timed is None:
        return
    saved = case.peer.timed.least - case.ours.timed.least
    if speed > FASTER:
        yield Finding(
            code="run-it-here",
            severity="slow",
            what=f"the whole model takes {times(speed)} times as long in {case.peer.name} as here",
            why=f"{ms(case.peer.timed.least)} against {ms(case.ours.timed.least)}, the shortest of "
            f"{case.peer.timed.runs} and {case.ours.timed.runs} runs in turns{_most(compared)}",
            do=HOW.get(case.ours.way, ""),
            gain=saved,
        )
    elif speed < 1 / FASTER:
        yield Finding(
            code="ours-slower-whole",
            severity="note",
            what=f"the whole model takes {times(1 / speed)} times as long here as in {case.peer.name}",
            why=f"{ms(case.ours.timed.least)} against {ms(case.peer.timed.least)}",
            do=f"stay with {case.peer.name} for it, or try other kernels: {TUNED.get(case.ours.way, 'none')}",
        )


def _most(compared: Sequence[tuple[Layer, float]]) -> str:
    """Where most of the time goes."""
    saved = sorted(((one.peer_seconds - mine, one.name) for one, mine in compared), reverse=True)
    told = [f"{name} ({ms(seconds)})" for seconds, name in saved[:3] if seconds > 0]
    return f"; most is saved in {', '.join(told)}" if told else ""


HOW = {
    "from_torch": "model = og.from_torch(module, inputs).compile()",
    "from_onnx": 'model = og.from_onnx("model.onnx").compile()',
    "torch.compile": 'model = torch.compile(module, backend="onednn_graph")',
}
"""The line that does it."""
TUNED = {
    "from_torch": 'og.from_torch(module, inputs).compile(tune="measure") measures the ways to run it',
    "from_onnx": 'onednn-graph tune model.onnx, and compile(tune="cached"), measures the ways to run it',
    "torch.compile": 'torch.compile(module, backend="onednn_graph", mode="max-autotune") measures the ways to run it',
}
"""How other kernels are tried."""


def _kernels(layer: Layer) -> str:
    names = dict.fromkeys(f"{step.name} ({step.implementation})" for step in layer.steps)
    return ", ".join(list(names)[:3]) + (" …" if len(names) > 3 else "")


def hosts(case: Case) -> Iterator[Finding]:
    """Ops of ours that NumPy runs, where that takes time."""
    steps = [step for step in case.ours.steps if step.host]
    total = sum(step.seconds for step in case.ours.steps)
    seconds = sum(step.seconds for step in steps)
    if total and seconds > 2 * PART * total:
        names = list(dict.fromkeys(step.name for step in steps))
        yield Finding(
            code="ours-on-numpy",
            severity="note",
            layers=names_of(case, (item for step in steps for item in step.items)),
            what=f"NumPy runs {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''} here, in {ms(seconds)}, "
            f"{seconds / total:.0%} of all steps",
            why="the library has no primitive for them",
        )
