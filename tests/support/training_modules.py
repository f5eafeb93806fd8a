"""Small networks of torch to train, one for each family of models."""

from itertools import pairwise

import torch

nn, functional = torch.nn, torch.nn.functional


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        way = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(x)) + way)


class ResNet(nn.Module):
    """ResNet-18; torchvision's has a width of 64."""

    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.Sequential(
            *(
                nn.Sequential(Block(a, b, 1 if n == 0 else 2), Block(b, b, 1))
                for n, (a, b) in enumerate(pairwise(widths))
            )
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.fc(self.pool(self.layers(self.stem(x))).flatten(1))


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, inputs, outputs, stride, factor=3):
        super().__init__()
        wide = inputs * factor
        self.own = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.own else self.conv(x)


class MobileNet(nn.Module):
    """Depthwise convolutions, ReLU6, Hardswish, squeeze and excitation."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.blocks = nn.Sequential(Inverted(8, 8, 1), Inverted(8, 16, 2), Inverted(16, 16, 1))
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid()
        )
        self.head = nn.Sequential(nn.Dropout(0.0), nn.Linear(16, classes))

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = x * self.squeeze(x)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Self-attention of several heads, causal."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x):
        n, length, size = x.shape
        parts = self.qkv(x).view(n, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, length, size))


class Language(nn.Module):
    """A small GPT: tied embeddings, LayerNorm, GELU, its loss inside."""

    def __init__(self, words=23, length=12, size=16, heads=2, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.position = nn.Parameter(0.02 * torch.randn(2 * length, size))
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(size),
                    "attention": Attention(size, heads),
                    "norm2": nn.LayerNorm(size),
                    "mlp": nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)),
                }
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, targets):
        x = self.embedding(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = x + block["attention"](block["norm1"](x))
            x = x + block["mlp"](block["norm2"](x))
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)


class UNet(nn.Module):
    """Two levels, transposed convolutions up, joined with what came down, GroupNorm."""

    def __init__(self, width=8, classes=3):
        super().__init__()
        self.down1 = self._double(3, width)
        self.down2 = self._double(width, 2 * width)
        self.middle = self._double(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.join2 = self._double(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1)
        self.join1 = self._double(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _double(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.ReLU(),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(functional.max_pool2d(one, 2))
        x = self.middle(functional.max_pool2d(two, 2))
        x = self.join2(torch.cat([self.up2(x), two], 1))
        return self.out(self.join1(torch.cat([self.up1(x), one], 1)))


class WithLoss(nn.Module):
    """A network with its loss.

    Args:
        network: from the first inputs to what the loss takes.
        loss: of that and of the last input.
    """

    def __init__(self, network, loss):
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, *inputs):
        return self.loss(self.network(*inputs[:-1]), inputs[-1])
