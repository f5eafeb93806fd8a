"""What oneDNN prints with ONEDNN_VERBOSE=1, line by line, of any version from 2 on.

A line of a primitive that was executed, of 3.12 and of 3.2:

    onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:jit:f32,undef,src:f32::blocked:ab::f0 …,ATTRIBUTES,,2x3:3x4,0.1
    onednn_verbose,exec,cpu,matmul,gemm:jit:f32,undef,src_f32::blocked:ab:f0 …,ATTRIBUTES,,2x3:3x4,0.1

Who prints into the same stream may break a line anywhere: what can't be read is no primitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...ops.records import frozen

TENSOR = re.compile(
    r"(?P<name>[a-z]+(?:_[a-z]+)*?[0-9]*)[_:](?P<type>f64|f32|bf16|f16|s32|s8|u8|s4|u4|f8_e5m2|f8_e4m3|boolean|undef)"
    r":(?P<flags>[a-z0-9]*):(?P<kind>[a-z_0-9]*):(?P<tag>[A-Za-z0-9]*):(?P<more>.*)"
)
STRIDES = re.compile(r"[0-9]+(?:x[0-9]+)*")
VERSION = re.compile(r"oneDNN v([0-9]+)\.([0-9]+)\.([0-9]+)")
THREADS = re.compile(r"cpu,runtime:\w+,nthr:([0-9]+)")
ISA = re.compile(r"cpu,isa:([^\n]*)")
SETS = (
    ("AMX", "avx512_core_amx"),
    ("AVX-512 with float16", "avx512_core_fp16"),
    ("AVX10", "avx512_core_fp16"),
    ("AVX-512 with Intel DL Boost and bfloat16", "avx512_core_bf16"),
    ("AVX-512 with Intel DL Boost", "avx512_core_vnni"),
    ("AVX-512", "avx512_core"),
    ("AVX2 with Intel DL Boost", "avx2_vnni"),
    ("AVX2", "avx2"),
    ("AVX", "avx"),
    ("SSE4.1", "sse41"),
)
"""What the library says of the CPU, and the instruction set's name; the first that is in it."""


@frozen(kw_only=True)
class Described:
    """A tensor of a primitive.

    Attributes:
        name: `src`, `wei`, `dst`, …
        data_type: of its elements.
        tag: how it lies, `aBcd16b`; empty where the library doesn't say.
        strides: where they are not those of the tag.
    """

    name: str
    data_type: str
    tag: str
    strides: tuple[int, ...] = ()


@frozen(kw_only=True)
class Primitive:
    """A primitive that was executed.

    Attributes:
        kind, implementation, propagation, problem: as the library says them.
        tensors: what went in and out.
        attributes: post-ops, scales and zero points, by name.
        algorithm: of a convolution, a pooling, an eltwise; else empty.
        seconds: how long it took.
    """

    kind: str
    implementation: str
    propagation: str
    tensors: tuple[Described, ...]
    attributes: dict[str, str]
    algorithm: str
    problem: str
    seconds: float

    @property
    def types(self) -> frozenset[str]:
        """Types of all tensors."""
        return frozenset(one.data_type for one in self.tensors) - {"undef"}


@frozen(kw_only=True)
class About:
    """What the library says of itself, before the first primitive.

    Attributes:
        version: of it; None where it has said none.
        threads: how many.
        isa: the instruction set's name, empty where it is unknown.
    """

    version: tuple[int, ...] | None = None
    threads: int | None = None
    isa: str = ""


def primitives(lines: Iterable[str]) -> tuple[Primitive, ...]:
    """The primitives that lines tell of; others are passed over."""
    return tuple(made for line in lines if (made := primitive(line)) is not None)


def primitive(line: str) -> Primitive | None:
    """The primitive of a line, or None where it tells of none."""
    begin = line.find("onednn_verbose,")
    if begin < 0:
        begin = line.find("dnnl_verbose,")
    if begin < 0:
        return None
    fields = line[begin:].strip().split(",")
    if "exec" not in fields[:5]:
        return None
    fields = fields[fields.index("exec") + 1 :]
    if len(fields) < 8 or fields[0] != "cpu":
        return None
    _, kind, implementation, propagation, tensors, attributes, algorithm, *problem, time = fields
    try:
        seconds = float(time) / 1e3
    except ValueError:
        return None
    if not kind.isidentifier() or not implementation:
        return None
    return Primitive(
        kind=kind,
        implementation=implementation,
        propagation=propagation,
        tensors=_tensors(tensors),
        attributes=_attributes(attributes),
        algorithm=algorithm.removeprefix("alg:").strip(),
        problem=",".join(problem).strip(),
        seconds=seconds,
    )


def about(lines: Iterable[str]) -> About:
    """What the library says of itself in lines."""
    text = "\n".join(line for line in lines if "info" in line)
    version, threads, isa = VERSION.search(text), THREADS.search(text), ISA.search(text)
    return About(
        version=tuple(map(int, version.groups())) if version else None,
        threads=int(threads[1]) if threads else None,
        isa=next((name for words, name in SETS if isa and words in isa[1]), ""),
    )


def _tensors(text: str) -> tuple[Described, ...]:
    found: list[Described] = []
    for word in text.split():
        read = TENSOR.fullmatch(word)
        if read is None:
            continue
        strides = read["more"].partition(":")[0]
        found.append(
            Described(
                name=read["name"],
                data_type=read["type"],
                tag=read["tag"],
                strides=tuple(map(int, strides.split("x"))) if STRIDES.fullmatch(strides) else (),
            )
        )
    return tuple(found)


def _attributes(text: str) -> dict[str, str]:
    """By name, `post-ops` say; they stand between blanks."""
    found: dict[str, str] = {}
    for word in text.split():
        name, colon, value = word.removeprefix("attr-").partition(":")
        if colon:
            found[name] = value.strip("'")
    return found
