"""Adapters for matrix products, linear solvers and factorizations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    axis_of,
    cast,
    dtype_of,
    filled,
    in_float32,
    many,
    ops,
    promoted,
    rank_of,
    shape_of,
    swapped,
    whole,
)
from .pointwise import times


def product(x: Any, y: Any) -> Any:
    return ops.matmul(x, y)


def scaled_sum(x: Any, addend: Any, alpha: Any, beta: Any) -> Any:
    """Return beta times x plus alpha times an addend; x is not read if beta is 0."""
    addend = times(addend, alpha)
    return addend if beta == 0 else ops.add(times(x, beta), addend)


def addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return scaled_sum(x, ops.matmul(a, b), alpha, beta)


def addr(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    x, a, b = promoted(x, a, b)
    return scaled_sum(x, ops.outer(a, b), alpha, beta)


def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return scaled_sum(x, ops.einsum([a, b], equation="bij,bjk->ik"), alpha, beta)


def inner(x: Any, y: Any) -> Any:
    if not rank_of(x) or not rank_of(y):
        return ops.multiply(x, y)
    letters = "abcdefgh"
    left, right = letters[: rank_of(x) - 1], letters[rank_of(x) - 1 :][: rank_of(y) - 1]
    return ops.einsum([x, y], equation=f"{left}z,{right}z->{left}{right}")


def outer(x: Any, y: Any) -> Any:
    return ops.outer(*promoted(x, y))


def vecdot(x: Any, y: Any, dim: int = -1) -> Any:
    return ops.sum(ops.multiply(x, y), axis=[dim])


def tensordot(x: Any, y: Any, dims: Any = 2) -> Any:
    if isinstance(dims, torch.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        dims = [list(range(rank_of(x) - dims, rank_of(x))), list(range(dims))]
    first, second = ([axis_of(v, a) for a in many(axes)] for v, axes in zip((x, y), dims))
    return contracted(x, y, first, second)


def contracted(x: Any, y: Any, first: list[int], second: list[int]) -> Any:
    """Contract pairs of axes with one matrix product."""
    for a, b in zip(first, second):  # an axis of 1 broadcasts to any length
        if shape_of(x)[a] > 1 and shape_of(y)[b] == 1:
            x = ops.sum(x, axis=[a], keepdims=True)
        elif shape_of(y)[b] > 1 and shape_of(x)[a] == 1:
            y = ops.sum(y, axis=[b], keepdims=True)
    left = [axis for axis in range(rank_of(x)) if axis not in first]
    right = [axis for axis in range(rank_of(y)) if axis not in second]
    rows, columns = [shape_of(x)[a] for a in left], [shape_of(y)[a] for a in right]
    n = math.prod(shape_of(x)[a] for a in first)
    a = ops.reshape(_ordered(x, [*left, *first]), shape=[math.prod(rows), n])
    b = ops.reshape(_ordered(y, [*second, *right]), shape=[n, math.prod(columns)])
    return ops.reshape(ops.matmul(a, b), shape=[*rows, *columns])


def _ordered(x: Any, axes: list[int]) -> Any:
    return ops.transpose(x, axes=axes) if axes else x


def einsum(*args: Any) -> Any:
    equation, *operands = args if isinstance(args[0], str) else (args[1], args[0])
    listed = operands[0] if isinstance(operands[0], (list, tuple)) else operands
    out = ops.einsum(list(listed), equation=equation)
    return whole(out) if len(listed) == 1 else out


def multi_dot(*tensors: Any) -> Any:
    listed = many(tensors[0]) if len(tensors) == 1 else list(tensors)
    out = listed[0]
    for factor in listed[1:]:
        out = ops.matmul(out, factor)
    return out


def matrix_power(x: Any, n: int) -> Any:
    base = ops.inverse(x) if n < 0 else x
    shape = shape_of(x)
    if n == 0:
        unit = ops.eye(n_rows=shape[-1], n_cols=shape[-1], dtype=dtype_of(x))
        return ops.expand(unit, shape=shape)
    out = base
    for _ in range(abs(n) - 1):
        out = ops.matmul(out, base)
    return out if abs(n) > 1 or n < 0 else ops.assign(x)


def cholesky(x: Any, upper: bool = False) -> Any:
    return ops.cholesky(x, upper=upper)


def cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    return ops.cholesky(x, upper=upper), ops.fill(shape=shape_of(x)[:-2], dtype="int32")


def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    n = shape_of(x)[-1]
    unit = ops.expand(ops.eye(n_rows=n, n_cols=n, dtype=dtype_of(x)), shape=shape_of(x))
    return cholesky_solve(unit, x, upper)


def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    b, factor = batched(b, factor)
    half = ops.triangular_solve(factor, b, upper=upper, transpose=upper)
    return ops.triangular_solve(factor, half, upper=upper, transpose=not upper)


def batched(x: Any, y: Any) -> tuple[Any, Any]:
    """Broadcast stacks of matrices to the same batch axes."""
    lead = list(torch.broadcast_shapes(shape_of(x)[:-2], shape_of(y)[:-2]))
    return tuple(ops.expand(v, shape=[*lead, *shape_of(v)[-2:]]) for v in (x, y))


def inverse(x: Any) -> Any:
    return ops.inverse(x)


def inverse_ex(x: Any, *, check_errors: bool = False) -> Any:
    return ops.inverse(x), ops.fill(shape=shape_of(x)[:-2], dtype="int32")


def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    is_vector = rank_of(b) == 1 or (
        rank_of(b) == rank_of(a) - 1 and shape_of(b) == shape_of(a)[:-1]
    )
    b = ops.unsqueeze(b, axis=[rank_of(b)]) if is_vector else b
    if not left and not is_vector:
        a, b = swapped(a, -1, -2), swapped(b, -1, -2)
    a, b = batched(a, b)
    out = ops.solve(a, b)
    if is_vector:
        return ops.squeeze(out, axis=[-1])
    return out if left else swapped(out, -1, -2)


def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    return solve(a, b, left=left), ops.fill(shape=shape_of(a)[:-2], dtype="int32")


def triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not left:
        flipped = swapped(a, -1, -2), swapped(b, -1, -2)
        out = triangular(*flipped, upper=not upper, unitriangular=unitriangular)
        return swapped(out, -1, -2)
    a, b = batched(a, b)
    return ops.triangular_solve(a, b, upper=upper, unit_diagonal=unitriangular)


def triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    a, b = batched(a, b)
    attrs = {"upper": upper, "transpose": transpose, "unit_diagonal": unitriangular}
    return ops.triangular_solve(a, b, **attrs), ops.assign(a)


def tensorinv(x: Any, ind: int = 2) -> Any:
    shape = shape_of(x)
    n = math.prod(shape[ind:])
    out = ops.inverse(ops.reshape(x, shape=[n, n]))
    return ops.reshape(out, shape=[*shape[ind:], *shape[:ind]])


def tensorsolve(a: Any, b: Any, dims: Sequence[int] | None = None) -> Any:
    if dims is not None:
        last = [axis_of(a, dim) for dim in dims]
        a = ops.transpose(a, axes=[i for i in range(rank_of(a)) if i not in last] + last)
    n = math.prod(shape_of(b))
    out = ops.solve(ops.reshape(a, shape=[n, n]), ops.reshape(b, shape=[n, 1]))
    return ops.reshape(out, shape=shape_of(a)[rank_of(b) :])


def vander(x: Any, *, N: int | None = None) -> Any:  # noqa: N803 - PyTorch's name
    x = x if rank_of(x) else ops.reshape(x, shape=[1])
    n = shape_of(x)[-1] if N is None else N
    if dtype_of(x) not in ("float16", "bfloat16", "float32", "float64"):
        x = cast(x, "int64")
    columns = [filled(x, 1)]
    for _ in range(n - 1):
        columns.append(ops.multiply(columns[-1], x))
    return ops.stack(columns[:n], axis=rank_of(x))


def cross(x: Any, y: Any, dim: int | None = None) -> Any:
    if dim is None:
        dim = next(i for i, n in enumerate(shape_of(x)) if n == 3)
    return linalg_cross(x, y, dim=dim)


def linalg_cross(x: Any, y: Any, *, dim: int = -1) -> Any:
    shape = list(torch.broadcast_shapes(shape_of(x), shape_of(y)))
    return ops.cross(ops.expand(x, shape=shape), ops.expand(y, shape=shape), axis=dim)


def det(x: Any) -> Any:
    return ops.det(x)


def slogdet(x: Any) -> Any:
    return ops.slogdet(x)


def logdet(x: Any) -> Any:
    sign, size = ops.slogdet(x)
    return ops.where(ops.less(sign, 0.0), math.nan, size)


def cdist(x: Any, y: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    rows = ops.unsqueeze(x, axis=[rank_of(x) - 1])
    columns = ops.unsqueeze(y, axis=[rank_of(y) - 2])
    return ops.norm(ops.subtract(rows, columns), p=float(p), axis=[-1])


def pdist(x: Any, p: float = 2) -> Any:
    n = shape_of(x)[0]
    pairs = torch.triu_indices(n, n, 1)
    difference = ops.subtract(*(ops.index_select(x, places) for places in pairs.unbind()))
    return ops.norm(difference, p=float(p), axis=[-1])


def cond(x: Any, p: Any = None) -> Any:
    from .reductions import matrix_norm

    if p in (None, 2, -2, "nuc"):
        raise UnmappedError("singular values")
    return ops.multiply(matrix_norm(x, p), matrix_norm(ops.inverse(x), p))


def kron(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    rank = max(rank_of(x), rank_of(y))
    x, y = (ops.reshape(v, shape=[1] * (rank - rank_of(v)) + shape_of(v)) for v in (x, y))
    return ops.kron(x, y)


def dot(x: Any, y: Any) -> Any:
    return ops.dot(x, y)


ADAPTERS: Final[dict[str, Adapter]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "matmul"), product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), in_float32(addmm)),
    **dict.fromkeys(("dot", "vdot"), dot),
    **dict.fromkeys(("cholesky", "linalg.cholesky"), cholesky),
    "__rmatmul__": lambda x, y: ops.matmul(y, x),
    "addbmm": in_float32(addbmm),
    "addr": in_float32(addr),
    "cdist": cdist,
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "cross": cross,
    "einsum": einsum,
    "inner": inner,
    "kron": kron,
    "linalg.cholesky_ex": cholesky_ex,
    "linalg.cond": cond,
    "linalg.cross": linalg_cross,
    "linalg.det": det,
    "linalg.inv": inverse,
    "linalg.inv_ex": inverse_ex,
    "linalg.matrix_power": matrix_power,
    "linalg.multi_dot": multi_dot,
    "linalg.slogdet": slogdet,
    "linalg.solve": solve,
    "linalg.solve_ex": solve_ex,
    "linalg.solve_triangular": triangular,
    "linalg.tensorinv": tensorinv,
    "linalg.tensorsolve": tensorsolve,
    "linalg.vander": vander,
    "linalg.vecdot": vecdot,
    "logdet": logdet,
    "nn.functional.pdist": pdist,
    "outer": outer,
    "tensordot": tensordot,
    "triangular_solve": triangular_solve,
}
