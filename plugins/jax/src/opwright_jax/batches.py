"""Computations of a whole batch at once: for `jax.vmap`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import opwright as ow
from opwright.errors import OpwrightError
from opwright_jax.calls import Call, Forward, Vjp, What, Whole, innermost, read_attrs, write_attrs
from opwright_jax.dtypes import meta_of
from opwright_jax.pieces import Compiled, compile_piece

TOPIC = "batches"
"""Of annexes, which say how a batch of examples in a new axis 0 is computed at once.

Subjects that begin with ``broadcast.`` name dicts of operators whose inputs broadcast, with the
number of axes at the end that each input has of its own: 0 for element-wise ones. Those that begin
with ``axes.`` name dicts of operators that work along some axes of their first input, with the
attribute that names these.
"""


class Batched(NamedTuple):
    """One computation of all examples."""

    what: What
    align: Callable[[Sequence[Any]], list[Any]]
    shapes: list[tuple[int, ...]]  # of the results


def find_batched(
    what: What, values: Sequence[Any], is_batched: Sequence[bool], n: int
) -> Batched | None:
    """Return one computation of `n` examples in axis 0 of some values; None where there is none.

    It is taken only where it has the results of each example, in all shapes.
    """
    shapes = [v.shape[1:] if b else v.shape for v, b in zip(values, is_batched, strict=True)]
    call = innermost(what)
    if n == 0 or isinstance(call, Whole):
        return None
    tables = _tables()
    if call.type in tables["broadcast"]:
        rank = max((len(shape) for shape in shapes), default=0)
        least = tables["broadcast"][call.type]
        if any(len(shape) < least for shape in shapes[: _count(call)]):
            return None
        every = _is_gradient(what)

        def align(given: Sequence[Any]) -> list[Any]:
            return [
                _in_front(value, shape, rank, n, b, every)
                for value, shape, b in zip(given, shapes, is_batched, strict=True)
            ]

        return _check(what, what, values, shapes, align, n)
    if call.type in tables["axes"]:
        moved = _move_axes(call, tables["axes"][call.type], len(shapes[0]))
        others = range(1, _count(call))  # parameters, which all examples share
        if moved is None or any(is_batched[i] for i in others):
            return None

        def put_in_front(given: Sequence[Any]) -> list[Any]:
            return [
                value if i in others else _in_front(value, shape, len(shape), n, b, True)
                for i, (value, shape, b) in enumerate(zip(given, shapes, is_batched, strict=True))
            ]

        return _check(what, _replace(what, moved), values, shapes, put_in_front, n)
    return None


def _tables() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {"broadcast": {}, "axes": {}}
    for entry in ow.current_context().annexes.entries(TOPIC):
        kind = entry.subject.partition(".")[0]
        if kind in tables:
            tables[kind].update(entry.load())
    return tables


def _count(call: Call) -> int:
    return sum(max(count, 0) for count in call.counts)


def _is_gradient(what: What) -> bool:
    return isinstance(what, Vjp) or (isinstance(what, Forward) and _is_gradient(what.of))


def _replace(what: What, call: Call) -> What:
    if isinstance(what, (Forward, Vjp)):
        return what._replace(of=_replace(what.of, call))
    return call


def _in_front(
    value: Any, shape: tuple[int, ...], rank: int, n: int, is_batched: bool, every: bool
) -> Any:
    """Return a value with the batch in axis 0, and of one rank, so that they broadcast.

    Of a gradient every value has the batch: each example has a gradient of its own.
    """
    if not is_batched and not every:
        return value
    if not is_batched:
        value = jnp.broadcast_to(value, (n, *shape))
    return value.reshape((n, *(1,) * (rank - len(shape)), *shape))


def _move_axes(call: Call, name: str, rank: int) -> Call | None:
    """Return a call whose attribute names the same axes behind a new one."""
    attrs = read_attrs(call.attrs)
    axes = attrs.get(name)
    if axes is None:
        return None
    if isinstance(axes, list):
        moved: Any = [a + 1 if a >= 0 else a for a in axes] or list(range(1, rank + 1))
    else:
        moved = axes + 1 if axes >= 0 else axes
    return call._replace(attrs=write_attrs({**attrs, name: moved}))


def _check(
    what: What,
    batched: What,
    values: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    align: Callable[[Sequence[Any]], list[Any]],
    n: int,
) -> Batched | None:
    """Return the computation of the batch if it computes each example alone."""
    one = compile_piece(what, tuple(_meta(v, s) for v, s in zip(values, shapes, strict=True)))
    aligned = jax.eval_shape(lambda *v: align(v), *values)
    try:
        all_of_them = compile_piece(batched, tuple(_meta(v, v.shape) for v in aligned))
    except OpwrightError:
        return None
    if not _fits(one, all_of_them, n):
        return None
    return Batched(batched, align, [(n, *meta.shape) for meta in one.fetches])


def _fits(one: Compiled, batched: Compiled, n: int) -> bool:
    if one.sources != batched.sources or len(one.fetches) != len(batched.fetches):
        return False
    return all(
        b.dtype == a.dtype and b.shape[:1] == (n,) and math.prod(b.shape) == n * math.prod(a.shape)
        for a, b in zip(one.fetches, batched.fetches, strict=True)
    )


def _meta(value: Any, shape: tuple[int, ...]) -> Any:
    return meta_of("vmap", value)._replace(shape=tuple(shape))
