"""Builds a `Graph` of values from operators over names, and infers all shapes.

Names become values, an aliased output shares the buffer of its input (a feed is copied first), a
composite without a kernel is replaced by its body, random operators get the seed of the program,
and the graph is cut after an operator whose output shape depends on values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opwright import vocabulary
from opwright.describe.definition import OpDefinition
from opwright.describe.dtypes import Array
from opwright.describe.meta import Meta
from opwright.describe.operands import fill_operands
from opwright.errors import FeedError, OpwrightError, ProgramError
from opwright.lowering.building.folding import Folding, Numbers, reads_operands
from opwright.lowering.graph.constants import mark_constants
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import infer_op, metas_of
from opwright.lowering.graph.signature import Signature, SlotMetas
from opwright.lowering.graph.values import (
    Buffer,
    External,
    LoweredOp,
    Role,
    Value,
    check_lasting,
    copy_op,
    external_value,
    new_value,
)
from opwright.lowering.kernels.estimate import first_target
from opwright.lowering.request import LowerRequest, result_name
from opwright.lowering.rewriting.pass_graph import PassGraph
from opwright.messages.names import hint
from opwright.program import Operator
from opwright.program.names import make_name
from opwright.registry import HOST_DEVICE

if TYPE_CHECKING:
    from opwright.lowering.building.control import Lower

Names = Mapping[str, Sequence[str]]


class GraphBuilder:
    """Builds one graph.

    ``env`` maps each name to its current value. ``inner_names`` are names in bodies of composites,
    which do not belong to a program and are never kept in the scope. ``lower`` lowers bodies, and
    the operators after a dynamic operator.
    """

    def __init__(self, request: LowerRequest, lower: Lower) -> None:
        self.request = request
        self.lower = lower
        self.graph = PassGraph(request)
        self._ops = self.graph.ops
        self.graph.kernel_target = first_target(request)
        self.env: dict[str, Value] = {}
        self.inner_names: set[str] = set()
        self._counts: dict[str, int] = {}  # of free names
        self._lasting = request.persistables.lasting
        self._elsewhere = self._lasting | request.given.written  # not only in memory of the plan
        self._keep_all = request.persistables.keep_all
        self.persistables: dict[str, Buffer] = {}
        self.written_feeds: dict[str, Buffer] = {}  # written in place
        self._has_constants = False  # so far
        self._folding = Folding(request.given.numbers, request.target, lower)
        self.advances_step = request.advances_step

    def build(self) -> Graph:
        """Return the graph of the whole request."""
        ops, first = self.request.ops, self.request.first_index
        for name, meta in self.request.given.metas.items():
            self._give(name, meta)
        for name in self.request.persistables.stores:
            source = self.env[name]
            target = self._write(name, source.meta, source.buffer.size)
            self._ops.append(copy_op(source, target, first))
            self.env[name] = target
        for index, op in enumerate(ops, first):
            proto = op.definition.proto
            try:
                if proto.operands and (unknown := self._unknown_operands(op)):
                    from opwright.lowering.building.continuing import cut_before  # rarely needed

                    cut_before(self, unknown, index - first)
                    return self.graph
                lowered = self.append(op.definition, op.inputs, op.outputs, op.attrs, index)
            except OpwrightError as error:
                error.add_note(f"in operator {index}: {op}")
                raise
            if proto.dynamic_output and lowered is not None and lowered.is_dynamic:
                from opwright.lowering.building.continuing import cut

                cut(self, lowered, index - first + 1)
                return self.graph
        self._advance_step(first + len(ops))
        self._copy_back(first + len(ops))
        self._collect_fetches([self._fetched(name) for name in self.request.fetches.names])
        return self.graph

    def append(
        self,
        definition: OpDefinition,
        inputs: Names,
        outputs: Names,
        attrs: Mapping[str, Any],
        index: int,
    ) -> LoweredOp | None:
        """Append one operator and return it, or append the body of a composite."""
        names: list[Sequence[str]] = []
        for slot in definition.output_index:  # faster than a comprehension for one slot
            names.append(outputs.get(slot, ()))
        counts = tuple(map(len, names))
        if definition.random:
            attrs = self._seed(attrs)
        if definition.proto.operands:
            attrs = fill_operands(definition.proto, inputs, attrs, self._find_numbers)
            inputs = {slot: inputs[slot] for slot in definition.proto.input_slots if slot in inputs}
        values, metas = self._values(definition, inputs)
        op = LoweredOp(definition, values, attrs, index)
        if definition.control is None:
            op.signature = infer_op(self.graph, op, metas, counts)
        else:
            from opwright.lowering.building.control import lower_control

            numbers = partial(self.known_numbers, values=op.data_reads())
            outs = lower_control(op, definition.control, counts, self.request, self.lower, numbers)
            op.signature = Signature(definition, metas_of(op.inputs), outs, attrs)
        # The body of a composite may write a variable that it also reads.
        written = self.env if definition.body is None else {}
        self._write_outputs(op, names, op.signature, written)
        if self._has_constants:
            mark_constants(op)
        if definition.body is not None:
            if not self.graph.has_kernel(op):
                from opwright.lowering.building.expand import open_composite

                if open_composite(self, op, inputs, outputs, written):
                    return None
            self.env.update(written)
        self._ops.append(op)
        return op

    def _find_numbers(self, name: str) -> Array | None:
        """Return the elements of a variable, or None if they depend on run-time data."""
        value = self.env.get(name)
        return self.request.given.numbers.get(name) if value is None else self._folding.find(value)

    def _unknown_operands(self, op: Operator) -> list[str]:
        """Return the shape operands whose values are known only at run time."""
        slots = [op.inputs.get(name, ()) for name in op.definition.proto.operands]
        names = dict.fromkeys(name for names in slots for name in names)
        return [name for name in names if self._find_numbers(name) is None]

    def known_numbers(self, readers: Sequence[Operator], values: Iterable[Value]) -> Numbers:
        """Return the elements of values from which sizes may be computed later in lowering."""
        if not reads_operands(readers, self.request.program):
            return {}
        found = ((value.name, self._folding.find(value)) for value in values)
        return {name: array for name, array in found if array is not None}

    def free_name(self, name: str) -> str:
        """Return a unique name, derived from `name`, for a value of a body."""
        free = make_name(name, self._counts, self._is_taken) if self._is_taken(name) else name
        self.inner_names.add(free)
        return free

    def _is_taken(self, name: str) -> bool:
        given = name in self.env or name in self.request.persistables.metas
        return given or name in self.inner_names or name in self.graph.changing_names

    def _values(
        self, definition: OpDefinition, inputs: Names
    ) -> tuple[tuple[tuple[Value, ...], ...], SlotMetas]:
        """Return the values of the input slots, and their metas."""
        env, read, op_type = self.env, self._read_persistable, definition.op_type
        slots: list[tuple[Value, ...]] = []
        metas: list[tuple[Meta, ...]] = []
        for slot in definition.input_index:
            names = inputs.get(slot, ())
            if len(names) == 1:  # nearly always: no inner loop
                value = env.get(names[0]) or read(names[0], op_type, slot)
                slots.append((value,))
                metas.append((value.meta,))
                continue
            slots.append(tuple([env.get(name) or read(name, op_type, slot) for name in names]))
            metas.append(tuple([value.meta for value in slots[-1]]))
        return tuple(slots), tuple(metas)

    def _write_outputs(
        self,
        op: LoweredOp,
        names: Sequence[Sequence[str]],
        signature: Signature,
        written: dict[str, Value],
    ) -> None:
        """Set the outputs of an operator, and add them to ``written`` by name."""
        if len(names) == 1 == len(names[0]) and not op.definition.alias_slots:  # nearly always
            name, meta, size = names[0][0], signature.outputs[0][0], signature.sizes[0][0]
            if size and name not in self._elsewhere and not self._keep_all:
                value = Value(name, meta, Buffer(size), op)
            else:
                value = self._write(name, meta, size, op)
            written[name] = value
            op.outputs = ((value,),)
            return
        aliased = dict(op.definition.alias_slots)
        outputs: list[tuple[Value, ...]] = []
        for slot, slot_names in enumerate(names):
            shared = self._own_inputs(op, aliased[slot]) if slot in aliased else ()
            values: list[Value] = []
            for k, name in enumerate(slot_names):
                meta = signature.outputs[slot][k]
                if slot in aliased:
                    value = self._overwrite(name, meta, shared[k].buffer, op)
                else:
                    value = self._write(name, meta, signature.sizes[slot][k], op)
                values.append(value)
                written[name] = value
            outputs.append(tuple(values))
        op.outputs = tuple(outputs)

    def _own_inputs(self, op: LoweredOp, slot: int) -> tuple[Value, ...]:
        """Return the values of an input slot that an operator overwrites; some are copied first.

        Given values are copied. So are constants, because they are not recomputed before each run.
        """
        for place, value in enumerate(op.inputs[slot]):
            external = value.buffer.external
            is_given = external is not None and not external.lasts
            if is_given or (value.is_constant and not op.definition.leaves_inputs(op.attrs)):
                copy = new_value(value.name, value.meta)
                self._ops.append(copy_op(value, copy, op.index))
                owned = (*op.inputs[slot][:place], copy, *op.inputs[slot][place + 1 :])
                op.inputs = (*op.inputs[:slot], owned, *op.inputs[slot + 1 :])
        return op.inputs[slot]

    def _give(self, name: str, meta: Meta) -> None:
        given = self.request.given
        external = given.external(name, meta, self.request.target.host)
        value = external_value(external)
        self.graph.feeds[name] = value
        if given.copies(external):
            moved = new_value(name, external.meta)
            self._ops.append(copy_op(value, moved, self.request.first_index))
            value = moved
        elif external.lasts:
            self.written_feeds[name] = value.buffer
        self.env[name] = value

    def _copy_back(self, index: int) -> None:
        """Copy the final values of written feeds to the caller's memory."""
        for name in sorted(self.request.given.written.difference(self.written_feeds)):
            value = self.env[name]
            fed = self._overwrite(name, value.meta, self.graph.feeds[name].buffer, None)
            self._ops.append(copy_op(value, fed, index))

    def _read_persistable(self, name: str, op_type: str, slot: str) -> Value:
        """Return the scope's value of a variable that is neither given nor written."""
        late = self.request.given.late
        if name in late and late[name] in self.env:  # a feed with the shape of a known value
            self._give(name, self.env[late[name]].meta)
            return self.env[name]
        meta = self.request.persistables.metas.get(name)
        if meta is None:
            raise ProgramError(
                f"{op_type}: {slot} must be written before it is read, got {name!r}, which no "
                f"earlier operator, feed or scope provides{hint(name, self.env)}; "
                "feed it, or run the startup program in this scope"
            )
        value = external_value(External(Role.PERSISTABLE, name, meta))
        if self.graph.device == HOST_DEVICE and not self._keep_all:
            value.is_constant = name not in self.graph.changing_names
            self._has_constants |= value.is_constant
        self.persistables[name] = value.buffer
        self.env[name] = value
        if name == vocabulary.STEP:
            self.advances_step = True
        return value

    def _write(self, name: str, meta: Meta, size: int, op: LoweredOp | None = None) -> Value:
        """Return a new value for ``name``; the scope stores it if it lasts, otherwise the plan."""
        if name in self.written_feeds:
            return self._overwrite(name, meta, self.written_feeds[name], op)
        is_dynamic = size == 0 and -1 in meta.shape
        if is_dynamic or (
            name not in self._lasting and (not self._keep_all or name in self.inner_names)
        ):
            value = Value(name, meta, Buffer(size), op)
            value.buffer.dynamic = is_dynamic
            return value
        if name not in self.persistables:
            external = External(Role.PERSISTABLE, name, meta, create=True)
            self.persistables[name] = Buffer(size, external)
        return self._overwrite(name, meta, self.persistables[name], op)

    def _overwrite(self, name: str, meta: Meta, buffer: Buffer, op: LoweredOp | None) -> Value:
        """Return a new value in memory that contains, or may contain, another value."""
        value = Value(name, meta, buffer, op)
        buffer.is_shared = True
        if buffer.external is not None and buffer.external.lasts:
            check_lasting(value)
            self.graph.lasting[buffer] = value
        return value

    def _seed(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        program = self.request.program
        if attrs.get("seed") or program is None:
            return attrs
        return {**attrs, "seed": program.seed}  # seed 0 means the program's seed

    def _advance_step(self, index: int) -> None:
        """Increment ``@step`` with operators that every device can run."""
        if not self.advances_step or vocabulary.STEP in self.request.given.metas:
            return
        ops = self.request.target.context.ops
        one = f"{vocabulary.STEP}/one"
        fill = ops.get(vocabulary.FILL_LIKE)
        attrs = fill.proto.fill_attrs({"value": 1})
        self.inner_names.add(one)
        self.append(fill, {"x": [vocabulary.STEP]}, {"out": [one]}, attrs, index)
        add = ops.get(vocabulary.ADD_N)
        names = {"out": [vocabulary.STEP]}
        self.append(add, {"x": [vocabulary.STEP, one]}, names, add.proto.fill_attrs({}), index)

    def _collect_fetches(self, values: list[Value]) -> None:
        fetches, target = self.request.fetches, self.request.target
        role = fetches.role
        if role is None or (fetches.on_device and not target.device.is_host):
            self.graph.keeps = values
            self.graph.fetches = list(values)
            for name in fetches.stacked:
                value = self._fetched(name)
                external = External(Role.CAPTURED, f"{value.name} of a turn", value.meta)
                self.graph.sinks.append((value, external))
            return
        for position, value in enumerate(values):
            device = target.host if role is Role.FETCH else None
            name = value.name if role is Role.FETCH else result_name(position)
            external = External(role, name, value.meta, device)
            self.graph.sinks.append((value, external))

    def _fetched(self, name: str) -> Value:
        value = self.env.get(name)
        if value is None and name in self.request.persistables.metas:
            value = self._read_persistable(name, "compile", "fetch")
        if value is None:
            raise FeedError(
                f"fetch: no operator writes {name!r}{hint(name, self.env)}; "
                "fetch a variable of this network"
            )
        return value
