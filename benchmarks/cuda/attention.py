"""Attention with its gradients in bfloat16, compared with PyTorch's fused kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpu import OurProgram, choose, open_opwright, open_torch, wait_for_torch
from workload import Goal, Timed, Workload

SHAPES = {
    "causal-64": (choose((8, 16, 1024, 64), (1, 2, 80, 16)), True),
    "128": (choose((4, 16, 2048, 128), (1, 1, 70, 32)), False),
}
"""[batch, heads, length, size] of q, k and v, and whether attention is causal."""


def make_arrays(name: str) -> dict[str, np.ndarray]:
    """Return q, k, v and the gradient of the result in float32."""
    rng = np.random.default_rng(5)
    shape, _ = SHAPES[name]
    return {each: rng.standard_normal(shape, "float32") for each in ("q", "k", "v", "out_grad")}


def pick(gradient: Any) -> list[float]:
    """Return a few values of the gradient of k."""
    flat = np.asarray(gradient, np.float32).ravel()
    return flat[:: flat.size // 64 + 1].tolist()


def opwright(name: str, library: str) -> Timed:
    """Prepare a compiled network with attention and its gradients by one library."""
    open_opwright()
    import opwright as ow
    from opwright.op import dtype_to_numpy

    kind = dtype_to_numpy("bfloat16")
    arrays = {each: array.astype(kind) for each, array in make_arrays(name).items()}
    _, causal = SHAPES[name]
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for each, array in arrays.items():
            block.create_var(each, [*array.shape], "bfloat16", is_data=True)
        inputs = {slot: slot for slot in "qkv"}
        op_type = "scaled_dot_product_attention"
        op = block.append_op(op_type, inputs, {"out": "out"}, {"causal": causal})
        pairs = ow.append_backward(block.var("out"), [*"qkv"], grads={"out": "out_grad"})
    pins = dict.fromkeys((op.type, f"{op.type}_grad"), library)
    names = [gradient.name for _, gradient in pairs]
    results = {each: np.zeros_like(arrays["q"]) for each in (names[1], names[0], names[2], "out")}
    with ow.context_guard(ow.current_context().with_pins(pins)):
        program = OurProgram(block, ow.Scope(), arrays, results)
        program.call()
    values = pick(program.read())
    return Timed(program.call, values=values, wait=program.wait)


def torch(name: str) -> Timed:
    """Prepare PyTorch's fused attention, and its gradients."""
    torch, device = open_torch()
    _, causal = SHAPES[name]
    tensors = {
        each: torch.from_numpy(array).to(device, torch.bfloat16)
        for each, array in make_arrays(name).items()
    }
    given = [tensors[each].requires_grad_() for each in "qkv"]

    def call() -> Any:
        out = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=causal)
        return torch.autograd.grad(out, given, tensors["out_grad"])

    values = pick(call()[1].float().cpu().numpy())
    return Timed(call, values=values, wait=wait_for_torch)


def make_workload(name: str) -> Workload:
    """Return the row of one shape."""
    shape, causal = SHAPES[name]
    return Workload(
        f"attention-{name}",
        f"attention {list(shape)} with gradients, bfloat16{', causal' if causal else ''}",
        "µs",
        {
            "opwright, tensor cores": partial(opwright, name, "tensor_cores"),
            "opwright, stored scores": partial(opwright, name, "native"),
            "torch": partial(torch, name),
        },
        {"opwright, tensor cores": [Goal(ratio=1.0, of="torch")]},
        tolerance=0.05,
    )


WORKLOADS = [make_workload(name) for name in SHAPES]
