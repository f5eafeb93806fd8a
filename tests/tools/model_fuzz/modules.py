"""Kinds of lines that call layers in less usual forms: convolutions, norms, recurrences, attention, views."""

from __future__ import annotations

from typing import Any


def convolved(d: Any, x: str) -> str:
    rank = len(d.shape) - 2
    n, c, *sizes = d.shape
    k, s = d.choice(1, 2, 3), d.choice(1, 2)
    many = d.choice(1, 2, 3)
    groups = d.random.choice([g for g in (1, 2, 3, c) if c % g == 0])
    window = "1, " * (rank - 1) + str(k)
    last = {
        1: "",
        2: ".to(memory_format=torch.channels_last)",
        3: ".to(memory_format=torch.channels_last_3d)",
    }[rank]
    text = f"Conv{rank}d"
    options = [
        f"{d.hold('m', f'nn.{text}({c}, {c * many}, {k}, stride={s}, padding={k // 2}, groups={c})')}({x}{last})",
        f"{d.hold('m', f'nn.ConvTranspose{rank}d({c}, {groups * many}, {k}, stride={s}, groups={groups}, padding={k // 3}, dilation={d.choice(1, 2)})')}({x})",
        f"{d.hold('m', f'nn.ConvTranspose{rank}d({c}, {groups * many}, {k + 1}, stride={k + 1}, groups={groups}, bias=False)')}({x}{last})",
        f"F.conv{rank}d({x}, {x}.mean(0, keepdim=True)[:, :, {', '.join([':1'] * rank)}].expand(3, {', '.join(['-1'] * (rank + 1))}).contiguous()) * 0.5",
        f"F.conv{rank}d({x}, {d.hold('p', f'torch.randn({c * 2}, {c // groups}, {window}) * 0.3')}, None, groups={groups}, padding={[0] * (rank - 1) + [k // 2]})",
        f"F.conv_transpose{rank}d({x}, {d.hold('p', f'torch.randn({c}, 2, {window}) * 0.3')})",
        f"{d.hold('m', f'nn.{text}({c}, 4, {k}, padding={k // 2}, dilation={d.choice(1, 2, 3)})')}({x})",
        f"{d.hold('m', f'nn.{text}({c}, 4, {k}, padding={k // 2})')}({x}[0])",
        f"{d.hold('m', f'nn.utils.parametrizations.weight_norm(nn.{text}({c}, 4, 1))')}({x})",
        f"{d.hold('m', f'nn.Sequential(nn.{text}({c}, 4, 1), nn.BatchNorm{rank}d(4), nn.ReLU(inplace=True))')}({x})",
        f"{d.hold('m', f'nn.Sequential(nn.BatchNorm{rank}d({c}), nn.Hardswish(), nn.{text}({c}, {c}, 3, padding=1, groups={groups}, bias=False))')}({x}) + {x}",
        f"{d.hold('m', f'nn.BatchNorm{rank}d({c}, track_running_stats=False)')}({x})",
        f"{d.hold('m', f'nn.BatchNorm{rank}d({c}, momentum=0.3, eps=1e-3)')}({x}) * 0.5",
        f"{d.hold('m', f'nn.InstanceNorm{rank}d({c}, track_running_stats=True)')}({x})",
        f"{d.hold('m', f'nn.PReLU({c})')}({x})",
        f"F.batch_norm({x}, None, None, training=True)",
        f"F.group_norm({x}, {groups}, None, None, 1e-4)",
        f"F.instance_norm({x})",
        f"OUT, i = F.max_pool{rank}d({x}, 2, return_indices=True)\nOUT = F.max_unpool{rank}d(OUT, i, 2)",
        f"OUT, i = F.max_pool{rank}d({x}, {k}, {s}, return_indices=True)\nOUT = OUT + i * 0.01",
        f"F.adaptive_avg_pool{rank}d({x}, {[None] * (rank - 1) + [2] if rank > 1 else 2})",
        f"F.avg_pool{rank}d({x}, {[1] * (rank - 1) + [2]}, {[1] * (rank - 1) + [1]}, ceil_mode=True)",
        f"nn.Upsample(scale_factor=2, mode='nearest')({x})",
        f"F.interpolate({x}, size={[2 * one for one in sizes]}, mode='nearest')[{', '.join([':'] * (rank + 1))}, ::2]",
        f"nn.ZeroPad{rank}d(1)({x}) if hasattr(nn, 'ZeroPad{rank}d') else {x} + 0.1",
        f"nn.ReflectionPad{rank}d(1)({x})",
        f"nn.ReplicationPad{rank}d({d.choice(1, 2)})({x})",
        f"nn.ConstantPad{rank}d(1, 0.5)({x})",
        f"nn.CircularPad{rank}d(1)({x})",
        f"F.dropout{rank}d({x}, 0.3, training=False)",
        f"F.channel_shuffle({x}, {groups})",
        f"nn.Softmax2d()({x})" if rank == 2 else f"{x}.softmax(1)",
        f"{x}.contiguous(memory_format=torch.channels_last) + 0.1" if rank == 2 else f"{x} + 0.1",
        f"{x}{last}.reshape({n}, {c}, -1)",
        f"({x}{last} * {d.hold('p', f'torch.randn({c}, *[1] * {rank})')}).mean({list(range(2, rank + 2))}, keepdim=True) * {x}",
    ]
    return d.random.choice(options)


def recurrent(d: Any, x: str) -> str:
    n, length, width = d.shape
    h = d.choice(3, width)
    many, both = d.choice(1, 2), d.choice(True, False)
    count = many * (2 if both else 1)
    lstm = d.hold("m", f"nn.LSTM({width}, {h}, {many}, batch_first=True, bidirectional={both})")
    gru = d.hold("m", f"nn.GRU({width}, {h}, {many}, bidirectional={both}, bias={d.choice(True, False)})")
    cell, other = d.hold("m", f"nn.LSTMCell({width}, {h})"), d.hold("m", f"nn.GRUCell({width}, {h})")
    return d.choice(
        f"{lstm}({x})[0]",
        f"OUT, (h, c) = {lstm}({x})\nOUT = OUT + c[-1][:, None].mean() + h.sum() * 0.1",
        f"{lstm}({x}, ({x}.new_zeros({count}, {n}, {h}), {x}.new_ones({count}, {n}, {h}) * 0.1))[1][0]",
        f"{gru}({x}.transpose(0, 1))[0].transpose(0, 1)",
        f"{gru}({x})[1]",
        f"{d.hold('m', f'nn.LSTM({width}, {width + 1}, proj_size=2, batch_first=True)')}({x})[0]",
        f"h, c = {x}.new_zeros({n}, {h}), {x}.new_zeros({n}, {h})\nfor k in range({min(length, 4)}):\n"
        f"    h, c = {cell}({x}[:, k], (h, c))\nOUT = h + c * 0.5",
        f"h = {x}.new_zeros({n}, {h})\nkept = []\nfor one in {x}.unbind(1)[:4]:\n    h = {other}(one, h)\n"
        f"    kept.append(h)\nOUT = torch.stack(kept, 1)",
        f"{d.hold('m', f'nn.RNN({width}, {h}, batch_first=True, nonlinearity={chr(39)}relu{chr(39)})')}({x})[0]",
        f"OUT = {x}[:, 0]\nfor k in range(1, {length}):\n    OUT = OUT * 0.5 + {x}[:, k].tanh()",
    )


def attended(d: Any, x: str) -> str:
    n, length, width = d.shape
    heads = d.random.choice([h for h in (1, 2, 4) if width % h == 0])
    size = width // heads
    split = f".view({n}, -1, {heads}, {size}).transpose(1, 2)"
    mha = d.hold(
        "m", f"nn.MultiheadAttention({width}, {heads}, batch_first=True, bias={d.choice(True, False)})"
    )
    first = d.hold("m", f"nn.MultiheadAttention({width}, {heads})")
    pad = f"(torch.arange({length}) >= {max(1, length - 1)}).expand({n}, {length})"
    causal = f"torch.ones({length}, {length}, dtype=torch.bool).triu(1)"
    table = d.hold("p", f"torch.randn({2 * length - 1}, {heads})")
    decoder = d.hold("m", f"nn.TransformerDecoderLayer({width}, {heads}, 8, dropout=0.0, batch_first=True)")
    deep = d.hold(
        "m",
        f"nn.TransformerEncoder(nn.TransformerEncoderLayer({width}, {heads}, 8, 0.0, 'gelu', batch_first=True), 2)",
    )
    sdpa = "F.scaled_dot_product_attention"
    merge = f".transpose(1, 2).reshape({n}, {length}, {width})"
    return d.choice(
        f"{mha}({x}, {x}, {x}, key_padding_mask={pad})[0]",
        f"{mha}({x}, {x}, {x}, attn_mask={causal}, need_weights=False)[0]",
        f"OUT, w = {mha}({x}, {x}, {x}, average_attn_weights={d.choice(True, False)})\nOUT = OUT + w.mean()",
        f"{first}({x}.transpose(0, 1), {x}.transpose(0, 1), {x}.transpose(0, 1))[0].transpose(0, 1)",
        f"{decoder}({x}, {x}[:, :2])",
        f"{deep}({x})",
        f"{deep}({x}, mask={causal}, is_causal={d.choice(True, False)})",
        f"{sdpa}({x}{split}, {x}[:, :2]{split}, {x}[:, :2]{split}){merge}",
        f"{sdpa}({x}{split}, {x}[:, :, :{size}].unsqueeze(1), {x}[:, :, :{size}].unsqueeze(1), enable_gqa=True){merge}",
        f"{sdpa}({x}, {x}, {x}, attn_mask=~{causal})",
        f"{sdpa}({x}{split}, {x}{split}, {x}{split}, attn_mask=torch.zeros({length}, {length}, dtype={x}.dtype).masked_fill({causal}, float('-inf'))){merge}",
        f"where = torch.arange({length})[:, None] - torch.arange({length})[None] + {length - 1}\n"
        f"a = {x}{split} @ {x}{split}.mT * 0.3 + {table}[where].permute(2, 0, 1)\nOUT = (a.softmax(-1) @ {x}{split}){merge}",
        f"a = torch.einsum('bqd,bkd->bqk', {x}, {x}) * 0.2\nOUT = torch.einsum('bqk,bkd->bqd', a.masked_fill({causal}, -1e4).softmax(-1), {x})",
        f"q, k = {x}.softmax(-1), {x}.softmax(1)\nOUT = q @ (k.mT @ {x})",
        f"half = {x}.roll(-1, 1)\nOUT = ({x} * half).sum(-1, keepdim=True).softmax(1) * {x}",
    )


def viewed(d: Any, x: str) -> str:
    rank, shape, axis = len(d.shape), d.shape, d.axis()
    a, b = d.random.randrange(rank), d.random.randrange(rank)
    turns = [d.random.randint(-2, 2) for _ in range(2)]
    options = [
        f"torch.roll({x}, {turns}, ({a}, {b}))",
        f"{x}.tile({', '.join(str(d.choice(1, 2)) for _ in shape)})",
        f"torch.hstack([{x}, {x} * 0.5])",
        f"torch.vstack([{x}, -{x}])",
        f"torch.dstack([{x}, {x} + 1])",
        f"torch.column_stack([{x}, {x}])",
        f"torch.cat(torch.tensor_split({x}, 2, {axis})[::-1], {axis})",
        f"{x}.tensor_split({d.choice(2, 3)}, {axis})[0] + 0.5",
        f"torch.broadcast_to({x}, (2, {', '.join(map(str, shape))})).clone()",
        f"{x}.expand(2, {', '.join(['-1'] * rank)}).mean(0)",
        f"{x}[None, ..., None].squeeze(0)",
        f"{x}[..., ::{d.choice(2, 3)}]",
        f"{x}[..., -1:]",
        f"{x}[..., :-1] - {x}[..., 1:]",
        f"{x}.as_strided(({d.elements},), (1,))",
        f"{x}.contiguous().as_strided(({max(d.elements // 2, 1)}, 2), (1, 1)) * 0.5",
        f"{x}.unfold({axis}, {d.choice(1, 2)}, {d.choice(1, 2)}).sum(-1)",
        f"{x}.reshape(1, -1).repeat(2, 1).view(-1)",
        f"{x}.moveaxis({a}, {b}).contiguous().view(-1)[: {d.elements}]",
        f"{x}.flatten().view({list(shape)[::-1]})",
        f"{x}.unsqueeze({a}).transpose({a}, {b}).squeeze()",
        f"{x}.ravel().split({max(d.elements // 3, 1)})[0]",
        f"torch.cat([{x}.flatten(), {x}.flatten()[:1]])",
        f"{x}.flatten().unflatten(0, (-1, {shape[-1]}))",
        f"torch.narrow_copy({x}, {a}, 0, 1)",
        f"{x}.new_full((2, 1), 0.5) + {x}.flatten()[None]",
        f"torch.fliplr({x}) if {x}.ndim > 1 else {x}.flip(0)",
        f"torch.broadcast_tensors({x}, {x}.new_zeros(1))[0] * 2",
        f"torch.cartesian_prod({x}.flatten()[:3], {x}.flatten()[:2])",
        f"torch.combinations({x}.flatten()[:4])",
        f"{x}.select(0, -1).unsqueeze(0) + {x}",
        f"torch.stack({x}.split(1, {axis})).squeeze({axis % rank + 1}) + 0.1",
        f"torch.cat([{x}.narrow({axis}, 0, 0), {x}], {axis})",
        f"torch.cat([{x}.new_zeros(0), {x}.flatten()])",
        f"({x}.T if {x}.ndim == 2 else {x}.permute(*range({x}.ndim - 1, -1, -1))) * 0.5",
        f"F.unfold({x}[None, None].flatten(2)[..., None], (2, 1))" if d.elements > 2 else f"{x} + 0.1",
    ]
    if rank > 1:
        options += [
            f"torch.rot90({x}, {d.choice(1, 2, 3)}, (0, 1))",
            f"{x}.tril({d.choice(-1, 0, 1)}) + {x}.triu(1).mT.mT",
            f"{x}[:, None] - {x}[None, :]"
            if d.elements < 200 and shape[0] == shape[1]
            else f"{x}[:, 0, None] + {x}",
            f"{x}[1:, :-1]",
            f"{x}[[0, -1]] * 0.5",
            f"{x}.adjoint() + 0.5",
            f"torch.einsum('ab...->ba...', {x})",
            f"torch.einsum('a...->...', {x}) * 0.3",
        ]
    return d.random.choice(options)


def windows(d: Any, x: str) -> str:
    """Of images: parts apart and together again, as transformers of windows have them."""
    n, c, h, w = d.shape
    a = d.random.choice([f for f in (1, 2, 3, 4) if h % f == 0])
    b = d.random.choice([f for f in (1, 2, 3, 4) if w % f == 0])
    rows, columns = h // a, w // b
    roll = d.choice(0, 1, a // 2)
    apart = f"{x}.permute(0, 2, 3, 1).roll((-{roll}, -{roll}), (1, 2)).view({n}, {rows}, {a}, {columns}, {b}, {c})"
    m = d.hold("m", f"nn.Linear({c}, {c})")
    mean = d.choice("", ".softmax(-1)")
    return (
        f"y = {apart}.permute(0, 1, 3, 2, 4, 5).reshape(-1, {a * b}, {c})\n"
        f"y = {m}(y @ (y.mT @ y * 0.05)){mean} + y\n"
        f"y = y.view({n}, {rows}, {columns}, {a}, {b}, {c}).permute(0, 1, 3, 2, 4, 5).reshape({n}, {h}, {w}, {c})\n"
        f"OUT = y.roll(({roll}, {roll}), (1, 2)).permute(0, 3, 1, 2)"
    )
