"""Kinds of lines with masks, integers, indices and orders."""

from __future__ import annotations

from typing import Any


def before(d: Any, axis: int) -> str:
    """Colons in front of an index of this axis."""
    number = axis % len(d.shape)
    return ", ".join([":"] * number) + (", " if number else "")


def masked(d: Any, x: str) -> str:
    m, n, y = d.mask(), d.mask(), d.other()
    axis, size = d.axis(), d.shape[-1]
    whole = f"({x} > {d.choice(-0.5, 0.0, 0.3)})"
    return d.choice(
        f"torch.where({m}, {x}, {y})",
        f"torch.where({m} & ~{n}, {x}, {x}.new_zeros(()))",
        f"torch.where({m} | {n}, {x} * 0.5, 0.25)",
        f"{x}.masked_fill({m}, {d.choice(-0.5, 0, 1.25)})",
        f"{x}.masked_fill({m} ^ {n}, torch.tensor(0.5, dtype={x}.dtype))",
        f"{x} * {m}.to({x}.dtype)",
        f"{x} * {m}",
        f"{whole}.to({x}.dtype).mean({axis}, keepdim=True) + {x}",
        f"{whole}.any({axis}, keepdim=True) * {x}",
        f"{whole}.all({axis}, keepdim=True).logical_not() * {x}",
        f"{whole}.sum({axis}, keepdim=True) / {d.shape[axis]} + {x}",
        f"{whole}.cumsum({axis}).to({x}.dtype) * 0.2",
        f"{x}.masked_scatter({whole}, {x}.flip(-1) * 0.5)",
        f"torch.logical_xor({m}, {whole}).to({x}.dtype) - {x}",
        f"torch.logical_and({m}, {x}.isfinite()).logical_or({n}) * {x}",
        f"{x} * torch.ones({size}, {size}, dtype=torch.bool).tril()[{d.random.randint(0, size - 1)}]",
        f"{x}.masked_fill(torch.arange({size}) >= {d.random.randint(1, size)}, -1.0)",
        f"F.softmax({x}.masked_fill({x} > 1.5, float('-inf')), dim={axis}).nan_to_num(0.0)",
        f"{x}[{whole}].sum() * 0.05 + {x}",
        f"torch.masked_select({x}, {whole}).square().sum() * 0.01 + {x}",
        f"{x} / {whole}.nonzero().shape[0]" if d.random.random() < 0.3 else f"torch.where({whole}, {y}, {x})",
        f"OUT = {x}.clone()\nOUT[{whole}] = 0.5",
        f"OUT = {x}.clone()\nOUT[{x} < 0] *= 0.1",
        f"OUT = {x} * 1\nOUT.masked_fill_({whole}, 0.25)",
        f"({whole}.to(torch.uint8) * 3 - 1).to({x}.dtype) * 0.5 + {x}",
        f"{x}.eq({x}).to({x}.dtype) * {x}.ge(0.1).to({x}.dtype) + {x}.ne({y}) * 0.5",
        f"torch.isclose({x}, {y}, atol=0.5).to({x}.dtype) + {x}",
        f"torch.heaviside({x}, {x}.new_full((), 0.5)) + {x}",
    )


def integers(d: Any, x: str) -> str:
    axis, size = d.axis(), d.shape[-1]
    i, b = d.index(), d.random.randint(2, 5)
    kind = d.choice("torch.int64", "torch.int32", "torch.int16", "torch.int8")
    whole = f"({x}.clamp(-5, 5) * 3).to({kind})"
    fits = [name for name, one in d.values.items() if not one.dtype.is_floating_point and one.ndim]
    n = d.random.choice(fits) if fits else i
    return d.choice(
        f"{whole}.to({x}.dtype) * 0.3",
        f"({whole} // {b}).to({x}.dtype) + {x}",
        f"({whole} % {b}).to({x}.dtype) * 0.4",
        f"torch.div({whole}, {b}, rounding_mode='{d.choice('trunc', 'floor')}').to({x}.dtype) + {x}",
        f"({whole} & {b}).to({x}.dtype) + (({whole} | 1) ^ {b}).to({x}.dtype) * 0.2",
        f"({whole}.abs() << 1 >> 2).to({x}.dtype) * 0.3 - {x}",
        f"{x}.argmax({axis}, keepdim=True).to({x}.dtype) * 0.1 + {x}",
        f"{x}.argmin({axis}).to({x}.dtype) + 0.5",
        f"{x}.argsort({axis}, descending={d.choice(True, False)}).to({x}.dtype) * 0.1",
        f"{x}.argmax() * 0.01 + {x}",
        f"F.one_hot({x}.argmax({axis}), {d.shape[axis]}).to({x}.dtype)",
        f"F.one_hot({i}, {d.below(i) + 1}).to({x}.dtype)",
        f"torch.bucketize({x}, torch.tensor([-0.5, 0.0, 0.5], dtype={x}.dtype)).to({x}.dtype) * 0.3",
        f"torch.searchsorted({x}.new_tensor([-1.0, 0.0, 1.0]), {x}, right={d.choice(True, False)}) * 0.2 + {x}",
        f"{x} + torch.arange({size}) % {b} * 0.1",
        f"{x} * (torch.arange({size})[None] < {x}.shape[-1] - 1)",
        f"{x}.count_nonzero({axis}).to({x}.dtype) * 0.2",
        f"({x} > 0).long().cumsum({axis}).to({x}.dtype) * 0.1",
        f"{x}.sign() * {x}.floor() * 0.3 + {x}.frac()",
        f"{x}.round() + {x}.ceil() * 0.1 - {x}.trunc()",
        f"torch.remainder({x}, {d.choice(0.7, -1.1)}) + {x}.fmod(0.9)",
        f"torch.floor_divide({x}, 0.75) * 0.3",
        f"torch.bincount({x}.flatten().clamp(0, 3).long(), minlength=4).to({x}.dtype) * 0.05",
        f"{n} * 2 - 1",
        f"{n} % 3",
        f"{n} + torch.arange({n}.shape[-1])",
        f"{n}.to({x}.dtype) * 0.1",
        f"{n}.flip(0).sum(-1)",
        f"({n} > 1)",
        f"{x}.topk({d.random.randint(1, size)}).indices",
        f"{x}.argmax({axis})",
        f"({x} > 0.2).int()",
        f"torch.where({x} > 0, 1, {d.choice(0, 2)})",
        f"torch.stack(torch.meshgrid(torch.arange({size}), torch.arange(2), indexing='ij')).to({x}.dtype) * 0.2",
    )


def gathered(d: Any, x: str) -> str:
    axis = d.axis()
    size, rank = d.shape[axis], len(d.shape)
    first, a = before(d, axis), axis % rank
    i, own = d.index(size), f"({x}.detach().abs() * 2).long().clamp(max={size - 1})"
    like = list(d.shape)
    like[axis] = d.random.randint(1, size)
    part = ", ".join(f":{n}" for n in like)
    whole = d.hold("b", f"torch.randint(0, {size}, {like})")
    rows = d.random.sample(range(size), min(size, d.choice(1, 2, 3)))
    both = d.hold("b", f"torch.randint(0, {size}, ({len(rows)},))")
    bag = d.hold("m", f"nn.EmbeddingBag({size}, {d.shape[-1]}, mode='{d.choice('sum', 'mean', 'max')}')")
    few = d.hold("b", f"torch.rand({size}) < 0.6")
    options = [
        f"{x}.gather({axis}, {whole})",
        f"torch.gather({x}, {axis}, {own})",
        f"torch.take_along_dim({x}, {x}.argsort({axis}), {axis})",
        f"{x}[{first}{i}]",
        f"{x}[{first}{rows}]",
        f"{x}[{first}None, {both}]",
        f"{x}[..., {d.index(d.shape[-1])}]",
        f"{x}.index_select({axis}, {both})",
        f"torch.zeros_like({x}).scatter({axis}, {whole}, {x}[{part}])",
        f"{x}.scatter({axis}, {whole}, 0.5)",
        f"{x}.scatter_add({axis}, {whole}, {x}[{part}] * 0.3)",
        f"{x}.scatter_reduce({axis}, {whole}, {x}[{part}], reduce='{d.choice('sum', 'amax', 'mean', 'amin')}', "
        f"include_self={d.choice(True, False)})",
        f"{x}.index_add({axis}, {both}, {x}.narrow({axis}, 0, {len(rows)}), alpha=0.5)",
        f"{x}.index_fill({axis}, torch.tensor({rows}), 0.25)",
        f"{x}.index_copy({axis}, torch.tensor({rows}), {x}.narrow({axis}, 0, {len(rows)}) * 0.5)",
        f"{x}.index_put((torch.tensor({rows[:1]}),), {x}[:1] * 0.5)" if a == 0 else f"{x}[{first}-1]",
        f"OUT = {x}.clone()\nOUT[{first}{rows}] = 0.5",
        f"OUT = {x} * 1\nOUT[{first}{both}] += 0.5",
        f"OUT = {x} * 1\nOUT.index_add_({axis}, {both}, {x}.narrow({axis}, 0, {len(rows)}))",
        f"OUT = {x}.clone()\nOUT.scatter_({axis}, {whole}, {x}[{part}].tanh())",
        f"OUT = {x}.clone()\nOUT.index_put_(({both},) if {a} == 0 else (slice(None),) * 0 + ({both} * 0,), "
        f"{x}[0] * 0.1, accumulate=True)",
        f"{x}.take({d.index(d.elements)})",
        f"{x}[{first}{few}]",
        f"torch.index_select({x}, {axis}, torch.tensor({rows}))",
        f"F.embedding({i}, {x}.reshape({size}, -1))" if a == 0 else f"{x}.select({axis}, {rows[0]})",
        f"{x} + {d.hold('m', f'nn.Embedding({size}, {d.shape[-1]})')}({d.index(size)}).mean(0)",
        f"{x} + {d.hold('m', f'nn.Embedding({size}, {d.shape[-1]}, padding_idx=0)')}({own}).sum(-2).mean(0)",
        f"{x} + {bag}(torch.tensor({rows}), torch.tensor([0])).mean(0)",
    ]
    if rank > 1:
        other = d.random.choice([n for n in range(rank) if n != a])
        j = d.hold("b", f"torch.randint(0, {d.shape[other]}, ({len(rows)},))")
        pair = [":"] * rank
        pair[a], pair[other] = both, j
        outer = list(pair)
        outer[a] = f"{both}[:, None]"
        options += [
            f"{x}[{', '.join(pair)}]",
            f"{x}[{', '.join(outer)}]",
            f"OUT = {x}.clone()\nOUT[{', '.join(pair)}] = {x}[{', '.join(pair)}] * 0.5",
            f"{x}.index_put(({both}, torch.zeros_like({both})), {x}.new_ones(()), accumulate=True)",
            f"{x}[torch.arange({d.shape[0]}), {x}[:, 0].reshape({d.shape[0]}, -1)[:, 0].abs().long() % {d.shape[1]}]",
        ]
    return d.random.choice(options)


def ordered(d: Any, x: str) -> str:
    axis, keep = d.axis(), d.choice(True, False)
    size = d.shape[axis]
    k, largest = d.random.randint(1, size), d.choice(True, False)
    return d.choice(
        f"{x}.sort({axis}, descending={largest}).values",
        f"torch.sort({x}, dim={axis}, stable=True)[0]",
        f"{x}.topk({k}, {axis}, largest={largest}).values",
        f"{x}.topk({k}, {axis}, sorted=True)[0] * 0.5",
        f"OUT, i = {x}.topk({k}, {axis})\nOUT = OUT + i.to({x}.dtype) * 0.1",
        f"torch.zeros_like({x}).scatter({axis}, {x}.topk({k}, {axis}).indices, 1.0) * {x}",
        f"{x}.median({axis}, keepdim={keep}).values",
        f"{x}.kthvalue({k}, {axis}, keepdim={keep})[0]",
        f"{x}.quantile({d.choice(0.25, 0.5)}, dim={axis}, keepdim={keep})",
        f"{x}.cummax({axis}).values",
        f"{x}.cummin({axis})[0] + {x}",
        f"({x}.tanh() * 0.3 + 1).cumprod({axis})",
        f"torch.msort({x})",
        f"OUT, i = {x}.max({axis}, keepdim=True)\nOUT = OUT + i * 0.1",
        f"{x}.min({axis}, keepdim={keep})[0]",
        f"sum(torch.aminmax({x}, dim={axis}, keepdim={keep})) * 0.5",
        f"{x}.nansum({axis}, keepdim={keep}) * 0.2",
        f"{x}.nanmean({axis}, keepdim={keep})",
        f"{x}.std({axis}, keepdim=True, unbiased=False) + {x}",
        f"sum(torch.var_mean({x}, {axis}, correction=0, keepdim={keep})) * 0.5",
        f"torch.unique({x}.round()).sum() * 0.05 + {x}",
        f"{x}.cumsum({axis}).diff(dim={axis}, prepend={x}.narrow({axis}, 0, 1))",
        f"{x}.mode({axis}, keepdim={keep}).values",
        f"torch.cumulative_trapezoid({x}, dim={axis})",
        f"{x}.renorm(2, {axis}, 1.5)",
    )
