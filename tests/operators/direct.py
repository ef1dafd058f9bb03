"""A Python kernel called by hand, without a plan: with outputs of one's own, or on its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from case import Array

from opwright.kernel import PrepareContext
from opwright.op import Meta, OpDefinition


class Resizable:
    """Stands for an output whose shape the kernel finds out."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.array: Array = np.empty(0, dtype)

    def resize(self, shape: Sequence[int]) -> Array:
        self.array = np.empty(tuple(shape), self.dtype)
        return self.array


def infer(
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    attrs: Mapping[str, Any],
    counts: Mapping[str, int],
) -> tuple[tuple[Meta, ...], ...]:
    """Return the metas of all outputs, slot by slot."""
    metas = tuple(
        tuple(Meta(array.shape, array.dtype.name) for array in inputs.get(slot.name, ()))
        for slot in definition.proto.inputs
    )
    present = tuple(counts.get(slot.name, 1) for slot in definition.proto.outputs)
    return definition.infer(metas, attrs, present)


def call(
    kernel: Any,
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    attrs: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
    reuse: Sequence[tuple[str, str]] = (),
) -> dict[str, list[Array]]:
    """Run a kernel and return its outputs by slot.

    Parameters
    ----------
    kernel : function or class
        As registered.
    definition : OpDefinition
        Of its operator.
    inputs : mapping
        Arrays by slot; they are handed over read-only.
    attrs : mapping, optional
        Attributes that differ from the defaults.
    counts : mapping, optional
        Number of variables in output slots, 1 where not given.
    reuse : sequence of (output, input)
        Outputs that lie in the memory of an input, beside those that always do.
    """
    filled = definition.proto.fill_attrs(dict(attrs or {}))
    metas = infer(definition, inputs, filled, counts or {})
    memory = {slot: [array.copy() for array in arrays] for slot, arrays in inputs.items()}
    shared = {slot.name: slot.aliases for slot in definition.proto.outputs if slot.aliases}
    shared.update(reuse)
    outputs: dict[str, list[Any]] = {}
    for slot, made in zip(definition.proto.outputs, metas, strict=True):
        if slot.name in shared:
            outputs[slot.name] = memory[shared[slot.name]]
        else:
            outputs[slot.name] = [_allocate(meta) for meta in made]
    views = {slot: [_read_only(array) for array in arrays] for slot, arrays in memory.items()}
    run, constants = _prepare(kernel, definition, inputs, outputs, filled)
    run(**_arguments(run, definition, {**views, **outputs}), **constants)
    return {
        slot: [array.array if isinstance(array, Resizable) else array for array in arrays]
        for slot, arrays in outputs.items()
    }


def _allocate(meta: Meta) -> Array | Resizable:
    if -1 in meta.shape:
        return Resizable(meta.dtype)
    array = np.empty(meta.shape, meta.dtype)
    # A number that is left unwritten shows.
    array.fill(np.nan if array.dtype.kind == "f" else 77)
    return array


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _prepare(
    kernel: Any,
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    outputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
) -> tuple[Callable[..., None], dict[str, Any]]:
    complete = {**dict.fromkeys(definition.proto.attr_protos), **attrs}
    if not hasattr(kernel, "prepare"):
        return kernel, complete
    metas = [
        {
            slot.name: [Meta(a.shape, str(a.dtype)) for a in arrays.get(slot.name, ())]
            for slot in slots
        }
        for slots, arrays in (
            (definition.proto.inputs, inputs),
            (definition.proto.outputs, {k: v for k, v in outputs.items() if _is_made(v)}),
        )
    ]
    return kernel.prepare(PrepareContext(definition.op_type, *metas, complete)), {}


def _is_made(arrays: Sequence[Any]) -> bool:
    return not any(isinstance(array, Resizable) for array in arrays)


def _arguments(
    run: Callable[..., None], definition: OpDefinition, arrays: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return one argument a slot: an array, a tuple of them, or None."""
    code = run.__code__
    taken = code.co_varnames[: code.co_argcount]
    named: dict[str, Any] = {}
    for slot in (*definition.proto.inputs, *definition.proto.outputs):
        listed = arrays.get(slot.name, ())
        if slot.name in taken or not getattr(slot, "shape_only", False):
            named[slot.name] = tuple(listed) if slot.duplicable else (listed[0] if listed else None)
    return named
