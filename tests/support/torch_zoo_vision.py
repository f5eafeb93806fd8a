"""Small networks of torchvision with random weights."""

from torch_agreement import Case, nn, normal
from torchvision import models

SIZE = 64


def images(count=4, size=SIZE):
    return lambda: {"x": normal(count, 3, size, size)}


class Features(nn.Module):
    """A backbone of a detector, with a pyramid of features."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        self.inner = resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, norm_layer=nn.BatchNorm2d, trainable_layers=5
        )

    def forward(self, x):
        return dict(self.inner(x))


class Frozen(Features):
    """The same with the statistics of its normalisations frozen."""

    def __init__(self):
        nn.Module.__init__(self)
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        self.inner = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)


class Single(nn.Module):
    """SSDLite's backbone and heads."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection import ssdlite320_mobilenet_v3_large

        detector = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


def of(name, **options):
    return lambda: getattr(models, name)(weights=None, num_classes=10, **options)


def segmentation(name):
    return lambda: getattr(models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5)


def densenet():
    return models.DenseNet(8, (2, 3, 2), 16, num_classes=10)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], 0.1, num_classes=10)


def vision_transformer():
    return models.VisionTransformer(32, 8, 2, 4, 32, 64, dropout=0.1, num_classes=10)


def swin(block=None):
    from torchvision.models.swin_transformer import PatchMerging, PatchMergingV2, SwinTransformerBlockV2

    more = (
        {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}
        if block
        else {"downsample_layer": PatchMerging}
    )
    return models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10, **more)


def maxvit():
    return models.MaxVit((32, 32), 16, 4, [16, 32], [1, 1], 8, 0.1, num_classes=10)


def mobile_video():
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    blocks = [
        MSBlockConfig(1, 16, 32, [3, 3, 3], [1, 2, 2], [1, 1, 1], [3, 3, 3]),
        MSBlockConfig(2, 32, 32, [3, 3, 3], [1, 1, 1], [3, 3, 3], [1, 2, 2]),
    ]
    return MViT(
        (32, 32),
        4,
        blocks,
        residual_pool=True,
        residual_with_cls_embed=False,
        rel_pos_embed=True,
        proj_after_attn=True,
        num_classes=10,
    )


CASES = (
    Case("alexnet", of("alexnet"), images()),
    Case("vgg11", of("vgg11"), images(2, 32)),
    Case("vgg11_bn", of("vgg11_bn"), images(2, 32)),
    Case("resnet18", of("resnet18"), images(), in_ci=True),
    Case("resnet50", of("resnet50"), images()),
    Case("resnext50", of("resnext50_32x4d"), images()),
    Case("wide_resnet50", of("wide_resnet50_2"), images(2)),
    Case("squeezenet1_1", of("squeezenet1_1"), images()),
    Case("densenet", densenet, images(4, 32)),
    Case("googlenet", of("googlenet", aux_logits=False, init_weights=False), images()),
    Case("inception_v3", of("inception_v3", aux_logits=False, init_weights=False), images(4, 96)),
    Case("mobilenet_v2", of("mobilenet_v2"), images()),
    Case("mobilenet_v3_small", of("mobilenet_v3_small"), images(), in_ci=True),
    Case("mnasnet0_5", of("mnasnet0_5"), images()),
    Case("shufflenet_v2_x0_5", of("shufflenet_v2_x0_5"), images()),
    Case("efficientnet_b0", of("efficientnet_b0"), images()),
    Case("regnet_y_400mf", of("regnet_y_400mf"), images()),
    Case("regnet_x_400mf", of("regnet_x_400mf"), images()),
    Case("convnext", convnext, images(4, 32), in_ci=True),
    Case("vit", vision_transformer, images(4, 32)),
    Case("swin", swin, images(2, 32)),
    Case("swin_v2", lambda: swin(2), images(2, 32)),
    Case("maxvit", maxvit, images(2, 32)),
    Case("deeplabv3", segmentation("deeplabv3_mobilenet_v3_large"), images()),
    Case("fcn_resnet50", segmentation("fcn_resnet50"), images(2)),
    Case(
        "lraspp",
        segmentation("lraspp_mobilenet_v3_large"),
        lambda: {"input": normal(4, 3, SIZE, SIZE)},
        in_ci=True,
    ),
    Case("pyramid", Features, images()),
    Case("pyramid_frozen", Frozen, images()),
    Case("ssdlite", Single, images(2, 96)),
    Case(
        "r3d_18",
        lambda: models.video.r3d_18(weights=None, num_classes=10),
        lambda: {"x": normal(2, 3, 4, 32, 32)},
    ),
    Case(
        "r2plus1d_18",
        lambda: models.video.r2plus1d_18(weights=None, num_classes=10),
        lambda: {"x": normal(2, 3, 4, 32, 32)},
    ),
    Case("mvit", mobile_video, lambda: {"x": normal(2, 3, 4, 32, 32)}),
)
