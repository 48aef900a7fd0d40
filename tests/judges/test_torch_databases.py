"""PyTorch's own databases of operators, modules and optimizers, on the GPU and the CPU.

PyTorch's wheel has the databases that its tests walk (torch.testing._internal), with
samples of each operator's arguments. Each sample is computed on both, with gradients.
"""

import copy

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_leaves, tree_map

SAMPLES = 6  # of each operator, so that the whole takes minutes
DTYPES = (torch.float32, torch.int64)
# Their results are random, uninitialised or of no fixed order.
RANDOM = ("rand", "normal", "dropout", "empty", "bernoulli", "multinomial", "poisson",
          "uniform", "exponential", "cauchy", "geometric", "rrelu", "fractional",
          "new_empty", "svd_lowrank", "pca_lowrank", "scaled_dot_product", "eig", "svd",
          "qr", "sparse.sampled", "stft", "unique", "nonzero_static", "resize", "Tensor")


def to_cpu(value):
    def move(part):
        if isinstance(part, torch.Tensor):
            return part.detach().cpu().requires_grad_(part.requires_grad)
        if isinstance(part, torch.device) or part in ("cuda", "cuda:0"):
            return "cpu"
        return part
    return tree_map(move, value)


def gradients(result, inputs):
    wanted = [leaf for leaf in tree_leaves(inputs)
              if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = [leaf for leaf in tree_leaves(result)
               if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not wanted or not outputs:
        return []
    total = sum(output.abs().sum() for output in outputs)
    return torch.autograd.grad(total, wanted, allow_unused=True)


class Databases(TestCase):
    def near(self, ours, cpus):
        for one, other in zip(tree_leaves(ours), tree_leaves(cpus), strict=True):
            if isinstance(one, torch.Tensor):
                self.assertEqual(one.cpu(), other, atol=2e-3, rtol=2e-3,
                                 exact_device=False)

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_operator(self, device, dtype, op):
        if any(part in op.name for part in RANDOM):
            self.skipTest("its results differ from run to run")
        differentiable = dtype.is_floating_point and op.supports_autograd
        for number, sample in enumerate(
                op.sample_inputs(device, dtype, requires_grad=differentiable)):
            if number == SAMPLES:
                break
            inputs = (sample.input, sample.args, sample.kwargs)
            copies = to_cpu(inputs)
            ours = op(sample.input, *sample.args, **sample.kwargs)
            cpus = op(copies[0], *copies[1], **copies[2])
            self.near(ours, cpus)
            if differentiable:
                self.near(gradients(ours, inputs), gradients(cpus, copies))
        torch.cuda.synchronize()

    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_module(self, device, dtype, module_info, training):
        made = module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=True, training=training)
        for given in made:
            if given.forward_input is None:
                continue
            arguments, named = given.constructor_input.args, given.constructor_input.kwargs
            module = module_info.module_cls(*arguments, **named).to(device).to(dtype)
            module.train(training)
            cpus = copy.deepcopy(module).cpu()
            inputs = (given.forward_input.args, given.forward_input.kwargs)
            copies = to_cpu(inputs)
            result = module(*inputs[0], **inputs[1])
            if any(part in type(module).__name__ for part in ("Dropout", "RReLU", "Fraction")):
                continue
            self.near(result, cpus(*copies[0], **copies[1]))
        torch.cuda.synchronize()

    @optims(optim_db, dtypes=[torch.float32])
    def test_optimizer(self, device, dtype, optim_info):
        for given in optim_info.optim_inputs_func(device=device):
            torch.manual_seed(3)
            there = [torch.randn(7, 5, dtype=dtype).requires_grad_() for _ in range(3)]
            here = [one.detach().to(device).requires_grad_() for one in there]
            named = {key: to_cpu(value) for key, value in given.kwargs.items()}
            for options, parameters in ((given.kwargs, here), (named, there)):
                try:
                    optimizer = optim_info.optim_cls(parameters, **options)
                except (RuntimeError, ValueError, AssertionError):
                    break  # capturable and fused ones do not exist on both
                for _ in range(5):
                    def loss(parameters=parameters, optimizer=optimizer):
                        optimizer.zero_grad()
                        value = sum((one * one).sum() for one in parameters)
                        value.backward()
                        return value
                    optimizer.step(loss)
            else:
                self.near(here, there)


instantiate_device_type_tests(Databases, globals(), only_for="cuda")
