"""Kinds of lines with control flow, modes of autograd, and functions and modules called in unusual ways."""

from __future__ import annotations

from typing import Any


def branch(d: Any, x: str) -> str:
    axis, size = d.axis(), d.shape[-1]
    t = round(d.random.uniform(-0.5, 0.5), 2)
    m = d.hold("m", f"nn.Linear({size}, {size})")
    asked = d.choice(
        f"{x}.mean() > {t}", f"{x}.flatten()[0] < {t}", f"({x} > {t}).any()", f"{x}.sum().item() > {t}"
    )
    return d.choice(
        f"if {asked}:\n    OUT = {x} * 0.5\nelse:\n    OUT = {x}.relu() + 0.3",
        f"if {asked}:\n    OUT = {m}({x})\nelse:\n    OUT = F.silu({x})",
        f"OUT = {x} + 0.1\nif {asked}:\n    OUT = OUT.softmax({axis})",
        f"OUT = {x}.clone()\nif {asked}:\n    OUT.mul_(0.5)\nelse:\n    OUT[..., 0] = 0.5",
        f"if {x}.shape[0] > 2:\n    OUT = {x}.tanh()\nelse:\n    OUT = {x} + 0.5",
        f"if {x}.ndim == {len(d.shape)} and {x}.dtype.is_floating_point:\n    OUT = {m}({x})\nelse:\n    OUT = {x}",
        f"OUT = {x}\nfor k in range({d.choice(2, 3)}):\n    OUT = {m}(OUT).tanh() + k * 0.1",
        f"OUT = {x} * 1\nturn = 0\nwhile OUT.abs().max() > 1 and turn < 3:\n    OUT = OUT * 0.5\n    turn += 1",
        f"OUT = torch.stack([one * (k + 1) for k, one in enumerate({x}.unbind({axis}))][:4]).sum(0) * 0.2",
        f"torch._dynamo.graph_break()\nOUT = {x} + 0.25",
        f"y = {m}({x})\ntorch._dynamo.graph_break()\nOUT = y * {x}.sigmoid()",
        f"y = {x}[:, :] if {x}.ndim > 1 else {x}\ny = y.clone()\ntorch._dynamo.graph_break()\ny.add_(0.5)\nOUT = y * {x}",
        f"try:\n    OUT = {x}.view(-1, 9973)\nexcept RuntimeError:\n    OUT = {x} * 0.5",
        f"def inner(one, by=0.5):\n    return (one * by).relu()\nOUT = inner({x}) + inner({x}, by=0.1)",
        f"kept = {{'a': {x}, 'b': [{x}.sin(), {x}.cos()]}}\nOUT = kept['a'] + sum(kept['b'])",
        f"OUT = (lambda one, *more: one + sum(more))({x}, {x} * 0.1, {x}.tanh())",
        f"OUT = {x} * (len({x}.shape) + {x}.numel() % 3) * 0.3",
        f"n = int({x}.abs().sum()) % 3 + 1\nOUT = {x}.repeat_interleave(n, {axis}).mean({axis}, keepdim=True) + {x}",
        f"OUT = {x} * float({x}.shape[{axis}]) ** -0.5",
        f"OUT = torch.cond({x}.mean() > {t}, lambda one: one.sin(), lambda one: one * 0.5, ({x},))",
        f"assert {x}.shape[-1] == {size}\nOUT = {x}.exp().clamp(max=3)",
        f"kept = {x}[{x} > 0.1]\nOUT = {x} + (kept.mean() if kept.numel() else 0.5)",
        f"places = ({x} > 0.4).nonzero()\nOUT = {x} + places.to({x}.dtype).sum(0).mean() * 0.01",
        f"OUT = {x} + torch.tensor({x}.tolist(), dtype={x}.dtype).detach() * 0.5",
        f"OUT = {x} + len({x}.unique()) * 0.01",
    )


def modes(d: Any, x: str) -> str:
    y, size = d.other(same=True), d.shape[-1]
    m = d.hold("m", f"nn.Linear({size}, {size})")
    return d.choice(
        f"with torch.no_grad():\n    OUT = {x} * 0.5\nOUT = OUT + {y}",
        f"with torch.no_grad():\n    w = {x}.softmax(-1)\nOUT = {x} * w",
        f"with torch.no_grad():\n    OUT = {m}({x})\nOUT = OUT * {y}.tanh()",
        f"{x}.detach() + {y}",
        f"{x} - {x}.mean().detach()",
        f"{x} + ({y}.round() - {y}).detach()",
        f"with torch.enable_grad():\n    OUT = {x} * 0.7",
        f"with torch.set_grad_enabled(False):\n    OUT = {x}.tanh()\nOUT = OUT + {x}",
        f"OUT = {x}.detach().clone()\nOUT += 0.5\nOUT = OUT * {y}",
        f"F.linear({x}, {m}.weight.detach(), {m}.bias)",
        f"{x} * {m}.weight.detach().mean()",
        f"with torch.no_grad():\n    {d.hold('b', f'torch.zeros({size})')}.copy_({x}.reshape(-1, {size}).mean(0))\n"
        f"OUT = {x} + 0.1",
        f"OUT = {x}.requires_grad_() * 0.5" if d.random.random() < 0.1 else f"OUT = {x}.data * 0.5 + {x}",
        f"@torch.no_grad()\ndef still(one):\n    return one * 0.5\nOUT = still({x}) + {y}",
        f"OUT = {x} * 1\nOUT.detach().mul_(0.5)\nOUT = OUT + 0.1",
    )


def called(d: Any, x: str) -> str:
    size, rank = d.shape[-1], len(d.shape)
    m = d.hold("m", f"nn.Linear({size}, {size})")
    n = d.hold("m", f"nn.LayerNorm({size})")
    wide = d.choice(size, 2 * size, 4)
    y = d.other(same=True)
    return d.choice(
        f"fn.Straight.apply({x})",
        f"fn.Reversed.apply({x}, 0.5) * 0.7",
        f"fn.Swish.apply({x})",
        f"OUT, more = fn.Product.apply({x}, {y})\nOUT = OUT.tanh() + more * 0.3",
        f"torch.utils.checkpoint.checkpoint({m}, {x}, use_reentrant=False)",
        f"torch.utils.checkpoint.checkpoint(lambda one: {n}({m}(one).relu()), {x}, use_reentrant=False) + {x}",
        f"torch.func.functional_call({m}, {{'weight': {m}.weight * 0.5}}, ({x},))",
        f"torch.func.functional_call({m}, dict({m}.named_parameters()), ({x},)).relu()",
        f"torch.vmap(lambda one: one * one.mean())({x})",
        f"torch.vmap({m})({x})" if rank > 1 else f"{m}({x})",
        f"torch.vmap(torch.dot)({x}.reshape({d.shape[0]}, -1), {y}.reshape({d.shape[0]}, -1)) * 0.2",
        f"torch.func.grad(lambda one: (one.tanh() ** 2).sum())({x})",
        f"{d.hold('m', f'nn.Sequential(nn.Linear({size}, {wide}), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Linear({wide}, {size}))')}({x})",
        f"OUT = {x}\nfor one in {d.hold('m', f'nn.ModuleList([nn.Linear({size}, {size}), nn.LayerNorm({size}), nn.GELU()])')}:\n    OUT = one(OUT) + OUT * 0.5",
        f"{d.hold('m', f'nn.ModuleDict(dict(a=nn.Linear({size}, 5), b=nn.SiLU()))')}['a']({x})",
        f"{d.hold('m', f'fn.tied(nn.Linear({size}, {size}), {m})')}({x}) + {m}({x})",
        f"F.linear({x}, {m}.weight.t())",
        f"F.linear({x} * 0.5, {m}.weight, {m}.bias * 2)",
        f"{x} @ ({m}.weight + {m}.weight.t()) * 0.5",
        f"{d.hold('m', f'nn.utils.parametrizations.weight_norm(nn.Linear({size}, {wide}))')}({x})",
        f"{d.hold('m', f'nn.utils.parametrizations.spectral_norm(nn.Linear({size}, {size}))')}({x})",
        f"{d.hold('m', f'nn.utils.parametrizations.orthogonal(nn.Linear({size}, {size}))')}({x})"
        if d.random.random() < 0.2
        else f"{m}({m}({x}))",
        f"{d.hold('m', f'fn.Doubled(nn.Linear({size}, {size}))')}({x}, scale=0.5)",
        f"{d.hold('m', f'fn.hooked(nn.Linear({size}, {wide}))')}({x})",
        f"{m}.forward({x}) + {n}.forward({x})",
        f"({m}({x}) + {m}(-{x})).square() * 0.3",
        f"sum(p.square().mean() for p in {m}.parameters()) + {x}",
        f"getattr(F, 'gelu')({m}(input={x}))",
        f"{x} + next({m}.parameters())[0]",
        f"{m}({x}).view(*{x}.size()[:-1], -1)",
        f"nn.functional.layer_norm({x}, {x}.shape[-1:], {n}.weight, None, 1e-6)",
    )


def written(d: Any, x: str) -> str:
    """Buffers that forward writes, and views that are written to."""
    shape = list(d.shape)
    axis, size = d.axis(), d.shape[-1]
    b = d.hold("b", f"torch.zeros({shape})")
    count = d.hold("b", "torch.zeros((), dtype=torch.long)")
    cache = d.hold("b", f"torch.zeros(4, {size})")
    flat = f"{x}.detach().reshape(-1, {size})"
    return "!" + d.choice(
        f"{b}.copy_({x}.detach())\nOUT = {x} + {b}",
        f"{b}[..., 0] = {x}.detach()[..., 0]\nOUT = {x} * 0.5 + {b}",
        f"{b}.lerp_({x}.detach(), 0.1)\nOUT = {x} - {b}.clone()",
        f"{count}.add_(1)\nOUT = {x} * 0.5 + {count} * 0.1",
        f"{count} += 1\nOUT = {x} / (1 + {count})",
        f"{cache}[{count} % 4] = {flat}[0]\n{count} += 1\nOUT = {x} + {cache}.mean(0)",
        f"{cache}.index_copy_(0, torch.tensor([1]), {flat}[:1])\nOUT = {x} + {cache}[1]",
        f"{cache}.copy_({cache}.roll(1, 0))\n{cache}[0] = {flat}[0]\nOUT = {x} + {cache}.sum(0) * 0.2",
        f"{cache}.zero_()\n{cache}[:2] += {flat}[:1]\nOUT = {x} - {cache}.amax(0)",
        f"{b}.detach().add_(0.1)\nOUT = {x} + {b}",
        f"OUT = {x}.clone()\nrow = OUT[..., 0]\nrow.mul_(0.5)\nrow += 0.1",
        f"OUT = {x}.clone()\na, b = OUT.chunk(2, -1)\na.add_(1)\nb.mul_(0.5)"
        if size > 1
        else f"OUT = {x}.clone().neg_()",
        f"OUT = {x}.clone()\nOUT.transpose(0, -1)[0].zero_()\nOUT.view(-1)[-1:].fill_(0.5)",
        f"y = {x} * 1\nz = y.view(-1)\nz[::2] += 0.5\nOUT = y + z.view({shape})",
        f"y = {x}.clone()\nz = y.unsqueeze(0).expand(2, {', '.join(['-1'] * len(shape))})\ny.add_(0.5)\nOUT = z.sum(0) * 0.5",
        f"OUT = {x}.clone()\nOUT.unsqueeze_(0)\nOUT.squeeze_(0)\nOUT.swapaxes_(0, {axis})",
        f"OUT = {x} * 1\nOUT.copy_({x}.flip({axis}))\nOUT.sub_({x}, alpha=0.5).div_(1.5)",
        f"OUT = torch.empty({shape}, dtype={x}.dtype)\nOUT[...] = {x}\nOUT[..., -1] -= 0.5",
        f"OUT = torch.empty_like({x})\ntorch.mul({x}, 0.5, out=OUT)"
        if d.random.random() < 0.3
        else f"OUT = {x}.clone().clamp_(min=0).exp_().neg_()",
        f"OUT = {x}.clone()\nOUT.as_strided(({d.elements},), (1,)).mul_(0.5)",
        f"OUT = {x} + 0\nOUT[..., 1:] = OUT[..., :-1].clone()",
        f"OUT = {x} + 0\nOUT.diagonal(0, 0, -1).add_(1)"
        if len(shape) > 1
        else f"OUT = {x}.clone().addcmul_({x}, {x}, value=0.1)",
        f"parts = list({x}.clone().unbind(0))\nparts[0].mul_(2)\nparts[-1] = parts[-1] + 0.5\nOUT = torch.stack(parts)",
        f"OUT = {x}.clone()\nfor k in range(min(3, {size})):\n    OUT[..., k] = OUT[..., k - 1] * 0.5 + k * 0.1",
    )
