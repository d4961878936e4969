"""Networks for small devices."""

from torch import Tensor, nn

# expansion, channels, blocks, stride of the first block: table 2 of the paper
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def conv_norm(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1, norm: str = "norm"
) -> nn.Sequential:
    """A convolution and its norm; a norm called `norm_out` ends a residual branch and starts small."""
    layers = nn.Sequential()
    layers.add_module("conv", nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False))
    layers.add_module(norm, nn.BatchNorm2d(out))
    return layers


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel by 3x3, narrow by 1x1 without activation."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = channels * expansion
        self.residual = stride == 1 and channels == out
        self.expand = nn.Sequential()
        if expansion != 1:
            self.expand = conv_norm(channels, width, 1).append(nn.ReLU6())
        self.depthwise = conv_norm(width, width, 3, stride, groups=width).append(nn.ReLU6())
        self.project = conv_norm(width, out, 1, norm="norm_out" if self.residual else "norm")

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


def inverted_residuals() -> nn.Sequential:
    blocks = nn.Sequential()
    channels = 32
    for expansion, out, count, first_stride in STAGES:
        for index in range(count):
            blocks.append(InvertedResidual(channels, out, first_stride if index == 0 else 1, expansion))
            channels = out
    return blocks


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1.0 for ImageNet (Sandler et al. 2018, arXiv:1801.04381), as torchvision builds it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 32, 3, stride=2).append(nn.ReLU6())
        self.blocks = inverted_residuals()
        self.head = conv_norm(320, 1280, 1).append(nn.ReLU6())
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.blocks(self.stem(x)))
        return self.fc(self.dropout(x.mean((2, 3))))
