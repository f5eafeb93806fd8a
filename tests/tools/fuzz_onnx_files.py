"""Changes bytes and fields of small ONNX models: whatever `from_onnx` is given must run or end in one error of ours.

    python tests/tools/fuzz_onnx_files.py --files 2000 --seed 0
    python tests/tools/fuzz_onnx_files.py --seconds 3600 --seed random --out findings

Files are read, compiled and run in child processes with limits on time and memory; a crash, a hang and an error that is
none of ours are findings, which are written as files.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from children import Message, in_child
from onnx_seeds import feeds_of, seeds

IN_A_CHILD = 100
"""Files after which a child makes way for a new one."""
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    -7,
    255,
    1 << 16,
    1 << 31,
    -(1 << 31),
    (1 << 31) - 1,
    10**12,
    (1 << 62) + 1,
    -(1 << 63),
)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, float("nan"), float("inf"), -float("inf"))
TEXTS = (
    "",
    "x",
    "y",
    "a" * 1000,
    "NOTSET",
    "SAME_UPPER",
    "linear",
    "LINEAR",
    "../x",
    "/etc/passwd",
    "%s",
    "\0",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.0, help="run so long, whatever --files says")
    parser.add_argument("--seed", default="0", help="a number, or random")
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds of one file until it counts as hung"
    )
    parser.add_argument("--out", type=Path, help="a folder for files of findings")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if args.seed == "random" else int(args.seed)
    print(f"seed {seed}", flush=True)
    until = time.monotonic() + args.seconds
    counts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    done = 0
    while (time.monotonic() < until) if args.seconds else done < args.files:
        first = seed + done
        count = IN_A_CHILD if args.seconds else min(IN_A_CHILD, args.files - done)
        ended = in_child(lambda send, a=first, n=count: judge_all(send, range(a, a + n)), args.timeout)
        begun = None
        for message in ended.messages:
            if "begin" in message:
                begun = message["begin"]
                continue
            done += 1
            counts[message["status"]] += 1
            if message["status"] == "foreign":
                take(message["seed"], message["what"], message["detail"], seen, args.out)
        if ended.status != "ok":
            done = (begun - seed if begun is not None else done + count) + 1
            counts["crash"] += 1
            take(begun, ended.status, ended.errors, seen, args.out)
    print(dict(counts), flush=True)
    return 1 if seen else 0


def take(seed: int | None, what: str, detail: str, seen: Counter[str], out: Path | None) -> None:
    """Tells of a finding, and writes its file."""
    seen[what] += 1
    if seen[what] <= 3:
        print(f"{what}: file {seed}\n{detail}", flush=True)
        if out is not None and seed is not None:
            out.mkdir(exist_ok=True)
            (out / f"{seed}.onnx").write_bytes(drawn(seed))


def judge_all(send: Any, numbers: range) -> None:
    for number in numbers:
        send({"begin": number})
        send({"seed": number, **judged(drawn(number))})


def judged(content: bytes) -> Message:
    """What becomes of a file: it runs, ends in an error of ours, or in another one."""
    import onednn_graph as og

    status = "refused when read"
    try:
        graph = og.from_onnx(content, fold_limit=1 << 28)
        status = "refused when compiled"
        compiled = graph.compile()
        status = "refused when run"
        compiled(feeds_of(graph.inputs))
    except og.OneDNNGraphError as error:
        if len(str(error)) > 5000:
            return {"status": "foreign", "what": "a message without end", "detail": str(error)[:1000]}
        return {"status": status}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
        return {"status": "foreign", "what": what, "detail": traceback.format_exc()[-1500:]}
    return {"status": "ran"}


def drawn(seed: int) -> bytes:
    """The file of a number."""
    draw = random.Random(seed)
    models = seeds()
    content = models[draw.choice(sorted(models))]
    if draw.random() < 0.25:
        return changed_bytes(content, draw)
    import onnx

    model = onnx.ModelProto.FromString(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        with suppress(ValueError, TypeError):  # numbers and texts that a field does not take
            change_field(model, draw)
    try:
        return model.SerializeToString()
    except Exception:  # text that is none, an enum's value that no file may have
        return changed_bytes(content, draw)


def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """The same with some bytes changed, left out, put in or cut off."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        place = draw.randrange(len(data) or 1)
        how = draw.random()
        if how < 0.5:
            data[place : place + 1] = bytes([draw.randrange(256)])
        elif how < 0.65:
            del data[place : place + draw.choice((1, 2, 8))]
        elif how < 0.8:
            data[place:place] = draw.randbytes(draw.choice((1, 2, 8)))
        elif how < 0.9:
            data[place : place + 1] = bytes([data[place] ^ 1 << draw.randrange(8)]) if data else b""
        else:
            del data[place:]
    return bytes(data)


def change_field(message: Any, draw: random.Random) -> None:
    """Changes one field, somewhere in a message."""
    while True:
        fields = message.ListFields()
        if not fields:
            return
        descriptor, value = draw.choice(fields)
        repeated = not isinstance(value, int | float | str | bytes) and not hasattr(value, "ListFields")
        inside = descriptor.message_type is not None
        if inside and draw.random() < 0.85:
            message = draw.choice(list(value)) if repeated else value
            continue
        break
    name = descriptor.name
    if draw.random() < 0.1:
        message.ClearField(name)
    elif not repeated:
        if inside:
            change_field(value, draw)
        else:
            setattr(message, name, other(value, draw))
    elif inside:
        rows = list(value)
        how = draw.random()
        if how < 0.3:
            del value[draw.randrange(len(rows))]
        elif how < 0.6:
            value.add().CopyFrom(draw.choice(rows))
        else:
            a, b = (draw.randrange(len(rows)) for _ in range(2))
            copy = type(rows[a])()
            copy.CopyFrom(rows[a])
            rows[a].CopyFrom(rows[b])
            rows[b].CopyFrom(copy)
    else:
        how = draw.random()
        if how < 0.2:
            del value[draw.randrange(len(value))]
        elif how < 0.4:
            value.append(other(value[0], draw))
        else:
            value[draw.randrange(len(value))] = other(draw.choice(list(value)), draw)


def other(value: Any, draw: random.Random) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice((*NUMBERS, value + 1, value - 1, value * 2, -value, draw.randrange(30)))
    if isinstance(value, float):
        return draw.choice((*REALS, value * 2, -value))
    if isinstance(value, bytes):
        others = b"", value[:-1], value + b"\0", value * 2, b"\xff" * len(value)
        return draw.choice((*others, draw.randbytes(len(value))))
    return draw.choice((*TEXTS, value + "x", value[:-1], value * 2))


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
