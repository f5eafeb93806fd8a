"""Gradients of the quantisation family: none, or straight through."""

from __future__ import annotations

from collections.abc import Iterator

from .context import GradientContext
from .rules import Made, rule


@rule("Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize", spread=True)
def straight_through(ctx: GradientContext) -> Iterator[Made]:
    """As if integers were the numbers that they stand for, and nothing were rounded or saturated.

    Raises:
        UnsupportedError: nobody has asked for that.
    """
    if not ctx.straight_through:
        raise ctx.error(
            "rounding has no useful gradient; give straight_through=True to hand gradients on as they are"
        )
    yield "src", ctx.gradient
