"""Computes gradients for JAX as computations that can be differentiated again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp

from opwright.errors import GradientError
from opwright.op import is_float
from opwright_jax.calls import Forward, Vjp, What, label
from opwright_jax.dtypes import metas_of
from opwright_jax.pieces import Metas, differentiate, make_piece
from opwright_jax.primitive import compute

MAX_FUNCTIONS: Final = 4096


class Kept(NamedTuple):
    """Describes how to compute the gradients of a computation; contains no arrays."""

    what: What
    metas: Metas
    wanted: tuple[int, ...]
    saved: tuple[str, ...]
    left_out: tuple[int, int] = (0, 0)  # first argument without a gradient, and their number


class Residual(NamedTuple):
    """The values that a forward run saves for the gradients: arguments and other values."""

    kept: Kept | None
    values: tuple[Any, ...]
    saved: tuple[Any, ...]


jax.tree_util.register_pytree_node(
    Residual,
    lambda residual: ((residual.values, residual.saved), residual.kept),
    lambda kept, children: Residual(kept, *children),
)


@lru_cache(maxsize=MAX_FUNCTIONS)
def differentiable(what: What) -> Callable[..., list[Any]]:
    """Return a function of arrays that JAX differentiates in reverse mode."""

    def run(*values: Any) -> list[Any]:
        return _compute(what, values)

    run.__name__ = run.__qualname__ = f"opwright.{label(what)}"
    function: Any = jax.custom_vjp(run)
    function.defvjp(partial(_run_forward, what), _give_gradients, symbolic_zeros=True)
    return function  # type: ignore[no-any-return]


def _compute(what: What, values: Sequence[Any]) -> list[Any]:
    """Return the results; gradients are zeros if no result depends on the argument."""
    results = compute(what, values)
    vjp = what.of if isinstance(what, Forward) else what
    if not isinstance(vjp, Vjp):
        return results
    n = len(vjp.wanted)
    pairs = zip(results[:n], vjp.wanted, strict=True)
    filled = [jnp.zeros_like(values[i]) if r is None else r for r, i in pairs]
    return [*filled, *results[n:]]


def _run_forward(what: What, *primals: Any) -> tuple[list[Any], Residual]:
    """Compute the results, and save the inputs of the gradients.

    The arrays are computed by a `differentiable` function, since JAX may differentiate them again.
    """
    values = tuple([primal.value for primal in primals])
    metas = metas_of(label(what), values)
    wanted = [i for i, p in enumerate(primals) if p.perturbed and is_float(metas[i].dtype)]
    if not wanted:
        return differentiable(what)(*values), Residual(None, values, ())
    if isinstance(what, Vjp) and what.saved:
        return _run_again(what, primals, values)
    given, saved = _choose(what, metas, tuple(wanted))
    kept = Kept(what, metas, tuple(wanted), saved)
    if not saved:
        return differentiable(what)(*values), Residual(kept, values, ())
    found = differentiable(Forward(what, given, kept.wanted))(*values)
    n = len(found) - len(saved)
    return found[:n], Residual(kept, values, tuple(found[n:]))


def _run_again(
    vjp: Vjp, primals: Sequence[Any], values: tuple[Any, ...]
) -> tuple[list[Any], Residual]:
    """Like `_run_forward`, for gradients that recompute their saved values.

    Saved outputs may lack a gradient, but gradients recomputed from the arguments are
    differentiable.
    """
    begin = len(primals) - len(vjp.saved) - len(vjp.given)
    end = begin + len(vjp.saved)
    found, residual = _run_forward(vjp._replace(saved=()), *primals[:begin], *primals[end:])
    if residual.kept is None:
        return found, Residual(None, values, ())
    kept = residual.kept._replace(left_out=(begin, len(vjp.saved)))
    return found, residual._replace(kept=kept)


@lru_cache(maxsize=MAX_FUNCTIONS)
def _choose(
    what: What, metas: Metas, wanted: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the results that may have a gradient, and the inputs of the gradients.

    Raises GradientError if no result has a gradient.
    """
    piece = make_piece(what, metas)
    block = piece.block
    floats = [i for i, n in enumerate(piece.results) if n and is_float(block.var(n).dtype)]
    given = tuple(floats)
    try:
        return given, differentiate(what, metas, given, wanted).saved
    except GradientError:
        given = tuple(i for i in floats if _has_gradient(what, metas, i, wanted))
        if not given:
            raise
        return given, differentiate(what, metas, given, wanted).saved


def _has_gradient(what: What, metas: Metas, result: int, wanted: tuple[int, ...]) -> bool:
    try:
        differentiate(what, metas, (result,), wanted)
    except GradientError:
        return False
    return True


def _give_gradients(residual: Residual, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of all arguments, with None for arguments without a gradient."""
    kept, values = residual.kept, residual.values
    begin, count = (0, 0) if kept is None else kept.left_out
    none = (None,) * (len(values) + count)
    given = tuple(i for i, g in enumerate(grads) if not _is_zero(g))
    if kept is None or not given:
        return none
    saved, arrays = kept.saved, residual.saved
    if saved and not set(_saved_for(kept, given)) <= set(saved):
        saved, arrays = (), ()  # recomputed
    vjp = Vjp(kept.what, saved, given, kept.wanted)
    found = differentiable(vjp)(*values, *arrays, *[grads[i] for i in given])
    by_place = dict(zip(kept.wanted, found, strict=True))
    gradients = [by_place.get(i) for i in range(len(values))]
    return (*gradients[:begin], *none[:count], *gradients[begin:])


@lru_cache(maxsize=MAX_FUNCTIONS)
def _saved_for(kept: Kept, given: tuple[int, ...]) -> tuple[str, ...]:
    return differentiate(kept.what, kept.metas, given, kept.wanted).saved


def _is_zero(grad: Any) -> bool:
    """Whether a gradient is known to be zero, such as the gradient of an unused result."""
    is_symbolic = isinstance(grad, jax.custom_derivatives.SymbolicZero)
    return is_symbolic or grad.dtype == jax.dtypes.float0
