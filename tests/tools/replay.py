"""Runs problems of primitives in child processes, whether their kernels are barred or not, and says how each ended.

    python tests/tools/replay.py problem.json …

A problem is a text as in `primitive_problems.py`. One that crashes, never ends or spoils what comes behind it in its
process costs a child, and the next begins behind it.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
from pathlib import Path

from attrs import evolve, frozen

REPRODUCERS = Path(__file__).parent / "reproducers"
WRONG = ("wrong", "crashed", "no end", "failed")
"""Ends of a kernel that must not run."""


@frozen(kw_only=True)
class Outcome:
    """How a problem ended.

    Attributes:
        end: `right`, `wrong`, `crashed`, `no end`; `failed`: the library says that it can't, when it has promised; or
            `not offered`: it has no such kernel for it.
        words: what was wrong.
        implementation: what ran.
        isa: the instruction set that the library had in effect: another than the problem's where the CPU has no such.
        barred: names of the rules that bar it, of whatever version.
        refused: why it must not run, by the version that is loaded.
    """

    end: str
    words: str = ""
    implementation: str = ""
    isa: str = ""
    barred: tuple[str, ...] = ()
    refused: str | None = None


def reproducers() -> dict[str, dict]:
    """Rule, as function/name → its problem, or an object that says under `unreproduced` why there is none."""
    return {
        f"{file.stem}/{name}": told
        for file in sorted(REPRODUCERS.glob("*.json"))
        for name, told in json.loads(file.read_text()).items()
    }


def replayed(problems, library=None, timeout=60.0) -> dict[str, Outcome]:
    """The outcomes of problems, by their names.

    Args:
        problems: name → text, parsed.
        library: file of another oneDNN than the one that would be loaded.
        timeout: seconds for those of one instruction set and number of threads.
    """
    from children import restarted

    groups = collections.defaultdict(list)
    for name, told in problems.items():
        groups[told.get("isa", "default"), told.get("threads", 2)].append([name, told])
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "problems.json")
        for (isa, threads), group in groups.items():
            listed.write_text(json.dumps(group))
            environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MALLOC_PERTURB_="205")
            environment |= {"ONEDNN_MAX_CPU_ISA": isa.upper()} if isa != "default" else {}
            environment |= {"ONEDNN_GRAPH_LIBRARY": str(library)} if library else {}

            def command(log, skip, listed=listed):
                return [__file__, "--child", str(log), "--skip", str(skip), str(listed)]

            for run in restarted(command, environment, timeout):
                seen = [Outcome(**line["outcome"]) for line in run.lines if "outcome" in line]
                begun = [line["begin"] for line in run.lines if "begin" in line]
                for one, outcome in zip(begun, seen, strict=False):
                    outcomes[one["name"]] = outcome
                if run.ended or (run.code == 0 and run.lines and "outcome" in run.lines[-1]):
                    continue
                if run.begun is None or run.code == 1:  # an exception in Python is this tool's own
                    raise RuntimeError(f"{run.begun}: {run.errors}")
                end = "no end" if run.code == "timeout" else "crashed"
                last = run.lines[-1]
                about = last.get("about", {})
                words = "" if run.code == "timeout" else f"exit code {run.code}"
                outcomes[run.begun["name"]] = evolve(Outcome(end=end, words=words), **_tuples(about))
    return outcomes


def _tuples(about):
    return {name: tuple(value) if isinstance(value, list) else value for name, value in about.items()}


def child(args) -> None:
    from fuzz_primitives import attempt, packed_by
    from guarded import dense
    from onednn_graph.backends.onednn.library.capabilities import DECOMPRESSION
    from onednn_graph.backends.onednn.library.descriptors import Reorder
    from onednn_graph.backends.onednn.library.enumerators import Query
    from onednn_graph.backends.onednn.library.implementations import begins
    from onednn_graph.backends.onednn.library.memory import MemoryDesc
    from onednn_graph.backends.onednn.library.primitive import (
        NativeEngine,
        PrimitiveAttributes,
        implementations,
    )
    from onednn_graph.backends.onednn.plan.arena import GUARDS
    from onednn_graph.backends.onednn.quarantine import refused, rules_of, unaskable
    from onednn_graph.backends.onednn.rules.features import Features
    from onednn_graph.ops.errors import LibraryError
    from primitive_problems import PrimitiveProblem

    GUARDS.switch_on()
    engine = NativeEngine()
    log = open(args.child, "a", buffering=1)  # noqa: SIM115 -- open until the child ends or crashes

    def write(**line):
        log.write(json.dumps(line) + "\n")

    def about(features, name):
        bars = [rule.name for rule in rules_of(features.function) if rule.asked and rule.bars(features)]
        return {"implementation": name, "barred": bars, "refused": refused(features)}

    def outcome(told):
        """How it ends, after its log says what it is about to do."""
        if "decompression" in told and DECOMPRESSION not in engine.lib.capabilities.later:
            return {"end": "not offered"}
        problem = PrimitiveProblem(engine, told)
        unasked = [
            rule.name
            for rule in rules_of(problem.function)
            if not rule.asked and rule.bars(Features(problem.descriptor))
        ]
        if unasked:
            write(about={"barred": unasked, "refused": unaskable(problem.descriptor)})
        has_any = hasattr(engine.lib.c, f"dnnl_{problem.function}_primitive_desc_create")
        first = problem.descriptor.described(engine) if has_any else None
        offered = () if first is None else implementations(first)
        wanted = told.get("implementation", "")
        desc = next((one for one in offered if begins(one.implementation, wanted)), None)
        if desc is None:
            return {"end": "not offered"}
        told_about = about(Features(problem.descriptor, desc), desc.implementation)
        if problem.trial.pack:
            own = desc.memory_desc(Query.weights_md)
            plain = MemoryDesc.strided(engine.lib, own.shape, own.data_type, dense(own.shape))
            packs = packed_by(engine, plain, own, problem.trial.pack)
            if packs is None:
                return {"end": "not offered"}
            reorder = Reorder(src=plain, dst=own, attributes=PrimitiveAttributes(engine.lib))
            told_about = about(Features(reorder, packs), f"{packs.implementation} for {desc.implementation}")
        if unasked:
            told_about |= {"barred": unasked, "refused": unaskable(problem.descriptor)}
        write(about=told_about)
        try:
            faults = attempt(engine, desc, problem.trial)
        except LibraryError as error:
            return {"end": "failed", "words": str(error)[:200], **told_about}
        return {"end": "wrong" if faults else "right", "words": "; ".join(faults or ())[:200], **told_about}

    problems = json.loads(Path(args.problems[0]).read_text())
    for number, (name, told) in enumerate(problems):
        if number >= args.skip:
            write(begin={"n": number, "name": name})
            ended = {"isa": engine.lib.effective_isa, **outcome(told)}
            write(outcome=ended)
            if ended["end"] == "failed":  # no code can be generated on this thread any more
                return
    write(end=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--library")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return 0
    problems = {file: json.loads(Path(file).read_text()) for file in args.problems}
    for name, outcome in replayed(problems, args.library).items():
        print(name, outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
