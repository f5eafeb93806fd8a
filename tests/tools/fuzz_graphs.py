"""Runs random graphs in child processes and holds them against double precision.

    python tests/tools/fuzz_graphs.py --graphs 5000 --seed 0
    python tests/tools/fuzz_graphs.py --seconds 3600 --seed random --isa avx2 --out findings.jsonl
    python tests/tools/fuzz_graphs.py --replay findings.jsonl

What is wrong is shrunk and written as JSON lines that `--replay` runs again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path

from graph_fuzz.campaign import Campaign, Settings, in_environment, isa_now, replay
from graph_fuzz.chains import kinds_for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.0, help="run so long, whatever --graphs says")
    parser.add_argument("--seed", default="0", help="a number, or random")
    parser.add_argument(
        "--isa",
        help="ONEDNN_MAX_CPU_ISA of the children: sse41, avx2, avx512_core, default; as it is set if left out",
    )
    parser.add_argument("--threads", type=int, default=1, help="OMP_NUM_THREADS of the children")
    parser.add_argument(
        "--kinds",
        default="",
        help="kinds to begin with, with commas; int8, attention, huge and training are four more",
    )
    parser.add_argument("--out", type=Path, help="where findings are added to, as JSON lines")
    parser.add_argument(
        "--known", type=Path, help="file of beginnings or parts of signatures that are left out"
    )
    parser.add_argument("--per-class", type=int, default=3, help="findings that look alike to shrink")
    parser.add_argument("--shrink-seconds", type=float, default=8.0, help="time to shrink a finding")
    parser.add_argument("--replay", help="a file of findings to run again; - for standard input")
    parser.add_argument("--results", action="store_true", help="with --replay: print a JSON line for each")
    args = parser.parse_args()
    if os.environ.get("FUZZ_GRAPHS") != "ready":
        # The library reads its settings when it is loaded, and malloc when the process begins.
        os.execve(sys.executable, [sys.executable, *sys.argv], in_environment(args.isa, args.threads))
    if args.replay is not None:
        text = sys.stdin.read() if args.replay == "-" else Path(args.replay).read_text()
        return again(text, results=args.results)
    seed = random.SystemRandom().randrange(2**31) if args.seed == "random" else int(args.seed)
    known = tuple(args.known.read_text().split("\n")) if args.known else ()
    settings = Settings(
        graphs=args.graphs,
        seconds=args.seconds,
        seed=seed,
        kinds=kinds_for(args.kinds),
        out=args.out,
        known=tuple(line for line in known if line),
        isa=isa_now(),
        threads=args.threads,
        shrink_seconds=args.shrink_seconds,
        per_class=args.per_class,
    )
    print(f"seed {seed}, isa {settings.isa}, {args.threads} threads", flush=True)
    campaign = Campaign(settings, lambda line: print(line, flush=True))
    found = campaign.run()
    print(campaign.summary(), flush=True)
    return 1 if found else 0


def again(text: str, *, results: bool) -> int:
    """Runs findings again, a JSON list or JSON lines; 1 if one still shows something."""
    entries = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    wrong = 0
    for entry, outcome in zip(entries, replay(entries), strict=True):
        wrong += not outcome.ok
        if results:
            print(
                json.dumps({"status": outcome.status, "detail": outcome.detail, "kernels": outcome.kernels})
            )
        else:
            print(f"{outcome.status}: {entry.get('signature', entry.get('name', ''))}\n    {outcome.detail}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
