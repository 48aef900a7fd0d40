"""Training steps, and inference."""

import torch
from torch.nn import functional

from models import Transformer, cnn, resnet50
from workload import device, reproducible, say, timed, workload


def images(count, side, classes):
    g = torch.Generator().manual_seed(1)
    return (torch.randn(count, 3, side, side, generator=g).to(device()),
            torch.randint(0, classes, (count,), generator=g).to(device()))


def text(count, length):
    g = torch.Generator().manual_seed(2)
    x = torch.randint(0, 1000, (count, length + 1), generator=g).to(device())
    return x[:, :-1], x[:, 1:]


def trainer(model, inputs, wanted, kind=None, scaler=None):
    """One training step as a function, and where it leaves the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = torch.zeros((), device=device())

    def step():
        with torch.autocast("cuda", kind, enabled=kind is not None):
            out = model(inputs)
            new = functional.cross_entropy(out.reshape(-1, out.shape[-1]),
                                           wanted.reshape(-1))
        optimizer.zero_grad()
        if scaler:
            scaler.scale(new).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            new.backward()
            optimizer.step()
        loss.copy_(new.detach())

    return step, loss


def train(name, model, inputs, wanted, steps=50, **how):
    """The losses of deterministic steps, and what a step costs."""
    step, loss = trainer(model, inputs, wanted, **how)
    for i in range(steps):
        step()
        if i % 10 == 9:
            print(name, i + 1, repr(loss.item()), flush=True)
    say(name, *model.state_dict().values())
    timed(f"{name}_step", step)


@workload
def train_cnn():
    reproducible()
    train("cnn", cnn().to(device()), *images(64, 32, 10))


@workload
def train_resnet50():
    reproducible()
    train("resnet50", resnet50().to(device()), *images(32, 224, 1000))


@workload
def infer_resnet50():
    reproducible()
    model = resnet50().to(device()).eval()
    x, _ = images(1, 224, 1000)
    with torch.inference_mode():
        say("resnet50_answer", model(x))
        timed("resnet50_inference", lambda: model(x))
        # Like a service, this reads an answer for each image on the host.
        timed("resnet50_answered", lambda: model(x).argmax().item())


@workload
def train_transformer_bf16():
    reproducible()
    train("transformer_bf16", Transformer(12, 768, 12).to(device()),
          *text(8, 256), kind=torch.bfloat16)


@workload
def train_transformer_small():
    reproducible()
    train("transformer_small", Transformer(6, 256, 4).to(device()),
          *text(1, 128))


@workload
def train_half():
    reproducible()
    train("half", cnn().to(device()), *images(64, 32, 10), kind=torch.float16,
          scaler=torch.amp.GradScaler("cuda"))


@workload
def one_element():
    x = torch.ones(1, device=device())
    print("one", (x + 1).item())
    timed("one_element_item", lambda: (x + 1).item(), rounds=50, each=20)


@workload
def copies():
    reproducible()
    there = torch.empty(256 << 20, dtype=torch.uint8, device=device())
    for name, pinned in (("pageable", False), ("pinned", True)):
        host = torch.arange(256 << 18, dtype=torch.int32).view(torch.uint8)
        host = host.pin_memory() if pinned else host
        there.copy_(host)
        say(f"copied_{name}", there)
        timed(f"to_device_256MiB_{name}", lambda: there.copy_(host), rounds=7,
              warm_up=2)
        timed(f"to_host_256MiB_{name}", lambda: host.copy_(there), rounds=7,
              warm_up=2)
