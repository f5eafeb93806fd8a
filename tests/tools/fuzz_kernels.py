"""Runs every strategy on every implementation that the library offers, on random problems, in child processes.

    python tests/tools/fuzz_kernels.py --problems 5000 --isa default --out findings.jsonl

A child takes problems one after another: for each strategy and each implementation it computes dW of
integer-valued tensors, and the gradient of a bias beside it where one is drawn, compares it exactly with NumPy,
and looks at guard zones around every buffer. It says what it is about to run before it runs it, so that a crash has
a name. The parent restarts children after a crash, and groups the findings by implementation. `--which trusted`
leaves out what the quarantine bars, and `--which chosen` runs only what `compile` would choose.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys

from children import restarted
from fuzz_primitives import chosen, write_tally
from guarded import Guarded
from wide_draws import SHARE, convolution


def draw(rng: random.Random, dtype: str) -> dict:
    """A random problem as plain JSON, biased towards what breaks kernels."""
    rank = rng.choice([1, 2, 2, 2, 3])
    kind = rng.choice(["dense", "few", "grouped", "grouped", "depthwise", "first"])
    groups, per_in, per_out = (
        1,
        rng.choice([1, 3, 8, 16, 17, 32, 48, 64]),
        rng.choice([1, 4, 8, 16, 20, 32, 64]),
    )
    if kind == "few":
        per_in, per_out = rng.randint(1, 5), rng.randint(1, 5)
    elif kind == "grouped":
        groups = rng.choice([2, 3, 4, 8, 16, 32])
        per_in, per_out = rng.choice([1, 2, 3, 4, 8, 16]), rng.choice([1, 2, 3, 4, 8, 16])
    elif kind == "depthwise":
        groups, per_in, per_out = rng.choice([2, 3, 8, 15, 16, 17, 32, 48, 64]), 1, 1
    elif kind == "first":
        per_in, per_out = rng.choice([1, 2, 3, 4]), rng.choice([16, 32, 64])
    top = {1: 65, 2: 65, 3: 17}[rank]
    kernel, strides, dilations, begin, end, src, dst = [], [], [], [], [], [], []
    same = rng.random() < 0.5
    k0, s0, d0 = (
        rng.choice([1, 2, 3, 3, 3, 5, 7]),
        rng.choice([1, 1, 1, 2, 3]),
        rng.choice([1, 1, 1, 2, 3, 5]),
    )
    for _ in range(rank):
        while True:
            k = k0 if same else rng.choice([1, 1, 2, 3, 3, 4, 5, 7, 11])
            s = s0 if same else rng.choice([1, 1, 2, 2, 3, 4])
            d = d0 if same else rng.choice([1, 1, 1, 2, 3, 4, 12])
            extent = d * (k - 1) + 1
            size = rng.randint(1, top)
            b = rng.choice([0, 0, (extent - 1) // 2, extent // 2, rng.randint(0, extent)])
            e = rng.choice([b, b, 0, rng.randint(0, extent)])
            out = (size + b + e - extent) // s + 1
            if out >= 1:
                break
        kernel.append(k), strides.append(s), dilations.append(d), begin.append(b), end.append(e)
        src.append(size), dst.append(out)
    batch = rng.choice([1, 1, 2, 3, 5])
    return {
        "dtype": dtype,
        "batch": batch,
        "groups": groups,
        "in": groups * per_in,
        "out": groups * per_out,
        "src": src,
        "dst": dst,
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "begin": begin,
        "end": end,
        "format": rng.choice(["NXC", "NXC", "NCX"]),
        "wformat": rng.choice(["XIO", "OIX"]),
        "seed": rng.randrange(2**31),
        "bias": rng.random() < 0.4,
    }


def draw_wide(rng: random.Random, dtype: str) -> dict:
    """The same with something large, as in `wide_draws.py`."""
    p = convolution(rng)
    names = ("kernel", "strides", "dilations", "begin", "end", "src", "dst")
    return {
        "dtype": dtype,
        "batch": p.batch,
        "groups": p.groups,
        "in": p.groups * p.rows,
        "out": p.groups * p.columns,
        **{name: list(sizes) for name, sizes in zip(names, zip(*p.axes, strict=True), strict=True)},
        "format": rng.choice(["NXC", "NXC", "NCX"]),
        "wformat": rng.choice(["XIO", "OIX"]),
        "seed": rng.randrange(2**31),
        "bias": rng.random() < 0.4,
    }


def exact(x, dy, q):
    """dW (g, o, i, k…) in float64, a tap at a time; x is (n, c, …), dy is (n, c, …)."""
    import itertools

    import numpy as np

    n, g = x.shape[0], q["groups"]
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    rank = len(q["kernel"])
    pad = [(0, 0), (0, 0)] + [(b, e + s) for b, e, s in zip(q["begin"], q["end"], q["strides"], strict=True)]
    xp = np.pad(x, pad).reshape(n, g, -1, *[x.shape[2 + a] + sum(pad[2 + a]) for a in range(rank)])
    dyg = dy.reshape(n, g, q["out"] // g, -1)
    dw = np.zeros((g, q["out"] // g, q["in"] // g, *q["kernel"]))
    for tap in itertools.product(*map(range, q["kernel"])):
        cut = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, q["dilations"], q["strides"], q["dst"], strict=True)
        )
        window = xp[(slice(None),) * 3 + cut].reshape(n, g, q["in"] // g, -1)
        dw[(slice(None),) * 3 + tap] = np.matmul(dyg, np.swapaxes(window, 2, 3)).sum(0)
    return dw


def child(args) -> None:
    import numpy as np
    from attrs import evolve
    from onednn_graph.backends.onednn.library.enumerators import FpmathMode
    from onednn_graph.backends.onednn.library.primitive import NativeEngine
    from onednn_graph.backends.onednn.plan.arena import GUARDS
    from onednn_graph.backends.onednn.plan.steps import Step
    from onednn_graph.backends.onednn.weight_gradients import problem as op
    from onednn_graph.backends.onednn.weight_gradients.selection import candidates, choose
    from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
    from onednn_graph.graph.compile.options import CompileOptions
    from onednn_graph.graph.model.logical_tensor import row_major
    from onednn_graph.graph.runtime.arrays import numpy_type
    from onednn_graph.ops.attributes import canonical_attributes
    from onednn_graph.ops.convolution_geometry import geometry
    from onednn_graph.ops.data_types import DataType
    from onednn_graph.ops.registry import REGISTRY

    GUARDS.switch_on()
    engine = NativeEngine()
    log = open(args.child, "a", buffering=1)  # noqa: SIM115 -- open until the child ends or crashes
    rng = random.Random(args.seed)
    skip = args.skip
    schema, _ = REGISTRY.resolve("ConvolutionBackwardWeights")
    for number in range(args.problems):
        drawn = draw_wide if rng.random() < args.wide else draw
        q = drawn(rng, rng.choice(args.dtypes.split(",")))
        if number < skip:
            continue
        attributes = canonical_attributes(
            schema.attributes,
            {
                "strides": q["strides"],
                "dilations": q["dilations"],
                "pads_begin": q["begin"],
                "pads_end": q["end"],
                "groups": q["groups"],
                "data_format": q["format"],
                "weights_format": q["wformat"],
            },
            "op",
        )
        last = q["format"] == "NXC"
        src = (q["batch"], *q["src"], q["in"]) if last else (q["batch"], q["in"], *q["src"])
        dst = (q["batch"], *q["dst"], q["out"]) if last else (q["batch"], q["out"], *q["dst"])
        ipg = q["in"] // q["groups"]
        wei = (*q["kernel"], ipg, q["out"]) if q["wformat"] == "XIO" else (q["out"], ipg, *q["kernel"])
        gradient = geometry(schema.kind, attributes, src, dst, wei)
        dtype = DataType(q["dtype"])
        nt = numpy_type(dtype)
        gen = np.random.default_rng(q["seed"])
        x = gen.integers(-3, 4, src).astype(nt)
        dy = gen.integers(-3, 4, dst).astype(nt)
        to_ncx = (lambda a: np.moveaxis(a, -1, 1)) if last else (lambda a: a)
        want = exact(to_ncx(x), to_ncx(dy), q)
        # a group's rows lie behind one another in O
        want = want.reshape(q["out"], ipg, *q["kernel"])
        if q["wformat"] == "XIO":
            want = np.moveaxis(want, (1, 0), (-2, -1))
        wanted = [want.astype(np.float32).astype(nt)]
        if q["bias"]:
            axes = tuple(a for a in range(dy.ndim) if a != (dy.ndim - 1 if last else 1))
            wanted.append(dy.astype(np.float32).sum(axes).astype(nt))
        problem = op.make_problem(
            gradient,
            dtype,
            op.View(src, row_major(src)),
            op.View(dst, row_major(dst)),
            op.View(wei, row_major(wei)),
            FpmathMode[args.fpmath],
        )
        if q["bias"]:
            problem = evolve(problem, bias=op.View((q["out"],), (1,)))
        if op.check(problem):
            continue
        rejected = []
        if args.which == "chosen":
            found = choose(engine, problem, STRATEGIES, CompileOptions(), rejected)[:1]
        else:
            found = candidates(engine, problem, STRATEGIES, rejected, trusted_only=args.which == "trusted")
        ran = False
        for candidate in found:
            ran = True
            name = candidate.implementation
            if not name.startswith(args.only) or not chosen(args.kernels, name):
                continue
            if not candidate.strategy.startswith(args.strategy):
                continue
            functions = {
                step.implementation: step.desc.function
                for step in candidate.plan.steps
                if isinstance(step, Step)
            }
            tag = {
                "n": number,
                "function": functions[candidate.implementation],
                "impl": candidate.implementation,
                "compute": candidate.compute.value,
                "strategy": candidate.strategy,
                "q": q,
            }
            log.write(json.dumps({"begin": tag}) + "\n")
            buffers = [Guarded(array.nbytes) for array in (x, dy, *wanted)]
            for buffer, array in zip(buffers, (x, dy), strict=False):
                buffer.view(nt, array.shape)[...] = array
            frame = candidate.plan.take()
            problems = []
            for _ in range(2):
                for buffer in buffers[2:]:
                    buffer.inside[:] = 0xCD
                frame.point([b.address for b in buffers])
                frame.run()
                for what, buffer, want in zip(("weights", "bias"), buffers[2:], wanted, strict=False):
                    got = buffer.view(nt, want.shape)
                    if np.array_equal(got, want):
                        continue
                    bad = np.argwhere(~(got == want))
                    problems.append(
                        {
                            "gradient of": what,
                            "wrong": len(bad),
                            "of": want.size,
                            "first": bad[0].tolist(),
                            "got": str(got[tuple(bad[0])]),
                            "want": str(want[tuple(bad[0])]),
                        }
                    )
            if any(b.guards_written() for b in buffers):
                problems.append({"guard": [not b.guards_written() for b in buffers]})
            if not np.array_equal(buffers[0].view(nt, src), x) or not np.array_equal(
                buffers[1].view(nt, dst), dy
            ):
                problems.append({"input changed": True})
            if not frame.intact():
                problems.append({"arena": True})
            log.write(
                json.dumps(
                    {
                        "bad" if problems else "ok": tag["impl"],
                        "problems": problems,
                        **({"tag": tag} if problems else {}),
                    }
                )
                + "\n"
            )
        if not ran:
            log.write(json.dumps({"none": q, "rejected": rejected}) + "\n")
    log.write(json.dumps({"end": True}) + "\n")


def parent(args) -> int:
    counts, ran, findings = collections.Counter(), collections.Counter(), []
    seed, done = args.seed, 0
    environment = dict(os.environ)
    if args.isa != "default":
        environment["ONEDNN_MAX_CPU_ISA"] = args.isa.upper()
    with open(args.out, "a", buffering=1) as out:
        while done < args.problems:
            count = min(args.batch, args.problems - done)

            def command(log, skip, seed=seed, count=count):
                return [
                    __file__,
                    "--child",
                    str(log),
                    "--seed",
                    str(seed),
                    "--problems",
                    str(count),
                    "--skip",
                    str(skip),
                    "--dtypes",
                    args.dtypes,
                    "--fpmath",
                    args.fpmath,
                    "--only",
                    args.only,
                    "--kernels",
                    args.kernels,
                    "--strategy",
                    args.strategy,
                    "--which",
                    args.which,
                    "--wide",
                    str(args.wide),
                ]

            for run in restarted(command, environment, args.timeout):
                running = tally(args, run.lines, counts, ran, findings, out)
                if run.ended:
                    break
                begun = run.begun
                crash = {
                    "isa": args.isa,
                    "crash": run.code,
                    "stderr": run.errors[-300:],
                    "tag": begun,
                    "while running": running,
                }
                findings.append(crash)
                out.write(json.dumps(crash) + "\n")
                counts[begun["impl"] if begun else "start", begun["compute"] if begun else "", "crash"] += 1
                ran[begun["function"] if begun else "", begun["impl"] if begun else "", "crash"] += 1
                if begun is None:
                    print(run.errors[-300:], file=sys.stderr)
                    return 2
            done += count
            seed += 1
            table = dict(sorted((" ".join(key), count) for key, count in counts.items()))
            print(f"{done} problems, {len(findings)} findings", table, flush=True)
    if args.tally:
        write_tally(args.tally, ran)
    return 1 if findings else 0


def tally(args, lines, counts, ran, findings, out) -> bool:
    """Counts what a child says and writes its findings; whether it was running something at its end."""
    begun, running = None, False
    for line in lines:
        if "begin" in line:
            begun, running = line["begin"], True
        elif "ok" in line or "bad" in line:
            running = False
            counts[line.get("ok") or line.get("bad"), begun["compute"], "ok" if "ok" in line else "bad"] += 1
            ran[begun["function"], begun["impl"], "ok" if "ok" in line else "bad"] += 1
            if "ok" in line and args.everything:
                out.write(json.dumps({"isa": args.isa, "ok": True, "tag": begun}) + "\n")
            if "bad" in line:
                findings.append(line)
                out.write(json.dumps({"isa": args.isa, **line}) + "\n")
        elif "none" in line:
            counts["no candidate", line["none"]["dtype"], "none"] += 1
            out.write(json.dumps({"isa": args.isa, **line}) + "\n")
    return running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100, help="problems per child process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isa", default="default", help="ONEDNN_MAX_CPU_ISA of the children")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--out", default="fuzz-findings.jsonl")
    parser.add_argument("--which", default="all", choices=["all", "trusted", "chosen"])
    parser.add_argument("--wide", type=float, default=SHARE, help="share of problems with something large")
    parser.add_argument("--fpmath", default="strict", help="fpmath mode of the problems")
    parser.add_argument("--strategy", default="", help="beginning of the strategies' names to run")
    parser.add_argument("--only", default="", help="beginning of the implementation names to run")
    parser.add_argument("--kernels", default="", help="parts of their names, comma-separated")
    parser.add_argument("--everything", action="store_true", help="write what was right to --out too")
    parser.add_argument("--tally", help="file for how often each kernel was right, wrong or crashed")
    parser.add_argument("--timeout", type=int, default=300, help="seconds until a child counts as hung")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return 0
    return parent(args)


if __name__ == "__main__":
    sys.exit(main())
