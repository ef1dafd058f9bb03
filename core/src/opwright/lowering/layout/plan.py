"""Builds the runtime's plan from a `Graph` with kernels and memory, and counts its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from opwright import _runtime
from opwright.describe.control import Branch, Loop
from opwright.describe.dtypes import dtype_to_code
from opwright.describe.meta import Meta
from opwright.device.opening import open_device
from opwright.lowering.failure import StepErrors
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import Buffer, Child, LoweredOp, Role, Value
from opwright.lowering.kernels.estimate import estimate_ns
from opwright.lowering.layout.memory import Slots
from opwright.lowering.request import LowerRequest, Target
from opwright.records import NamedTuple
from opwright.registry import HOST, HOST_DEVICE


class Placement:
    """Counts the parts of one plan, including bodies of control flow.

    Attributes
    ----------
    device : str
        Type, and number if that is not 0.
    n_threads : int
        Number of threads of the plan itself; bodies of control flow have their own number.
    prepare_s : float
        Seconds spent in the ``prepare`` of kernels.
    operators, python_steps : int
        The number of operators that run, after passes; how many of them have a Python kernel.
    kernels, types : Counter of str
        Operators by ``device/library``, and by type, after fusion.
    refusals : dict of str to str
        The better kernels that refused, each with one reason.
    copies, bytes_moved : int
        The number of copies between buffers or devices, and the bytes that they move in one run.
    graph_refusal : str
        The reason why the device launches the operators individually. It is empty if the device
        replays them as one graph, recorded in the second run.
    """

    def __init__(self, lowered: LoweredPlan) -> None:
        self.device = lowered.errors.device
        self.n_threads = lowered.n_threads
        self.prepare_s = lowered.prepare_s
        self.operators = self.python_steps = self.copies = self.bytes_moved = 0
        self.kernels: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.refusals: dict[str, str] = {}
        self.graph_refusal = lowered.plan.capture_refusal
        for op in lowered.errors.ops:
            if op.is_copy:
                self.copies += 1
                self.bytes_moved += op.inputs[0][0].buffer.size
            else:
                self._add_operator(op)

    def _add_operator(self, op: LoweredOp) -> None:
        self.operators += 1
        self.types[op.type] += 1
        if op.entry is not None:
            self.kernels[f"{op.entry.device}/{op.entry.library}"] += 1
            self.python_steps += op.prepared.needs_gil
            for entry, reason in op.refusals:
                who = f"{op.type} by {entry.device}/{entry.library}"
                self.refusals.setdefault(who, reason)
        for child in op.children:
            self._add_child(child.plan.placement)

    def _add_child(self, child: Placement) -> None:
        self.operators += child.operators
        self.python_steps += child.python_steps
        self.kernels.update(child.kernels)
        self.types.update(child.types)
        self.refusals = {**child.refusals, **self.refusals}
        self.copies += child.copies
        self.bytes_moved += child.bytes_moved

    def __str__(self) -> str:
        lines = [
            f"device        {self.device}",
            f"operators     {self.operators}",
            f"python steps  {self.python_steps}",
            *(f"  {name:<11} {count}" for name, count in sorted(self.kernels.items())),
            *(f"  {who}: {reason}" for who, reason in sorted(self.refusals.items())),
            f"threads       {self.n_threads}",
            f"copies        {self.copies} ({self.bytes_moved} bytes a run)",
            f"prepare       {self.prepare_s * 1e3:.2f} ms",
        ]
        if self.device != HOST_DEVICE:
            lines.append(f"graph         {self.graph_refusal or 'one, recorded and replayed'}")
        return "\n".join(lines)


class LoweredPlan(NamedTuple):
    """A runtime plan with its description.

    Attributes
    ----------
    plan : _runtime.Plan
    errors : StepErrors
        Creates the errors of its steps; refers to its operators.
    n_threads : int
        The thread count of its kernels.
    prepare_s : float
        Seconds spent in the ``prepare`` of kernels.
    target : Target
        The target of its lowering.
    given_externals : dict of str to int
        The index of the external for each captured value that is read.
    fetch_externals : tuple of int
        Externals of the fetches; for the body of a loop, only of stacked fetches.
    fetch_values : tuple of int
        Values of the fetches, in order.
    fetch_metas : tuple of Meta
    handed : object
        Returned after the fetches of a compiled network, unless it is None.
    """

    plan: _runtime.Plan
    errors: StepErrors
    n_threads: int
    prepare_s: float
    target: Target
    given_externals: dict[str, int]
    fetch_externals: tuple[int, ...]
    fetch_values: tuple[int, ...]
    fetch_metas: tuple[Meta, ...]
    handed: Any = None

    @property
    def placement(self) -> Placement:
        """The counts now; they may change, since the device may still refuse to record a graph."""
        return Placement(self)


class PlanAssembler:
    """Passes the values and steps of one graph to the plan builder of the runtime."""

    def __init__(self, graph: Graph, request: LowerRequest, slots: Slots) -> None:
        self._graph = graph
        self._request = request
        self._slots = slots
        target = request.target
        self._host = open_device(HOST, target.context)
        self._device = open_device(target.device, target.context)
        self._device_name = str(target.device)
        checks = _runtime.CHECK_ALL if target.context.settings.checked else 0
        builder = _runtime.PlanBuilder(self._device, self._device_name, checks=checks)
        self._builder: Any = builder
        self._recorder = target.recorder
        if self._recorder is not None:
            self._builder = self._recorder.begin(builder, graph, self._device_name)
        self._offsets: dict[str | None, list[int]] = {}
        self._given: dict[str, int] = {}
        self._lasting: dict[str, None] = {}

    def build(self) -> LoweredPlan:
        """Return the plan."""
        self._reserve_memory()
        graph, builder = self._graph, self._builder
        is_feed = self._request.given.role is Role.FEED
        for name, value in graph.feeds.items():  # in order, whether read or not
            if is_feed or name in self._request.fetches.carried:
                self._value(value)
        end_of_feeds = self._end_of_feeds()
        for position, op in enumerate(graph.ops):
            if position == graph.n_constant > 0:
                builder.end_constants()
            if position == end_of_feeds:
                builder.feeds_read()
            self._step(op, position)
        if 0 < graph.n_constant == len(graph.ops):
            builder.end_constants()
        if end_of_feeds == len(graph.ops):
            builder.feeds_read()
        fetches = [self._value(value) for value in graph.fetches]
        if self._request.fetches.role is Role.FETCH:
            for fetch in fetches:
                builder.fetch(fetch)
        self._continue()
        builder.writes((*self._lasting, *(self._request.given.written if is_feed else ())))
        n_kept = len(graph.keeps) if self._request.fetches.role is None else 0
        externals = [value.buffer.root().external for value in graph.fetches[n_kept:]]
        composites = {
            index: op.type
            for index, op in enumerate(self._request.ops, self._request.first_index)
            if op.definition.body is not None
        }
        errors = StepErrors(graph.ops, self._device_name, composites)
        return LoweredPlan(
            builder.build(errors, self._kernel_bytes()),
            errors,
            graph.n_threads,
            graph.prepare_s,
            self._request.target,
            self._given,
            tuple(external.index for external in externals if external is not None),
            tuple(fetches),
            tuple(value.meta for value in graph.fetches),
        )

    def _kernel_bytes(self) -> int:
        """Return how many bytes the operators' prepared kernels hold."""
        signatures = {id(op.signature): op.signature for op in self._graph.ops if op.signature}
        kernels = {c.prepared for s in signatures.values() for c in s.choices.values()}
        return sum(kernel.held_bytes for kernel in kernels)

    def _end_of_feeds(self) -> int:
        """Return the position after the last operator that uses a feed on the device, or -1."""
        given = self._request.given
        if given.role is not Role.FEED or not given.on_device:
            return -1
        end = self._graph.n_constant
        for position, op in enumerate(self._graph.ops):
            touched = [v.buffer.root().external for v in (*op.data_reads(), *op.writes())]
            if any(map(given.is_device_feed, touched)):
                end = position + 1
        return end

    def _reserve_memory(self) -> None:
        for name, sizes in self._slots.items():
            device = self._device if name is None else self._host
            if device.has_arena:
                self._builder.arena(sum(sizes), device)
                self._offsets[name] = list(accumulate(sizes, initial=0))
            else:
                self._builder.buffers(sizes, device)
                self._offsets[name] = list(range(len(sizes)))

    def _value(self, value: Value) -> int:
        """Return the id of a value; adds the value at its first use."""
        if value.id < 0:
            if value.source is not None:
                self._value(value.source)  # the first value of an external declares its meta
            place = self._place(value.buffer)
            if self._recorder is not None:
                self._recorder.buffer = value.buffer.root()
            shape, dtype = value.meta
            value.id = self._builder.value(dtype_to_code(dtype), shape, *place)
        return value.id

    def _place(self, buffer: Buffer) -> tuple[int, int, _runtime.Device | None]:
        if buffer.shared_with is not None:
            buffer = buffer.root()
        device = None if buffer.device is None else self._host
        external = buffer.external
        if external is None:
            if buffer.dynamic:
                return _runtime.DYNAMIC, 0, device
            return _runtime.ARENA, self._offsets[buffer.device][buffer.slot] + buffer.offset, device
        if external.index < 0:
            external.index = self._builder.external(
                external.role, external.name, create=external.create
            )
            if external.role is Role.CAPTURED:
                self._given.setdefault(external.name, external.index)
        return _runtime.EXTERNAL, external.index, device

    def _shape(self, value: Value) -> int:
        """Return the id of a value that is used only for its shape."""
        if value.shape_id < 0:
            code = dtype_to_code(value.meta.dtype)
            value.shape_id = self._builder.value(code, value.meta.shape, _runtime.NONE, 0)
        return value.shape_id

    def _step(self, op: LoweredOp, position: int) -> None:
        if op.is_copy:
            ((source,),), ((target,),) = op.inputs, op.outputs
            self._builder.copy(self._value(source), self._value(target), position)
        elif not op.children:
            self._kernel(op, position)
        elif isinstance(op.definition.control, Loop):
            self._loop(op, op.definition.control, position)
        elif isinstance(op.definition.control, Branch):
            self._branch(op, op.definition.control, position)
        aliases = op.definition.alias_slots
        unchanged = dict(aliases) if aliases and op.definition.leaves_inputs(op.attrs) else ()
        for slot, values in enumerate(op.outputs):
            for value in () if slot in unchanged else values:
                buffer = value.buffer  # an output that reuses an input is in the plan's own memory
                if buffer.external is not None and buffer.external.role is Role.PERSISTABLE:
                    self._lasting[buffer.external.name] = None

    def _kernel(self, op: LoweredOp, position: int) -> None:
        args: list[int] = []
        begin = [0]
        slots = op.definition.proto.inputs if op.definition.any_shape_only else ()
        for k, values in enumerate((*op.inputs, *op.outputs)):
            if k < len(slots) and slots[k].shape_only:
                args += map(self._shape, values)
            else:
                for value in values:
                    args.append(value.id if value.id >= 0 else self._value(value))
            begin.append(len(args))
        offset, size = -1, 0
        if op.workspace is not None:
            _, offset, _ = self._place(op.workspace)
            size = op.workspace.size
        prepared = op.prepared
        estimate = 0 if prepared.needs_gil else estimate_ns(op, self._graph.device)
        device = None if op.device is None else self._host
        builder = self._builder
        builder.kernel(
            prepared, args, begin, len(op.inputs), position, offset, size, estimate, device
        )

    def _branch(self, op: LoweredOp, control: Branch, position: int) -> None:
        outputs = [self._value(value) for value in op.outputs[0]]
        branches = []
        for child in op.children:
            bindings = [(self._value(value), external) for value, external in child.bindings]
            bindings += zip(outputs, child.plan.fetch_externals, strict=True)
            branches.append((child.plan.plan, tuple(bindings)))
        condition = op.inputs[op.definition.input_index[control.condition]][0]
        then, otherwise = branches
        self._builder.branch(self._value(condition), (then, otherwise), position)

    def _loop(self, op: LoweredOp, control: Loop, position: int) -> None:
        for source, target in zip(
            op.input(control.carried), op.output(control.outputs), strict=True
        ):
            self._builder.copy(self._value(source), self._value(target), position)
        reverse = bool(op.attrs.get(control.reverse or ""))
        for child in reversed(op.children) if reverse else op.children:
            self._turns(op, control, child, position, reverse)

    def _turns(
        self, op: LoweredOp, control: Loop, child: Child, position: int, reverse: bool
    ) -> None:
        """Add the iterations of one body; they continue with the carried values."""
        outputs = op.output(control.outputs)
        condition = child.plan.fetch_values[len(outputs)] if control.condition else -1
        names = op.attrs[control.block_inputs]
        next_values = child.plan.fetch_values[: len(outputs)]
        triples = [
            (self._value(target), child.plan.given_externals[name], new)
            for name, target, new in zip(names, outputs, next_values, strict=True)
        ]
        arrays = [value for slot, _ in control.stacks for value in op.output(slot)]
        stacks = zip(arrays, child.plan.fetch_externals, child.skipped, strict=True)
        sequences = zip(op.input(control.sequences), child.elements, strict=True)
        self._builder.loop(
            child.plan.plan,
            condition,
            triples,
            tuple((self._value(value), external) for value, external in child.bindings),
            child.n_turns,
            position,
            self._single(op.input(control.condition)),
            sequences=[
                (self._value(value), external, offset)
                for value, (external, offset) in sequences
                if external >= 0
            ],
            stacks=[
                (-1 if value in child.unread else self._value(value), external, offset)
                for value, external, offset in stacks
            ],
            turns=self._single(op.input(control.turns)),
            turns_taken=self._single(op.output(control.turns_taken)),
            reverse=reverse,
        )

    def _single(self, values: Sequence[Value]) -> int:
        """Return the id of the single value of a slot, or -1 if it is absent."""
        return self._value(values[0]) if values else -1

    def _continue(self) -> None:
        continuation = self._graph.continuation
        if continuation is not None:
            self._builder.continuation(
                [self._value(value) for value in continuation.dynamic],
                continuation.resolve,
                [(self._value(value), name) for name, value in continuation.crossing.items()],
            )
