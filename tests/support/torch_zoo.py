"""Small networks of torch alone, of the kinds that people train."""

import torch
from torch_agreement import Case, integers, normal

nn, functional = torch.nn, torch.nn.functional


class Residual(nn.Module):
    """Adds what it is given to what its layers make of it."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(32, 64, 4, 1, 0, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(True),
        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def discriminator():
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 32, 4, 2, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(32, 64, 4, 2, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(64, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )


def spectral_discriminator():
    norm = torch.nn.utils.parametrizations.spectral_norm
    return nn.Sequential(
        norm(nn.Conv2d(3, 16, 3, 2, 1)),
        nn.LeakyReLU(0.1),
        norm(nn.Conv2d(16, 32, 3, 2, 1)),
        nn.InstanceNorm2d(32, affine=True),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        norm(nn.Linear(32 * 8 * 8, 1)),
    )


def twice(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Down and up with transposed convolutions, or bilinear upsampling."""

    def __init__(self, bilinear=False):
        super().__init__()
        self.down = nn.ModuleList([twice(3, 8), twice(8, 16), twice(16, 32)])
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(2 * c, c, 1)
            )
            if bilinear
            else nn.ConvTranspose2d(2 * c, c, 2, 2)
            for c in (16, 8)
        )
        self.merge = nn.ModuleList([twice(32, 16), twice(16, 8)])
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        kept = []
        for number, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, (kept[1], kept[0]), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Volumes(nn.Module):
    """A small 3-D U-Net."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.InstanceNorm3d(8), nn.PReLU())
        self.second = nn.Sequential(nn.Conv3d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.PReLU(16))
        self.up = nn.ConvTranspose3d(16, 8, 2, 2)
        self.head = nn.Conv3d(16, 2, 1)

    def forward(self, x):
        first = self.first(x)
        return self.head(torch.cat([first, self.up(self.second(first))], 1))


class VAE(nn.Module):
    """Samples by torch's random numbers."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.mean, self.spread = nn.Linear(16 * 7 * 7, 8), nn.Linear(16 * 7 * 7, 8)
        self.decode = nn.Sequential(
            nn.Linear(8, 16 * 7 * 7),
            nn.Unflatten(1, (16, 7, 7)),
            nn.ConvTranspose2d(16, 8, 3, 2, 1, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 3, 2, 1, 1),
            nn.Sigmoid(),
        )

    def forward(self, x, noise):
        hidden = self.encode(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + noise * torch.exp(0.5 * spread)
        again = self.decode(code)
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        return functional.binary_cross_entropy(
            again.float(), torch.sigmoid(x).float(), reduction="sum"
        ) + divergence, again


class Recurrent(nn.Module):
    """Embedding, a recurrent network and a head."""

    def __init__(self, kind, **more):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.inner = kind(16, 24, batch_first=True, **more)
        self.head = nn.Linear(24 * (2 if more.get("bidirectional") else 1), 50)

    def forward(self, tokens):
        return self.head(self.inner(self.embedding(tokens))[0])


class Cells(nn.Module):
    """A recurrent network by hand."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 24)
        self.gated = nn.GRUCell(24, 24)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 24)
        c, g = h, h
        made = []
        for step in range(x.shape[1]):
            h, c = self.cell(x[:, step], (h, c))
            g = self.gated(h, g)
            made.append(g)
        return torch.stack(made, 1)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, tokens))
        self.within = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, width))

    def forward(self, x):
        x = x + self.across(self.before(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.after(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.blocks = nn.Sequential(*[MixerBlock(64, 32) for _ in range(3)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


class Diffusion(nn.Module):
    """A block of a diffusion U-Net: group norms, SiLU, a time embedding, attention."""

    def __init__(self, width=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.norm1, self.conv1 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.norm3, self.three, self.out = (
            nn.GroupNorm(8, width),
            nn.Conv2d(width, 3 * width, 1),
            nn.Conv2d(width, width, 1),
        )
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, step):
        rates = torch.exp(torch.arange(16, dtype=torch.float32) * -0.5)
        angles = step[:, None].float() * rates
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        x = self.first(x)
        hidden = self.conv1(functional.silu(self.norm1(x))) + embedded[:, :, None, None]
        x = x + self.conv2(functional.dropout(functional.silu(self.norm2(hidden)), 0.1, self.training))
        batch, width, height, wide = x.shape
        q, k, v = (
            self.three(self.norm3(x))
            .reshape(batch, 3, 4, width // 4, height * wide)
            .transpose(3, 4)
            .unbind(1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(2, 3).reshape(batch, width, height, wide))
        return self.up(functional.interpolate(self.down(x), scale_factor=2, mode="nearest"))


class Graphs(nn.Module):
    """A graph network by a dense adjacency matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 7)

    def forward(self, x, edges):
        edges = edges.softmax(-1)
        x = functional.dropout(functional.elu(edges @ self.first(x)), 0.3, self.training)
        return functional.log_softmax(edges @ self.second(x), -1)


class Recommender(nn.Module):
    """Bags of embeddings, factorised interactions and a perceptron."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(30, 16, mode=mode) for mode in ("sum", "mean")])
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(16 + 3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, first, second):
        parts = [self.bottom(dense), self.bags[0](first), self.bags[1](second)]
        z = torch.stack(parts, 1)
        rows, columns = torch.tril_indices(3, 3, -1)
        pairs = (z @ z.transpose(1, 2))[:, rows, columns]
        return torch.sigmoid(self.top(torch.cat([parts[0], pairs], 1)))


class WaveNet(nn.Module):
    """Dilated, causal 1-D convolutions with gates."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        norm = torch.nn.utils.parametrizations.weight_norm
        self.filters = nn.ModuleList(norm(nn.Conv1d(16, 32, 2, dilation=2**i)) for i in range(5))
        self.mixes = nn.ModuleList(nn.Conv1d(16, 32, 1) for _ in range(5))
        self.last = nn.Conv1d(16, 1, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for number, (one, mix) in enumerate(zip(self.filters, self.mixes, strict=True)):
            a, b = one(functional.pad(x, (2**number, 0))).chunk(2, 1)
            more, skip = mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + skip
        return self.last(functional.relu(total))


class SuperResolution(nn.Module):
    """ESPCN: a pixel shuffle at the end; and squeeze and excitation before."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), Residual(nn.Conv2d(16, 16, 3, padding=1), nn.Mish())
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(16, 4, 1),
            nn.Hardswish(),
            nn.Conv2d(4, 16, 1),
            nn.Hardsigmoid(),
        )
        self.up = nn.Sequential(nn.Conv2d(16, 27, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x):
        x = self.layers(x)
        return self.up(x * self.squeeze(x))


class Classified(nn.Module):
    """A network with its loss within."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3),
            nn.BatchNorm2d(8, affine=False),
            nn.CELU(),
            nn.AvgPool2d(2),
            nn.Dropout2d(0.2),
            nn.Conv2d(8, 16, 3, padding="same", padding_mode="reflect"),
            nn.SELU(),
            nn.AdaptiveMaxPool2d(4),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(256, 32),
            nn.BatchNorm1d(32),
            nn.Softplus(),
            nn.Linear(32, 10),
        )

    def forward(self, x, labels):
        scores = self.net(x)
        return functional.cross_entropy(scores.float(), labels, label_smoothing=0.1), scores


def encoder_decoder():
    return nn.Transformer(32, 4, 2, 2, 64, dropout=0.1, batch_first=True)


def image(*shape):
    return lambda: {"x": normal(*shape)}


def sequential_image(*shape):
    return lambda: {"input": normal(*shape)}


CASES = (
    Case("dcgan_generator", generator, sequential_image(4, 32, 1, 1), in_ci=True),
    Case("dcgan_discriminator", discriminator, sequential_image(4, 3, 32, 32)),
    Case("spectral_norm", spectral_discriminator, sequential_image(4, 3, 32, 32)),
    Case("unet", UNet, image(2, 3, 32, 32), in_ci=True),
    Case("unet_bilinear", lambda: UNet(bilinear=True), image(2, 3, 32, 32)),
    Case("unet_3d", Volumes, image(2, 1, 8, 16, 16)),
    Case("vae", VAE, lambda: {"x": normal(4, 1, 28, 28), "noise": normal(4, 8, seed=3)}, in_ci=True),
    Case("lstm", lambda: Recurrent(nn.LSTM), lambda: {"tokens": integers(3, 7, below=50)}, traced=False),
    Case(
        "lstm_deep",
        lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True, dropout=0.2),
        lambda: {"tokens": integers(3, 7, below=50)},
        traced=False,
    ),
    Case("gru", lambda: Recurrent(nn.GRU), lambda: {"tokens": integers(3, 7, below=50)}, traced=False),
    Case("rnn", lambda: Recurrent(nn.RNN), lambda: {"tokens": integers(3, 7, below=50)}, traced=False),
    Case("cells", Cells, image(3, 6, 16)),
    Case("mlp_mixer", Mixer, image(4, 3, 32, 32), in_ci=True),
    Case(
        "diffusion",
        Diffusion,
        lambda: {"x": normal(2, 3, 16, 16), "step": integers(2, below=1000)},
        in_ci=True,
    ),
    Case("graph_network", Graphs, lambda: {"x": normal(40, 16), "edges": normal(40, 40, seed=2)}),
    Case(
        "recommender",
        Recommender,
        lambda: {
            "dense": normal(8, 13),
            "first": integers(8, 4, below=30),
            "second": integers(8, 3, below=30, seed=2),
        },
    ),
    Case("wavenet", WaveNet, image(2, 1, 200)),
    Case("super_resolution", SuperResolution, image(2, 3, 24, 24)),
    Case("classified", Classified, lambda: {"x": normal(8, 1, 28, 28), "labels": integers(8, below=10)}),
    Case(
        "encoder_decoder",
        encoder_decoder,
        lambda: {"src": normal(2, 9, 32), "tgt": normal(2, 7, 32, seed=2)},
        in_ci=True,
    ),
)
