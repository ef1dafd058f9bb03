"""Parameter updates on a GPU match the CPU, for one or many parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import dtype_to_numpy

pytestmark = pytest.mark.cuda_kernels

PENALTIES = {"l1": 0.5, "l2": 0.25}
KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sgd": ((), {"weight_decay": 0.1}),
    "momentum": (("velocity",), {"mu": 0.9, "nesterov": True}),
    "lion": (("moment",), {"weight_decay": 0.1}),
    "adam": (("moment1", "moment2", "beta1_power", "beta2_power"), {}),
    "adamw": (("moment1", "moment2", "beta1_power", "beta2_power"), {"weight_decay": 0.2}),
    "adamax": (("moment", "infinity_norm", "beta1_power"), {}),
    "nadam": (("moment1", "moment2", "step", "mu_product"), {}),
    "radam": (("moment1", "moment2", "step"), {}),
    "adagrad": (("squares",), {}),
    "adadelta": (("mean_square", "mean_update"), {}),
    "rmsprop": (
        ("mean_square", "mean_grad", "velocity"),
        {"momentum": 0.5, "centered": True, "epsilon": 0.5},
    ),
    "proximal_gd": ((), PENALTIES),
    "proximal_adagrad": (("squares",), PENALTIES),
    "ftrl": (("squares", "linear"), PENALTIES),
}
SCALARS = {"beta1_power": 0.9**3, "beta2_power": 0.999**3, "step": 7.0, "mu_product": 0.3}
SHAPES = ((), (1,), (0, 4), (7,), (513,), (33, 130))


def update(
    device: str,
    kind: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    passes: Any,
    steps: int = 2,
    drawn: str = "float64",
) -> dict[str, Any]:
    """Update tensors of the given shapes; return parameters, states and powers."""
    states, attrs = KINDS[kind]
    rng = np.random.default_rng(7)
    block, scope = ow.Program().global_block(), ow.Scope()

    def persistable(name: str, value: Any, dtype: str) -> str:
        block.create_var(name, np.shape(value), dtype, persistable=True)
        numbers = np.asarray(value).astype(dtype_to_numpy(drawn))
        scope.var(name).set(numbers.astype(dtype_to_numpy(dtype)))
        return name

    rate = persistable("rate", [0.1], "float32")
    names = []
    for i, shape in enumerate(shapes):
        slots = {"param": persistable(f"param{i}", rng.standard_normal(shape), dtype)}
        slots["grad"] = persistable(f"grad{i}", rng.standard_normal(shape), dtype)
        for slot in states:
            if slot in SCALARS:
                wide = ("float32", "float64")[i % 2]
                slots[slot] = persistable(f"{slot}{i}", [SCALARS[slot]], wide)
            else:
                slots[slot] = persistable(f"{slot}{i}", rng.uniform(0, 1, shape), dtype)
        outputs = {f"{slot}_out": name for slot, name in slots.items() if slot != "grad"}
        block.append_op(kind, {**slots, "learning_rate": rate}, outputs, attrs)
        names += outputs.values()
    step = ow.Network(block).compile(feed=[], fetch=[], device=device, scope=scope, passes=passes)
    for _ in range(steps):
        step()
    return {name: scope.var(name).numpy() for name in names}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_is_bitwise_identical_to_the_update_on_the_cpu(kind: str, dtype: str) -> None:
    on_gpu, on_cpu = (update(d, kind, SHAPES, dtype, []) for d in ("cuda", "cpu"))
    # The GPU computes powers of the step with the CUDA pow, and the CPU with pow of the C library.
    ulps = 8 if kind == "radam" and dtype == "float64" else 0
    for name, value in on_cpu.items():
        np.testing.assert_array_max_ulp(on_gpu[name], value, ulps)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_in_16_bits_equals_an_update_in_32_bits_rounded_once(
    kind: str, dtype: str
) -> None:
    shapes = ((1,), (1031,))
    got, wide = (
        update("cuda", kind, shapes, d, [], steps=1, drawn=dtype) for d in (dtype, "float32")
    )
    for name, value in wide.items():
        np.testing.assert_array_equal(got[name], value.astype(got[name].dtype), err_msg=name)
