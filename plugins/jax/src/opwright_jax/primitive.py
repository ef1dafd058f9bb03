"""The JAX primitive with which opwright computes a part of a JAX program."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from opwright.errors import KernelNotFoundError
from opwright_jax.batches import find_batched
from opwright_jax.calls import What, label
from opwright_jax.dtypes import metas_of, to_jax
from opwright_jax.pieces import compile_piece
from opwright_jax.plans import TARGET

_NONE: Final = frozenset[Any]()

primitive = Primitive("opwright")
primitive.multiple_results = True


def compute(what: What, values: Sequence[Any]) -> list[Any]:
    """Return the results of a computation on arrays.

    A result that does not depend on arguments is None.
    """
    values = vary([_gather(value) for value in values])
    compiled = compile_piece(what, metas_of(label(what), values))
    fetched = primitive.bind(*values, what=what) if compiled.fetches else []
    return [
        None if source is None else (fetched if source[0] == "fetch" else values)[source[1]]
        for source in compiled.sources
    ]


@lru_cache(maxsize=4096)
def _jitted(what: What) -> Any:
    def run(*values: Any) -> Any:
        return primitive.bind(*values, what=what)

    run.__name__ = run.__qualname__ = label(what)
    # With jax_debug_nans, JAX calls functions with an invalid result again without jit, except
    # functions with this attribute, for which it raises FloatingPointError.
    run._apply_primitive = True  # type: ignore[attr-defined]
    return jax.jit(run)


@primitive.def_impl
def _run(*values: Any, what: What) -> Any:
    with jax.disable_jit(False):
        return _jitted(what)(*values)


@primitive.def_abstract_eval
def _infer(*avals: Any, what: What) -> Any:
    compiled = compile_piece(what, metas_of(label(what), avals))
    return [make_aval(meta.shape, to_jax(meta.dtype), avals) for meta in compiled.fetches]


def make_aval(shape: Any, dtype: Any, avals: Sequence[Any]) -> Any:
    """Return an abstract array that varies along the axes of a `shard_map` like the arguments."""
    aval = jax.core.ShapedArray(shape, dtype)
    axes = frozenset[Any]().union(*map(_varying_axes, avals))
    if not axes:
        return aval
    like = next(a for a in avals if _varying_axes(a))
    spec = jax.sharding.PartitionSpec(*[None] * len(shape))
    sharding = jax.sharding.NamedSharding(like.sharding.mesh, spec)
    if hasattr(like, "mat"):  # JAX 0.10 and later
        return aval.update(sharding=sharding, manual_axis_type=like.mat.update(varying=axes))
    return aval.update(sharding=sharding, vma=axes)


def _gather(value: Any) -> Any:
    """Return a complete value on every device of a mesh with explicit axes.

    JAX divides the gradients of the values that it gathers.
    """
    sharding = getattr(jax.typeof(value), "sharding", None)
    if sharding is None or not any(sharding.spec) or not hasattr(jax.sharding, "reshard"):
        return value  # JAX before 0.7 has no reshard
    spec = jax.sharding.PartitionSpec(*[None] * len(value.shape))
    return jax.sharding.reshard(value, jax.sharding.NamedSharding(sharding.mesh, spec))


def vary(values: Sequence[Any]) -> Sequence[Any]:
    """Return values that vary along the same axes of a `shard_map`.

    JAX sums the gradients of the values that it converts.
    """
    each = [_varying_axes(jax.typeof(value)) for value in values]
    axes = _NONE.union(*each)
    if all(own == axes for own in each):
        return values
    missing = [tuple(sorted(axes - own)) for own in each]
    return [_cast(v, rest) if rest else v for v, rest in zip(values, missing, strict=True)]


def _cast(value: Any, axes: tuple[str, ...]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(value, axes, to="varying")
    return jax.lax.pvary(value, axes)


def _varying_axes(aval: Any) -> frozenset[Any]:
    axes: frozenset[Any] = aval.mat.varying if hasattr(aval, "mat") else getattr(aval, "vma", _NONE)
    return axes


def _lower(ctx: Any, *operands: Any, what: What) -> Any:
    _check_platforms(ctx, what)
    compiled = compile_piece(what, metas_of(label(what), ctx.avals_in))
    _warn_of_gathering(ctx, what)
    high, low = compiled.digest
    rule = jax.ffi.ffi_lowering(TARGET)
    read = ctx.replace(avals_in=[ctx.avals_in[i] for i in compiled.reads])
    attrs = {"call": compiled.text, "high": np.int64(high), "low": np.int64(low)}
    return rule(read, *[operands[i] for i in compiled.reads], **attrs)


def _check_platforms(ctx: Any, what: What) -> None:
    """Raise KernelNotFoundError if XLA compiles for anything but the CPU."""
    others = [p for p in ctx.platforms or ctx.module_context.platforms if p != "cpu"]
    if others:
        raise KernelNotFoundError(
            f"{label(what)}: opwright operators run inside JAX only on the CPU, got "
            f"{others[0]!r}; put the arrays on a device of jax.devices('cpu')"
        )


def _warn_of_gathering(ctx: Any, what: What) -> None:
    """Warn once if XLA partitions a program among devices by itself."""
    axes = ctx.module_context.axis_context
    n = getattr(axes, "num_devices", None) or 1
    if not hasattr(axes, "mesh") and n > 1 and next(_n_gatherings) == 0:
        warnings.warn(
            f"{label(what)}: inside a jit over {n} devices, arrays are gathered on each of "
            "them for opwright operators; shard_map computes on the shards",
            stacklevel=2,
        )


_n_gatherings = count()


def _batch(values: Sequence[Any], dims: Sequence[Any], *, what: What) -> Any:
    """Run a batch at once if the results are the same, otherwise one example after the other."""
    n = next(v.shape[d] for v, d in zip(values, dims, strict=True) if d is not None)
    front = [v if d is None else jnp.moveaxis(v, d, 0) for v, d in zip(values, dims, strict=True)]
    batched = find_batched(what, front, [d is not None for d in dims], n)
    if batched is not None:
        fetched = primitive.bind(*batched.align(front), what=batched.what)
        results = [r.reshape(shape) for r, shape in zip(fetched, batched.shapes, strict=True)]
    else:
        results = _loop(what, front, dims)
    return results, [0] * len(results)


def _loop(what: What, values: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    def one(moving: Sequence[Any]) -> list[Any]:
        items = iter(moving)
        every = [v if d is None else next(items) for v, d in zip(values, dims, strict=True)]
        return list(primitive.bind(*every, what=what))

    rows = [v for v, d in zip(values, dims, strict=True) if d is not None]
    results: list[Any] = jax.lax.map(one, rows)
    return results


mlir.register_lowering(primitive, _lower)
batching.primitive_batchers[primitive] = _batch
