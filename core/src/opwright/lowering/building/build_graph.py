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
from opwright.describe.meta import Meta
from opwright.describe.names import UniqueNames, hint
from opwright.describe.operands import fill_operands
from opwright.errors import FeedError, OpwrightError, ProgramError
from opwright.lowering.building.folding import Folding, Numbers, read_numbers, reads_operands
from opwright.lowering.graph.constants import mark_constants
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import infer_op, metas_of
from opwright.lowering.graph.signature import Signature, SlotMetas
from opwright.lowering.graph.values import (
    Buffer,
    Continuation,
    External,
    LoweredOp,
    Role,
    Value,
    copy_op,
    external_value,
    new_value,
)
from opwright.lowering.kernels import select
from opwright.lowering.kernels.estimate import first_target
from opwright.lowering.request import Given, LowerRequest, OpRange
from opwright.program import Operator
from opwright.registry import HOST_DEVICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opwright.lowering.building.control import Lower

Names = Mapping[str, Sequence[str]]


class GraphBuilder:
    """Builds one graph.

    ``env`` has the current value of each name; ``inner_names`` are those in bodies of composites,
    which belong to no program and are never kept in the scope; ``lower`` lowers bodies, and what
    follows a dynamic operator.
    """

    def __init__(self, request: LowerRequest, lower: Lower) -> None:
        self.request = request
        self.lower = lower
        self.graph = Graph(request, select)
        self.graph.kernel_target = first_target(request)
        self.env: dict[str, Value] = {}
        self.inner_names: set[str] = set()
        self._unique = UniqueNames()
        self._lasting = request.persistables.lasting
        self._keep_all = request.persistables.keep_all
        self._persistables: dict[str, Buffer] = {}
        self._has_constants = False  # so far
        self._folding = Folding(request.given.numbers, request.target, lower)
        self.advances_step = request.code.advances_step

    def build(self) -> Graph:
        """Return the graph of the whole request."""
        code = self.request.code
        for name in self.request.given.metas:
            self._give(name)
        for name in self.request.persistables.stores:
            source = self.env[name]
            target = self._write(name, source.meta, source.buffer.size)
            self.graph.ops.append(copy_op(source, target, code.first_index))
            self.env[name] = target
        for index, op in enumerate(code.ops, code.first_index):
            try:
                if op.definition.proto.operands and (unknown := self._unknown_operands(op)):
                    self._cut_before(unknown, index - code.first_index)
                    return self.graph
                lowered = self.append(op.definition, op.inputs, op.outputs, op.attrs, index)
            except OpwrightError as error:
                error.add_note(f"in operator {index}: {op}")
                raise
            if op.definition.proto.dynamic_output and lowered is not None and lowered.is_dynamic:
                self._cut(lowered, index - code.first_index + 1)
                return self.graph
        self._advance_step(code.first_index + len(code.ops))
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
        for slot in definition.output_index:  # a loop: most have one, and a comprehension is a call
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

            numbers = partial(self._known_numbers, values=op.data_reads())
            outs = lower_control(op, definition.control, counts, self.request, self.lower, numbers)
            op.signature = Signature(definition, metas_of(op.inputs), outs, attrs)
        body = definition.body
        before = {} if body is None else {n: self.env.get(n) for slot in names for n in slot}
        self._write_outputs(op, names, op.signature)
        if self._has_constants:
            mark_constants(op)
        if body is not None and not select.find_kernel(op, self.graph):
            from opwright.lowering.building.expand import open_composite

            open_composite(self, op, inputs, outputs, before)
            return None
        self.graph.ops.append(op)
        return op

    def _find_numbers(self, name: str) -> NDArray[Any] | None:
        """Return the elements of a variable, None where they depend on data of a run."""
        value = self.env.get(name)
        return self.request.given.numbers.get(name) if value is None else self._folding.find(value)

    def _unknown_operands(self, op: Operator) -> list[str]:
        """Return the variables in the places of numbers that only a run knows."""
        slots = [op.inputs.get(name, ()) for name in op.definition.proto.operands]
        names = dict.fromkeys(name for names in slots for name in names)
        return [name for name in names if self._find_numbers(name) is None]

    def _known_numbers(self, readers: Sequence[Operator], values: Iterable[Value]) -> Numbers:
        """Return the elements of values that what is lowered later may compute sizes of."""
        if not reads_operands(readers, self.request.code.program):
            return {}
        found = ((value.name, self._folding.find(value)) for value in values)
        return {name: array for name, array in found if array is not None}

    def free_name(self, name: str) -> str:
        """Return a name like this one for a value of a body, which no other value has."""
        free = self._unique.make(name, self._is_taken) if self._is_taken(name) else name
        self.inner_names.add(free)
        return free

    def _is_taken(self, name: str) -> bool:
        given = name in self.env or name in self.request.persistables.metas
        return given or name in self.inner_names or name in self.graph.written_names

    def _values(
        self, definition: OpDefinition, inputs: Names
    ) -> tuple[tuple[tuple[Value, ...], ...], SlotMetas]:
        """Return the values of the input slots, and their metas."""
        env = self.env
        slots: list[tuple[Value, ...]] = []
        metas: list[tuple[Meta, ...]] = []
        for slot in definition.input_index:
            names = inputs.get(slot, ())
            if len(names) == 1 and (value := env.get(names[0])):  # nearly always: no inner loop
                slots.append((value,))
                metas.append((value.meta,))
                continue
            for name in names:
                if name not in env:
                    self._read_persistable(name, definition.op_type, slot)
            slots.append(tuple([env[name] for name in names]))
            metas.append(tuple([value.meta for value in slots[-1]]))
        return tuple(slots), tuple(metas)

    def _write_outputs(
        self, op: LoweredOp, names: Sequence[Sequence[str]], signature: Signature
    ) -> None:
        if len(names) == 1 == len(names[0]) and not op.definition.alias_slots:  # nearly always
            name = names[0][0]
            value = self._write(name, signature.outputs[0][0], signature.sizes[0][0], op)
            self.env[name] = value
            op.outputs = ((value,),)
            return
        aliased = dict(op.definition.alias_slots)
        written: list[tuple[Value, ...]] = []
        for slot, slot_names in enumerate(names):
            metas, sizes = signature.outputs[slot], signature.sizes[slot]
            if slot in aliased:
                shared = self._own_inputs(op, aliased[slot])
                slots = zip(slot_names, metas, shared, strict=True)
                values = [self._overwrite(name, meta, old.buffer, op) for name, meta, old in slots]
            else:
                new = zip(slot_names, metas, sizes, strict=True)
                values = [self._write(name, meta, size, op) for name, meta, size in new]
            written.append(tuple(values))
            self.env.update([(value.name, value) for value in values])
        op.outputs = tuple(written)

    def _own_inputs(self, op: LoweredOp, slot: int) -> tuple[Value, ...]:
        """Return the values of an input slot that is overwritten; some are copied first.

        Those are given values, and constants: these are not computed again before the next run.
        """
        overwrites = not op.definition.leaves_inputs(op.attrs)
        owned = []
        for value in op.inputs[slot]:
            external = value.buffer.external
            is_given = external is not None and external.role in (Role.FEED, Role.CAPTURED)
            if is_given or (overwrites and value.is_constant):
                copy = new_value(value.name, value.meta)
                self.graph.ops.append(copy_op(value, copy, op.index))
                owned.append(copy)
            else:
                owned.append(value)
        op.inputs = (*op.inputs[:slot], tuple(owned), *op.inputs[slot + 1 :])
        return op.inputs[slot]

    def _give(self, name: str) -> None:
        given = self.request.given
        external = given.external(name, self.request.target.host)
        value = external_value(external)
        self.graph.feeds[name] = value
        if given.copies(external):
            moved = new_value(name, external.meta)
            self.graph.ops.append(copy_op(value, moved, self.request.code.first_index))
            value = moved
        self.env[name] = value

    def _read_persistable(self, name: str, op_type: str, slot: str) -> Value:
        """Return the value in the scope of a name that is neither given nor written."""
        meta = self.request.persistables.metas.get(name)
        if meta is None:
            raise ProgramError(
                f"{op_type}: {slot} must be written before it is read, got {name!r}, which no "
                f"operator has written and neither feeds nor scope hold{hint(name, self.env)}; "
                "feed it, or run the startup program in this scope"
            )
        value = external_value(External(Role.PERSISTABLE, name, meta))
        if self.graph.device == HOST_DEVICE and not self._keep_all:
            value.is_constant = name not in self.graph.written_names
            self._has_constants |= value.is_constant
        self._persistables[name] = value.buffer
        self.env[name] = value
        if name == vocabulary.STEP:
            self.advances_step = True
        return value

    def _write(self, name: str, meta: Meta, size: int, op: LoweredOp | None = None) -> Value:
        """Return a new value for ``name``: in the scope if it is kept there, else in the plan."""
        if size == 0 and -1 in meta.shape:
            value = Value(name, meta, Buffer(0), op)
            value.buffer.dynamic = True
            return value
        if name not in self._lasting and (not self._keep_all or name in self.inner_names):
            return Value(name, meta, Buffer(size), op)
        buffer = self._persistables.get(name)
        if buffer is None:
            external = External(Role.PERSISTABLE, name, meta, create=True)
            buffer = self._persistables[name] = Buffer(size, external)
        elif buffer.external is not None and buffer.external.meta != meta:
            old = buffer.external.meta
            raise ProgramError(
                f"variable {name!r}: a persistable keeps one shape and dtype within a network, got "
                f"{meta.dtype}{list(meta.shape)} after {old.dtype}{list(old.shape)}; "
                "write to another name"
            )
        return self._overwrite(name, meta, buffer, op)

    def _overwrite(self, name: str, meta: Meta, buffer: Buffer, op: LoweredOp | None) -> Value:
        """Return a new value in memory that has, or may have, another one."""
        value = Value(name, meta, buffer, op)
        buffer.is_shared = True
        if buffer.external is not None and buffer.external.role is Role.PERSISTABLE:
            self.graph.lasting[buffer] = value
        return value

    def _seed(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        program = self.request.code.program
        if attrs.get("seed") or program is None:
            return attrs
        return {**attrs, "seed": program.seed}  # seed 0 stands for that of the program

    def _advance_step(self, index: int) -> None:
        """Raise ``@step`` by one, with operators, which every device can run."""
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

    def _cut_before(self, operands: Sequence[str], position: int) -> None:
        """End the graph before an operator; the rest is lowered when its operands are known."""
        as_shape = self.request.target.context.ops.get(vocabulary.AS_SHAPE)
        inputs, outputs = {"x": tuple(operands)}, {"out": (self.free_name("numbers"),)}
        op = self.append(as_shape, inputs, outputs, {}, self.request.code.first_index + position)
        assert op is not None
        self._cut(op, position, tuple((name, self.env[name].meta) for name in operands))

    def _cut(
        self, dynamic: LoweredOp, position: int, operands: tuple[tuple[str, Meta], ...] = ()
    ) -> None:
        """End the graph after ``dynamic``; the rest is lowered when its shapes are known.

        These shapes are the numbers of ``operands``, where there are any.
        """
        request = self.request
        if request.fetches.role is None:
            raise ProgramError(
                f"{dynamic.type}: its output shape depends on values, which the body of a "
                "loop cannot have; move it out of the body, or into a cond within it"
            )
        values = tuple(value for value in dynamic.writes() if value.buffer.dynamic)
        needed = dict.fromkeys(request.fetches.names)
        rest = request.code.ops[position:]
        for op in rest:
            for names in op.inputs.values():
                needed.update(dict.fromkeys(names))
        crossing = {
            name: self.env[name]
            for name in needed
            if name in self.env and name not in self._persistables
        }
        crossing.update((value.name, value) for value in values)
        if request.fetches.role is Role.CAPTURED:
            crossing.update(self._cross_results(dynamic, rest))
        self.graph.keeps = list(crossing.values())
        first, steps = request.code.first_index + position, self.advances_step
        code = request.code._replace(ops=rest, first_index=first, advances_step=steps)
        pairs, scope = tuple(crossing.items()), self._persistable_metas()
        numbers = self._known_numbers(rest, crossing.values())
        request = request._replace(given=request.given._replace(numbers=numbers))
        resolve = partial(_lower_rest, request, self.lower, code, values, operands, pairs, scope)
        self.graph.continuation = Continuation(values, crossing, resolve)

    def _cross_results(self, dynamic: LoweredOp, rest: Sequence[Operator]) -> dict[str, Value]:
        """Pass on the memory of a branch's results, which belongs to the outer plan."""
        from opwright.lowering.building.control import infer_metas

        metas = {name: value.meta for name, value in self.env.items()}
        infer_metas(self.request.code.program, rest, metas)
        results = {}
        for position, fetched in enumerate(self.request.fetches.names):
            meta = metas.get(fetched)
            if meta is None or -1 in meta.shape:
                raise ProgramError(
                    f"{dynamic.type}: its output shape depends on values, and so would that of "
                    f"{fetched!r}, which leaves the body; let the body make one known shape of it, "
                    "or move both out of the body"
                )
            name = result_name(position)
            results[name] = external_value(External(Role.CAPTURED, name, meta))
        self.graph.fetches = list(results.values())
        return results

    def _persistable_metas(self) -> dict[str, Meta]:
        """Return the metas in the scope after the operators so far have run."""
        metas = dict(self.request.persistables.metas)
        for name, buffer in self._persistables.items():
            if buffer.external is not None:
                metas[name] = buffer.external.meta
        return metas


def result_name(position: int) -> str:
    """Return the name of the memory of a result that a body gives to its outer plan."""
    return f"@result {position}"


def _lower_rest(
    request: LowerRequest,
    lower: Lower,
    code: OpRange,
    dynamic: tuple[Value, ...],
    operands: tuple[tuple[str, Meta], ...],
    crossing: tuple[tuple[str, Value], ...],
    scope_metas: dict[str, Meta],
    shapes: tuple[tuple[int, ...], ...],
) -> Any:
    """Return the plan of the operators after a dynamic one, for the shapes that it has computed."""
    kept = request.persistables
    results = set(map(result_name, range(len(request.fetches.names))))
    given = {name: value.meta for name, value in crossing if name not in results}
    numbers = dict(request.given.numbers)
    for value, shape in zip(dynamic, shapes, strict=True):
        given[value.name] = Meta(tuple(shape), value.meta.dtype)
    stores = [v.name for v in dynamic if kept.keep_all or v.name in kept.lasting]
    if operands:
        numbers.update(read_numbers(operands, shapes[0]))
        stores = []
    kept = kept._replace(metas=scope_metas, stores=stores)
    captured = Given(given, Role.CAPTURED, numbers=numbers)
    return lower(request._replace(code=code, given=captured, persistables=kept)).plan
