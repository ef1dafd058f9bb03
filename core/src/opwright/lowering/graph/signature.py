"""Data that equal operators share within one lowering: metas, sizes and the chosen kernel.

A deep network has few different operators. Inferring shapes, hashing attributes and choosing a
kernel are done once for each signature; operators refer to it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright._runtime import Prepared
from opwright.describe.dtypes import MAX_DIM, item_size
from opwright.describe.meta import Meta, numel
from opwright.errors import OutOfMemoryError, ShapeError
from opwright.records import NamedTuple
from opwright.registry import KernelEntry

if TYPE_CHECKING:
    from opwright.describe.definition import OpDefinition

Refusals = tuple[tuple[KernelEntry, str], ...]
SlotMetas = tuple[tuple[Meta, ...], ...]
Sizes = tuple[tuple[int, ...], ...]

MAX_BYTES: Final = MAX_DIM
"""Size limit of a value, and of all values in one memory, since the runtime uses int64 sizes."""

MAX_RANK: Final = 64
"""The limit of NumPy."""


class Choice(NamedTuple):
    """A kernel that was chosen for a signature."""

    entry: KernelEntry
    prepared: Prepared
    # Pairs (output, input slot) that may share memory: each has one value, of equal size and dtype.
    reuse: tuple[tuple[int, int], ...]
    refusals: Refusals  # better kernels, with the reason why each is unusable
    unread: tuple[int, ...]  # flat outputs that it may leave unwritten


class Signature:
    """Definition, metas and attributes of an operator, and all data derived only from these.

    Attributes
    ----------
    inputs, outputs : tuple of tuple of Meta
        Slot by slot, in the order of the OpProto.
    sizes : tuple of tuple of int
        Bytes of each output; 0 if they are known only at run time.
    attrs : mapping of str to value
        Complete attributes.
    attrs_key : tuple
        The attributes as a key.
    choices : dict to Choice
        By device if the choice depends only on the signature. By device, number of threads and
        `Arguments` if the kernel, or a candidate before it, has a ``prepare``.
    """

    def __init__(
        self,
        definition: OpDefinition,
        inputs: SlotMetas,
        outputs: SlotMetas,
        attrs: Mapping[str, Any],
        key: tuple[Any, ...] | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self.definition = definition
        self.inputs = inputs
        self.outputs = outputs
        self.sizes = _checked_sizes(definition, outputs) if sizes is None else sizes
        self.choices: dict[str | tuple[Any, ...], Choice] = {}
        self._moved_bytes = -1
        self.attrs_key = attrs_key(attrs) if key is None else key
        self.attrs = attrs

    @property
    def dtype(self) -> str:
        """The dtype that selects the kernel."""
        return self.definition.dispatch_dtype(self.inputs, self.attrs)

    @property
    def moved_bytes(self) -> int:
        """Bytes that a run reads and writes, without dynamic outputs."""
        if self._moved_bytes < 0:
            slots = zip(self.definition.proto.inputs, self.inputs, strict=True)
            read = sum(size_bytes(m) for slot, ms in slots if not slot.shape_only for m in ms)
            self._moved_bytes = read + sum(map(sum, self.sizes))
        return self._moved_bytes

    def choose(
        self,
        entry: KernelEntry,
        prepared: Prepared,
        refusals: Refusals,
        unread: tuple[int, ...],
    ) -> Choice:
        """Return the choice of a kernel, with the pairs of ``may_reuse`` that fit these metas."""
        pairs = []
        for out_name, in_name in entry.may_reuse:
            out_slot = self.definition.output_index[out_name]
            in_slot = self.definition.input_index[in_name]
            if _fit(self.outputs[out_slot], self.inputs[in_slot]):
                pairs.append((out_slot, in_slot))
        return Choice(entry, prepared, tuple(pairs), refusals, unread)


def _fit(outputs: tuple[Meta, ...], inputs: tuple[Meta, ...]) -> bool:
    if len(outputs) != 1 or len(inputs) != 1:
        return False
    out, source = outputs[0], inputs[0]
    if out == source:
        return True
    return out.dtype == source.dtype and numel(out.shape) == numel(source.shape)


def attrs_key(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a key that distinguishes 0.0 and -0.0, which compare equal."""
    if not attrs:
        return ()
    items = tuple(attrs.items())
    for name, value in items:
        if value.__class__ is float:
            floats: tuple[float, ...] = (value,)
        elif value.__class__ is tuple and value and value[0].__class__ is float:
            floats = value
        else:
            continue
        if 0.0 in floats:
            items += ((name, struct.pack(f"{len(floats)}d", *floats)),)
    return items


def _checked_sizes(definition: OpDefinition, outputs: SlotMetas) -> Sizes:
    sizes: list[tuple[int, ...]] = []
    for slot, metas in enumerate(outputs):
        sizes.append(tuple(map(size_bytes, metas)))
        for meta, size in zip(metas, sizes[slot]):
            if not 0 < size <= MAX_BYTES or len(meta.shape) > MAX_RANK:
                _check_size(f"{definition.op_type}: {definition.proto.outputs[slot].name}", meta)
    return tuple(sizes)


def _check_size(who: str, meta: Meta) -> None:
    """Raise an error for a meta beyond NumPy's limits, which count a dim of 0 as 1."""
    if len(meta.shape) > MAX_RANK:
        raise ShapeError(f"{who} must have at most {MAX_RANK} dims, got {len(meta.shape)}")
    size = math.prod(max(dim, 1) for dim in meta.shape) * item_size(meta.dtype)
    if size > MAX_BYTES:
        raise OutOfMemoryError(
            f"{who} must have less than 2**63 bytes, with dims of 0 counted as 1, got {meta} of "
            f"{size} bytes; make it smaller"
        )


def size_bytes(meta: Meta) -> int:
    """Return the size of a value in bytes; 0 while a dimension is unknown."""
    return 0 if -1 in meta.shape else math.prod(meta.shape) * item_size(meta.dtype)
