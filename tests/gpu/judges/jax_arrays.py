"""JAX: arrays, compiled training steps, loops and linear algebra. Prints digests
of all bits of the results."""

import hashlib
import os

# Allocates memory only as needed, because other programs use the same GPU.
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true"

import jax
import jax.numpy as jnp
import numpy


def say(name, x):
    bits = numpy.asarray(x).tobytes()
    print(name, hashlib.sha256(bits).hexdigest()[:16], flush=True)


def arrays(key):
    a = jax.random.normal(key, (512, 512))
    say("normal", a)
    say("matmul", jnp.dot(a, a, precision="highest"))
    say("sort", jnp.sort(a.ravel()))
    say("fft", jnp.fft.fft(a[:64]))
    say("convolution", jax.lax.conv(
        jax.random.normal(key, (4, 8, 32, 32)),
        jax.random.normal(key, (16, 8, 3, 3)), (1, 1), "SAME"))
    say("cholesky", jnp.linalg.cholesky(a @ a.T + 512 * jnp.eye(512)))
    say("scan", jax.lax.scan(lambda c, v: (c * 0.9 + v, c),
                             jnp.zeros(512), a)[0])
    print("while", int(jax.lax.while_loop(lambda c: c < 1000,
                                          lambda c: c + 7, 0)))


def loss_of(weights, x, wanted):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    out = jax.nn.log_softmax(x @ weights[-1])
    return -jnp.mean(out[jnp.arange(len(wanted)), wanted])


def training(key):
    shapes = [(64, 128), (128, 128), (128, 10)]
    weights = [0.1 * jax.random.normal(jax.random.fold_in(key, i), shape)
               for i, shape in enumerate(shapes)]
    x = jax.random.normal(key, (256, 64))
    wanted = jax.random.randint(key, (256,), 0, 10)

    @jax.jit
    def step(weights):
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, wanted)
        return [w - 0.5 * v for w, v in zip(weights, slopes)], loss

    for i in range(200):
        weights, loss = step(weights)
        if i % 50 == 49:
            print("loss", i + 1, repr(float(loss)), flush=True)
    say("weights", weights[0])


print(jax.devices()[0].platform)
arrays(jax.random.PRNGKey(0))
training(jax.random.PRNGKey(0))
