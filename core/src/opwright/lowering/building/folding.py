"""Computes shape operands while a plan is made, if they depend only on shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import Array, dtype_to_numpy
from opwright.describe.meta import Meta, numel
from opwright.device.opening import open_device
from opwright.errors import ShapeError
from opwright.lowering.graph.values import LoweredOp, Value
from opwright.lowering.request import Fetches, Given, LowerRequest, Target
from opwright.program import Operator, Program
from opwright.registry import HOST

if TYPE_CHECKING:
    from opwright.lowering.building.control import Lower

Numbers = Mapping[str, Array]
"""Elements of values by name."""

_MAX_ELEMENTS: Final = 4096
_DIVISIONS: Final = ("floor_divide", "mod")
_MAX_DEPTH: Final = 200
"""Sizes are computed by few operators on small values; all other values are left to the run."""


def reads_operands(ops: Iterable[Operator], program: Program | None) -> bool:
    """Whether an operator, or one nested in its blocks, uses a variable as an attribute."""
    for op in ops:
        if not op.definition.proto.operands.keys().isdisjoint(op.inputs):
            return True
        for index in op.block_attrs().values() if op.definition.proto.has_blocks else ():
            if program is not None and reads_operands(program.blocks[index].ops, program):
                return True
    return False


def read_numbers(operands: Iterable[tuple[str, Meta]], shape: Sequence[int]) -> dict[str, Array]:
    """Decode the numbers that `as_shape` wrote into a shape: n as (n, 0), and -n as (0, n)."""
    numbers = iter([a - b for a, b in zip(shape[::2], shape[1::2])])
    return {
        name: np.array([next(numbers) for _ in range(numel(meta.shape))]).reshape(meta.shape)
        for name, meta in operands
    }


class Folding:
    """Computes values of a graph under construction with the kernels of the host.

    ``given`` maps names of given values to their elements, if known.
    """

    def __init__(self, given: Numbers, target: Target, lower: Lower) -> None:
        self._given = given
        self._context = target.context
        self._lower = lower
        self._known: dict[Value, Array | None] = {}

    def find(self, value: Value) -> Array | None:
        """Return the elements of a value, or None if they depend on run-time data."""
        value = _original(value)
        if value not in self._known:
            ops: dict[LoweredOp, None] = {}
            if self._collect(value, ops, 0):
                self._compute(ops)
        return self._known.setdefault(value, None)

    def _collect(self, value: Value, ops: dict[LoweredOp, None], depth: int) -> bool:
        """Add the operators that compute a value, in order; return whether it can be folded."""
        op = value.op
        if op is None and value.name in self._given:
            self._known[value] = self._given[value.name]
        if op is None or value in self._known:
            return self._known.get(value) is not None
        if op in ops:
            return True
        if depth > _MAX_DEPTH or not _is_foldable(op):
            return False
        if not all(self._collect(_original(read), ops, depth + 1) for read in op.data_reads()):
            return False
        ops[op] = None
        return True

    def _compute(self, ops: Iterable[LoweredOp]) -> None:
        """Run operators as a separate program, fed with the known values."""
        names: dict[Value, str] = {}
        feeds: dict[str, Array] = {}
        metas: dict[str, Meta] = {}
        copies: list[Operator] = []

        def name(value: Value) -> str:
            value = _original(value)
            if value not in names:  # unknown values are read only for their shape
                known, names[value] = self._known.get(value), f"v{len(names)}"
                if known is None:
                    known = np.empty(value.meta.shape, dtype_to_numpy(value.meta.dtype))
                feeds[names[value]] = known
                metas[names[value]] = value.meta
            return names[value]

        for op in ops:
            slots = zip(op.definition.proto.inputs, op.inputs, strict=True)
            inputs = {slot.name: tuple(map(name, values)) for slot, values in slots}
            names.update([(v, f"w{len(names) + i}") for i, v in enumerate(op.writes())])
            slots = zip(op.definition.proto.outputs, op.outputs, strict=True)
            outputs = {slot.name: tuple([names[v] for v in values]) for slot, values in slots}
            copies.append(Operator.make(None, op.definition, inputs, outputs, dict(op.attrs)))
        given, written = Given(metas), [value for op in ops for value in op.writes()]
        fetches = Fetches([names[value] for value in written])
        context = self._context
        target = Target(context, HOST, passes=(), n_threads=1)
        request = LowerRequest(copies, target, given, fetches=fetches)
        run = _runtime.CompiledNetwork(
            _runtime.Scope(),
            tuple(feeds),
            lambda _: self._lower(request),
            open_device(HOST, context),
            context.epoch,
            "sizes",
        )
        self._known.update(zip(written, run(**feeds), strict=True))
        for op in ops:
            if op.type in _DIVISIONS and not np.all(self._known[_original(op.inputs[1][0])]):
                raise ShapeError(
                    f"{op.type}: a size must not be divided by 0, got 0 for "
                    f"{op.inputs[1][0].name!r}; divide by the maximum of it and 1"
                )


def _original(value: Value) -> Value:
    """Return the source of a copied value, or the value itself if it is not a copy."""
    while value.op is not None and value.op.is_copy:
        value = value.op.inputs[0][0]
    return value


def _is_foldable(op: LoweredOp) -> bool:
    definition = op.definition
    if definition.random or definition.control is not None or definition.alias_slots:
        return False
    if op.has_effect or definition.proto.dynamic_output:
        return False
    return all(numel(value.meta.shape) <= _MAX_ELEMENTS for value in op.writes())
