"""Kinds of lines that call layers."""

from __future__ import annotations

from typing import Any


def linear(d: Any, x: str) -> str:
    width = d.random.choice([d.shape[-1], 4, 6, 8, 12, 1])
    layer = d.hold("m", f"nn.Linear({d.shape[-1]}, {width}, bias={d.choice(True, True, False)})")
    return d.choice("{m}({x})", "{m}({x})", "F.gelu({m}({x}))", "F.relu({m}({x}))", "{x} + {m}({x})").format(
        m=layer, x=x
    )


def products(d: Any, x: str) -> str:
    last = d.shape[-1]
    weight = d.hold("p", f"torch.randn({last}, {d.choice(last, 5)}) * 0.4")
    letters = "abcdef"[: len(d.shape)]
    other = d.other(same=True)
    return d.choice(
        f"{x} @ {weight}",
        f"torch.matmul({x}, {other}.transpose(-1, -2)) * 0.2",
        f"{x}.transpose(-1, -2) @ {other} * 0.2",
        f"torch.einsum('{letters},{letters[-1]}z->{letters[:-1]}z', {x}, {weight})",
        f"torch.einsum('{letters},{letters[:-2]}z{letters[-1]}->{letters[:-2]}{letters[-2]}z', {x}, {other}) * 0.2",
        f"torch.einsum('{letters},{letters}->{letters[:-1]}', {x}, {other}) * 0.3",
        f"torch.einsum('{letters}->{letters[::-1]}', {x})",
        f"{x} @ {x}.mT @ {x} * 0.05",
        f"torch.tensordot({x}, {weight}, dims=1)",
        f"F.linear({x}, {weight}.t())",
        f"({x}.unsqueeze(-1) * {weight}).sum(-2) * 0.5",
    )


def norm_last(d: Any, x: str) -> str:
    size, more = d.shape[-1], list(d.shape[-2:])
    return (
        d.choice(
            d.hold("m", f"nn.LayerNorm({size})"),
            d.hold("m", f"nn.LayerNorm({size}, elementwise_affine=False)"),
            d.hold("m", f"nn.RMSNorm({size}, eps=1e-5)"),
            d.hold("m", f"nn.LayerNorm({more})"),
        )
        + f"({x})"
    )


def norm_channels(d: Any, x: str) -> str:
    channels, rank = d.shape[1], len(d.shape)
    groups = d.random.choice([g for g in (1, 2, 3, 4, channels) if channels % g == 0])
    options = [f"nn.GroupNorm({groups}, {channels})"]
    batch = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}.get(rank)
    if batch:
        options += [f"nn.BatchNorm{batch}({channels})"] * 2
        options += [f"nn.BatchNorm{batch}({channels}, affine=False, momentum=None)"]
        if rank > 2:
            options += [f"nn.InstanceNorm{batch}({channels}, affine={d.choice(True, False)})"]
    return f"{d.hold('m', d.random.choice(options))}({x})"


def attention(d: Any, x: str) -> str:
    n, length, width = d.shape
    heads = d.random.choice([h for h in (1, 2, 3, 4) if width % h == 0])
    y = d.other(same=True)
    split = f".reshape({n}, {length}, {heads}, {width // heads}).transpose(1, 2)"
    apart = f".reshape({n}, {length}, 3, {heads}, {width // heads}).permute(2, 0, 3, 1, 4)"
    mask = d.hold("b", f"torch.randn({d.choice(1, n)}, 1, {length}, {length})")
    causal = d.choice(True, False)
    qkv = d.hold("m", f"nn.Linear({width}, {3 * width})")
    whole = f".transpose(1, 2).reshape({n}, {length}, {width})"
    if d.random.random() < 0.25:
        layer = d.hold("m", f"nn.MultiheadAttention({width}, {heads}, batch_first=True)")
        return f"{layer}({x}, {y}, {x}, need_weights={d.choice(True, False)})[0]"
    if d.random.random() < 0.3:
        return (
            f"q, k, v = {qkv}({x}){apart}.unbind(0)\n"
            f"a = (q * {(width // heads) ** -0.5}) @ k.transpose(-2, -1)\n"
            f"a = (a + {mask}).softmax(dim=-1)\n"
            f"OUT = (a @ v){whole}"
        )
    extra = d.choice(
        "", f", is_causal={causal}", f", attn_mask={mask}", ", scale=0.3", f", attn_mask={mask} > -0.5"
    )
    return (
        f"q, k, v = [one{split} for one in ({x}, {y}, {x})]\n"
        f"OUT = F.scaled_dot_product_attention(q, k, v{extra}){whole}"
    )


def sequence(d: Any, x: str) -> str:
    _, length, width = d.shape
    half = width // 2
    token = d.hold("p", f"torch.randn(1, 1, {width})")
    kind = d.choice("LSTM", "GRU", "RNN")
    layer = d.hold(
        "m",
        f"nn.{kind}({width}, {d.choice(4, width)}, batch_first=True, bidirectional={d.choice(True, False)})",
    )
    how = f"dropout=0.0, batch_first=True, norm_first={d.choice(True, False)}"
    encoder = d.hold("m", f"nn.TransformerEncoderLayer({width}, 1, 16, {how})")
    return d.choice(
        f"torch.cat([{token}.expand({x}.shape[0], -1, -1), {x}], 1)",
        f"{layer}({x})[0]",
        f"torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], -1)",
        f"{x}[:, 0]",
        f"{encoder}({x})",
        f"{x} * torch.cos(torch.arange({length}, dtype={x}.dtype)[:, None] * 0.3)",
        f"torch.bmm({x}, {x}.transpose(1, 2)) * 0.2",
        f"torch.baddbmm({x}.new_zeros(1, 1, 1), {x}, {x}.mT, beta=0.5, alpha=0.1)",
        f"torch.cdist({x}, {x} + 1.0) * 0.3",
        f"F.conv1d({x}.mT, {d.hold('p', f'torch.randn(5, {width}, 1) * 0.3')}).mT",
    )


def convolution(d: Any, x: str) -> str:
    rank = len(d.shape) - 2
    channels, least = d.shape[1], min(d.shape[2:])
    kernel = d.random.choice([1, 2, 3, 3, 4, 5])
    groups = d.random.choice([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    out = groups * d.choice(1, 2, 3, 4) if groups > 1 else d.choice(1, 3, 4, 6, 8, 16)
    stride, dilation = d.choice(1, 1, 1, 2, 3), d.choice(1, 1, 1, 2)
    padding: Any = d.choice(0, kernel // 2, 1, "'same'") if stride == 1 else d.choice(0, 1, kernel // 2)
    bias, text = d.choice(True, False), "nn.Conv"
    mode = d.choice("zeros", "zeros", "zeros", "reflect", "circular", "replicate")
    if d.random.random() < 0.2:
        layer = d.hold(
            "m",
            f"nn.ConvTranspose{rank}d({channels}, {out}, {kernel}, stride={stride}, "
            f"padding={d.random.randint(0, kernel // 2)}, output_padding={d.choice(0, stride - 1)}, "
            f"dilation={dilation}, groups={groups}, bias={bias})",
        )
        return f"{layer}({x})"
    if kernel > least:
        padding = kernel // 2
    layer = d.hold(
        "m",
        f"{text}{rank}d({channels}, {out}, {kernel}, stride={stride}, padding={padding}, dilation={dilation}, "
        f"groups={groups}, bias={bias}, padding_mode='{mode}')",
    )
    last = "" if rank != 2 else d.choice("", "", ".contiguous(memory_format=torch.channels_last)")
    act = d.choice("{}", "{}", "F.relu({})", "F.silu({})")
    return act.format(f"{layer}({x}{last})")


def pooling(d: Any, x: str) -> str:
    rank = len(d.shape) - 2
    kernel, stride = d.choice(2, 3), d.choice(1, 2, 3)
    padding, ceil = d.choice(0, 1), d.choice(True, False)
    sizes = [d.random.randint(1, size) for size in d.shape[2:]]
    include = d.choice(True, False)
    return d.choice(
        f"F.max_pool{rank}d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil})",
        f"F.avg_pool{rank}d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil}, count_include_pad={include})",
        f"F.adaptive_avg_pool{rank}d({x}, {sizes})",
        f"F.adaptive_max_pool{rank}d({x}, {sizes})",
        f"F.adaptive_avg_pool{rank}d({x}, 1)",
        f"F.lp_pool{rank}d({x}.abs() + 0.1, 2, {kernel}, {stride})",
        f"F.max_pool{rank}d({x}, {kernel}, {stride}, dilation=2)",
        f"{x} - F.avg_pool{rank}d({x}, 3, 1, 1)",
        f"F.local_response_norm({x}, {d.choice(2, 3)})",
    )


def resized(d: Any, x: str) -> str:
    rank = len(d.shape) - 2
    mode = {1: "linear", 2: d.choice("bilinear", "bicubic", "area"), 3: "trilinear"}[rank]
    size = [d.random.randint(1, 2 * one) for one in d.shape[2:]]
    corners = "" if mode == "area" else f", align_corners={d.choice(True, False)}"
    return d.choice(
        f"F.interpolate({x}, scale_factor={d.choice(2, 0.5, 1.5)}, mode='nearest')",
        f"F.interpolate({x}, size={size}, mode='{mode}'{corners})",
        f"F.interpolate({x}, scale_factor={d.choice(2, 0.5, 1.5)}, mode='{mode}'{corners})",
        f"F.interpolate({x}, size={size}, mode='{d.choice('nearest', 'nearest-exact')}')",
    )


def padded(d: Any, x: str) -> str:
    axes = d.random.randint(1, min(3, len(d.shape)))
    by = [d.random.randint(-1, 2) for _ in range(2 * axes)]
    usual = [abs(one) for one in by[: 2 * max(1, min(len(d.shape) - 2, 3))]]
    return d.choice(
        f"F.pad({x}, {by})",
        f"F.pad({x}, {by}, value=0.5)",
        f"F.pad({x}, {usual}, mode='{d.choice('reflect', 'replicate', 'circular')}')",
    )


def of_images(d: Any, x: str) -> str:
    n, c, h, w = d.shape
    factors = [f for f in (2, 3) if c % (f * f) == 0]
    squeeze = d.hold("m", f"nn.Conv2d({c}, {c}, 1)")
    options = [
        f"{x}.flatten(2).transpose(1, 2)",
        f"{x} * torch.sigmoid({squeeze}({x}.mean((2, 3), keepdim=True)))",
        f"{x} * {squeeze}({x}).sigmoid()",
        f"torch.roll({x}, ({d.choice(1, 2)}, -1), (2, 3))",
        f"F.unfold({x}, 2)",
        f"F.unfold({x}, 3, padding=1, stride=2)",
        f"F.fold(F.unfold({x}, 2), ({h}, {w}), 2) * 0.3",
        f"{x}.permute(0, 2, 3, 1)",
        f"torch.cat([{x}, {x}.amax((2, 3), keepdim=True).expand_as({x})], 1)",
        f"F.grid_sample({x}, F.affine_grid({d.hold('b', 'torch.randn(1, 2, 3) * 0.4')}.expand({n}, -1, -1), "
        f"[{n}, {c}, {h}, {w}], align_corners=False), align_corners=False)",
        f"torch.fft.rfft2({x}).abs() * 0.1",
        *[f"F.pixel_shuffle({x}, {f})" for f in factors],
        *[f"F.pixel_unshuffle({x}, {f})" for f in (2, 3) if h % f == 0 and w % f == 0],
        *[f"F.channel_shuffle({x}, {g})" for g in (2, 3) if c % g == 0],
    ]
    for f in (2, 3, 4):
        if h % f == 0 and w % f == 0 and h > f:
            parts = f"{x}.reshape({n}, {c}, {h // f}, {f}, {w // f}, {f})"
            options += [
                f"{parts}.permute(0, 2, 4, 3, 5, 1).reshape(-1, {f * f}, {c})",
                f"{parts}.amax((3, 5))",
                f"{parts}.permute(0, 2, 4, 1, 3, 5).contiguous().view({n * (h // f) * (w // f)}, {c}, {f}, {f})",
            ]
    return d.random.choice(options)
