"""What a build of oneDNN does wrong, and which of its kernels are right: the records behind rules and proofs.

    python tests/tools/sweep.py                                    # the library that would be loaded
    python tests/tools/sweep.py --library /opt/onednn/libdnnl.so --trials 10000 --problems 1000 --seed 7
    python tests/tools/sweep.py --rules                            # the reproducers alone
    python tests/tools/sweep.py --isa AVX512_CORE_AMX --kernels amx # what an instruction set adds

It replays the reproducers of all rules, then draws trials of what nothing bars for each instruction set, all in child
processes, and adds what came out to `sweeps/<version>-<runtime>.json` beside this file: how each reproducer ended, and
how often each kernel was right. Of that it makes `backends/onednn/proven/<version>-<runtime>.json`, and says what the
versions of the rules should be where the records of all builds contradict them. A kernel that was wrong stands in the
record under `wrong`, and is not proven until somebody takes it out, when a rule bars what it did.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from replay import WRONG, replayed, reproducers

HERE = Path(__file__).parent
SWEEPS = HERE / "sweeps"
PROVEN = HERE.parents[1] / "backends" / "onednn" / "proven"
LEAST = 200
"""Trials that a kernel must have run right, over all instruction sets."""
SETS = (
    "SSE41",
    "AVX2",
    "AVX512_CORE",
    "AVX512_CORE_VNNI",
    "AVX512_CORE_BF16",
    "AVX512_CORE_FP16",
    "AVX512_CORE_AMX",
)
ABOUT = """
import json
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.proven import runtime_of
lib = load()
print(json.dumps({"version": list(lib.version), "runtime": runtime_of(lib), "isa": lib.effective_isa}))
"""
EXTRAPOLATED = (
    "to every patch of this version; to OpenMP of other makers, and to builds without threads; to instruction sets "
    "beyond these for kernels whose names have none, jit:uni say; to other numbers of threads than 2"
)


def environment_of(library):
    """The environment in which a library is loaded."""
    return dict(os.environ, **({"ONEDNN_GRAPH_LIBRARY": str(library)} if library else {}))


def about(library, isa="DEFAULT"):
    """Version, runtime and effective instruction set of a library."""
    environment = environment_of(library) | {"ONEDNN_MAX_CPU_ISA": isa}
    told = subprocess.run(
        [sys.executable, "-c", ABOUT], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout)


def name_of(record) -> str:
    """The name of a record's files."""
    return f"{record['version'][0]}.{record['version'][1]}-{record['runtime']}"


def counted(library, args, isa) -> collections.Counter:
    """How often kernels were right, wrong or crashed with an instruction set: by function, implementation and how."""
    found: collections.Counter = collections.Counter()
    for tool, number in (
        ("fuzz_primitives", ["--trials", args.trials]),
        ("fuzz_kernels", ["--problems", args.problems]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            tally = Path(folder, "tally.json")
            command = [sys.executable, HERE / f"{tool}.py", *number, "--which", "trusted", "--isa", isa]
            command += [
                "--kernels",
                args.kernels,
                "--seed",
                args.seed,
                "--out",
                args.out,
                "--tally",
                tally,
                "--wide",
                0.1,
            ]
            environment = environment_of(library) | {"OMP_NUM_THREADS": "2"}
            subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, check=False)
            for *key, count in json.loads(tally.read_text()):
                found[tuple(key)] += count
    return found


def add(record, isa, found) -> None:
    """Adds counts to a record."""
    kernels, wrong = record.setdefault("right", {}), record.setdefault("wrong", {})
    for (function, implementation, how), count in sorted(found.items()):
        if how == "ok":
            own = kernels.setdefault(function, {}).setdefault(implementation, {})
            own[isa] = own.get(isa, 0) + count
        else:
            print(f"wrong or crashed: {function} by {implementation or '?'} with {isa}; see the findings")
            wrong.setdefault(function, {})[implementation] = isa


def with_what_was_wrong(seen, before) -> dict[str, str]:
    """How each reproducer ended with a build; what was wrong on one CPU stays so, where another has no such kernel."""
    return {name: before[name] if before.get(name) in WRONG else end for name, end in sorted(seen.items())}


def proven_of(record) -> dict:
    """What the backend is told of a record."""
    names: dict[str, set[str]] = {
        function: set(known) for function, known in record.get("earlier", {}).items()
    }
    for function, kernels in record.get("right", {}).items():
        enough = {name for name, own in kernels.items() if sum(own.values()) >= LEAST}
        names.setdefault(function, set()).update(enough)
    for function, kernels in record.get("wrong", {}).items():
        names.get(function, set()).difference_update(kernels)
    sets = {isa for kernels in record.get("right", {}).values() for own in kernels.values() for isa in own}
    return {
        "version": record["version"],
        "runtime": record["runtime"],
        "complete": record.get("complete", False),
        "instruction_sets": sorted(sets | set(record.get("earlier_instruction_sets", ()))),
        "extrapolated": EXTRAPOLATED,
        "implementations": {function: sorted(known) for function, known in sorted(names.items()) if known},
    }


def records() -> dict[str, dict]:
    """All records by their names."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(SWEEPS.glob("*.json"))}


def contradictions(known) -> list[str]:
    """Where the records of builds contradict the versions of the rules."""
    from onednn_graph.backends.onednn.quarantine import TABLES

    found = []
    rules = {
        f"{f}/{rule.name}": rule for table in TABLES.values() for f, rules in table.items() for rule in rules
    }
    for build, record in known.items():
        version = tuple(record["version"][:2])
        for name, end in record["rules"].items():
            if name in rules and not rules[name].holds(version) and end in WRONG:
                found.append(f"{name}: {end} with {build}, of which the rule does not hold")
    return found


def history(known) -> dict[str, dict[str, str]]:
    """For each rule, how its reproducer ended with each build."""
    names = sorted({name for record in known.values() for name in record["rules"]})
    return {
        name: {build: record["rules"].get(name, "not tried") for build, record in known.items()}
        for name in names
    }


def write(path, content) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="libdnnl to sweep; the one that would be loaded by default")
    parser.add_argument("--rules", action="store_true", help="replay the reproducers alone")
    parser.add_argument("--trials", type=int, default=6000, help="of primitives, for each instruction set")
    parser.add_argument(
        "--problems", type=int, default=600, help="of weight gradients, for each instruction set"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isa", default=",".join(SETS), help="instruction sets, comma-separated")
    parser.add_argument(
        "--kernels",
        default="",
        help="only those with one of these parts in their names: amx,fp16 on a CPU that is new",
    )
    parser.add_argument("--out", default="sweep-findings.jsonl")
    args = parser.parse_args()
    seen = about(args.library)
    path = SWEEPS / f"{name_of(seen)}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    record |= {"version": seen["version"], "runtime": seen["runtime"]}
    problems = {name: told for name, told in reproducers().items() if "unreproduced" not in told}
    outcomes = replayed(problems, args.library)
    record["rules"] = with_what_was_wrong(
        {name: outcome.end for name, outcome in outcomes.items()}, record.get("rules", {})
    )
    write(path, record)
    for isa in () if args.rules else args.isa.split(","):
        effective = about(args.library, isa)["isa"]
        if effective != isa.lower():
            print(f"{isa} is not to be had on this CPU, which gives {effective}")
            continue
        add(record, effective, counted(args.library, args, isa))
        write(path, record)
    proven = proven_of(record)
    if proven["implementations"]:  # of reproducers alone nothing comes
        write(PROVEN / path.name, proven)
    known = records()
    for name, ends in history(known).items():
        print(f"{name}: {', '.join(f'{build} {end}' for build, end in ends.items())}")
    wrong = contradictions(known)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
