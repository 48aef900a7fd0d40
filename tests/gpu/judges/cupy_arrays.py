"""CuPy: arrays, kernels compiled while it runs (NVRTC), streams, a captured graph,
and three allocators. Prints digests of all bits of the results."""

import hashlib

import cupy


def say(name, x):
    bits = cupy.asnumpy(x).tobytes()
    print(name, hashlib.sha256(bits).hexdigest()[:16], flush=True)


ramp = cupy.RawKernel(r"""
extern "C" __global__ void ramp(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = sqrtf(x[i]) + i;
}""", "ramp")

a = cupy.arange(1 << 20, dtype=cupy.float32).reshape(1024, 1024) % 97
say("product", a @ a.T)
print("sum", float(a.sum()))
say("sort", cupy.sort(a.ravel()))
say("fft", cupy.fft.fft2(a))
say("random", cupy.random.default_rng(1).random(1000))
print("singular", round(float(cupy.linalg.svd(a[:64, :64],
                                              compute_uv=False)[0]), 2))

b = a.ravel().copy()
ramp((4096,), (256,), (b, b.size))
say("raw", b)
say("element", cupy.ElementwiseKernel("T x, T y", "T z", "z = x * x - y",
                                      "square")(a, a.T))
print("reduction", float(cupy.ReductionKernel(
    "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")(a)))

stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    c = (a * 2).sum()
    stream.synchronize()
    print("stream", float(c))
    stream.begin_capture()
    ramp((4096,), (256,), (b, b.size))
    graph = stream.end_capture()
    for _ in range(5):
        graph.launch()
stream.synchronize()
say("graph", b)

managed = cupy.ndarray((1 << 18,), cupy.float32,
                       memptr=cupy.cuda.malloc_managed(1 << 20))
managed[:] = 3
print("managed", float(managed.sum()))
with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
    print("in order", float(cupy.ones(1000).sum()))
print("pool", cupy.get_default_memory_pool().used_bytes() > 0)
