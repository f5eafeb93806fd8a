"""Draws models of timm, one of each of some families, and holds torch.compile and from_torch against double precision.

    python tests/tools/timm_models.py --seed 17 --out results.jsonl
    python tests/tools/timm_models.py --seed 17 --out results.jsonl --ways inference_time,training_time
    python tests/tools/timm_models.py --out results.jsonl --models repvit_m1_1 --again
    python tests/tools/timm_models.py --out results.jsonl --table

A family is a module of timm.models. Models have random weights. Each runs in a child process with limits of time and
memory, and each way becomes a line of JSON; what has its line already is not run again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from children import in_child

WAYS = ("inference", "training", "from_torch", "inference_time", "training_time")
MOST_PARAMETERS = 60e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="0", help="any text")
    parser.add_argument("--count", type=int, default=60, help="families")
    parser.add_argument("--models", help="names, with commas, instead of a draw")
    parser.add_argument("--ways", default="inference,training,from_torch", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, read and added to")
    parser.add_argument("--again", action="store_true", help="also what has its line")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of one model one way")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="of measuring, where times are")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")
    args = parser.parse_args()
    lines = Lines(args.out)
    if not args.table:
        names = args.models.split(",") if args.models else drawn(args)
        for name in names:
            tried(lines, name, args)
    print(lines.table())
    return 0


class Lines:
    """A file of results: the last line of a model and a way is the one that counts.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.found[entry["model"], entry["way"]] = entry

    def add(self, entry: dict[str, Any]) -> None:
        """One more."""
        self.found[entry["model"], entry["way"]] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print({name: value for name, value in entry.items() if name != "report"}, flush=True)

    def table(self) -> str:
        """A line for each model."""
        rows = ["| model | size | inference | training | from_torch | eager ÷ ours, inference | training |"]
        rows.append("|" + "---|" * 7)
        for model in dict.fromkeys(model for model, _ in self.found):
            of = {way: self.found.get((model, way), {}) for way in WAYS}
            size = next((str(one["size"]) for one in of.values() if "size" in one), "")
            cells = [_cell(one) for one in of.values()]
            rows.append("| " + " | ".join([model, size, *cells]) + " |")
        return "\n".join(rows)


def _cell(entry: dict[str, Any]) -> str:
    if not entry:
        return ""
    if entry["status"] not in ("ok", "wrong"):
        return f"{entry['status']}: {entry.get('detail', '')[:60]}"
    if "ratio" in entry:
        return f"{entry['ratio']:.2f}"
    steps = f", {entry['regions']} regions, {entry['torch_steps']} steps" if "regions" in entry else ""
    wrong = "" if entry["status"] == "ok" else f"**wrong** {entry['detail'][:60]} "
    return f"{wrong}{entry['ours']:.1e} / {entry['eager']:.1e}{steps}"


def drawn(args: argparse.Namespace) -> list[str]:
    """Names of models, one of each family."""

    def work(send: Any) -> None:
        import torchvision_anywhere  # noqa: F401 -- before torchvision is imported, which timm does

        timm = importlib.import_module("timm")
        from timm_model_runs import smallest

        draw = random.Random(args.seed)
        families = sorted(timm.list_modules())
        draw.shuffle(families)
        found = 0
        for family in families:
            if found == args.count:
                return
            models = sorted(timm.list_models(module=family))
            draw.shuffle(models)
            name = smallest(models, MOST_PARAMETERS)
            if name is not None:
                found += 1
                send({"name": name})

    ended = in_child(work, args.timeout)
    if ended.status != "ok":
        raise SystemExit(f"nothing could be drawn: {ended.status} {ended.errors}")
    return [message["name"] for message in ended.messages]


def tried(lines: Lines, name: str, args: argparse.Namespace) -> None:
    """Runs a model all ways that it has no line of."""
    ways = [one for one in WAYS if one in args.ways.split(",")]
    todo = [one for one in ways if args.again or (name, one) not in lines.found]
    while todo:
        # Once a child was made nothing here may have called the library.
        def work(send: Any, ways: tuple[str, ...] = tuple(todo)) -> None:
            import torchvision_anywhere  # noqa: F401 -- before torchvision is imported
            from timm_model_runs import run

            for way in ways:
                send({"begin": way})
                send(run(name, way, args.threads, args.seconds))

        ended = in_child(work, args.timeout)
        for message in ended.messages:
            if "begin" not in message:
                todo.remove(message["way"])
                lines.add(message)
        if ended.status != "ok" and todo:
            way = todo.pop(0)
            lines.add({"model": name, "way": way, "status": ended.status, "detail": ended.errors[-300:]})


if __name__ == "__main__":
    sys.exit(main())
