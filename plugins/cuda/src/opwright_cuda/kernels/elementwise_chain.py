"""Fused element-wise functions; their functor is generated when a plan is created.

Every function is defined in functions.h. Intermediate values are rounded as if they were stored, so
16-bit types give the same results as separate functions. In wider types the compiler may contract a
product and a following sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import FUNCTIONS, launch_elementwise, operand
from opwright_cuda.launch import Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source

_MEMBERS: Final = {
    "scale": 2,
    "clip": 2,
    "clip_grad": 2,
    "elu": 1,
    "elu_grad": 1,
    "leaky_relu": 1,
    "leaky_relu_grad": 1,
    "hard_sigmoid": 2,
    "hard_sigmoid_grad": 2,
    "stanh": 2,
    "stanh_grad": 2,
    "pow_scalar": 1,
    "increment": 1,
    **{
        f"{op}{suffix}": 1
        for op in ("hard_shrink", "soft_shrink", "thresholded_relu", "celu", "swish", "soft_relu")
        for suffix in ("", "_grad")
    },
}
"""Number of parameters of a functor, in the order of a chain."""
_BINARY: Final = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    *("squared_difference", "atan2", "atan2_derivative", "mod", "floor_divide", "prelu"),
    "copysign",
)


class Step(NamedTuple):
    """One function.

    Attributes
    ----------
    functor : str
        A template of functions.h.
    operands : sequence of int
        Inputs of the chain, followed by results of previous steps.
    numbers : sequence of float
        Its members.
    """

    functor: str
    operands: list[int]
    numbers: list[float]


def operands_of(op_type: str) -> int:
    """Return the number of operands of a function."""
    return 2 if op_type in _BINARY or op_type.endswith("_grad") else 1


def _steps(ctx: PrepareContext) -> Iterator[Step]:
    operands = iter(ctx.attrs["operands"])
    for i, op_type in enumerate(ctx.attrs["functions"]):
        numbers = ctx.attrs["parameters"][2 * i : 2 * i + 2]
        read = [next(operands) for _ in range(operands_of(op_type))]
        yield Step(_functor(ctx, op_type, numbers[0]), read, numbers[: _MEMBERS.get(op_type, 0)])


def _functor(ctx: PrepareContext, op_type: str, number: float) -> str:
    if op_type in ("gelu", "gelu_grad"):
        tail = "Grad" if op_type == "gelu_grad" else ""
        return f"Gelu{'Tanh' if number else ''}{tail}"
    if op_type not in FUNCTIONS:
        ctx.refuse(f"functions must be in opwright_cuda.kernels.elementwise, got {op_type!r}")
    return FUNCTIONS[op_type].name


def write_functor(steps: list[Step], n_inputs: int, dtype: str) -> str:
    """Return ``Chain``, a functor of `n_inputs` that applies all steps.

    >>> steps = [Step("Scale", [0], [2.0, 1.0]), Step("Add", [2, 1], [])]
    >>> print(write_functor(steps, 2, "float16"))
    struct Chain {
      Scale<float> f0;
      OW_INLINE float operator()(float v0, float v1) const {
        const float v2 = Rounded<Half>(f0(v0));
        return Add<float>()(v2, v1);
      }
    };
    """
    ctype = compute_type(dtype)
    lines = ["struct Chain {"]
    lines += [f"  {s.functor}<{ctype}> f{i};" for i, s in enumerate(steps) if s.numbers]
    given = ", ".join(f"{ctype} v{i}" for i in range(n_inputs))
    lines.append(f"  OW_INLINE {ctype} operator()({given}) const {{")
    for i, step in enumerate(steps):
        function = f"f{i}" if step.numbers else f"{step.functor}<{ctype}>()"
        value = f"{function}({', '.join(f'v{place}' for place in step.operands)})"
        if i + 1 == len(steps):
            lines.append(f"    return {value};")
        else:
            name = f"v{n_inputs + i}"
            lines.append(f"    const {ctype} {name} = Rounded<{CTYPES[dtype]}>({value});")
    return "\n".join([*lines, "  }", "};"])


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Apply all functions to each element."""
    metas, (out,) = ctx.inputs["x"], ctx.outputs["out"]
    steps = list(_steps(ctx))
    snippet = write_functor(steps, len(metas), out.dtype)
    kind: Any = np.float64 if out.dtype == "float64" else np.float32
    members = Struct(*(kind(number) for step in steps for number in step.numbers))
    inputs = [operand(plan.input("x", i), meta) for i, meta in enumerate(metas)]
    written = operand(plan.output("out"), out)
    source = own_source("elementwise.cu").with_snippet(snippet)
    launch_elementwise(plan, "Chain", written, inputs, members, source)


ELEMENTWISE_CHAIN: Final = Kernel(_fill_in)
