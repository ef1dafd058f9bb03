"""Every test here runs in a Context of toy operators; `interpret` runs their programs in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from opwright import context_guard


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made


def _matmul_grad(op, x, y, out_grad):
    grads = {"x_grad": lambda: out_grad @ y.T, "y_grad": lambda: x.T @ out_grad}
    return {slot: [grads[slot]()] for slot in op.outputs}


def _split_grad(op, x, *grads):
    return {"x_grad": [np.concatenate(grads)]}


def _dropout(op, x, *step):
    rng = np.random.default_rng(op.attr("stream"))
    mask = rng.random(x.shape) >= op.attr("probability")
    return {"out": [x * mask], "mask": [mask]}


KERNELS = {
    "relu": lambda op, x: np.maximum(x, 0),
    "relu_grad": lambda op, x, out, out_grad: {"x_grad": [out_grad * (out > 0)]},
    "square": lambda op, x: x * x,
    "assign": lambda op, x: x.copy(),
    "floor": lambda op, x: np.floor(x),
    "add": lambda op, x, y: x + y,
    "multiply": lambda op, x, y: x * y,
    "scale": lambda op, x: op.attr("scale") * x,
    "matmul": lambda op, x, y: x @ y,
    "matmul_grad": _matmul_grad,
    "mean": lambda op, x: np.mean(x),
    "mean_grad": lambda op, x, out_grad: {"x_grad": [np.full_like(x, out_grad / x.size)]},
    "fill_like": lambda op, x: np.full_like(x, op.attr("value")),
    "add_n": lambda op, *x: sum(x),
    "dropout": _dropout,
    "dropout_grad": lambda op, x, *rest: {"x_grad": [rest[-1] * rest[-2]]},
    "cast": lambda op, x: x.astype(op.attr("dtype")),
    "double_square": lambda op, x: 2 * x * x,
    "split": lambda op, x: {"out": np.split(x, len(op.output("out")))},
    "split_grad": _split_grad,
}


@pytest.fixture
def interpret():
    """A function ``(block, values) -> values`` that runs a block on named NumPy arrays."""

    def run(block, values):
        env = dict(values)
        for op in block.ops:
            if op.type == "cond":
                _run_branch(block, op, env)
                continue
            found = KERNELS[op.type](op, *(env[name] for name in op.input_names()))
            found = found if isinstance(found, dict) else {"out": [found]}
            for slot, names in op.outputs.items():
                env.update(zip(names, found[slot], strict=True))
        return env

    def _run_branch(block, op, env):
        side = "true" if env[op.input("condition")[0]].item() else "false"
        captured = {name: env[name] for name in op.input("x")}
        inner = run(block.program.block(op.attr(f"{side}_block")), captured)
        found = [inner[name] for name in op.attr(f"{side}_outputs")]
        env.update(zip(op.output("out"), found, strict=True))

    return run


@pytest.fixture
def check_gradients(interpret):
    """A function that compares gradients with central differences of a float64 program."""

    def check(block, loss, pairs, values):
        env = interpret(block, values)
        for variable, gradient in pairs:
            numeric = np.zeros_like(values[variable.name])
            for index in np.ndindex(numeric.shape):
                sides = []
                for step in (1e-6, -1e-6):
                    moved = values[variable.name].copy()
                    moved[index] += step
                    sides.append(interpret(block, {**values, variable.name: moved})[loss].sum())
                numeric[index] = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose(env[gradient.name], numeric, rtol=1e-5, atol=1e-8)

    return check
