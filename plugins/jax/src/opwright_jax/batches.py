"""Computations of whole batches, for `jax.vmap`."""

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
"""The topic of annexes that describe how to compute a batch of examples in a new axis 0 at once.

Subjects that begin with ``broadcast.`` name dicts of operators whose inputs broadcast, with the
number of trailing axes of each input that are not broadcast, 0 for element-wise operators. Subjects
that begin with ``axes.`` name dicts of operators that work along some axes of their first input,
with the attribute that names these axes. Subjects that begin with ``folded.`` name dicts of
operators that compute each element of axis 0, such as an image, separately, with the input slots
that have this axis; examples become elements of it.
"""


class Batched(NamedTuple):
    """A computation that computes all examples at once."""

    what: What
    align: Callable[[Sequence[Any]], list[Any]]
    shapes: list[tuple[int, ...]]  # of the results


def find_batched(
    what: What, values: Sequence[Any], is_batched: Sequence[bool], n: int
) -> Batched | None:
    """Return one computation for all `n` examples along axis 0, or None if none is known.

    It is used only if the dtypes and shapes of its results fit each example.
    """
    shapes = [v.shape[1:] if b else v.shape for v, b in zip(values, is_batched, strict=True)]
    call = innermost(what)
    if n == 0 or isinstance(call, Whole):
        return None
    tables = _tables()
    given = _Given(what, call, values, is_batched, shapes, n)
    for kind, compute in (("broadcast", _broadcast), ("axes", _move), ("folded", _fold)):
        if call.type in tables[kind]:
            return compute(given, tables[kind][call.type])
    return None


class _Given(NamedTuple):
    """The inputs of a batch; `shapes` are the shapes of one example."""

    what: What
    call: Call
    values: Sequence[Any]
    is_batched: Sequence[bool]
    shapes: Sequence[tuple[int, ...]]
    n: int

    def align(self, values: Sequence[Any], rank: int | None, every: bool) -> list[Any]:
        """Return values with the batch in axis 0 and with equal ranks, so that they broadcast.

        If `rank` is None, values keep their ranks. With `every`, inputs that examples share are
        repeated, since each example has its own gradient of such an input.
        """
        aligned = []
        for value, shape, is_batched in zip(values, self.shapes, self.is_batched, strict=True):
            if not is_batched and not every:
                aligned.append(value)
                continue
            full = value if is_batched else jnp.broadcast_to(value, (self.n, *shape))
            ones = (1,) * (0 if rank is None else rank - len(shape))
            aligned.append(full.reshape((self.n, *ones, *shape)))
        return aligned


def _broadcast(given: _Given, least: int) -> Batched | None:
    """Return one computation for all examples of an operator whose inputs broadcast."""
    rank = max((len(shape) for shape in given.shapes), default=0)
    if any(len(shape) < least for shape in given.shapes[: _count(given.call)]):
        return None
    every = _is_gradient(given.what)
    return _check(given, given.what, lambda values: given.align(values, rank, every))


def _move(given: _Given, name: str) -> Batched | None:
    """Return one computation of the batch, with the operator's axes after a new batch axis."""
    moved = _move_axes(given.call, name, len(given.shapes[0]))
    others = range(1, _count(given.call))  # parameters, which all examples share
    if moved is None or any(given.is_batched[i] for i in others):
        return None

    def align(values: Sequence[Any]) -> list[Any]:
        pairs = enumerate(zip(values, given.align(values, None, True), strict=True))
        return [value if i in others else full for i, (value, full) in pairs]

    return _check(given, _replace(given.what, moved), align)


def _fold(given: _Given, slots: Sequence[str]) -> Batched | None:
    """Return one computation that folds the batch axis into an existing axis.

    If examples share an input, each example has its own gradient of this input, which does not
    have the folded axis; `_check` detects this.
    """
    proto, counts = ow.op_proto(given.call.type), given.call.counts
    owners = [s.name for s, n in zip(proto.inputs, counts, strict=True) for _ in range(max(n, 0))]
    shared = [i for i, slot in enumerate(owners) if slot not in slots]
    sizes = {shape[:1] for i, shape in enumerate(given.shapes) if i not in shared}
    if len(sizes) != 1 or () in sizes or any(given.is_batched[i] for i in shared):
        return None

    def align(values: Sequence[Any]) -> list[Any]:
        pairs = enumerate(zip(values, given.align(values, None, True), strict=True))
        return [
            value if i in shared else full.reshape(given.n * full.shape[1], *full.shape[2:])
            for i, (value, full) in pairs
        ]

    return _check(given, given.what, align, is_folded=True)


def _tables() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {"broadcast": {}, "axes": {}, "folded": {}}
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


def _move_axes(call: Call, name: str, rank: int) -> Call | None:
    """Return a call with the axes in an attribute shifted for a new first axis.

    A number has no axes, although operators accept the axes 0 and -1 for it.
    """
    attrs = read_attrs(call.attrs)
    axes = attrs.get(name)
    if axes is None or rank == 0:
        return None
    if isinstance(axes, list):
        moved: Any = [a + 1 if a >= 0 else a for a in axes] or list(range(1, rank + 1))
    else:
        moved = axes + 1 if axes >= 0 else axes
    return call._replace(attrs=write_attrs({**attrs, name: moved}))


def _check(
    given: _Given,
    batched: What,
    align: Callable[[Sequence[Any]], list[Any]],
    is_folded: bool = False,
) -> Batched | None:
    """Return the computation of the batch, or None unless it computes each example separately."""
    values, n = given.values, given.n
    each = zip(values, given.shapes, strict=True)
    one = compile_piece(given.what, tuple(_meta(value, shape) for value, shape in each))
    aligned = jax.eval_shape(lambda *v: align(v), *values)
    metas = tuple(_meta(v, v.shape) for v in aligned)
    try:
        all_of_them = compile_piece(batched, metas)
    except OpwrightError:
        return None
    if not _fits(one, all_of_them, n, is_folded):
        return None
    return Batched(batched, align, [(n, *meta.shape) for meta in one.fetches])


def _fits(one: Compiled, batched: Compiled, n: int, is_folded: bool) -> bool:
    if one.sources != batched.sources or not batched.has_shapes:
        return False
    return all(
        b.dtype == a.dtype
        and b.shape[:1] == (tuple(n * size for size in a.shape[:1]) if is_folded else (n,))
        and math.prod(b.shape) == n * math.prod(a.shape)
        for a, b in zip(one.fetches, batched.fetches, strict=True)
    )


def _meta(value: Any, shape: tuple[int, ...]) -> Any:
    return meta_of("vmap", value)._replace(shape=tuple(shape))
