"""Draws random torch modules and holds what the importers and torch.compile make of them against double precision.

    python tests/tools/fuzz_models.py --models 200 --seed 0
    python tests/tools/fuzz_models.py --seconds 3600 --seed random --ways training,inference --out findings.jsonl
    python tests/tools/fuzz_models.py --replay findings.jsonl
    python tests/tools/fuzz_models.py --show 17          # the source of the module of a seed

Modules run in child processes; a crash and a hang are findings. What is found is shrunk and written as JSON lines, with
the source of the module. A refusal by name is none where a model is imported.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from children import Message, in_child

WAYS = ("from_torch", "from_onnx", "inference", "training", "handed")
IN_A_CHILD = 30
"""Modules after which a child makes way for a new one."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.0, help="run so long, whatever --models says")
    parser.add_argument("--seed", default="0", help="a number, or random")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}, with commas")
    parser.add_argument("--out", type=Path, help="where findings are added to, as JSON lines")
    parser.add_argument(
        "--timeout", type=float, default=600.0, help="seconds of one module until it counts as hung"
    )
    parser.add_argument("--per-class", type=int, default=2, help="findings that look alike to shrink")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="time to shrink a finding")
    parser.add_argument("--replay", type=Path, help="a file of findings to run again")
    parser.add_argument("--show", type=int, help="print the source of the module of this seed")
    args = parser.parse_args()
    if args.show is not None:
        return show(args.show)
    if args.replay is not None:
        return again(args.replay, args.timeout)
    seed = random.SystemRandom().randrange(2**31) if args.seed == "random" else int(args.seed)
    print(f"seed {seed}", flush=True)
    campaign = Campaign(seed, args)
    campaign.run()
    print(campaign.summary(), flush=True)
    return 1 if campaign.findings else 0


class Campaign:
    """Modules one after the other, and what became of them.

    Args:
        seed: of the first one; others follow it.
        args: of the command line.
    """

    def __init__(self, seed: int, args: argparse.Namespace) -> None:
        self.seed = seed
        self.args = args
        self.ways = [one for one in WAYS if one in args.ways.split(",")]
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.findings = 0
        self.done = 0

    def run(self) -> None:
        """All of them."""
        until = time.monotonic() + self.args.seconds
        while (time.monotonic() < until) if self.args.seconds else (self.done < self.args.models):
            count = IN_A_CHILD if self.args.seconds else min(IN_A_CHILD, self.args.models - self.done)
            first = self.seed + self.done
            ends = until if self.args.seconds else None
            ended = in_child(
                lambda send, a=first, n=count, e=ends: judge_all(send, a, n, self.ways, e), self.args.timeout
            )
            begun: Message | None = None
            doing = ""
            for message in ended.messages:
                doing = message.get("doing", "")
                if "begin" in message:
                    begun = message["begin"]
                elif "found" in message:
                    self.take(message["found"])
                elif "drawn" in message:
                    self.done += 1
            print(f"… {self.done} modules, {self.findings} findings", flush=True)
            if ended.status != "ok":
                # The same module would end the next child as well.
                self.done = (begun["seed"] - self.seed if begun else self.done + count - 1) + 1
                entry = {"way": begun["way"] if begun else "start", "status": "crash", "what": ended.status}
                if doing:
                    entry |= {"status": "skipped", "what": f"{doing}: {ended.status}"}
                self.take({**entry, "detail": ended.errors, "spec": begun and begun["spec"]})

    def take(self, found: dict[str, Any]) -> None:
        """Counts what became of a module one way, and has a finding shrunk and written."""
        self.counts[f"{found['way']} {found['status']}"] += 1
        if found["status"] == "refused":
            self.refusals[f"{found['way']} {found['what']}"] += 1
        if found["status"] == "skipped":
            self.refusals[f"skipped: {found['what'][:50]}"] += 1
        if found["status"] not in ("wrong", "error", "crash"):
            return
        self.findings += 1
        signature = f"{found['way']} {found['status']} {found['what']}"
        self.classes[signature] += 1
        if self.classes[signature] > self.args.per_class or not found.get("spec"):
            return
        if found["status"] != "crash":
            ended = in_child(
                lambda send: shrink(send, found, self.args.shrink_seconds),
                self.args.shrink_seconds + self.args.timeout,
            )
            for message in ended.messages:
                found = {**found, **message}
        print(f"{signature}: {found.get('detail', '')[:300]}\n{found.get('source', '')}", flush=True)
        if self.args.out:
            with self.args.out.open("a") as file:
                file.write(json.dumps(found) + "\n")

    def summary(self) -> str:
        """Counts, and what looks alike."""
        lines = [f"{self.done} modules from seed {self.seed}, {self.findings} findings"]
        lines += [f"  {count:5d} {what}" for what, count in sorted(self.counts.items())]
        lines += [f"  {count:5d} × {what}" for what, count in self.classes.most_common()]
        lines += [f"  {count:5d} × {what}" for what, count in self.refusals.most_common(25)]
        return "\n".join(lines)


def prepared() -> None:
    """The child's torch: quiet, and on one thread."""
    import logging
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch._dynamo.config.suppress_errors = False


def judge_all(send: Any, first: int, count: int, ways: list[str], until: float | None) -> None:
    """Draws and judges modules; runs in a child."""
    prepared()
    from model_fuzz.drawing import Draw
    from model_fuzz.judging import TELL, judged

    TELL.append(lambda what: send({"doing": what}))
    for seed in range(first, first + count):
        if until is not None and time.monotonic() > until:
            return
        spec = Draw(seed).module()
        for way in drawn_ways(ways, seed):
            send({"begin": {"seed": seed, "way": way, "spec": spec.to_json()}})
            found = judged(spec, way)
            entry = {"seed": seed, "way": way, "status": found.status, "what": found.what}
            if found.is_finding:
                entry |= {"detail": found.detail, "spec": spec.to_json(), "source": spec.source()}
            send({"found": entry})
        send({"drawn": seed})


def drawn_ways(ways: list[str], seed: int) -> list[str]:
    """Those that a module is taken: what differs least from another way in one of four, the slowest in one of two."""
    every = {"handed": 4, "from_onnx": 2}
    return [one for one in ways if len(ways) < len(WAYS) or seed % every.get(one, 1) == 0]


def shrink(send: Any, found: dict[str, Any], seconds: float) -> None:
    """Sends a smaller module that shows the same; runs in a child."""
    prepared()
    from model_fuzz.judging import judged
    from model_fuzz.shrinking import shrunk
    from model_fuzz.spec import Spec

    def shows(spec: Spec) -> bool:
        one = judged(spec, found["way"])
        return one.status == found["status"] and one.what == found["what"]

    made = shrunk(Spec.from_json(found["spec"]), shows, seconds)
    send({"spec": made.to_json(), "source": made.source(), "detail": judged(made, found["way"]).detail})


def again(path: Path, timeout: float) -> int:
    """Runs findings again; 1 if one still shows something."""
    wrong = 0
    for line in path.read_text().splitlines():
        entry = json.loads(line)

        def work(send: Any, entry: dict[str, Any] = entry) -> None:
            prepared()
            from model_fuzz.judging import judged
            from model_fuzz.spec import Spec

            found = judged(Spec.from_json(entry["spec"]), entry["way"])
            send({"status": found.status, "text": f"{found.what} {found.detail}"})

        ended = in_child(work, timeout)
        status = ended.messages[0]["status"] if ended.messages else ended.status
        wrong += status not in ("ok", "refused", "skipped")
        text = ended.messages[0]["text"] if ended.messages else ended.errors
        print(f"{entry['way']} {entry['what'][:60]} → {status} {text[:200]}", flush=True)
    return 1 if wrong else 0


def show(seed: int) -> int:
    """Prints a module."""
    from model_fuzz.drawing import Draw

    print(Draw(seed).module().source())
    return 0


if __name__ == "__main__":
    sys.exit(main())
