"""Works step by step, and prints the result of each step with all of its bits as
soon as it is there, so that somebody else sees how long each step took: what
kills.sh disturbs.

    steps.py decode|transformer|resnet50 STEPS ROUNDS
"""

import sys

import torch

from features import captured_decoder
from models import Transformer, resnet50
from training import images, text, trainer
from workload import device, reproducible


def decode(steps, rounds):
    """Each round is a text of its own."""
    model, graph = captured_decoder(layers=32, width=1024, heads=16)
    for i in range(rounds):
        model.place.zero_()
        model.token.fill_(7 + i)
        for _ in range(steps):
            graph.replay()
            yield model.token.item()


def train(model, inputs, wanted, steps, rounds):
    step, loss = trainer(model.to(device()), inputs, wanted)
    for _ in range(rounds * steps):
        step()
        yield loss.item().hex()


programs = {
    "decode": decode,
    "transformer": lambda *length: train(Transformer(12, 768, 12),
                                         *text(8, 256), *length),
    "resnet50": lambda *length: train(resnet50(), *images(32, 224, 1000),
                                      *length),
}

if __name__ == "__main__":
    reproducible()
    for result in programs[sys.argv[1]](*map(int, sys.argv[2:4])):
        print(result, flush=True)
