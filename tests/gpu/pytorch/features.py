"""What programs use besides plain training: capture, compilers, streams,
threads, loaders, the caching allocator's ways."""

import os
import subprocess
import sys
import threading

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from models import Decoder, cnn
from training import images
from workload import Skipped, device, reproducible, say, timed, workload


@workload
def cuda_graph():
    """A captured training step (torch.cuda.graph)."""
    reproducible()
    model = cnn().to(device())
    x, y = images(64, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loss = torch.zeros((), device=device())

    def step():
        optimizer.zero_grad(set_to_none=True)
        new = functional.cross_entropy(model(x), y)
        new.backward()
        optimizer.step()
        loss.copy_(new.detach())

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for i in range(50):
        graph.replay()
        if i % 10 == 9:
            print("graph", i + 1, repr(loss.item()), flush=True)
    say("graph", *model.state_dict().values())
    timed("graph_replay", graph.replay)


def captured_decoder(**size):
    """A decoder, and a graph of its step."""
    model = Decoder(**size).to(device()).eval()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model.step()
    return model, graph


@workload
def decode():
    """Tokens by a captured step each, as inference servers make them."""
    reproducible()
    model, graph = captured_decoder(layers=12, width=768, heads=12)
    model.place.zero_()
    model.token.fill_(7)
    text = []
    for _ in range(450):
        graph.replay()
        text.append(model.token.item())
    for i in range(0, len(text), 50):
        print("tokens", *text[i:i + 50], flush=True)
    say("cache", model.keys, model.values)


@workload
def compiled():
    """torch.compile: kernels that Triton makes while the program runs."""
    reproducible()
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
        torch.nn.Linear(512, 256)).to(device())
    g = torch.Generator().manual_seed(3)
    x = torch.randn(128, 256, generator=g).to(device())
    fast = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step():
        loss = (fast(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(20):
        loss = step()
    print("compiled", repr(loss.item()), flush=True)
    say("compiled", *model.state_dict().values())
    timed("compiled_step", step)


@workload
def attention():
    """Each backend of scaled dot-product attention, forwards and backwards."""
    reproducible()
    torch.use_deterministic_algorithms(True, warn_only=True)
    g = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(4, 8, 512, 64, generator=g).to(device())
               .to(torch.bfloat16).requires_grad_() for _ in range(3))
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION,
                    SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        name = backend.name.lower()
        with sdpa_kernel(backend):
            out = functional.scaled_dot_product_attention(q, k, v,
                                                          is_causal=True)
            say(name, out)
            if backend == SDPBackend.MATH:
                out.float().sum().backward()
                say(f"{name}_gradients", q.grad, k.grad, v.grad)
            timed(name, lambda: functional.scaled_dot_product_attention(
                q, k, v, is_causal=True))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, 32, 32, generator=g), i % 10


@workload
def loader():
    """DataLoader with processes of its own and pinned memory."""
    reproducible()
    model = cnn().to(device())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    data = torch.utils.data.DataLoader(Numbers(), 64, num_workers=2,
                                       pin_memory=True)
    for epoch in range(2):
        for x, y in data:
            x = x.to(device(), non_blocking=True)
            y = y.to(device(), non_blocking=True)
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("loader", epoch, repr(loss.item()), flush=True)


@workload
def many_streams():
    reproducible()
    g = torch.Generator().manual_seed(5)
    a = torch.randn(1024, 1024, generator=g).to(device())
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for i, s in enumerate(streams):
        with torch.cuda.stream(s):
            x = a * (i + 1)
            for _ in range(5):
                x = torch.tanh(x @ a)
            results.append(x)
    for s in streams:
        torch.cuda.current_stream().wait_stream(s)
    say("streams", *results)


@workload
def many_threads():
    """Autograd from several threads at once."""
    reproducible()
    results = [None] * 4

    def work(i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(256, 256, generator=g).to(device()).requires_grad_()
        y = x
        for _ in range(10):
            y = torch.sin(y @ x)
        y.square().mean().backward()
        results[i] = x.grad

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    say("threads", *results)


@workload
def memory_statistics():
    torch.cuda.init()
    base = torch.cuda.memory_allocated()
    kept = [torch.empty(1 << 20, device=device()) for _ in range(8)]
    print("allocated", torch.cuda.memory_allocated() - base)
    print("reserved", torch.cuda.memory_reserved())
    free, total = torch.cuda.mem_get_info()
    print("fits", 0 < free < total)
    del kept
    torch.cuda.empty_cache()
    print("peak", torch.cuda.max_memory_allocated() - base)
    print("after", torch.cuda.memory_reserved())


@workload
def out_of_memory():
    """More than there is raises, and the program goes on."""
    _, total = torch.cuda.mem_get_info()
    x = torch.arange(1000.0, device=device())
    try:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device=device())
        print("it fits?")
    except torch.OutOfMemoryError as error:
        print(type(error).__name__)
    kept = []
    try:
        while True:
            kept.append(torch.empty(total // 8, dtype=torch.uint8,
                                    device=device()))
    except torch.OutOfMemoryError:
        print("most eighths", 6 <= len(kept) <= 8)
    del kept
    torch.cuda.empty_cache()
    print("sum", x.sum().item())


@workload
def expandable_segments():
    """The allocator on the program's own virtual memory. It is chosen when
    PyTorch starts, so in a process of its own."""
    program = """
import torch
x = [torch.full((1 << 20,), float(i), device="cuda") for i in range(64)]
del x[::2]
y = torch.cat(x)
z = torch.empty(96 << 20, dtype=torch.uint8, device="cuda").fill_(7)
print("expandable", y.sum().item(), z.sum(dtype=torch.int64).item())
del x, y, z
torch.cuda.empty_cache()
print("left", torch.cuda.memory_reserved())
"""
    environment = dict(os.environ,
                       PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@workload
def shared_between_processes():
    """A tensor handed to another process (torch.multiprocessing)."""
    program = """
import torch
import torch.multiprocessing as mp
def work(tensors, done):
    x = tensors.get()
    x.mul_(2)
    torch.cuda.synchronize()
    del x
    done.set()
if __name__ == "__main__":
    mp.set_start_method("spawn")
    tensors, done = mp.Queue(), mp.Event()
    p = mp.Process(target=work, args=(tensors, done))
    p.start()
    x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    tensors.put(x)
    assert done.wait(60)
    print("shared", x.sum(dtype=torch.float64).item())
    p.join()
    print("child", p.exitcode)
"""
    # A spawned process loads the program again, so it has to be a file.
    place = os.path.join(os.getcwd(), "sharing.py")
    with open(place, "w") as file:
        file.write(program)
    subprocess.run([sys.executable, place], check=True, timeout=90)


@workload
def collectives():
    """torch.distributed with NCCL, a process for each of two GPUs."""
    if torch.cuda.device_count() < 2:
        raise Skipped("there is one GPU")
    program = """
import sys
import torch
import torch.distributed as dist
rank = int(sys.argv[1])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + sys.argv[2], rank=rank,
                        world_size=2)
x = torch.full((1 << 20,), float(rank + 1), device="cuda")
dist.all_reduce(x)
y = torch.full((1000,), float(rank), device="cuda")
dist.broadcast(y, 1)
parts = [torch.empty(16, device="cuda") for _ in range(2)]
dist.all_gather(parts, torch.full((16,), rank + 0.5, device="cuda"))
print(rank, x.sum().item(), y.sum().item(), [p.sum().item() for p in parts])
dist.destroy_process_group()
"""
    meeting = os.path.join(os.getcwd(), "meeting")
    both = [subprocess.Popen([sys.executable, "-c", program, str(i), meeting],
                             stdout=subprocess.PIPE, text=True)
            for i in range(2)]
    for p in both:
        print(p.communicate(timeout=100)[0], end="", flush=True)
        if p.returncode != 0:
            raise RuntimeError(f"a process of two ended with {p.returncode}")


@workload
def two_devices():
    """A model whose halves lie on two GPUs, and copies between them."""
    if torch.cuda.device_count() < 2:
        raise Skipped("there is one GPU")
    reproducible()
    g = torch.Generator().manual_seed(11)
    first = nn.Sequential(nn.Linear(256, 512), nn.ReLU()).to(device(0))
    second = nn.Linear(512, 10).to(device(1))
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()],
                                lr=0.1)
    inputs = torch.randn(128, 256, generator=g).to(device(0))
    wanted = torch.randint(0, 10, (128,), generator=g).to(device(1))
    for i in range(20):
        loss = functional.cross_entropy(second(first(inputs).to(device(1))),
                                        wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("halves", i + 1, repr(loss.item()), flush=True)
    say("halves", *first.parameters(), *second.parameters())
    # Copies back and forth. Only streams wait, for streams of the other device.
    x = torch.randn(1 << 22, generator=g).to(device(0))
    ways = [torch.cuda.Stream(device(i)) for i in range(2)]
    for s in ways:
        s.wait_stream(torch.cuda.current_stream(device(0)))
    for i in range(10):
        here, there = ways[i % 2], ways[(i + 1) % 2]
        with torch.cuda.stream(here):
            x = torch.tanh(x * 1.5)
            y = x.to(there.device, non_blocking=True)
        there.wait_stream(here)
        y.record_stream(there)  # not the stream that its memory is of
        x = y
    torch.cuda.synchronize(device(0))
    torch.cuda.synchronize(device(1))
    say("to_and_fro", x)
