"""Describes operator calls without tensors, as keys for deriving and caching gradients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import torch

from opwright.op import GradOp, OpDefinition, OpProto, can_be_float, graded_outputs


class Call(NamedTuple):
    """A call of an operator; its arguments are the tensors of all input slots, in order."""

    type: str
    counts: tuple[int, ...]  # number of tensors in each input slot, -1 if absent
    attrs: tuple[Any, ...]  # in OpProto order, None if absent
    returned: tuple[str, ...]  # output slots


class Whole(NamedTuple):
    """A call of a Program; its arguments include the parameters."""

    program: str  # the serialized program, as base64
    arguments: tuple[str, ...]
    results: tuple[str, ...]


class Vjp(NamedTuple):
    """The gradients of a `Call`, or of another `Vjp`.

    A `Vjp` takes the arguments of `of`, then the outputs in `kept` if `of` is a `Call`, then the
    gradients of the results in `given`. It returns the gradients of the arguments in `wanted`.
    """

    of: Call | Whole | Vjp
    n_args: int  # number of arguments of `of`
    kept: tuple[str, ...]
    given: tuple[int, ...]
    wanted: tuple[int, ...]


What = Call | Whole | Vjp
_PLACE: Final = "\0"


def flatten(values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Return the tensors of all slots, and the number of tensors in each slot."""
    flat: list[Any] = []
    counts = []
    for value in values:
        if value is None:
            counts.append(-1)
        elif isinstance(value, (list, tuple)):
            counts.append(len(value))
            flat += value
        else:
            counts.append(1)
            flat.append(value)
    return flat, tuple(counts)


def unflatten(proto: OpProto, counts: Sequence[int], flat: Sequence[Any]) -> list[Any]:
    """Return the value of each slot: a tensor, a list of tensors, or None."""
    values: list[Any] = []
    begin = 0
    for slot, count in zip(proto.inputs, counts, strict=True):
        items = list(flat[begin : begin + max(count, 0)])
        begin += len(items)
        values.append(None if count < 0 else items if slot.duplicable else items[0])
    return values


def freeze(value: Any) -> Any:
    """Return an attribute in hashable form, with lists as tuples."""
    return tuple(map(freeze, value)) if isinstance(value, (list, tuple)) else value


def with_places(value: Any, sizes: list[Any]) -> Any:
    """Replace symbolic sizes in an attribute by placeholders, and append the sizes to `sizes`."""
    if isinstance(value, tuple):
        return tuple([with_places(item, sizes) for item in value])
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        sizes.append(value)
        return f"{_PLACE}{len(sizes) - 1}"
    return value


def with_sizes(value: Any, sizes: Sequence[Any]) -> Any:
    """Invert `with_places`, also in the attributes of a call."""
    if isinstance(value, Vjp):
        return value._replace(of=with_sizes(value.of, sizes))
    if isinstance(value, Call):
        return value._replace(attrs=with_sizes(value.attrs, sizes))
    if isinstance(value, tuple) and not isinstance(value, Whole):
        return tuple([with_sizes(item, sizes) for item in value])
    is_place = isinstance(value, str) and value.startswith(_PLACE)
    return sizes[int(value[len(_PLACE) :])] if is_place else value


_SHAPES: Final = frozenset(
    (
        *("add", "add_n", "assign", "cast", "cumsum", "expand", "fft", "flatten", "flip", "ifft"),
        *("increment", "irfft", "negative", "reshape", "roll", "scale", "slice_scatter", "split"),
        *("squeeze", "stack", "subtract", "transpose", "tril", "triu", "unsqueeze", "unstack"),
    )
)
"""Operators of opwright-std whose gradients are compositions that read only shapes."""


class Recipe(NamedTuple):
    """Which slots a recorded call saves for its gradient."""

    reads: frozenset[str]  # inputs whose elements the gradient reads, not only the shape
    outputs: tuple[str, ...]  # outputs that the gradient reads
    inner: tuple[str, ...]  # float outputs that are not returned, so they have no graph
    stops: frozenset[str]  # outputs without a gradient


def recipe_of(definition: OpDefinition) -> Recipe:
    """Return an operator's recipe; without a `GradOp`, its gradient reads all inputs or none."""
    proto, rule = definition.proto, definition.gradient
    floats = {slot.name for slot in proto.outputs if can_be_float(proto, slot)}
    stops = {slot.name for slot in proto.outputs} - floats
    every = frozenset(proto.input_slots)
    if not isinstance(rule, GradOp):
        every = frozenset() if proto.type in _SHAPES else every
        return Recipe(every, (), (), frozenset(stops))
    graded = {slot.name for slot in graded_outputs(proto, rule)}
    stops |= {slot.name for slot in proto.outputs} - graded
    if any(slot.duplicable for slot in proto.outputs):
        return Recipe(every, (), (), frozenset(stops))
    read = (*rule.needs, *rule.also)
    outputs = tuple(name for name in read if name in proto.output_slots)
    inner = tuple(n for n in outputs if proto.output_slots[n].intermediate and n in floats)
    reads = every if inner else every.intersection(rule.needs)
    return Recipe(reads, outputs, inner, frozenset(stops))


def slot_names(proto: OpProto, counts: Iterable[int]) -> list[str]:
    """Return the slot name of each tensor."""
    pairs = zip(proto.inputs, counts, strict=True)
    return [slot.name for slot, count in pairs for _ in range(max(count, 0))]


def write(what: What) -> str:
    """Serialize a call for `read`."""
    return json.dumps(what)


@lru_cache(maxsize=1024)
def read(text: str) -> What:
    """Parse a call serialized by `write`."""
    return _restore(json.loads(text))


def _restore(fields: list[Any]) -> What:
    if isinstance(fields[0], str):
        kind = Whole if len(fields) == len(Whole._fields) else Call
        return kind(*map(freeze, fields))
    return Vjp(_restore(fields[0]), fields[1], *map(freeze, fields[2:]))
