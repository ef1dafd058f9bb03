"""Reads inputs and attributes of an operator from a command line: ``x=64x10``, ``axis=-1``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.commands import read_feed
from opwright.errors import CommandError
from opwright.op import (
    AttrProto,
    AttrType,
    OpDefinition,
    OpProto,
    VarProto,
    canonical_dtype,
    dtype_to_numpy,
    is_float,
)
from opwright.op import describe_value_type as describe_type
from opwright.plugin import hint
from opwright.vocabulary import GRAD_SUFFIX
from opwright_kit.testing.samples.sample import Array, Sample, meta_of

Shape = tuple[int, ...]


class ArrayWish(NamedTuple):
    """The shape of one array, and its dtype if given."""

    shape: Shape
    dtype: str | None = None


_MOST_BYTES: Final = 2**30
_SEED: Final = 1


def read_shapes(words: Iterable[str], proto: OpProto) -> dict[str, list[ArrayWish]]:
    """Return the shapes of the inputs, and their dtypes if given, by slot.

    Parameters
    ----------
    words : iterable of str
        ``"x=64x10"`` each, again for each array of a slot that takes a list; ``"64x10"`` if the
        operator has one required input. ``"x=()"`` is a scalar, ``"label=64x1:int64"`` also
        specifies the dtype.

    Raises
    ------
    CommandError
        For text that is not a shape, a slot given twice, and a required input without a shape: then
        all inputs are listed.
    SlotError
        For an unknown slot.
    """
    shapes: dict[str, list[ArrayWish]] = {}
    for word in words:
        name, shape, dtype = read_feed(proto.type, word)
        slot = _only_input(proto, word) if name is None else proto.input(name)
        _check_size(proto, shape, word)
        shapes.setdefault(slot.name, []).append(ArrayWish(shape, dtype))
        if len(shapes[slot.name]) > 1 and not slot.duplicable:
            raise CommandError(
                f"{proto.type}: input {slot.name!r} takes one array, got {word!r} as well; give "
                "one shape"
            )
    missing = [slot for slot in proto.inputs if not slot.optional and slot.name not in shapes]
    if missing:
        _fail_missing(proto, missing)
    return shapes


def _only_input(proto: OpProto, word: str) -> VarProto:
    required = [slot for slot in proto.inputs if not slot.optional]
    if len(required) != 1:
        names = hint("", [slot.name for slot in proto.inputs], "inputs")
        raise CommandError(
            f"{proto.type}: a shape must name its input, got {word!r}; write "
            f"--feed NAME={word}{names}"
        )
    return required[0]


def _check_size(proto: OpProto, shape: Shape, text: str) -> None:
    if -1 in shape:
        raise CommandError(
            f"{proto.type}: a shape must be lengths joined by x, got {text!r}; write 64x10"
        )
    if np.prod(shape, dtype=float) * 8 > _MOST_BYTES:
        raise CommandError(
            f"{proto.type}: an input must be smaller than {_MOST_BYTES >> 30} GiB, got {text!r}"
        )


def _fail_missing(proto: OpProto, missing: Sequence[VarProto]) -> None:
    names = ", ".join(repr(slot.name) for slot in missing)
    options = " ".join(f"--feed {slot.name}=64x10" for slot in missing)
    lines = [f"{proto.type}: required inputs need a shape, got none for {names}; give {options}"]
    for slot in proto.inputs:
        traits = [", optional"] if slot.optional else []
        traits += [", several"] if slot.duplicable else []
        lines.append(f"  {slot.name}{''.join(traits)}: {slot.comment}")
    raise CommandError("\n".join(lines))


def read_attributes(words: Iterable[str], proto: OpProto) -> dict[str, Any]:
    """Return all attributes, parsed from ``"axis=-1"``, ``"strides=2,2"``, ``"exact=true"``.

    Raises
    ------
    CommandError
        For a word without ``=``, and for a value of another type.
    AttributeValueError
        For an unknown name, a missing required attribute and a value out of range.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise CommandError(
                f"{proto.type}: an attribute must be given as NAME=VALUE, got {word!r}"
                f"{hint(name, proto.attr_protos, 'attributes')}"
            )
        values[name] = _read_value(proto.attr(name), text, proto)
    return proto.fill_attrs(values)


def _read_value(attr: AttrProto, text: str, proto: OpProto) -> Any:
    try:
        if not attr.type.is_list:
            return _READERS[attr.type](text)
        parts = [part for part in text.strip("[]()").split(",") if part.strip()]
        return [_READERS[attr.type.element](part.strip()) for part in parts]
    except (ValueError, KeyError) as error:
        example = {AttrType.BOOL: "; write true or false"}.get(attr.type.element, "")
        example = "; write 1,2" if attr.type.is_list and not example else example
        raise CommandError(
            f"{proto.type}: {attr.name} must be {describe_type(attr.type)}, got {text!r}{example}"
        ) from error


_READERS: Final[Mapping[AttrType, Callable[[str], Any]]] = {
    AttrType.INT: int,
    AttrType.BLOCK: int,
    AttrType.FLOAT: float,
    AttrType.STRING: str,
    AttrType.BOOL: lambda text: {"true": True, "false": False}[text.lower()],
}


def choose_dtype(definition: OpDefinition, dtype: str | None, known: Sequence[str]) -> str:
    """Return the dtype that selects the kernel: as given, or else float32 or the first known dtype.

    Parameters
    ----------
    known : sequence of str
        The dtypes of the operator's kernels.

    Raises
    ------
    DtypeError
        For an unknown dtype.
    CommandError
        For an argument unknown to the operator.
    """
    proto = definition.proto
    slot = proto.input_slots.get(proto.dispatch_slot)
    allowed = list(slot.dtypes if slot is not None and slot.dtypes else ())
    if dtype is None:
        choices = [name for name in known if not allowed or name in allowed] or allowed
        return "float32" if "float32" in choices or not choices else choices[0]
    name = canonical_dtype(dtype)
    if allowed and name not in allowed:
        raise CommandError(
            f"{proto.type}: {proto.dispatch_slot} must be {' or '.join(allowed)}, got {name}"
        )
    return name


def make_sample(
    definition: OpDefinition,
    shapes: Mapping[str, Sequence[ArrayWish]],
    attrs: Mapping[str, Any],
    dtype: str,
) -> Sample:
    """Return arrays of these shapes: floats in [0.1, 1), integers below the shortest length.

    Raises
    ------
    OpwrightError
        If the operator does not accept them.
    """
    rng = np.random.default_rng(_SEED)
    dtypes = _input_dtypes(definition.proto, attrs, dtype)
    dims = [dim for wishes in shapes.values() for wish in wishes for dim in wish.shape if dim]
    least = min(dims, default=1)
    inputs = {
        slot.name: tuple(
            _draw(rng, wish.shape, wish.dtype or dtypes[slot.name], least)
            for wish in shapes[slot.name]
        )
        for slot in definition.proto.inputs
        if slot.name in shapes
    }
    sample = Sample(definition.op_type, inputs, attrs, {}, "", dtype)
    counts = definition.output_counts(sample.input_metas(definition), attrs)
    outputs = {
        slot.name: _count(slot, count, inputs)
        for slot, count in zip(definition.proto.outputs, counts, strict=True)
    }
    return Sample(definition.op_type, inputs, attrs, outputs, "", dtype)


def describe_sample(sample: Sample, proto: OpProto) -> str:
    """Return inputs and attributes that differ from the defaults: ``x float32[64, 10], axis=0``."""
    parts = [
        f"{slot} {meta_of(array)}" for slot, arrays in sample.inputs.items() for array in arrays
    ]
    parts += [
        f"{name}={list(value) if isinstance(value, tuple) else value!r}"
        for name, value in sample.attrs.items()
        if value != proto.attr(name).default
    ]
    return ", ".join(parts)


def _input_dtypes(proto: OpProto, attrs: Mapping[str, Any], dtype: str) -> dict[str, str]:
    """Return the dtype of each input, from the slot to which it is tied or its allowed dtypes."""
    dtypes: dict[str, str] = {}
    for slot in proto.inputs:
        if slot.name == proto.dispatch_slot:
            dtypes[slot.name] = dtype
        elif slot.same_as is None and slot.dtypes:
            preferred = [name for name in (dtype, "float32", "int64") if name in slot.dtypes]
            dtypes[slot.name] = (preferred or list(slot.dtypes))[0]
    for _ in proto.inputs:  # a slot may be tied to another tied slot
        for slot in proto.inputs:
            tied = dtypes.get(slot.same_as or "") or attrs.get(slot.same_as or "")
            if tied is not None:
                dtypes.setdefault(slot.name, tied)
    return {slot.name: dtypes.get(slot.name, dtype) for slot in proto.inputs}


def _draw(rng: np.random.Generator, shape: Shape, dtype: str, least: int) -> Array:
    kind = dtype_to_numpy(dtype)
    if is_float(dtype):
        return np.asarray(rng.uniform(0.1, 1.0, shape)).astype(kind)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(0, min(least, 100), shape)).astype(kind)


def _count(slot: VarProto, count: int, inputs: Mapping[str, Sequence[Array]]) -> int:
    """Return the number of variables in an output slot, from its aliased or forward input."""
    forward = slot.name.removesuffix(GRAD_SUFFIX)
    if slot.aliases is not None:
        return len(inputs.get(slot.aliases, ()))
    if slot.optional and slot.name.endswith(GRAD_SUFFIX) and forward != slot.name:
        return len(inputs.get(forward, ()))
    return count
