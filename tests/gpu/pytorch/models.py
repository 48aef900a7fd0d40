"""The models that are trained and asked."""

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions (He et al., 2015, figure 5)."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Identity()
        if stride != 1 or channels != out:
            self.short = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False),
                nn.BatchNorm2d(out))

    def forward(self, x):
        return functional.relu(self.body(x) + self.short(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2),
                                  (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, 1000))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 8 * 8, 128), nn.ReLU(),
        nn.Linear(128, 10))


class Transformer(nn.Module):
    """A decoder of characters; attention is PyTorch's own."""

    def __init__(self, layers, width, heads, vocabulary=1000, length=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0,
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers,
                                          enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer(
            "mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        n = x.shape[1]
        y = self.tokens(x) + self.places[:n]
        return self.head(self.body(y, mask=self.mask[:n, :n], is_causal=True))
