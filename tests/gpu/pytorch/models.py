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


class Decoder(nn.Module):
    """A decoder that makes one token a call and keeps the keys and values of the
    tokens before it, at places that do not change, so a graph can hold a call."""

    def __init__(self, layers, width, heads, vocabulary=1000, length=512):
        super().__init__()
        self.heads, self.length = heads, length
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "asked": nn.Linear(width, 3 * width),
            "after": nn.Linear(width, width), "norm": nn.LayerNorm(width),
            "up": nn.Linear(width, 4 * width),
            "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)
        for name in "keys", "values":
            self.register_buffer(name, torch.zeros(
                layers, heads, length, width // heads))
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def step(self):
        """Puts the next token into `token`."""
        x = self.tokens(self.token) + self.places(self.place)
        seen = torch.arange(self.length, device=x.device) <= self.place
        for i, layer in enumerate(self.layers):
            asked = layer["asked"](layer["before"](x))
            q, k, v = asked.view(3, self.heads, 1, -1)
            self.keys[i].index_copy_(1, self.place, k)
            self.values[i].index_copy_(1, self.place, v)
            found = functional.scaled_dot_product_attention(
                q, self.keys[i], self.values[i], attn_mask=seen[None, None])
            x = x + layer["after"](found.reshape(1, -1))
            x = x + layer["down"](functional.gelu(
                layer["up"](layer["norm"](x))))
        self.token.copy_(self.head(x).argmax(-1))
        self.place.add_(1)
