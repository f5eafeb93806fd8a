"""Runs every implementation that the library offers of random primitives, in child processes.

    python tests/tools/fuzz_primitives.py --trials 3000 --isa AVX2 --out findings.jsonl
    python tests/tools/fuzz_primitives.py --trials 3000 --which trusted   # nothing that is barred: must find nothing

Trials are drawn as in `primitive_trials.py`: what the lowerings ask the library for, in all their layouts, types,
post-ops, scales and zero points, and somewhat more. A child describes one, runs each implementation twice on guarded
and poisoned memory, and compares every element with NumPy's, gaps with the poison that was in them, and the padding
of blocks with zero. It says what it is about to do before it does it, so that a crash has a name; the parent
restarts children after one. `--only NUMBER` with `--seed` repeats a trial.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys

from children import restarted
from guarded import GuardedMemory, dense, offsets, size_of
from wide_draws import SHARE


def wrong(got, want, dtype, trial):
    """Which elements are wrong."""
    import numpy as np
    from onednn_graph.graph.runtime.arrays import numpy_type
    from primitive_trials import LIMITS, RELATIVE

    with np.errstate(all="ignore"):
        if dtype in LIMITS:
            low, high = LIMITS[dtype]
            inexact = trial.absolute > 0
            expected = np.clip(np.rint(want), low, high)
            # What rounds differently after an inexact function may be off by one.
            near = np.abs(want - np.floor(want) - 0.5) < 1e-2
            # What an s32 gets by way of f32 is rounded to 24 bits.
            coarse = np.where(np.abs(expected) > 2**24, np.abs(expected) * 2.0**-23, 0)
            off = np.abs(got - expected)
            return (off > coarse) & ~((off <= 1) & near & inexact) & ~np.isnan(want)
        rounded = want.astype(np.float32)
        if numpy_type(dtype).itemsize == 2:
            rounded = rounded.astype(numpy_type(dtype)).astype(np.float32)
        rounded = rounded.astype(np.float64)
        close = np.abs(got - rounded) <= trial.tolerance * RELATIVE[dtype] * np.abs(rounded) + trial.absolute
        if dtype.value != "f32" and trial.absolute:
            close |= np.abs(got - rounded) <= 2 * RELATIVE[dtype]
        return ~(close | (got == rounded) | np.isnan(want) | (np.isinf(rounded) & (np.abs(got) > 3e4)))


def packed_by(engine, plain, own, name):
    """The reorder between two layouts of weights on an implementation of that name, whether it is barred or not."""
    from onednn_graph.backends.onednn.library.descriptors import Reorder
    from onednn_graph.backends.onednn.library.implementations import begins
    from onednn_graph.backends.onednn.library.primitive import PrimitiveAttributes, implementations

    first = Reorder(src=plain, dst=own, attributes=PrimitiveAttributes(engine.lib)).described(engine)
    offered = () if first is None else implementations(first)
    return next((desc for desc in offered if begins(desc.implementation, name)), None)


def attempt(engine, desc, trial):
    """Runs one implementation on guarded memory; what was wrong."""
    import numpy as np
    from onednn_graph.backends.onednn.library.enumerators import Arg, Query
    from onednn_graph.backends.onednn.library.memory import MemoryDesc
    from onednn_graph.backends.onednn.plan.plan import Plan
    from onednn_graph.backends.onednn.plan.steps import Buffer, Step

    def layout(where):
        return desc.memory_desc(where) if isinstance(where, Query) else where

    steps, arguments, memory = [], [], []

    def place(desc, array):
        memory.append(GuardedMemory(desc, array, trial.offset))
        return Buffer(desc, len(memory) - 1)

    for number, (where, array) in trial.inputs.items():
        own = layout(where)
        places, _ = offsets(own)
        sums = own.nbytes != size_of(own.data_type, int(places.max()) + 1)
        sums = sums and (own.strides is None or "convolution" in trial.function)
        if number == Arg.WEIGHTS and sums:
            # A layout with sums at its end, which only the library's reorder makes.
            from onednn_graph.backends.onednn.plan.chooser import Chooser

            plain = MemoryDesc.strided(engine.lib, own.shape, own.data_type, dense(own.shape))
            how = (
                packed_by(engine, plain, own, trial.pack)
                if trial.pack
                else Chooser(engine).reorder(plain, own).desc
            )
            if how is None:
                return None
            target = Buffer(own)
            steps.append(Step("pack", how, ((Arg.SRC, place(plain, array)), (Arg.DST, target))))
            arguments.append((number, target))
            continue
        arguments.append((number, place(own, array)))
    if trial.workspace is not None:
        hint, ins, outs = trial.workspace
        workspace = Buffer(hint.memory_desc(Query.workspace_md))
        listed = [(number, place(layout(where), array)) for number, (where, array) in ins.items()]
        listed += [(number, Buffer(layout(where))) for number, (where, array) in outs.items()]
        steps.append(Step("before", hint, (*listed, (Arg.WORKSPACE, workspace))))
        arguments.append((Arg.WORKSPACE, workspace))
    inputs = len(memory)
    results = []
    for number, (where, want) in trial.outputs.items():
        arguments.append((number, place(layout(where), None)))
        results.append(want)
    steps.append(Step("trial", desc, tuple(arguments)))
    plan = Plan(engine, steps)
    frame = plan.take()
    problems = []
    for _ in range(2):
        for one in memory:
            one.prepare()
        frame.point([one.address for one in memory])
        frame.run()
        for number, one in enumerate(memory):
            problems += [f"argument {number}: {fault}" for fault in one.faults(number >= inputs)]
        for one, want in zip(memory[inputs:], results, strict=True):
            got = one.read()
            bad = wrong(got, np.broadcast_to(want, got.shape), one.desc.data_type, trial)
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                problems.append(
                    f"wrong: {int(bad.sum())} of {bad.size}, the first at {list(at)}: {got[at]} instead of {want[at]}"
                )
        if not frame.intact():
            problems.append("writes out of the scratchpad")
    return problems


def chosen(kernels, name) -> bool:
    """Whether a kernel has one of these parts, separated by commas, in its name; all have, where there are none."""
    return not kernels or any(part in name for part in kernels.split(","))


def child(args) -> None:
    from onednn_graph.backends.onednn.library.primitive import NativeEngine, described, implementations
    from onednn_graph.backends.onednn.plan.arena import GUARDS
    from onednn_graph.backends.onednn.quarantine import refused, unaskable
    from onednn_graph.backends.onednn.rules.features import Features
    from onednn_graph.ops.errors import LibraryError
    from primitive_problems import told_of
    from primitive_trials import FAMILIES, Maker, Undrawn

    GUARDS.switch_on()
    engine = NativeEngine()
    log = open(args.child, "a", buffering=1)  # noqa: SIM115 -- open until the child ends or crashes
    families = args.families.split(",") if args.families else list(FAMILIES)
    for number in range(args.skip, args.trials):
        if args.only is not None and number != args.only:
            continue
        rng = random.Random(f"{args.seed} {number}")
        family = rng.choice(families)
        maker = Maker(engine, rng, args.wide)
        log.write(
            json.dumps({"begin": {"n": number, "seed": args.seed, "family": family, "impl": "drawing"}})
            + "\n"
        )
        try:
            trial = FAMILIES[family](maker)
        except Undrawn:
            continue
        tag = {"n": number, "seed": args.seed, "family": family, "impl": "describing", "q": trial.q}
        tag["function"] = trial.descriptor.swept_as
        if args.which == "trusted" and unaskable(trial.descriptor):
            continue
        log.write(json.dumps({"begin": tag}) + "\n")
        first = described(engine, trial.function, *trial.arguments)
        if first is None:
            log.write(json.dumps({"none": family}) + "\n")
            continue
        for desc in implementations(first):
            name = desc.implementation
            if name.startswith("ref") and args.which != "references":
                continue
            tag["impl"], tag["barred"] = name, refused(Features(trial.descriptor, desc))
            tag["problem"] = told_of(trial)
            if (args.which == "trusted" and tag["barred"]) or not chosen(args.kernels, name):
                continue
            log.write(json.dumps({"begin": tag}) + "\n")
            try:
                problems = attempt(engine, desc, trial)
            except LibraryError as error:
                problems = [str(error)]
            if problems is not None:
                kind = "bad" if problems else "ok"
                log.write(
                    json.dumps({kind: name, "problems": problems[:4], **({"tag": tag} if problems else {})})
                    + "\n"
                )
    log.write(json.dumps({"end": True}) + "\n")


def parent(args) -> int:
    counts, ran, findings = collections.Counter(), collections.Counter(), 0
    seed, done = args.seed, 0
    environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=args.isa.upper(), MALLOC_PERTURB_="205")
    with open(args.out, "a", buffering=1) as out:
        while done < args.trials:
            count = min(args.batch, args.trials - done) if args.only is None else args.only + 1

            def command(log, skip, seed=seed, count=count):
                only = [] if args.only is None else ["--only", str(args.only)]
                return [
                    __file__,
                    "--child",
                    str(log),
                    "--seed",
                    str(seed),
                    "--trials",
                    str(count),
                    "--skip",
                    str(skip),
                    "--families",
                    args.families,
                    "--which",
                    args.which,
                    "--kernels",
                    args.kernels,
                    "--wide",
                    str(args.wide),
                    *only,
                ]

            for run in restarted(command, environment, args.timeout):
                findings += tally(args, run.lines, counts, ran, out)
                if run.ended:
                    break
                begun = run.begun
                findings += 1
                crash = {"isa": args.isa, "crash": run.code, "stderr": run.errors, "tag": begun}
                out.write(json.dumps(crash) + "\n")
                counts[begun["family"] if begun else "start", begun["impl"] if begun else "", "crash"] += 1
                ran[(begun or {}).get("function", ""), begun["impl"] if begun else "", "crash"] += 1
                if begun is None or run.code == 1:  # an exception in Python is this tool's own
                    print(run.errors, file=sys.stderr)
                    return 2
            done += count
            seed += 1
            if args.only is not None:
                break
    for key, number in sorted(counts.items()):
        print(args.isa, *key, number)
    if args.tally:
        write_tally(args.tally, ran)
    print(f"{done} trials, {findings} findings", flush=True)
    return 1 if findings else 0


def write_tally(path, ran) -> None:
    """Writes how often each kernel was right, wrong or crashed: lists of function, implementation, how, number."""
    with open(path, "w") as file:
        json.dump([[*key, number] for key, number in sorted(ran.items())], file)


def tally(args, lines, counts, ran, out) -> int:
    """Counts what a child says and writes its findings, whose number is returned."""
    begun, findings = None, 0
    for line in lines:
        if "begin" in line:
            begun = line["begin"]
        elif "ok" in line or "bad" in line:
            good = "ok" in line
            counts[begun["family"], begun["impl"], "ok" if good else "bad"] += 1
            ran[begun["function"], begun["impl"], "ok" if good else "bad"] += 1
            if not good:
                findings += 1
                out.write(json.dumps({"isa": args.isa, **line}) + "\n")
        elif "none" in line:
            counts[line["none"], "none", "none"] += 1
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=250, help="trials per child process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isa", default="default", help="ONEDNN_MAX_CPU_ISA of the children")
    parser.add_argument("--families", default="", help="which families, comma-separated; all if empty")
    parser.add_argument("--out", default="fuzz-primitives.jsonl")
    parser.add_argument("--which", default="all", choices=["all", "trusted", "references"])
    parser.add_argument(
        "--kernels", default="", help="run only those with one of these parts in their names, comma-separated"
    )
    parser.add_argument("--wide", type=float, default=SHARE, help="share of trials with something large")
    parser.add_argument("--only", type=int, help="number of one trial of the seed's batch")
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
