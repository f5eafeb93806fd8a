"""Kinds of lines of linear algebra, odd functions, types, numbers without axes, losses and spectra."""

from __future__ import annotations

from typing import Any


def algebra(d: Any, x: str) -> str:
    rank, last, rows = len(d.shape), d.shape[-1], d.shape[-2]
    w = d.hold("p", f"torch.randn({last}, {last}) * 0.3")
    v, y = d.hold("p", f"torch.randn({last}) * 0.5"), d.other(same=True)
    eye = f"torch.eye({rows}, dtype={x}.dtype)"
    options = [
        f"({x} @ {x}.mT * 0.1 + 2 * {eye}).inverse()",
        f"torch.linalg.solve({x} @ {x}.mT * 0.1 + 2 * {eye}, {x})",
        f"torch.linalg.cholesky({x} @ {x}.mT * 0.1 + {eye})",
        f"torch.linalg.det({x} @ {x}.mT * 0.05 + {eye}).tanh()",
        f"torch.linalg.matrix_power({w} * 0.5, 3) + {x}.mean()",
        f"{x} @ {v}",
        f"torch.matmul({v}, {x}.mT)",
        f"{x} @ {w} + {v}",
        f"torch.einsum('...i,ij->...j', {x}, {w})",
        f"torch.einsum('...i,ij,...j->...', {x}, {w}, {y}) * 0.2",
        f"torch.einsum('...ij,...kj->...ik', {x}, {y}) * 0.2",
        f"torch.einsum('...ij->...ji', {x})",
        f"torch.einsum('...i,i->...i', {x}, {v})",
        f"torch.einsum('...ij,...ij->...i', {x}, {y}) * 0.3",
        f"torch.einsum('i,j->ij', {v}, {x}.flatten()[:3]) + {x}.mean()",
        f"F.bilinear({x}, {y}, {d.hold('p', f'torch.randn(3, {last}, {last}) * 0.2')})",
        f"{d.hold('m', f'nn.Bilinear({last}, {last}, 4)')}({x}, {y}) * 0.5",
        f"torch.tensordot({x}, {w}, dims=([-1], [1]))",
        f"torch.inner({x}, {w})",
        f"{x}.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) + 0.1",
        f"torch.diag_embed({x}[..., 0, :]) @ {w}",
        f"F.cosine_similarity({x}, {y}, dim=-1)",
        f"F.pairwise_distance({x}, {y} + 1.0)",
        f"torch.cdist({x}, {y} + 0.5, p={d.choice(1.0, 2.0)}) * 0.3",
        f"torch.linalg.norm({x}, dim=(-2, -1)) * 0.3",
        f"torch.outer({v}, {v}) + {x}.amax()",
        f"torch.addmm({v}, {x}.reshape(-1, {last}), {w}, beta=0.5, alpha=2)",
        f"torch.addmv({x}.new_zeros({last}), {w}, {v}) + {x}",
        f"torch.addr({w}, {v}, {v}, alpha=0.3) + {x}.mean()",
        f"torch.dot({v}, {v}) * 0.1 + {x}",
        f"torch.kron({w}[:2, :2], {x}.reshape(-1, {last}))",
        f"torch.block_diag({w}, {x}.reshape(-1, {last})[:2])",
        f"torch.trace({w}) + {x}",
        f"torch.linalg.multi_dot([{x}.reshape(-1, {last}), {w}, {w}])",
        f"torch.chain_matmul({w}, {w}) + {x}.std()"
        if d.random.random() < 0.1
        else f"{x}.matmul({w}).matmul({w}.T)",
        f"torch.baddbmm({x}.reshape(-1, {rows}, {last}), {x}.reshape(-1, {rows}, {last}), {w}.expand({d.elements // (rows * last)}, -1, -1))",
        f"torch.linalg.cross({x}[..., :3], {y}[..., :3] + 1)",
        f"{x} @ torch.linalg.qr({w})[0].abs()",
        f"torch.linalg.eigvalsh({x} @ {x}.mT * 0.1) * 0.5",
        f"torch.linalg.svdvals({x})",
        f"torch.linalg.lstsq({w} + 2 * torch.eye({last}, dtype={x}.dtype), {w}).solution + {x}.mean()",
        f"torch.matrix_exp({w} * 0.1)[0] + {x}",
    ]
    if rank == 2:
        options += [
            f"torch.mm({x}, {w})",
            f"torch.mv({x}, {v})",
            f"{x}.t() @ {x} * 0.2",
            f"torch.cov({x}) * 0.3",
        ]
    return d.random.choice(options)


def odd(d: Any, x: str) -> str:
    y, axis = d.other(), d.axis()
    n = round(d.random.uniform(0.2, 1.5), 2)
    return d.choice(
        f"torch.logaddexp({x}, {y})",
        f"torch.hypot({x}, {y} + 1)",
        f"torch.copysign({x}, {y})",
        f"{x}.clamp({y} - 1, {y} + 1)",
        f"torch.xlogy({x}, {y}.abs() + 0.1)",
        f"torch.sinc({x})",
        f"{x}.nan_to_num(0.5)",
        f"torch.erfinv({x}.tanh() * 0.9)",
        f"torch.special.entr({x}.abs() + 0.1)",
        f"torch.lgamma({x}.abs() + 1)",
        f"torch.digamma({x}.abs() + 1)",
        f"torch.special.i0({x}.clamp(-3, 3)) * 0.5",
        f"torch.special.logit({x}.sigmoid(), eps=1e-3)",
        f"torch.logit({x}.sigmoid() * 0.8 + 0.1)",
        f"torch.addcdiv({x}, {y}, {y}.abs() + 1, value=0.5)",
        f"torch.fmax({x}, {y}) + torch.fmin({x}, {y})",
        f"torch.float_power({x}.abs() + 0.1, {n}).to({x}.dtype)",
        f"torch.pow({n}, {x}.clamp(-2, 2))",
        f"({x}.abs() + 0.2) ** ({y}.tanh())",
        f"{x} ** {d.choice(2, 3, 0)} * 0.2",
        f"{x}.deg2rad() * 20",
        f"torch.ldexp({x}, torch.tensor(1)) * 0.5",
        f"{x}.square().add(1).reciprocal()",
        f"{x}.acos().nan_to_num(0.3)" if d.random.random() < 0.2 else f"({x}.tanh() * 0.9).acos()",
        f"{x}.asinh() + ({x}.abs() + 1.1).acosh() + ({x}.tanh() * 0.8).atanh()",
        f"{x}.cosh().clamp(max=5)",
        f"{x}.erfc()",
        f"{x}.log_softmax({axis}).exp()",
        f"F.rrelu({x}, 0.2, 0.2)",
        f"F.gumbel_softmax({x} * 0, dim={axis}) * 0 + {x}"
        if d.random.random() < 0.1
        else f"F.hardshrink({x}, 0.3)",
        f"F.prelu({x}, {d.hold('p', 'torch.rand(1)')})",
        f"{d.hold('m', 'nn.PReLU()')}({x})",
        f"{d.hold('m', 'nn.Dropout(0.0)')}({x})",
        f"{d.hold('m', 'nn.Identity()')}({x})",
        f"F.dropout({x}, 0.5, training=False)",
        f"F.normalize({x}, p={d.choice(1, 2)}, dim={axis}, eps=1e-3)",
        f"torch.trapezoid({x}, dim={axis}) * 0.3",
        f"torch.nextafter({x}, {x}) + 0.1" if d.random.random() < 0.2 else f"torch.positive({x}) + 1e-1",
        f"torch.clip({x}, {-n}, {n}) + torch.neg({x}) * 0.1",
        f"torch.true_divide({x}, {n}) * 0.5",
        f"{x}.float_power(2).to({x}.dtype) * 0.2",
        f"{n} / ({x}.abs() + 0.5)",
        f"{n} ** {x}.tanh()",
        f"torch.special.log_ndtr({x}) * 0.5 + torch.special.ndtr({x})",
        f"torch.polygamma(1, {x}.abs() + 1)",
        f"torch.special.xlog1py({x}, {y}.abs())",
        f"torch.special.erfcx({x}.abs())",
    )


def cast(d: Any, x: str) -> str:
    low = d.choice("torch.bfloat16", "torch.float16")
    last = d.shape[-1] if d.shape else 1
    m = d.hold("m", f"nn.Linear({last}, {d.choice(last, 4)})")
    return d.choice(
        f"{x}.to({low}).to({x}.dtype)",
        f"({x}.to({low}) * 0.5 + 1).to({x}.dtype)",
        f"({x}.to({low}).tanh()).to({x}.dtype)",
        f"({x}.to({low}) @ {m}.weight.t().to({low})).to({x}.dtype)",
        f"F.softmax({x}.to({low}), -1).to({x}.dtype)",
        f"F.softmax({x}, -1, dtype=torch.float64).to({x}.dtype)",
        f"{x}.double().cumsum(-1).to({x}.dtype) * 0.3",
        f"({x}.double() ** 2).mean(-1, keepdim=True).to({x}.dtype) + {x}",
        f"{x}.sum(-1, dtype=torch.float64).to({x}.dtype) * 0.3",
        f"{x}.type(torch.float64).mul(0.5).type_as({x})",
        f"{x}.to({x}.device, non_blocking=True) + 0.5",
        f"{x}.to({x}) * 0.5",
        f"with torch.autocast('cpu', {low}):\n    OUT = {m}({x})\nOUT = OUT.to({x}.dtype)",
        f"with torch.autocast('cpu', torch.bfloat16):\n    OUT = {m}({x}).relu() + 0.5\nOUT = OUT.to({x}.dtype)",
        f"with torch.autocast('cpu', enabled=False):\n    OUT = {m}({x})",
        f"{x} + torch.arange({last})",
        f"{x} * torch.tensor(2)",
        f"{x} * torch.tensor([True])",
        f"({x} * 4).to(torch.int32).to({x}.dtype) * 0.25",
        f"{x}.bool().to({x}.dtype) + 0.5",
    )


def scalar(d: Any, x: str) -> str:
    p, one = d.hold("p", "torch.randn(())"), d.input((), fresh=0.5)
    return d.choice(
        f"{x}.mean()",
        f"{x}.sum() * 0.01 + 0.1",
        f"{x} * {x}.mean()",
        f"{x} - {x}.amax()",
        f"{x} * {p}",
        f"{p} - {x}",
        f"{x} + {one}",
        f"{x} * {one}.tanh()",
        f"torch.tensor(0.5, dtype={x}.dtype) * {x}",
        f"{x} + {x}.new_tensor(0.3)",
        f"torch.full((), 0.5, dtype={x}.dtype) - {x}",
        f"{x}.max() - {x}.min()",
        f"{x} / ({x}.std() + 0.5)",
        f"{x}.flatten()[0] + {x}",
        f"{x}.flatten()[-1].reshape(()).expand({d.choice(2, 3)})",
        f"({x}.norm() * 0.1).tanh()",
        f"{p}.exp().clamp(max=3)[None] * {x}",
        f"torch.where({p} > 0, {x}, {x} * 0.5)",
        f"torch.stack([{x}.mean(), {x}.amax(), {p}])",
        f"torch.atleast_1d({x}.mean()) + {x}.reshape(-1)[:1]",
        f"{x} * torch.scalar_tensor(0.5, dtype={x}.dtype)",
        f"{x} + {x}.mean().item()",
        f"{x} * float({x}.abs().amax() > 1)+ 0.1",
        f"{x}.clone().fill_({p}.detach()) + {x}",
        f"{x}.view_as({x}).ravel()[0].squeeze()",
    )


def loss(d: Any, x: str) -> str:
    y, last = d.other(same=True), d.shape[-1]
    reduction = d.choice("'mean'", "'sum'", "'none'")
    target = f"{x}.detach().abs().reshape(-1, {last}).sum(-1).long() % {last}"
    flat = f"{x}.reshape(-1, {last})"
    weight = d.hold("b", f"torch.rand({last}) + 0.2")
    return d.choice(
        f"F.cross_entropy({flat}, {target}, reduction={reduction}, label_smoothing={d.choice(0.0, 0.1)}) * 0.1",
        f"F.cross_entropy({flat}, {target}, weight={weight}, ignore_index={d.choice(-100, 0)}, reduction='sum') * 0.1",
        f"F.cross_entropy({flat}, {flat}.softmax(-1).detach())",
        f"F.nll_loss(F.log_softmax({flat}, -1), {target}, reduction={reduction}) * 0.1",
        f"F.mse_loss({x}, {y} + 0.5, reduction={reduction}) * 0.1",
        f"F.l1_loss({x}, {y} + 0.5, reduction={reduction}) * 0.1",
        f"F.smooth_l1_loss({x}, {y} + 0.5, beta=0.5, reduction={reduction}) * 0.1",
        f"F.huber_loss({x}, {y} + 0.5, delta=0.7)",
        f"F.kl_div(F.log_softmax({x}, -1), F.softmax({y} + {x}, -1), reduction='sum') * 0.1 + 0.1",
        f"F.binary_cross_entropy({x}.sigmoid(), {y}.sigmoid().detach(), reduction={reduction}) * 0.2",
        f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid(), reduction={reduction}, pos_weight={weight}) * 0.2",
        f"F.soft_margin_loss({x}, {y}.sign().detach())",
        f"F.margin_ranking_loss({x}, {y}, torch.ones_like({x}), margin=0.3) + 0.1",
        f"F.triplet_margin_loss({flat}, {flat} + 1.0, {y}.reshape(-1, {last}) - 1.0)",
        f"F.cosine_embedding_loss({flat}, {y}.reshape(-1, {last}) + 0.5, torch.ones({d.elements // last}))",
        f"F.multilabel_margin_loss({flat}, torch.zeros({d.elements // last}, {last}, dtype=torch.long))",
        f"F.gaussian_nll_loss({x}, {y}, {x}.abs() + 0.3)",
        f"F.poisson_nll_loss({x}.clamp(max=2), {y}.abs())",
        f"{d.hold('m', 'nn.CrossEntropyLoss()')}({flat}, {target})",
    )


def spectral(d: Any, x: str) -> str:
    axis, last = d.axis(), d.shape[-1]
    options = [
        f"torch.fft.rfft({x}, dim={axis}).abs() * 0.3",
        f"torch.fft.irfft(torch.fft.rfft({x}, dim={axis}), n={d.shape[axis]}, dim={axis})",
        f"torch.fft.fft({x}).real * 0.3",
        f"torch.fft.fft({x}, norm='ortho').imag + {x}",
        f"torch.view_as_real(torch.complex({x}, {x} * 0.5) * (0.3 + 0.5j)).sum(-1)",
        f"torch.polar({x}.abs(), {x}).real",
        f"torch.fft.ifft(torch.fft.fft({x}) * 0.5).real",
        f"torch.fft.fftshift({x}, dim={axis})",
        f"torch.complex({x}, {x}).abs()",
    ]
    if last % 2 == 0:
        options += [
            f"pair = torch.view_as_complex({x}.reshape(*{x}.shape[:-1], {last // 2}, 2).contiguous())\n"
            f"turn = torch.polar(torch.ones({last // 2}, dtype={x}.dtype), torch.arange({last // 2}, dtype={x}.dtype) * 0.3)\n"
            "OUT = torch.view_as_real(pair * turn).flatten(-2)",
            f"OUT = torch.stack([-{x}[..., 1::2], {x}[..., ::2]], -1).reshape({x}.shape)",
        ]
    return d.random.choice(options)
