"""Element-wise functions of broadcast inputs with one output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES, compute_type
from opwright_cuda.kernels.lines import VECTOR_BYTES, Lines, Team, columns_of
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.launch.indexing import (
    NARROW,
    Layout,
    broadcast_strides,
    layout_struct,
    merge,
)
from opwright_cuda.source import Source, own_source

THREADS: Final = 256
"""Number of threads in a block."""

BLOCKS_PER_MULTIPROCESSOR: Final = 32
"""Several times the resident blocks, so that the last wave does not leave the GPU idle."""

MANY_VECTORS: Final = 2**19
"""Number of vectors that keep any GPU busy with two per thread, or with 8 rows per thread."""


class Operand(NamedTuple):
    """A tensor: its pointer, shape and C++ type.

    Plan tensors have the alignment of the device; ``is_aligned`` can be false for a view at an
    offset.
    """

    pointer: Pointer
    shape: tuple[int, ...]
    ctype: str
    is_aligned: bool = True


def blocks_for(n_threads: int, plan: LaunchPlan) -> int:
    """Return the number of blocks for a grid-stride loop."""
    most = plan.gpu.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    return min(-(-n_threads // THREADS), most)


def launch_elementwise(
    plan: LaunchPlan,
    function: str,
    out: Operand,
    inputs: Sequence[Operand],
    parameters: Struct | None = None,
    source: Source | None = None,
) -> None:
    """Add the launch of a functor over an output.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    function : str
        The functor, a type of functions.h or mathematics.h: ``"Sigmoid<float>"``.
    out : Operand
        The output, compact.
    inputs : sequence of Operand
        The inputs, compact, of shapes that broadcast to the output's.
    parameters : Struct, optional
        The functor's members.
    source : Source, optional
        ``elementwise.cu`` with an added functor.
    """
    n = math.prod(out.shape)
    if n == 0:
        return
    strides = [broadcast_strides(operand.shape, out.shape) for operand in inputs]
    layout = merge(out.shape, [broadcast_strides(out.shape, out.shape), *strides])
    types = f"Inputs<{', '.join(operand.ctype for operand in inputs)}>"
    pointers = Struct(*(operand.pointer for operand in inputs)) if inputs else Struct(None)
    functor = parameters or Struct()
    source = source or own_source("elementwise.cu")
    width = _width(out, inputs, layout, n)
    team = _columns(layout, n, width)
    if team is not None:
        steps = list(enumerate(layout.strides[1:]))
        scalars = sum(1 << i for i, s in steps if not any(s))
        kept = sum(1 << i for i, s in steps if s[0] == 0)
        template = f"{function}, {out.ctype}, {types}, {scalars}u, {kept}u, {width}"
        given: list[Argument] = [out.pointer, pointers, functor]
        team.launch(plan, source, f"elementwise_columns<{template}>", given)
        return
    if len(layout.dims) <= 1:
        scalars = sum(1 << i for i, s in enumerate(layout.strides[1:]) if not any(s))
        many = _vectors_each(n // width, len(inputs) - scalars.bit_count())
        template = f"{function}, {out.ctype}, {types}, {scalars}u, {width}, {many}"
        flat: list[Argument] = [out.pointer, pointers, np.int64(n), functor]
        grid = -(-n // (width * many * THREADS))
        plan.launch(source, f"elementwise_flat<{template}>", grid, THREADS, flat)
        return
    while not _in_blocks(layout, width):
        width //= 2
    blocks, scalars = _blocked(Layout(layout.dims, layout.strides[1:]), width)
    n_blocks = n // width
    integer = "uint32_t" if n < NARROW else "int64_t"
    template = f"{function}, {out.ctype}, {types}, {integer}, {scalars}u, {width}"
    arguments: list[Argument] = [out.pointer, pointers, np.int64(n_blocks), functor]
    arguments.append(layout_struct(blocks))
    grid = blocks_for(n_blocks, plan)
    plan.launch(source, f"elementwise_strided<{template}>", grid, THREADS, arguments)


def _columns(layout: Layout, n: int, width: int) -> Team | None:
    """Return teams for a large output matrix if the inputs are matrices, rows or scalars."""
    if len(layout.dims) != 2 or n < MANY_VECTORS * width:
        return None
    rows, columns = layout.dims
    if columns % width or not all(s in {(columns, 1), (0, 1), (0, 0)} for s in layout.strides):
        return None
    team = columns_of(Lines(1, rows, columns), width)
    return team if rows * team.width >= 8 * team.block else None  # some threads would be idle


def _vectors_each(n_vectors: int, n_inputs: int) -> int:
    """Return the number of vectors of each input that a thread reads together."""
    return 2 if n_vectors >= MANY_VECTORS and n_inputs == 1 else 1


def _in_blocks(layout: Layout, width: int) -> bool:
    """Return whether each output block reads one block, or one element, of each input."""
    return layout.dims[-1] % width == 0 and all(
        s[-1] == 0 or (s[-1] == 1 and all(step % width == 0 for step in s[:-1]))
        for s in layout.strides
    )


def _blocked(layout: Layout, width: int) -> tuple[Layout, int]:
    """Return the layout in blocks, and the bit mask of the inputs with one element per block."""
    if width == 1:
        return layout, 0
    scalars = sum(1 << i for i, s in enumerate(layout.strides) if s[-1] == 0)
    strides = tuple((*s[:-1], s[-1] * width) for s in layout.strides)
    return Layout((*layout.dims[:-1], layout.dims[-1] // width), strides), scalars


def _width(out: Operand, inputs: Sequence[Operand], layout: Layout, n: int) -> int:
    """Return the number of elements per vector, such that the widest type fills a vector."""
    operands = (out, *inputs)
    if not all(operand.is_aligned for operand in operands):
        return 1
    # These operands are reread for each row or element instead of kept in registers.
    moving = [o for o, s in zip(operands, layout.strides, strict=True) if s and s[0] and s[-1]]
    width = VECTOR_BYTES // max(size_of(operand.ctype) for operand in moving or operands)
    # For short arrays, more threads are used, without vectors.
    return width if n >= 4 * width * THREADS else 1


def size_of(ctype: str) -> int:
    """Return the size of an element in bytes, given the C++ name of its dtype."""
    return next(ITEM_BYTES[dtype] for dtype, name in CTYPES.items() if name == ctype)


def operand(pointer: Pointer, meta: Meta, ctype: str | None = None) -> Operand:
    """Return a tensor as an operand."""
    return Operand(pointer, meta.shape, ctype or CTYPES[meta.dtype])


Parameters = Callable[[PrepareContext, str], Struct]


def _constants(*names: str) -> Parameters:
    """Return float attributes as members of the compute type of the functor."""

    def make(ctx: PrepareContext, ctype: str) -> Struct:
        kind: Any = np.float64 if ctype == "double" else np.float32
        return Struct(*(kind(ctx.attrs[name]) for name in names))

    return make


_BOUNDS: Final = {ctype: np.dtype(dtype) for dtype, ctype in CTYPES.items() if "int" in dtype}


def _clip_bounds(ctx: PrepareContext, ctype: str) -> Struct:
    """Return the bounds in the dtype; for integers, they are rounded inward and clamped."""
    if ctype not in _BOUNDS:
        return _constants("min", "max")(ctx, ctype)
    info = np.iinfo(_BOUNDS[ctype])

    def bound(value: float, rounded: Callable[[float], int]) -> Any:
        if value <= info.min:
            return _BOUNDS[ctype].type(info.min)
        if value >= info.max:
            return _BOUNDS[ctype].type(info.max)
        return _BOUNDS[ctype].type(rounded(value))

    return Struct(bound(ctx.attrs["min"], math.ceil), bound(ctx.attrs["max"], math.floor))


def _step(ctx: PrepareContext, ctype: str) -> Struct:
    """Return the step in the dtype."""
    if ctype not in _BOUNDS:
        return _constants("step")(ctx, ctype)
    return Struct(_BOUNDS[ctype].type(int(ctx.attrs["step"])))


_MOST: Final = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
}


def _substitutes(ctx: PrepareContext, ctype: str) -> Struct:
    """Return the replacements of NaN and infinities, clamped to the range of the dtype."""
    most = _MOST.get(ctx.inputs["x"][0].dtype)
    if most is None:
        return Struct()  # integers are unchanged
    kind: Any = np.float64 if ctype == "double" else np.float32
    ends = (min(max(ctx.attrs[name], -most), most) for name in ("posinf", "neginf"))
    return Struct(kind(ctx.attrs["nan"]), *(kind(end) for end in ends))


class Function(NamedTuple):
    """The functor of an operator.

    Attributes
    ----------
    name : str
        The template in functions.h or mathematics.h.
    slots : tuple of str
        The inputs of the functor, in order; by default, all given inputs.
    parameters : callable, optional
        Its members, from the attributes.
    """

    name: str
    slots: tuple[str, ...] = ()
    parameters: Parameters | None = None


def functor_name(op_type: str) -> str:
    """Return the functor of an operator type: ``Log1p`` for ``log1p``."""
    return "".join(word.capitalize() for word in op_type.split("_"))


FUNCTIONS: Final = {
    **{
        op: Function(functor_name(op))
        for op in (
            *("abs", "negative", "sign", "square", "exp", "log", "sqrt", "reciprocal", "erf"),
            *("relu", "sigmoid", "tanh", "softplus", "silu"),
            *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
            *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
            *("logical_and", "logical_or", "logical_xor", "logical_not"),
            *("expm1", "log1p", "log2", "rsqrt", "ceil", "floor", "round"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "atan2"),
            "atan2_derivative",
            *("relu6", "hard_swish", "prelu", "log_sigmoid", "softsign", "mish", "tanh_shrink"),
            *("selu", "squared_difference", "mod", "floor_divide", "lerp", "erfc", "copysign"),
            *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
            *("left_shift", "right_shift"),
        )
    },
    "isnan": Function("IsNan"),
    "isinf": Function("IsInf"),
    "isfinite": Function("IsFinite"),
    "nan_to_num": Function("NanToNum", parameters=_substitutes),
    "nan_to_num_grad": Function("NanToNumGrad", ("x", "out_grad")),
    "increment": Function("Increment", parameters=_step),
    "pow_scalar": Function("PowScalar", parameters=_constants("exponent")),
    "hard_sigmoid": Function("HardSigmoid", parameters=_constants("alpha", "beta")),
    "hard_sigmoid_grad": Function(
        "HardSigmoidGrad", ("out", "out_grad"), _constants("alpha", "beta")
    ),
    "soft_shrink_grad": Function("HardShrinkGrad", ("x", "out_grad"), _constants("threshold")),
    **{
        f"{op}{suffix}": Function(functor_name(f"{op}{suffix}"), slots, _constants(*attrs))
        for op, attrs in (
            *(("hard_shrink", ("threshold",)), ("thresholded_relu", ("alpha",))),
            *(("celu", ("alpha",)), ("swish", ("beta",)), ("soft_relu", ("threshold",))),
            ("stanh", ("scale_a", "scale_b")),
        )
        for suffix, slots in (("", ()), ("_grad", ("x", "out_grad")))
    },
    "soft_shrink": Function("SoftShrink", parameters=_constants("threshold")),
    "scale": Function("Scale", parameters=_constants("scale", "bias")),
    "clip": Function("Clip", parameters=_clip_bounds),
    "elu": Function("Elu", parameters=_constants("alpha")),
    "leaky_relu": Function("LeakyRelu", parameters=_constants("alpha")),
    **{
        f"{op}_grad": Function(functor_name(f"{op}_grad"), ("x", "out_grad"))
        for op in (
            *("abs", "square", "erf", "silu", "asin", "acos", "atan"),
            *("hard_swish", "softsign", "mish", "tanh_shrink", "selu"),
        )
    },
    **{
        f"{op}_grad": Function(functor_name(f"{op}_grad"), ("out", "out_grad"))
        for op in (
            *("sqrt", "reciprocal", "relu", "sigmoid", "tanh", "softplus"),
            *("rsqrt", "tan", "relu6", "log_sigmoid"),
        )
    },
    "clip_grad": Function("ClipGrad", ("x", "out_grad"), _constants("min", "max")),
    "elu_grad": Function("EluGrad", ("x", "out_grad"), _constants("alpha")),
    "leaky_relu_grad": Function("LeakyReluGrad", ("out", "out_grad"), _constants("alpha")),
}
"""The functor of each operator type; gelu's depends on an attribute."""


def _function_of(ctx: PrepareContext) -> Function:
    if ctx.op_type in FUNCTIONS:
        return FUNCTIONS[ctx.op_type]
    name = "GeluTanh" if ctx.attrs["approximate"] == "tanh" else "Gelu"
    if ctx.op_type == "gelu":
        return Function(name)
    return Function(f"{name}Grad", ("x", "out_grad"))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute an element-wise function."""
    function = _function_of(ctx)
    slots = function.slots or tuple(ctx.inputs)
    (out_slot, (out_meta, *_)), *_ = ctx.outputs.items()
    inputs = [operand(plan.input(slot), ctx.inputs[slot][0]) for slot in slots]
    ctype = compute_type(ctx.inputs[slots[0]][0].dtype)
    parameters = function.parameters and function.parameters(ctx, ctype)
    out = operand(plan.output(out_slot), out_meta)
    launch_elementwise(plan, f"{function.name}<{ctype}>", out, inputs, parameters)


ELEMENTWISE: Final = Kernel(_fill_in)
"""The kernel for every operator of `FUNCTIONS`, and for gelu with its gradient."""


def _fill_in_where(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Select between two inputs of any dtype."""
    meta = ctx.outputs["out"][0]
    bits = BITS[ITEM_BYTES[meta.dtype]]
    inputs = [
        operand(plan.input("condition"), ctx.inputs["condition"][0]),
        operand(plan.input("x"), ctx.inputs["x"][0], bits),
        operand(plan.input("y"), ctx.inputs["y"][0], bits),
    ]
    out = operand(plan.output("out"), meta, bits)
    launch_elementwise(plan, f"Where<{bits}>", out, inputs)


WHERE: Final = Kernel(_fill_in_where)
