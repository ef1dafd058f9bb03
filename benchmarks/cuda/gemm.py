"""Products of two 8192×8192 matrices, bfloat16 and float32, compared with PyTorch, without TF32.

The elements are random, since products of zeros use less power and run faster. PyTorch must not
round the partial sums of bfloat16 products, since opwright does not round them either.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpu import OurProgram, choose, open_opwright, open_torch, wait_for_torch
from workload import Goal, Timed, Workload

N = choose(8192, 64)
OPERATIONS = 2.0 * N**3


def make_matrices() -> tuple[np.ndarray, np.ndarray]:
    """Return a and b, float32 [8192, 8192]."""
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal((N, N), dtype="float32") for _ in range(2))


def pick(product: Any) -> list[float]:
    """Return a few values of the product."""
    flat = np.asarray(product, np.float32).ravel()
    return flat[:: flat.size // 64 + 1].tolist()


def opwright(dtype: str) -> Timed:
    """Prepare a compiled network with one matmul; its matrices stay in the scope, on the device."""
    open_opwright()
    import opwright as ow
    from opwright.op import dtype_to_numpy

    inputs = {
        name: array.astype(dtype_to_numpy(dtype))
        for name, array in zip("ab", make_matrices(), strict=True)
    }
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name in (*inputs, "c"):
            block.create_var(name, [N, N], dtype)
        block.append_op("matmul", {"x": "a", "y": "b"}, {"out": "c"})
    program = OurProgram(block, ow.Scope(), inputs, {"c": np.zeros_like(inputs["a"])})
    program.call()
    return Timed(program.call, per=OPERATIONS, values=pick(program.read()), wait=program.wait)


def torch(dtype: str) -> Timed:
    """Prepare torch.mm, which writes into an existing matrix."""
    torch, device = open_torch()
    a, b = (torch.from_numpy(m).to(device, getattr(torch, dtype)) for m in make_matrices())
    c = torch.empty_like(a)

    def call() -> Any:
        return torch.mm(a, b, out=c)

    values = pick(call().float().cpu().numpy())
    return Timed(call, per=OPERATIONS, values=values, wait=wait_for_torch)


def make_workload(dtype: str, tolerance: float) -> Workload:
    """Return the row of one dtype."""
    return Workload(
        f"gemm-8192-{dtype}",
        f"matrix product 8192×8192×8192, {dtype}",
        "GFLOP/s",
        {"opwright": partial(opwright, dtype), "torch": partial(torch, dtype)},
        {"opwright": [Goal(ratio=0.95, of="torch")]},
        tolerance=tolerance,
    )


WORKLOADS = [make_workload("bfloat16", 1e-2), make_workload("float32", 1e-4)]
