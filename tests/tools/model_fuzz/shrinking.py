"""Cuts a module down to what still shows a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from smallest import smallest

from .spec import Spec


def shrunk(spec: Spec, shows: Callable[[Spec], bool], seconds: float) -> Spec:
    """The smallest module found in some time that still shows what `shows` looks for."""
    tried = {spec.source()}

    def is_new(one: Spec) -> bool:
        source = one.source()
        new = source not in tried and bool(one.lines) and bool(one.outputs)
        tried.add(source)
        return new

    return smallest(spec, smallers, lambda one: is_new(one) and shows(one), seconds)


def smallers(spec: Spec) -> Iterator[Spec]:
    """Modules with less in them, the boldest cuts first."""
    if len(spec.outputs) > 1:
        for one in spec.outputs:
            yield replace(spec, outputs=(one,)).needed()
    plainer = ("frozen", ()), ("still", ()), ("context", ""), ("batches", ()), ("dtype", "float32")
    for name, value in plainer:
        if getattr(spec, name) != value:
            yield replace(spec, **{name: value})
    for name, one in spec.inputs.items():
        if one.layout:
            yield replace(spec, inputs={**spec.inputs, name: one.plain})
    outs = [line.out for line in spec.lines]
    # What lies in the middle as the output: the finding is before it or behind it.
    for part in (2, 4, 8):
        for place in range(len(outs) // part, len(outs), max(len(outs) // part, 1)):
            yield replace(spec, outputs=(outs[place],)).needed()
            yield spec.cut(set(outs[:place]))
    for one in outs[:-1]:
        yield replace(spec, outputs=(one,)).needed()
    for line in reversed(spec.lines):
        yield spec.cut({line.out})
        for used in sorted(line.uses):
            if used[0] in "vx" and used in (*spec.inputs, *outs) and spec.shape_of(used) == line.shape:
                yield spec.without(line.out, used)
