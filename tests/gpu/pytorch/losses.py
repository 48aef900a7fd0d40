"""Trains for a while, deterministically, and prints every loss with all of its
bits: what gpu_failover.sh disturbs. Each batch comes from the host, and each loss
goes there.

    losses.py STEPS
"""

import sys

import torch

from models import Transformer, cnn
from training import trainer
from workload import device, reproducible, say


def batches(seed):
    """Images and their classes, other ones each time, in pinned memory."""
    g = torch.Generator().manual_seed(seed)
    while True:
        yield (torch.randn(64, 3, 32, 32, generator=g).pin_memory(),
               torch.randint(0, 10, (64,), generator=g).pin_memory())


def train(name, model, inputs, wanted, next_batch, steps):
    step, loss = trainer(model, inputs, wanted)
    for i in range(steps):
        x, y = next_batch()
        inputs.copy_(x, non_blocking=True)
        wanted.copy_(y, non_blocking=True)
        step()
        print(name, i + 1, loss.item().hex(), flush=True)
    say(name, *model.state_dict().values())


def main(steps):
    reproducible()
    images = batches(1)
    x, y = next(images)
    train("cnn", cnn().to(device()), x.to(device()), y.to(device()),
          lambda: next(images), steps)
    g = torch.Generator().manual_seed(2)

    def text():
        whole = torch.randint(0, 1000, (8, 65), generator=g)
        return whole[:, :-1], whole[:, 1:]

    x, y = text()
    train("transformer", Transformer(4, 256, 4).to(device()), x.to(device()),
          y.contiguous().to(device()), text, steps)


if __name__ == "__main__":
    main(int(sys.argv[1]))
