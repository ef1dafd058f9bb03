"""The parts of a lowered graph: buffers, values in buffers, and operators over values.

Names of a program are mutable; here each write of a name creates a new `Value`. Two values in the
same memory (``param`` and ``param_out``) share a `Buffer`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import OpProto, VarProto
from opwright.errors import ProgramError
from opwright.lowering.graph.signature import Signature, size_bytes
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from opwright.lowering.layout.plan import LoweredPlan
    from opwright.registry import KernelEntry

COPY: Final = OpDefinition(
    OpProto("@copy", "Copies.", (VarProto("x", "any"),), (VarProto("out", "like x"),), ()),
    infer_shape=lambda ctx: ctx.set_output("out", *ctx.input("x")),
)
"""The operator that copies a value into another buffer; the runtime runs it without a kernel."""


class Role(enum.IntEnum):
    """The owner of an external buffer's memory; the numbers are the same as in the runtime."""

    FEED = 0
    FETCH = 1
    PERSISTABLE = 2
    CAPTURED = 3


class External:
    """Memory that a plan does not own: of a feed, a fetch, a persistable or the outer plan.

    ``lasts`` is true if the final value is used after the run: it is a persistable, or a feed that
    the caller asked the plan to write.
    """

    def __init__(
        self,
        role: Role,
        name: str,
        meta: Meta,
        device: str | None = None,
        create: bool = False,
        lasts: bool = False,
    ) -> None:
        self.lasts = lasts or role is Role.PERSISTABLE
        self.role = role
        self.name = name
        self.meta = meta
        self.device = device
        self.create = create
        self.index = -1

    def __copy__(self) -> External:
        return External(self.role, self.name, self.meta, self.device, self.create, self.lasts)


class Buffer:
    """The memory of a value, or of several values if an operator works in place (``is_shared``).

    ``device`` is None for the plan's own device. ``first`` and ``last`` are positions in
    `Graph.ops`, set by the memory planner together with ``slot`` and the ``offset`` in it.
    """

    def __init__(self, size: int, external: External | None = None) -> None:
        self.size = size
        self.external = external
        self.device = None if external is None else external.device
        self.dynamic = False
        self.first = self.last = self.slot = -1
        self.offset = 0
        self.is_shared = False
        self.shared_with: Buffer | None = None

    def __copy__(self) -> Buffer:
        copied = Buffer(self.size, copy(self.external))
        copied.device, copied.dynamic, copied.is_shared = self.device, self.dynamic, self.is_shared
        return copied

    @property
    def is_owned(self) -> bool:
        """Whether the plan owns the memory, at an offset known before the run."""
        return self.external is None and not self.dynamic

    def root(self) -> Buffer:
        """Return the buffer whose memory this buffer reuses; by default the buffer itself."""
        buffer = self
        while buffer.shared_with is not None:
            buffer = buffer.shared_with
        return buffer


class Value:
    """One version of one variable, which ``op`` writes once, or the caller gives (``op`` is None).

    A view has the data of another value, its ``source``, with a different shape; no operator writes
    it. ``is_constant``: see `opwright.lowering.graph.constants`.
    """

    def __init__(self, name: str, meta: Meta, buffer: Buffer, op: LoweredOp | None = None) -> None:
        self.name = name
        self.meta = meta
        self.buffer = buffer
        self.op = op
        self.source: Value | None = None
        self.is_constant = False
        self.id = self.shape_id = -1

    def __repr__(self) -> str:
        return f"{self.name} {self.meta.dtype}{list(self.meta.shape)}"


class Child:
    """The body of a control-flow operator: its plan, and the outer value of each external.

    Attributes
    ----------
    plan : LoweredPlan
    bindings : tuple of (Value, int)
        Captured values, and their externals in the body.
    n_turns : int
        For a loop, its largest number of iterations, -1 for no limit.
    elements : tuple of (int, int)
        For a loop, the externals that are elements of its sequences, -1 where the body does not
        read one, and the offset in bytes at which its first iteration reads the sequence.
    skipped : tuple of int
        For a loop, the offset in bytes in each stacked output at which its first iteration writes.
    unread : set of Value
        For a loop, the unread stacked outputs, which have no memory.
    """

    def __init__(
        self,
        plan: LoweredPlan,
        bindings: tuple[tuple[Value, int], ...],
        n_turns: int = -1,
        elements: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.plan = plan
        self.bindings = bindings
        self.n_turns = n_turns
        self.elements = elements
        self.skipped: tuple[int, ...] = ()
        self.unread: set[Value] = set()

    def __copy__(self) -> Child:
        copied = Child(self.plan, self.bindings, self.n_turns, self.elements)
        copied.skipped, copied.unread = self.skipped, self.unread
        return copied


class LoweredOp:
    """One operator, with values instead of names.

    ``inputs`` and ``outputs`` have a tuple of values for each slot, in the order of the OpProto;
    empty for an absent optional slot. ``index`` is the index of the operator in the network, for
    messages, and ``origins`` are the indices of the operators that passes have fused into it.
    ``signature`` is shared by equal operators, so a pass that needs different attributes, shapes or
    dtypes makes a new operator.
    """

    def __init__(
        self,
        definition: OpDefinition,
        inputs: tuple[tuple[Value, ...], ...],
        attrs: Mapping[str, Any],
        index: int,
    ) -> None:
        self.type = definition.op_type
        self.definition = definition
        self.inputs = inputs
        self.outputs: tuple[tuple[Value, ...], ...] = ()
        self.attrs = attrs
        self.index = index
        self.origins: tuple[int, ...] = ()
        self.device: str | None = None
        self.entry: KernelEntry | None = None
        self.prepared: Any = None
        self.reuse: tuple[tuple[int, int], ...] = ()
        self.unread: tuple[int, ...] = ()  # flat numbers of arguments
        self.signature: Signature | None = None
        self.refusals: tuple[tuple[KernelEntry, str], ...] = ()
        self.children: tuple[Child, ...] = ()
        self.workspace: Buffer | None = None

    def __repr__(self) -> str:
        return f"{self.type}{self.inputs} -> {self.outputs}"

    def __copy__(self) -> LoweredOp:
        copied = LoweredOp(self.definition, self.inputs, self.attrs, self.index)
        copied.outputs, copied.origins, copied.device = self.outputs, self.origins, self.device
        copied.entry, copied.prepared, copied.refusals = self.entry, self.prepared, self.refusals
        copied.reuse, copied.unread, copied.signature = self.reuse, self.unread, self.signature
        copied.children, copied.workspace = tuple(map(copy, self.children)), copy(self.workspace)
        return copied

    def input(self, slot: str | None) -> tuple[Value, ...]:
        """Return the values of an input slot; an empty tuple if the operator has no such slot."""
        return () if slot is None else self.inputs[self.definition.input_index[slot]]

    def output(self, slot: str | None) -> tuple[Value, ...]:
        """Return the values of an output slot; an empty tuple if the operator has no such slot."""
        return () if slot is None else self.outputs[self.definition.output_index[slot]]

    def unwritten(self) -> list[Value]:
        """Return the unread outputs; the kernel may leave them unwritten."""
        if not self.unread:
            return []
        arguments = [value for values in (*self.inputs, *self.outputs) for value in values]
        return [arguments[flat] for flat in self.unread]

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy; copies do not have kernels."""
        return self.definition is COPY

    @property
    def has_effect(self) -> bool:
        """Whether it has effects beyond its outputs, so it must not move."""
        return self.definition.effect or not any(self.outputs)

    @property
    def is_dynamic(self) -> bool:
        """Whether the shape of an output is known only during the run."""
        if not self.definition.proto.dynamic_output:
            return False
        return any(value.buffer.dynamic for value in self.writes())

    def data_slots(self) -> tuple[tuple[Value, ...], ...]:
        """Return the input slots whose data the operator reads; shape-only slots are excluded."""
        if not self.definition.any_shape_only:
            return self.inputs
        slots = zip(self.definition.proto.inputs, self.inputs, strict=True)
        return tuple([values for slot, values in slots if not slot.shape_only])

    def data_reads(self) -> list[Value]:
        """Return the values whose data the operator reads; shape-only slots are excluded."""
        return _flatten(self.data_slots())

    def writes(self) -> list[Value]:
        """Return every value that the operator writes."""
        return _flatten(self.outputs)


class Continuation(NamedTuple):
    """The operators after an operator whose output shapes depend on values."""

    dynamic: tuple[Value, ...]  # these values
    crossing: dict[str, Value]  # their inputs, by name
    resolve: Callable[[tuple[tuple[int, ...], ...]], Any]  # lowers them for shapes of `dynamic`


def _flatten(slots: Iterable[Iterable[Value]]) -> list[Value]:
    flat: list[Value] = []
    for values in slots:  # twice as fast as a comprehension or a chain for one or two slots
        flat += values
    return flat


def new_value(name: str, meta: Meta, op: LoweredOp | None = None) -> Value:
    """Return a value in memory of the plan."""
    return Value(name, meta, Buffer(size_bytes(meta)), op)


def external_value(external: External) -> Value:
    """Return a value given by the caller."""
    return Value(external.name, external.meta, Buffer(size_bytes(external.meta), external))


def check_lasting(value: Value) -> None:
    """Raise ProgramError if the meta of a value differs from that of its lasting memory."""
    external = value.buffer.external
    if external is None or external.meta == value.meta:
        return
    what = "persistable" if external.role is Role.PERSISTABLE else "written feed"
    new, old = value.meta, external.meta
    raise ProgramError(
        f"variable {value.name!r}: a {what} keeps one shape and dtype within a network, got "
        f"{new.dtype}{list(new.shape)} after {old.dtype}{list(old.shape)}; write to another name"
    )


def copy_op(source: Value, target: Value, index: int) -> LoweredOp:
    """Return an operator that copies ``source`` into the buffer of ``target``."""
    op = LoweredOp(COPY, ((source,),), {}, index)
    op.outputs = ((target,),)
    target.op = op
    return op
