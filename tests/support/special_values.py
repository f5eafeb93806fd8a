"""What becomes of NaN, infinities, zeros with a sign, subnormal and huge numbers: the default backends against NumPy.

Each op of the set runs on what `op_calls` has of it, and on some larger tensors, with a special value in the place of
one element of an input and of all of them; functions and arithmetic also behind a Multiply by ones, as post-ops.
`special_values.json` has what was measured on each instruction set, and `docs/pages/guides/special-values.md` says it:

    python tests/support/special_values.py

measures anew and writes both, with a process for each instruction set that this CPU has.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import ml_dtypes
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.lowering import links
from op_calls import EXAMPLES, SCHEMAS, Example
from who_runs_page import ISAS as ALL_ISAS

DATA = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "guides" / "special-values.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of what is measured -->\n"
ISAS = {
    name: ALL_ISAS[name]
    for name in ("sse41", "avx2", "avx512_core", "avx512_core_bf16", "avx512_core_fp16", "avx512_core_amx")
}
"""Instruction sets that the page has, as the library names them and as the page does."""

FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
INFINITE = {"NaN": float("nan"), "∞": float("inf"), "−∞": float("-inf")}
VALUES = ("NaN", "∞", "−∞", "−0", "subnormal", "largest", "−largest")
NUMBER, OTHER = "a number", "another number"
ELEMENTWISE = ("eltwise", "binary", "prelu")
"""Families that are tried with the largest numbers: others sum, and what overflows on the way depends on the order."""
PADDED = ("convolution",)
"""Families whose own examples have padding, where 0 · ∞ is NaN in some kernels and skipped in others."""

CONV = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
WINDOW = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
LARGER = [
    Example("Convolution", ((2, 16, 6), (16, 16, 3)), ((2, 16, 4),), {**CONV, "weights_format": "OIX"}),
    Example("ConvTranspose", ((2, 16, 4), (16, 16, 3)), ((2, 16, 6),), {**CONV, "weights_format": "IOX"}),
    *[
        Example(kind, ((3, 40),), ((3, 40),), {"axis": axis})
        for kind in ("SoftMax", "LogSoftmax")
        for axis in (0, 1)
    ],
    *[
        Example(f"Reduce{what}", ((5, 40),), ((5,),), {"axes": [1]})
        for what in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2")
    ],
    *[Example(f"Reduce{what}", ((5, 40),), ((40,),), {"axes": [0]}) for what in ("Max", "Min")],
    *[
        Example(kind, (src,), (dst,), {**WINDOW, "data_format": data_format} | more)
        for kind, more in (("MaxPool", {}), ("AvgPool", {"exclude_pad": True}))
        for src, dst, data_format in (
            ((2, 6, 4, 16), (2, 3, 2, 16), "NXC"),
            ((2, 16, 6, 4), (2, 16, 3, 2), "NCX"),
        )
    ],
    Example("MatMul", ((7, 40), (40, 20)), ((7, 20),)),
    Example("MatMul", ((24, 1), (1, 24)), ((24, 24),)),
]

AFTER = {
    "Clamp": {"min": -1.0, "max": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyReLU": {"alpha": 0.1},
    "Pow": {"beta": 2.0},
}
"""Attributes of functions as post-ops."""


def value_of(name, data_type):
    """The number behind a name, in a type."""
    limits = ml_dtypes.finfo(FLOATS[data_type])
    more = {"−0": -0.0, "subnormal": float(limits.smallest_normal) / 4, "largest": float(limits.max)}
    more["−largest"] = -more["largest"]
    return (INFINITE | more)[name]


def classes(array):
    """What kind of number each element is."""
    wide = array.astype(np.float64)
    result = np.full(array.shape, NUMBER, object)
    result[np.isnan(wide)] = "NaN"
    result[wide == np.inf] = "∞"
    result[wide == -np.inf] = "−∞"
    result[wide == 0] = np.where(np.signbit(wide[wide == 0]), "−0", "0")
    result[(wide != 0) & (np.abs(wide) < float(ml_dtypes.finfo(array.dtype).smallest_normal))] = "subnormal"
    return result


def differences(expected, got):
    """Pairs of kinds in which two arrays differ: what NumPy has and what oneDNN has."""
    if expected.dtype.kind not in "fV":
        return {(NUMBER, OTHER)} if (expected != got).any() else set()
    want, have = classes(expected), classes(got)
    pairs = {(str(a), str(b)) for a, b in zip(want.flat, have.flat, strict=True) if a != b}
    both = (want == NUMBER) & (have == NUMBER)
    a, b = expected[both].astype(np.float64), got[both].astype(np.float64)
    if (np.abs(a - b) > 0.05 * np.maximum(np.abs(a), np.abs(b)) + 1e-3).any():
        pairs.add((NUMBER, OTHER))
    return pairs


def places(array, value):
    """The array with the value at one place, and everywhere."""
    one, everywhere = array.copy(), array.copy()
    one.reshape(-1)[array.size // 2] = value
    everywhere[...] = value
    return one, everywhere


def tried(family):
    return [v for v in VALUES if family in ELEMENTWISE or not v.endswith("largest")]


def lone(kind, data_type):
    """Graphs of one op, their arrays by input, and the names of the inputs to change."""
    schema = SCHEMAS[kind]
    own = [] if schema.family in PADDED else EXAMPLES[kind]
    for example in [*own, *[e for e in LARGER if e.kind == kind]]:
        wanted = og.DataType(data_type)
        ports = schema.input_ports(len(example.inputs))
        types = [
            wanted if t is og.DataType.f32 and wanted in schema.types[p.type] else t
            for t, p in zip(example.types, ports, strict=True)
        ]
        if wanted not in types:
            continue
        arrays = {
            i: a.astype(FLOATS[t.value]) if t.value in FLOATS and not isinstance(given, list) else a
            for i, (a, t, given) in enumerate(zip(example.arrays(), types, example.inputs, strict=True))
        }

        made = og.Graph()
        made.add_op(example.op(types=types))
        changed = {
            i: p.name for i, p in enumerate(ports) if arrays[i].dtype == FLOATS[data_type] and arrays[i].size
        }
        yield made, arrays, changed
        if schema.family == "eltwise" and kind.endswith("Backward"):  # where slopes are zero, or others
            other = og.Graph()
            other.add_op(example.op(types=types))
            yield other, {**arrays, 0: -np.abs(arrays[0])}, changed


def following(kind, data_type):
    """The op behind a Multiply by ones, which leaves everything as it is, with the special value on either side."""
    schema = SCHEMAS[kind]
    if kind not in (*links.ELTWISE, *links.BINARY):
        return
    rng = np.random.default_rng(0)
    for turned in (False, True)[: len(schema.inputs)]:
        made = og.Graph()
        inputs = [made.input(f"x{i}", data_type, (24, 24)) for i in range(len(schema.inputs) + 1)]
        operands = [made.op("Multiply", *inputs[:2]), *inputs[2:]]
        made.op(kind, *(reversed(operands) if turned else operands), **AFTER.get(kind, {}))
        arrays = {i: (1 + rng.random((24, 24))).astype(FLOATS[data_type]) for i in range(len(inputs))}
        arrays[1][...] = 1
        names = [p.name for p in (reversed(schema.inputs) if turned else schema.inputs)]
        yield made, arrays, dict(zip((0, 2), names, strict=False))


def run(model, arrays):
    results = model(dict(zip(model.inputs, arrays, strict=True)))
    return [results[t] for t in model.outputs]


def of_one_graph(graph, arrays, changed, names, data_type):
    """(input, value, NumPy, oneDNN) wherever the two differ."""
    graph.finalize()
    if any(p.backend == "numpy" for p in graph.get_partitions()):
        return
    numpy, ours = graph.compile(backend="numpy"), graph.compile()
    for i, port in changed.items():
        for name in names:
            for array in places(arrays[i], value_of(name, data_type)):
                given = list({**arrays, i: array}.values())
                for expected, got in zip(run(numpy, given), run(ours, given), strict=True):
                    for pair in differences(expected, got):
                        yield port, name, *pair


def measured():
    """What differs on this instruction set: [op, where, input, value, NumPy, oneDNN, types], sorted."""
    rows = defaultdict(set)
    for kind, schema in SCHEMAS.items():
        for data_type in FLOATS:
            for where, graphs in (("alone", lone), ("post-op", following)):
                names = tried(schema.family if where == "alone" else "")
                for graph, arrays, changed in graphs(kind, data_type):
                    for found in of_one_graph(graph, arrays, changed, names, data_type):
                        rows[(kind, where, *found)].add(data_type)
    return sorted([*row, ", ".join(t for t in FLOATS if t in types)] for row, types in rows.items())


def isa():
    """The instruction set that the library uses in this process."""
    return load().effective_isa


# --- the page -----------------------------------------------------------------------------------------


def _seen(by_isa):
    """`f32, bf16 on AVX2; f32 on SSE4.1`: from instruction set to types."""
    sets = defaultdict(list)
    for name, types in by_isa.items():
        sets[types].append(ISAS[name])
    return "; ".join(
        types if len(names) == len(ISAS) else f"{types} on {', '.join(names)}"
        for types, names in sets.items()
    )


def _table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _is_subnormal(row):
    return "subnormal" in row[3:6]


def _is_sign(row):
    return {row[4], row[5]} == {"0", "−0"}


def page_of(data):
    """The tables of the page."""
    where = defaultdict(dict)
    others = {"subnormal": defaultdict(dict), "sign": defaultdict(dict)}
    for name in ISAS:
        for *row, types in data[name]:
            if _is_subnormal(row) or _is_sign(row):
                kinds = others["subnormal" if _is_subnormal(row) else "sign"][row[0]]
                known = kinds.get(name, "").split(", ")
                kinds[name] = ", ".join(t for t in FLOATS if t in known or t in types.split(", "))
            else:
                where[tuple(row)][name] = types
    merged = defaultdict(list)
    for (kind, place, *rest), seen in where.items():
        merged[(kind, *rest, _seen(seen))].append(place)
    rows = [
        [
            f"[`{kind}`](../ops/{kind}.md)",
            f"`{port}`",
            value,
            numpy,
            onednn,
            " and ".join(sorted(places)),
            seen,
        ]
        for (kind, port, value, numpy, onednn, seen), places in sorted(merged.items())
    ]
    text = _table(["op", "input", "holds", "NumPy", "oneDNN", "as", "types"], rows)
    for heading, what in (("Subnormal numbers", "subnormal"), ("The sign of a zero", "sign")):
        groups = defaultdict(list)
        for kind, seen in others[what].items():
            groups[_seen(seen)].append(f"`{kind}`")
        rows = [[seen, ", ".join(sorted(kinds))] for seen, kinds in sorted(groups.items())]
        text += f"\n## {heading}\n\n{INTRODUCTIONS[what]}\n\n" + _table(["types", "ops"], rows)
    return text


INTRODUCTIONS = {
    "subnormal": "Numbers next to zero, below the smallest normal number of their type, become 0 in these ops, as "
    "input or as result. NumPy keeps them.",
    "sign": "0 and −0 are equal. These ops can give the one where NumPy gives the other, which shows only where "
    "somebody divides by it or asks for the sign.",
}


def page_with(data):
    """The text of the page with its tables as in `data`."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n{page_of(data)}\n{text[end:]}"


def main():
    if len(sys.argv) > 1:
        print(json.dumps([isa(), measured()]))
        return
    data = json.loads(DATA.read_text(encoding="utf-8"))
    for name in ISAS:
        child = subprocess.run(
            [sys.executable, __file__, "here"],
            env={**os.environ, "ONEDNN_MAX_CPU_ISA": name.upper()},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        used, rows = json.loads(child.stdout)
        if used == name:
            data[name] = rows
        else:
            print(f"this CPU has {used} at most; what was measured on {name} stays", file=sys.stderr)
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in data[name]) + "\n]"
        for name in ISAS
    ]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    PAGE.write_text(page_with(data), encoding="utf-8")


if __name__ == "__main__":
    main()
