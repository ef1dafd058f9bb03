"""The rule ``jax`` of ``opwright check``: operators must give the same results inside JAX."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from opwright.errors import DtypeError, ShapeError
from opwright_jax import ops
from opwright_jax.dtypes import NARROW

_TOLERANCE: Final = {"float16": 1e-2, "float32": 1e-5}
"""Relative and absolute tolerance, since a loss is summed in a different order."""

_OTHERS: Final = 1e-9
N_EXAMPLES: Final = 2
"""Number of examples in a `jax.vmap`."""


def check_operator(op_type: str, uses: Iterable[Any]) -> Generator[tuple[Any, str], None, str]:
    """Yield sample calls that fail under ``jit``, in gradients, or under ``vmap``.

    Parameters
    ----------
    op_type : str
    uses : iterable
        Calls with ``arguments``, ``results``, ``places``, ``weights`` and ``gradients``, and
        ``call(ops, arguments)``, as the kit draws them.

    Returns
    -------
    str
        Why no use could be checked; empty if a use was checked.
    """
    reason = "no use could be called"
    for use in uses:
        try:
            jax.eval_shape(lambda *a, use=use: use.call(ops, a), *use.arguments)
        except (ShapeError, DtypeError) as error:  # features that JAX lacks, such as unknown shapes
            reason = reason and str(error).splitlines()[0]
            continue
        reason = ""
        for find in (_find_in_results, _find_in_gradients, _find_in_batches):
            try:
                fault = find(use)
            except Exception as error:  # noqa: BLE001 - an error in a third-party rule is a finding
                fault = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            if fault is not None:
                yield use, f"inside JAX it must compute the same, got {fault}"
                break
    return reason


def _find_in_results(use: Any) -> str | None:
    run = jax.jit(lambda *arrays: use.call(ops, arrays))
    return _find_difference("result under jit", run(*use.arguments), use.results)


def _find_in_gradients(use: Any) -> str | None:
    if not use.places:
        return None

    def loss(*arrays: Any) -> Any:
        pairs = zip(use.call(ops, arrays), use.weights, strict=True)
        return sum((result * w).sum() for result, w in pairs if w is not None)

    gradients = jax.jit(jax.grad(loss, use.places))(*use.arguments)
    return _find_difference("gradient", gradients, use.gradients)


def _find_in_batches(use: Any) -> str | None:
    if not use.arguments:
        return None
    rows = [np.stack([array] * N_EXAMPLES) for array in use.arguments]
    batch = jax.jit(jax.vmap(lambda *arrays: use.call(ops, arrays)))(*rows)
    expected = [np.stack([array] * N_EXAMPLES) for array in use.results]
    return _find_difference("result under vmap", batch, expected)


def _find_difference(what: str, found: Any, expected: Any) -> str | None:
    """Describe how arrays differ; without 64-bit types, JAX uses 32 bits."""
    for i, (result, array) in enumerate(zip(found, expected, strict=True)):
        given, dtype = np.asarray(result), jnp.result_type(array)
        narrow = dtype if jax.config.jax_enable_x64 else NARROW.get(str(dtype), str(dtype))
        if (given.shape, given.dtype) != (array.shape, np.dtype(narrow)):
            return f"{what} {i} of {given.dtype} {given.shape}, not {narrow} {array.shape}"
        near = _TOLERANCE.get(str(given.dtype), _OTHERS) if given.dtype.kind == "f" else 0.0
        wide = array.astype(given.dtype)
        if not np.allclose(given, wide, rtol=near, atol=near, equal_nan=True):
            return f"{what} {i} that differs by {np.nanmax(abs(given - wide)):.3g}"
    return None
