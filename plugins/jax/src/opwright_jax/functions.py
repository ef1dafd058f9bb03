"""`opwright_jax.ops.NAME` calls an operator with JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import opwright_jax.gradients  # noqa: F401 - registers the gradients of the primitive
from opwright.errors import AttributeTypeError, SlotError
from opwright.op import OpDefinition, VarProto, dtype_to_numpy
from opwright.runtime import EagerSource, MissingOperatorError, expected_dtype, make_function
from opwright.vocabulary import STEP_SLOT
from opwright_jax.calls import Call, What, label, write_attrs
from opwright_jax.dtypes import (
    NARROW,
    is_array,
    is_strong,
    is_wide,
    meta_of,
    promote,
    read_array,
)
from opwright_jax.primitive import compute

MAX_FUNCTIONS: Final = 4096
"""Maximum number of cached compiled functions."""


class JaxSource(EagerSource):
    """The computation that an operator function calls, for one choice of outputs."""

    @property
    def call(self) -> Callable[..., Any]:
        """All calls go through JAX, which traces or runs them."""
        return self.slow

    def slow(self, *args: Any) -> Any:
        """Call the operator for arguments in the order of the OpProto."""
        proto = self._proto
        n = len(proto.inputs)
        given = [self._as_list(s, v) for s, v in zip(proto.inputs, args[:n], strict=True)]
        definition = self._definition
        if definition.random and args[definition.input_index[STEP_SLOT]] is None:
            raise SlotError(
                f"{proto.type}: input {STEP_SLOT!r} is required inside JAX, which does not count "
                f"runs, got none; pass {STEP_SLOT}=jnp.array([i]); equal steps draw equal numbers"
            )
        for attr, value in zip(proto.attrs, args[n:], strict=True):
            if isinstance(value, jax.Array):
                raise AttributeTypeError(
                    f"{proto.type}: attribute {attr.name!r} must be a Python value, got a JAX "
                    "array; pass a number, or make it a static argument of jax.jit"
                )
        attrs = self._attributes(args[n:])
        counts = tuple(
            -1 if value is None else len(items)
            for value, items in zip(args[:n], given, strict=True)
        )
        returned = tuple(slot.name for slot in self._returned)
        call = Call(proto.type, counts, write_attrs(attrs), returned, is_wide())
        results = compile_what(call)(*self._as_arrays(given))
        return results[0] if self.returns_one else tuple(results)

    def _as_arrays(self, given: Sequence[Sequence[Any]]) -> list[Any]:
        """Return all inputs as JAX arrays.

        Weakly typed arrays get the dtype of other arrays, and then numbers that of all arrays.
        """
        read = [[read_array(item) for item in items] for items in given]
        flat = [item for items in read for item in items]
        if not all(is_strong(item) for item in flat if is_array(item)):
            read = self._convert(read, is_strong, self._promote)
        if not all(map(is_array, flat)):
            read = self._convert(read, is_array, self._hold)
        return [jnp.asarray(item) for items in read for item in items]

    def _convert(
        self, read: list[list[Any]], is_known: Callable[[Any], bool], convert: Callable[..., Any]
    ) -> list[list[Any]]:
        """Convert inputs of unknown dtypes for the dtypes of the other inputs."""
        who = self._proto.type
        stubs = [[_stub(who, item) if is_known(item) else 0 for item in items] for items in read]
        return [
            [item if is_known(item) else convert(slot, item, stubs) for item in items]
            for slot, items in zip(self._proto.inputs, read, strict=True)
        ]

    def _promote(self, slot: VarProto, item: Any, stubs: list[list[Any]]) -> Any:
        dtype, _ = expected_dtype(self._proto, slot, stubs)
        return item if dtype is None or not is_array(item) else promote(item, dtype)


def _stub(who: str, array: Any) -> Any:
    """Return an empty array with the dtype that `array` has in JAX."""
    dtype = meta_of(who, jax.ShapeDtypeStruct((), array.dtype)).dtype
    return np.empty(0, dtype_to_numpy(dtype if is_wide() else NARROW.get(dtype, dtype)))


@lru_cache(maxsize=MAX_FUNCTIONS)
def compile_what(what: What) -> Callable[..., list[Any]]:
    """Return a compiled function that runs a computation, also within `jax.jit`."""

    def run(*values: Any) -> list[Any]:
        return compute(what, values)

    run.__name__ = run.__qualname__ = f"opwright.{label(what)}"
    compiled: Callable[..., list[Any]] = jax.jit(run, inline=True)
    return compiled


def make_jax_function(definition: OpDefinition, context: Any) -> Callable[..., Any]:
    """Return ``opwright_jax.ops.NAME``."""
    if definition.proto.has_blocks:
        raise MissingOperatorError(
            f"{definition.op_type}: an operator on arrays must not have blocks, got one that "
            "runs blocks of a program; use jax.lax.cond, while_loop or scan"
        )
    function = make_function(definition, context, JaxSource)
    function.__module__ = "opwright_jax.ops"
    return function
