"""NVIDIA's libraries, through PyTorch and, where it has no way to one, by
itself."""

import ctypes
import ctypes.util

import torch
from torch.nn import functional

from workload import Skipped, device, reproducible, say, timed, workload


def numbers(*shape, kind=torch.float32, seed=6):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(
        device()).to(kind)


@workload
def cublas():
    reproducible()
    for name, kind in (("sgemm", torch.float32), ("dgemm", torch.float64),
                       ("hgemm", torch.float16), ("bf16", torch.bfloat16)):
        a = numbers(512, 384, kind=kind)
        b = numbers(384, 640, kind=kind, seed=7)
        say(name, a @ b)
        say(f"{name}_batched", torch.bmm(a.reshape(8, 64, 384),
                                         b.expand(8, 384, 640)))
        say(f"{name}_vector", a @ b[:, 0])
    torch.backends.cuda.matmul.allow_tf32 = True
    say("tf32", numbers(512, 512) @ numbers(512, 512, seed=8))
    torch.backends.cuda.matmul.allow_tf32 = False
    c = torch.complex(numbers(64, 64), numbers(64, 64, seed=9))
    say("cgemm", torch.view_as_real(c @ c))
    x = torch.arange(64 * 64, device=device()).reshape(64, 64) % 100
    say("int8", torch._int_mm(x.to(torch.int8), x.t().to(torch.int8)))


@workload
def cublaslt():
    """Epilogues: bias, bias and ReLU, bias and GELU; and 8-bit floats."""
    reproducible()
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        a, b = numbers(256, 512, kind=kind), numbers(512, 256, kind=kind, seed=7)
        bias = numbers(256, kind=kind, seed=8)
        name = str(kind).split(".")[1]
        say(f"{name}_bias", torch.addmm(bias, a, b))
        say(f"{name}_relu", torch._addmm_activation(bias, a, b))
        say(f"{name}_gelu", torch._addmm_activation(bias, a, b, use_gelu=True))
        say(f"{name}_linear", functional.linear(a, b.t().contiguous(), bias))
    if torch.cuda.get_device_capability() >= (8, 9):
        one = torch.ones((), device=device())
        a = numbers(64, 128).to(torch.float8_e4m3fn)
        b = numbers(32, 128, seed=7).to(torch.float8_e4m3fn).t()
        say("fp8", torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16))


@workload
def cufft():
    reproducible()
    x = torch.complex(numbers(64, 60, 48), numbers(64, 60, 48, seed=7))
    for dimensions in ((2,), (1, 2), (0, 1, 2)):
        y = torch.fft.fftn(x, dim=dimensions)
        say(f"fft{len(dimensions)}", torch.view_as_real(y))
        say(f"back{len(dimensions)}",
            torch.view_as_real(torch.fft.ifftn(y, dim=dimensions)))
    say("real", torch.view_as_real(torch.fft.rfft(numbers(1 << 18))))
    say("double", torch.view_as_real(
        torch.fft.rfft2(numbers(128, 120, kind=torch.float64))))
    say("prime", torch.view_as_real(torch.fft.rfft(numbers(10007))))


@workload
def cusolver():
    reproducible()
    a = numbers(96, 96, kind=torch.float64)
    spd = a @ a.t() + 96 * torch.eye(96, device=device(), dtype=torch.float64)
    torch.backends.cuda.preferred_linalg_library("cusolver")
    say("cholesky", torch.linalg.cholesky(spd))
    say("eigh", *torch.linalg.eigh(spd))
    say("lu", *torch.linalg.lu_factor(a))
    say("solve", torch.linalg.solve(a, numbers(96, 3, kind=torch.float64)))
    say("qr", *torch.linalg.qr(a))
    say("svd", *torch.linalg.svd(a, driver="gesvd"))
    say("svd_jacobi", torch.linalg.svd(a.float(), driver="gesvdj")[1])


@workload
def cusparse():
    reproducible()
    torch.use_deterministic_algorithms(True, warn_only=True)
    dense = numbers(300, 200)
    dense[dense.abs() < 1] = 0
    sparse = dense.to_sparse_csr()

    def near(name, x, y):
        """cuSPARSE adds in an order that varies from run to run."""
        print(name, torch.allclose(x, y, rtol=1e-4, atol=1e-4), flush=True)

    b = numbers(200, 16, seed=7)
    near("spmm", sparse @ b, dense @ b)
    near("coo", torch.sparse.mm(dense.to_sparse_coo(), b), dense @ b)
    say("spmv", sparse @ numbers(200, seed=8))
    product = sparse @ dense.t().contiguous().to_sparse_csr()
    say("spgemm", product.crow_indices(), product.col_indices(),
        product.values())


@workload
def cudnn():
    """Convolutions forwards and backwards; recurrent layers; norms."""
    reproducible()
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        name = str(kind).split(".")[1]
        x = numbers(4, 16, 20, 20, kind=kind).requires_grad_()
        w = numbers(32, 16, 3, 3, kind=kind, seed=7).requires_grad_()
        y = functional.conv2d(x, w, padding=1)
        y.float().square().sum().backward()
        say(f"conv2d_{name}", y, x.grad, w.grad)
        z = functional.conv2d(x.to(memory_format=torch.channels_last), w,
                              stride=2)
        say(f"conv2d_nhwc_{name}", z)
    v = numbers(2, 4, 8, 9, 10).requires_grad_()
    w = numbers(6, 4, 3, 3, 3, seed=8).requires_grad_()
    y = functional.conv3d(v, w)
    y.sum().backward()
    say("conv3d", y, v.grad, w.grad)
    say("transposed", functional.conv_transpose2d(numbers(2, 8, 9, 9),
                                                  numbers(8, 4, 3, 3)))
    rnn = torch.nn.LSTM(32, 64, 2, batch_first=True).to(device())
    out, _ = rnn(numbers(4, 12, 32))
    out.sum().backward()
    say("lstm", out, *(p.grad for p in rnn.parameters()))
    norm = torch.nn.BatchNorm2d(16).to(device())
    say("batch_norm", norm(numbers(4, 16, 20, 20)), norm.running_var)


@workload
def curand():
    """PyTorch has generators of its own: cuRAND by its own interface."""
    name = ctypes.util.find_library("curand") or "libcurand.so.10"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise Skipped(str(error)) from error
    torch.cuda.init()

    def must(code):
        if code != 0:
            raise RuntimeError(f"cuRAND says {code}")

    # XORWOW, MRG32K3A, MTGP32, MT19937, Philox; Sobol (curandRngType).
    for kind in (101, 121, 141, 142, 161, 201):
        generator = ctypes.c_void_p()
        must(library.curandCreateGenerator(ctypes.byref(generator), kind))
        if kind < 200:
            must(library.curandSetPseudoRandomGeneratorSeed(
                generator, ctypes.c_ulonglong(42)))
        out = torch.zeros(10000, device=device())
        place = ctypes.c_void_p(out.data_ptr())
        must(library.curandGenerateUniform(generator, place,
                                           ctypes.c_size_t(10000)))
        say(f"uniform_{kind}", out)
        must(library.curandGenerateNormal(
            generator, place, ctypes.c_size_t(10000), ctypes.c_float(1),
            ctypes.c_float(2)))
        say(f"normal_{kind}", out)
        must(library.curandDestroyGenerator(generator))


@workload
def random_numbers():
    """PyTorch's own generators."""
    torch.manual_seed(11)
    say("uniform", torch.rand(100000, device=device()))
    say("normal", torch.randn(100000, device=device()))
    say("dropout", functional.dropout(torch.ones(10000, device=device()), 0.3))
    say("permutation", torch.randperm(10000, device=device()))
    say("sorted", *torch.sort(torch.rand(200000, device=device())))
    timed("sort_200000", lambda: torch.sort(
        torch.rand(200000, device=device())))
