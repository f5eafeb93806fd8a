"""Runs everything of `native_cases.py` natively in child processes, and says what crashes, is refused, or is wrong.

    python tests/tools/try_native.py [--unbarred] [--jobs 2] [--out outcomes.jsonl]

`--unbarred` lets what `backends/native/limits.py` bars reach the library too: what crashes then needs a rule there.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUPPORT = Path(__file__).parent.parent / "support"
sys.path.insert(0, str(SUPPORT))
from native_cases import END, START, cases  # noqa: E402 -- it is found only now

SECONDS = 300


def run(first, last, unbarred):
    """Outcomes of the cases from `first` to `last`; what crashes ends a process, and the next goes on behind it."""
    outcomes = []
    while first < last:
        command = [sys.executable, str(SUPPORT / "native_cases.py"), str(first), str(last), *unbarred]
        try:
            child = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            printed, said, code = child.stdout, child.stderr, child.returncode
        except subprocess.TimeoutExpired as error:
            printed, said, code = (error.stdout or b"").decode(), "", None
        lines = printed.splitlines()
        outcomes += [json.loads(line.removeprefix(END)) for line in lines if line.startswith(END)]
        started = [json.loads(line.removeprefix(START)) for line in lines if line.startswith(START)]
        if code == 0:
            break
        if not started:
            raise SystemExit(said)
        number, label = started[-1]
        how = "no answer" if code is None else signal.Signals(-code).name if code < 0 else f"exit code {code}"
        outcomes.append([number, label, f"crash: {how}: {' '.join(said.split())[-300:]}"])
        first = number + 1
    return outcomes


def main():
    parser = argparse.ArgumentParser(description="What native oneDNN Graph makes of many small graphs.")
    parser.add_argument("--unbarred", action="store_true", help="let all reach the library")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--out", type=Path, default=None, help="write all outcomes here, one a line")
    args = parser.parse_args()
    total = sum(1 for _ in cases())
    unbarred = ["--unbarred"] if args.unbarred else []
    chunks = [(first, min(first + args.chunk, total)) for first in range(0, total, args.chunk)]
    counts = Counter()
    with ThreadPoolExecutor(args.jobs) as pool:
        for part in pool.map(lambda chunk: run(*chunk, unbarred), chunks):
            for _, label, outcome in part:
                counts[outcome.partition(":")[0]] += 1
                if outcome.startswith(("crash", "wrong")):
                    print(f"{label}: {outcome}", flush=True)
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(one) + "\n" for one in part)
    print(dict(counts))


if __name__ == "__main__":
    main()
