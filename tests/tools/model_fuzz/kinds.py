"""The kinds of lines that modules are drawn from: each takes the module under construction and a value's name, and
returns an expression, or statements that assign to OUT; `!` before them says that they write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Kind = Callable[[Any, str], str]

UNARY = (
    *("F.gelu({x})", "F.gelu({x}, approximate='tanh')", "F.silu({x})", "{x}.tanh()", "{x}.sigmoid()"),
    *("F.elu({x})", "F.leaky_relu({x}, 0.1)", "F.softplus({x})", "F.mish({x})", "F.hardswish({x})"),
    *("F.hardsigmoid({x})", "{x}.abs()", "-{x}", "{x}.clamp(max=2).exp()", "({x}.abs() + 0.5).sqrt()"),
    *("({x} * {x} + 1).rsqrt()", "{x}.sin()", "{x}.cos()", "{x}.erf()", "({x}.abs() + 0.1).log()"),
    *("{x}.square() * 0.3", "{x}.tanh() ** 3", "1 / (1 + {x} ** 2)", "{x}.clamp(-1, 1.5)", "F.relu6({x})"),
    *("F.relu({x})", "F.logsigmoid({x})", "F.selu({x})", "F.hardtanh({x})", "F.softsign({x})", "{x}.atan()"),
    *(
        "{x}.abs().add(1.0).log2()",
        "{x}.abs().pow(1.5) * 0.3",
        "torch.expm1({x}.clamp(-3, 2))",
        "F.celu({x}, 0.7)",
    ),
    *("torch.log1p({x}.abs())", "F.tanhshrink({x})", "F.softshrink({x}, 0.2)", "F.threshold({x}, 0.1, 0.1)"),
    *(
        "torch.minimum({x}, {x} * 0.5)",
        "torch.special.expit({x})",
        "{x}.sinh().clamp(-5, 5)",
        "{x}.rsub(1.0)",
    ),
    *(
        "torch.exp2({x}.clamp(-3, 2))",
        "{x}.tan().clamp(-2, 2)",
        "{x}.tanh().asin()",
        "{x}.atan2({x} * {x} + 1)",
    ),
)


def unary(d: Any, x: str) -> str:
    return d.choice(*UNARY).format(x=x)


def binary(d: Any, x: str) -> str:
    y = d.other()
    return d.choice(
        *("{x} + {y}", "{x} - {y}", "{x} * {y}.tanh()", "{x} / (1 + {y}.abs())", "torch.maximum({x}, {y})"),
        *("torch.add({x}, {y}, alpha=0.5)", "torch.lerp({x}, {x} + {y}, 0.3)", "{x} * {y}.sigmoid() + {y}"),
        *("torch.addcmul({x}, {y}, {y}, value=0.1)", "{x}.sub({y}, alpha=2) * 0.5"),
    ).format(x=x, y=y)


def residual(d: Any, x: str) -> str:
    return f"{x} + {d.other(same=True)}"


def with_held(d: Any, x: str) -> str:
    shape = d.spread()
    one = d.hold(d.choice("p", "b"), f"torch.randn({list(shape)})")
    return d.choice(
        "{x} * {p}", "{x} + {p}", "{p} - {x}", "{x} / (1 + {p} ** 2)", "torch.minimum({x}, {p})"
    ).format(x=x, p=one)


def with_number(d: Any, x: str) -> str:
    number = round(d.random.uniform(-2, 2), 2)
    return d.choice(
        "{x} + {n}", "{x} * {n}", "{n} - {x}", "{x} / (2.5 + {n})", "torch.full_like({x}, {n}) + {x}"
    ).format(x=x, n=number)


def counted(d: Any, x: str) -> str:
    axis = d.axis()
    size = d.shape[axis]
    tail = (None,) * (len(d.shape) - 1 - axis % len(d.shape))
    view = f"[..., {', '.join(['None'] * len(tail))}]" if tail else ""
    return d.choice(
        f"{x} + torch.arange({size}, dtype={x}.dtype){view} * 0.1",
        f"{x} * torch.linspace(0.5, 1.5, {x}.shape[{axis}], dtype={x}.dtype){view}",
        f"{x} + {x}.new_ones({size}){view} / {x}.shape[{axis}]",
        f"torch.zeros_like({x}) + {x} / {x}.size({axis})",
    )


def reduction(d: Any, x: str) -> str:
    axes, keep = d.axes(), d.choice(True, True, False)
    one = d.axis()
    return d.choice(
        f"{x}.mean({axes}, keepdim={keep})",
        f"{x}.sum({axes}, keepdim={keep}) * 0.3",
        f"{x}.amax({axes}, keepdim={keep})",
        f"{x}.amin({axes}, keepdim={keep})",
        f"{x}.var({axes}, keepdim={keep}, unbiased={d.choice(True, False)})",
        f"({x}.var({axes}, keepdim={keep}, correction=0) + 0.1).sqrt()",
        f"{x}.max({one}, keepdim={keep}).values",
        f"{x}.logsumexp({one}, keepdim={keep})",
        f"{x}.norm(dim={one}, keepdim={keep})",
        f"torch.linalg.vector_norm({x}, {d.choice(1, 2, 3)}, {axes}, keepdim={keep}) * 0.5",
        f"({x}.tanh() * 0.3 + 1).prod({one}, keepdim={keep})",
        f"{x} - {x}.mean({axes}, keepdim=True)",
    )


def softmax(d: Any, x: str) -> str:
    axis = d.axis(least=2)
    return d.choice(
        *(
            "F.softmax({x}, {a})",
            "F.log_softmax({x}, {a})",
            "F.softmin({x}, {a})",
            "F.normalize({x}, dim={a})",
        ),
        *(
            "{x} * F.softmax({x} * 2, dim={a})",
            "{x}.cumsum({a}) * 0.3",
            "{x}.softmax({a}) @ {x}.transpose(-1, -2)",
        ),
        *("{x}.flip({a}).cumsum({a}).flip({a}) * 0.3", "F.glu({x}, {a})", "{x}.logcumsumexp({a})"),
    ).format(x=x, a=axis)


def shifted(d: Any, x: str) -> str:
    axis, size = d.axis(least=2), 0
    size = d.shape[axis]
    by = d.random.randint(-size, size)
    start = d.random.randint(0, size - 1)
    stop = d.random.randint(start + 1, size)
    part = d.random.randint(1, size - 1)
    rank = len(d.shape)
    whole = ", ".join([":"] * (axis % rank))
    before = whole + ", " if whole else ""
    step = d.choice(1, 2, 2)
    return d.choice(
        f"torch.roll({x}, {by}, {axis})",
        f"{x}.flip({axis})",
        f"torch.cat([{x}, {x}.narrow({axis}, {start}, {stop - start})], {axis})",
        f"torch.cat([{x}.narrow({axis}, {part}, {size - part}), {x}.narrow({axis}, 0, {part})], {axis})",
        f"{x}[{before}{start}:{stop}:{step}]",
        f"{x}[{before}::{d.choice(2, 3)}]",
        f"{x}[{before}{d.choice(-1, 0)}]",
        f"{x}.narrow({axis}, {start}, {stop - start})",
        f"torch.stack([{x}, -{x}], {axis})",
        f"torch.diff({x}, dim={axis})",
        f"{x}.repeat_interleave({d.choice(2, 3)}, {axis})",
        f"torch.cat([-p for p in {x}.chunk({d.choice(2, 3)}, {axis})][::-1], {axis})",
        f"torch.cat([{x}, torch.zeros_like({x})], dim={axis})",
        f"{x}.split([{part}, {size - part}], {axis})[{d.choice(0, 1)}]",
        f"sum({x}.unbind({axis})) / {size}",
        f"{x}.sort({axis}).values",
        f"{x}.topk({part}, {axis}).values",
        f"{x}.unfold({axis}, {part}, 1).mean(-1)",
        f"{x}.select({axis}, {start})",
        f"torch.cat([{x}, {x}.mean({axis}, keepdim=True)], {axis})",
    )


def indexed(d: Any, x: str) -> str:
    axis = d.axis(least=2)
    size, rank = d.shape[axis], len(d.shape)
    count = d.random.randint(1, size + 2)
    index = d.hold("b", f"torch.randint(0, {size}, ({count},))")
    like = list(d.shape)
    like[axis] = count
    both = d.hold("b", f"torch.randint(0, {size}, {like})")
    mask = d.hold("b", f"torch.rand({list(d.spread())}) < 0.4")
    before = ", ".join([":"] * (axis % rank)) + (", " if axis % rank else "")
    return d.choice(
        f"{x}.index_select({axis}, {index})",
        f"{x}[{before}{index}]",
        f"{x}.gather({axis}, {both})",
        f"torch.where({mask}, {x}, {x} * 0.1)",
        f"{x}.masked_fill({mask}, -0.5)",
        f"torch.where({mask}, {x}, 0.5)",
        f"torch.zeros_like({x}).scatter_add({axis}, {both}.clamp(max={size - 1}), {x}.gather({axis}, {both}))",
        f"torch.zeros_like({x}).index_add({axis}, {index}, {x}.index_select({axis}, {index}))",
        f"torch.take_along_dim({x}, {both}, {axis})",
        f"{x} * ~{mask}",
    )


def reshaped(d: Any, x: str) -> str:
    rank, shape = len(d.shape), d.shape
    order = d.random.sample(range(rank), rank)
    options = [
        f"{x}.permute({order})",
        f"{x}.permute({order}).contiguous()",
        f"{x}.unsqueeze({d.random.randint(0, rank)})",
        f"{x}.flatten({d.random.randint(0, rank - 1)})",
        f"{x}.reshape(-1)",
        f"{x}.squeeze()",
        f"{x}.clone()",
        f"{x}.expand({d.choice(1, 2)}, {', '.join(['-1'] * rank)})",
        f"{x}.repeat({', '.join(str(d.choice(1, 1, 2)) for _ in shape)})",
        f"{x}.reshape({shape[0]}, -1)",
    ]
    if rank > 1:
        a, b = d.random.sample(range(rank), 2)
        first = d.random.randint(0, rank - 2)
        merged = [*shape[:first], -1, *shape[first + 2 :]]
        options += [
            f"{x}.transpose({a}, {b - rank})",
            f"{x}.transpose({a}, {b}).contiguous()",
            f"{x}.movedim({a}, {b})",
            f"{x}.reshape({merged})",
            f"{x}.swapaxes({a}, {b}).reshape({[*reversed(shape)]})",
            f"{x}.transpose({a}, {b}).flatten({first})",
            f"{x}.diagonal(dim1={a}, dim2={b})",
            f"torch.tril({x}, {d.random.randint(-1, 1)})",
            f"torch.triu({x}, {d.random.randint(-1, 1)})",
            f"{x}.mT",
        ]
    for axis, size in enumerate(shape):
        for factor in (2, 3, 4):
            if size % factor == 0 and size > factor:
                parts = [*shape[:axis], factor, size // factor, *shape[axis + 1 :]]
                options += [
                    f"{x}.view({parts})",
                    f"{x}.unflatten({axis}, ({size // factor}, {factor}))",
                    f"{x}.reshape({parts}).transpose({axis}, {axis + 1}).reshape({list(shape)})",
                ]
    return d.random.choice(options)


def in_place(d: Any, x: str) -> str:
    axis = d.axis()
    size, rank = d.shape[axis], len(d.shape)
    before = ", ".join([":"] * (axis % rank)) + (", " if axis % rank else "")
    start = d.random.randint(0, size - 1)
    y = d.other(same=True)
    return "!" + d.choice(
        f"OUT = {x}.add_(0.5)",
        f"OUT = {x}.mul_(0.7)",
        f"OUT = {x}.add_({y})",
        f"OUT = {x}.relu_()",
        f"OUT = F.silu({x}, inplace=True)",
        f"OUT = {x}.clamp_(-1, 1)",
        f"OUT = {x}.clone()\nOUT[{before}{start}] = 0.25",
        f"OUT = {x}.clone()\nOUT[{before}{start}:] += 0.5",
        f"OUT = {x} * 1\nOUT[{before}{start}:] = {y}[{before}{start}:].tanh()",
        f"OUT = torch.zeros_like({x})\nOUT[{before}{start}:] = {x}[{before}{start}:]",
        f"OUT = {x} + 0\nOUT[{before}:{start + 1}].mul_({y}[{before}:{start + 1}].sigmoid())",
        f"OUT = {x}.clone()\nOUT.select({axis}, {start}).zero_()",
        f"OUT = {x}.clone()\nOUT[..., ::2] *= -1",
        f"OUT = torch.empty_like({x}).copy_({x})",
        f"OUT = {x}.new_zeros({list(d.shape)})\nOUT += {x}",
        f"OUT = {x}.clone().transpose(0, -1)\nOUT[0] = OUT[-1] * 0.5",
        f"OUT = {x}.reshape(-1).clone()\nOUT[::3] += 1\nOUT = OUT.view({list(d.shape)})",
    )


def remembered(d: Any, x: str) -> str:
    axis = d.axis()
    size = d.shape[axis]
    others = [number for number in range(len(d.shape)) if number != axis % len(d.shape)]
    held = d.hold("b", f"torch.zeros({size})")
    mean = f"{x}.detach().mean({others})" if others else f"{x}.detach()"
    tail = f"[..., {', '.join(['None'] * (len(d.shape) - 1 - axis % len(d.shape)))}]"
    tail = tail if "None" in tail else ""
    return f"!{held}.mul_(0.9).add_({mean}, alpha=0.1)\nOUT = {x} - {held}.clone(){tail}"
