"""Records the calls of the runtime's plan builder, so that a bundle can repeat them.

The numbers in a plan become tokens. A number that may depend on the batch is a `Size`, an estimate
is an `About`, and all other numbers are the same for all batches of a range.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from opwright import _runtime
from opwright.describe.dtypes import dtype_to_code
from opwright.describe.op_proto import AttrType
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.values import Buffer, LoweredOp
from opwright.lowering.kernels.arguments import Arguments
from opwright.lowering.kernels.select import find_exclusion
from opwright.lowering.request import Target
from opwright.registry import HOST_DEVICE, KernelEntry
from opwright.targets.native_kernel import arg_flags, typed_attrs

_FLOATS = (AttrType.FLOAT.value, AttrType.FLOATS.value)


class Size(int):
    """A number that may depend on the batch."""


class About(int):
    """An estimate, which need not be exact."""


class Recorder:
    """Replaces plan builders and records their calls as tokens.

    Attributes
    ----------
    plans : list of list of token
        The plans of one lowering: first the plans of bodies, then the plan that runs them.
    kernels : dict of tuple to int
        The indices of kernels, over all lowerings. A kernel is the path of the library, operator
        type, name of the library in keys, dtype code, and the object that was loaded.
    needed : set of int
        The indices of the alternatives that are tried first.
    written : dict of str to None
        Persistable variables that plans write.
    persistables : dict of str to None
        The values that they read or write.
    refusal : str
        The reason why a bundle cannot contain the plans, or an empty string if it can.
    is_done : bool
        Whether later plans are not recorded.
    buffer : Buffer or None
        The buffer of the next value.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.plans: list[list[Any]] = []
        self.kernels: dict[tuple[str, str, str, int], int] = {}
        self.libraries: dict[str, _runtime.Library] = {}
        self.needed: set[int] = set()
        self.written: dict[str, None] = {}
        self.persistables: dict[str, None] = {}
        self.refusal = ""
        self.is_done = False
        self.buffer: Buffer | None = None

    def begin(self, builder: _runtime.PlanBuilder, graph: Graph, name: str) -> Any:
        """Return this recorder for the calls of a new plan; it also forwards them to `builder`."""
        if self.is_done:
            return builder
        self._builder, self._graph = builder, graph
        self._tokens: list[Any] = [name]
        self._blocks: dict[Buffer | None, int] = {}
        if not self.plans:
            self._numbers: dict[int, int] = {}
        return self

    def arena(self, size_bytes: int, device: _runtime.Device) -> None:
        """Only forward the call, because values of a bundle are placed when it is opened."""
        self._builder.arena(size_bytes, device)

    def external(self, role: int, name: str, *, create: bool) -> int:
        """Note an external."""
        self._tokens += (1, int(role), name, int(create))
        if role == _runtime.PERSISTABLE:
            self.persistables[name] = None
        return self._builder.external(role, name, create=create)

    def value(
        self,
        code: int,
        shape: Sequence[int],
        kind: int,
        index: int,
        device: _runtime.Device | None = None,
    ) -> int:
        """Record a value; arena values are identified by their block number."""
        if kind == _runtime.DYNAMIC:
            self._refuse(
                "the feeds must determine all shapes, got a value whose shape depends on "
                "the elements of others; pad it to a bound"
            )
        place = index
        if kind == _runtime.ARENA:
            place = self._blocks.setdefault(self.buffer, len(self._blocks))
        self._tokens += (2, code, kind, place, len(shape), *map(Size, shape))
        return self._builder.value(code, shape, kind, index, device)

    def kernel(
        self,
        prepared: _runtime.Prepared,
        args: Sequence[int],
        begin: Sequence[int],
        n_inputs: int,
        position: int,
        offset: int,
        size: int,
        estimate: int,
        device: _runtime.Device | None,
    ) -> None:
        """Record a kernel, its alternatives in case of refusal, its arguments and attributes."""
        self._builder.kernel(
            prepared, args, begin, n_inputs, position, offset, size, estimate, device
        )
        op = self._graph.ops[position]
        kernels = [self._number(entry, op) for entry in self._entries(op)]
        if self.refusal:
            return
        self.needed.add(kernels[0])
        target = self.target
        is_shared = target.deterministic or prepared.n_threads == target.n_threads
        fixed = 0 if is_shared and not target.deterministic else prepared.n_threads
        tokens: list[Any] = [3, op.index, len(kernels), *kernels, fixed, int(target.deterministic)]
        tokens += (len(begin) - 1, n_inputs)
        flags = self._flags(op)
        for first, end in pairwise(begin):
            tokens.append(end - first)
            for pair in zip(args[first:end], flags[first:end], strict=True):
                tokens += pair
        attrs = typed_attrs(op.definition.proto, op.attrs)
        tokens.append(len(attrs))
        for name, kind, value in attrs:
            items = value if isinstance(value, (tuple, list)) else (value,)
            tokens += (name, kind, len(items), *_attr_tokens(kind, items))
        tokens.append(About(estimate or prepared.estimate_ns))
        self._tokens += tokens

    def _entries(self, op: LoweredOp) -> Iterator[KernelEntry]:
        """Yield the kernel of an operator, then its alternatives."""
        chosen = op.entry
        if chosen is None or not chosen.is_native or op.prepared.needs_gil:
            who = "" if chosen is None else f", got {chosen.library!r} of {chosen.package.label}"
            self._refuse(
                f"{op.type}: operator {op.index} must have a compiled kernel{who}; compute it "
                "outside of the bundle"
            )
            return
        yield chosen
        signature, target = signature_of(op), self.target
        candidates = target.candidates(op.type, HOST_DEVICE, signature.dtype)
        behind = candidates[candidates.index(chosen) + 1 :] if chosen in candidates else ()
        for entry in behind:
            if not entry.is_native or find_exclusion(entry, op, signature, target) is not None:
                continue
            other = signature.choose(entry, op.prepared, (), ())
            if set(op.reuse) <= set(other.reuse):
                yield entry

    def _number(self, entry: KernelEntry, op: LoweredOp) -> int:
        kernel = entry.load()
        path = os.fspath(kernel.library.path)
        self.libraries[path] = kernel.library
        code = dtype_to_code(signature_of(op).dtype)
        key = (path, op.type, entry.library, code)
        return self.kernels.setdefault(key, len(self.kernels))

    def _flags(self, op: LoweredOp) -> list[int]:
        """Return how the plan uses the arguments, in the form that was passed to the kernel."""
        signature = signature_of(op)
        chosen = [key for key, c in signature.choices.items() if c.prepared is op.prepared]
        known = [key[2] for key in chosen if not isinstance(key, str)]
        arguments = known[-1] if known else Arguments()
        proto = op.definition.proto
        inputs, outputs = signature.inputs, signature.outputs
        return arg_flags(proto, inputs, outputs, arguments.packable, arguments.unread)

    def copy(self, source: int, target: int, position: int) -> None:
        """Note a copy."""
        self._tokens += (4, source, target, self._graph.ops[position].index)
        self._builder.copy(source, target, position)

    def end_constants(self) -> None:
        """Record the end of the steps that compute constants."""
        self._tokens.append(5)
        self._builder.end_constants()

    def feeds_read(self) -> None:
        """Refuse feeds on a device."""
        self._refuse("must run on the CPU, got a plan for another device")
        self._builder.feeds_read()

    def branch(self, condition: int, branches: Any, position: int) -> None:
        """Note a branch."""
        children = [token for child in branches for token in self._child(*child)]
        self._tokens += (6, condition, *children, self._graph.ops[position].index)
        self._builder.branch(condition, branches, position)

    def loop(
        self,
        body: _runtime.Plan,
        condition: int,
        carried: Sequence[tuple[int, int, int]],
        bindings: Sequence[tuple[int, int]],
        n_turns: int,
        position: int,
        initial: int,
        **rest: Any,
    ) -> None:
        """Note a loop."""
        tokens = [7, *self._child(body, bindings), condition, len(carried)]
        tokens += [number for triple in carried for number in triple]
        tokens += (Size(n_turns), initial)
        for elements in (rest["sequences"], rest["stacks"]):
            tokens.append(len(elements))
            for value, external, offset in elements:
                tokens += (value, external, Size(offset))
        tokens += (rest["turns"], rest["turns_taken"], int(rest["reverse"]))
        self._tokens += (*tokens, self._graph.ops[position].index)
        self._builder.loop(body, condition, carried, bindings, n_turns, position, initial, **rest)

    def _child(self, plan: _runtime.Plan, bindings: Sequence[tuple[int, int]]) -> Iterable[int]:
        pairs = [number for pair in bindings for number in pair]
        return (self._numbers[id(plan)], len(bindings), *pairs)

    def continuation(self, *args: Any) -> None:
        """Refuse a plan with continuations."""
        self._refuse(
            "the feeds must determine all shapes, got an operator that reads a value whose "
            "shape depends on the elements of others; pad it to a bound"
        )
        self._builder.continuation(*args)

    def _refuse(self, reason: str) -> None:
        self.refusal = self.refusal or f"bundle: {reason}"

    def fetch(self, value: int) -> None:
        """Note a fetch."""
        self._tokens += (8, value)
        self._builder.fetch(value)

    def writes(self, names: Sequence[str]) -> None:
        """Record the variables of the scope that the plan writes."""
        self.written.update(dict.fromkeys(names))
        self._tokens += (10, len(names), *names)
        self._builder.writes(names)

    def build(self, errors: object, kernel_bytes: int) -> _runtime.Plan:
        """Return the plan."""
        for value in (*self._graph.keeps, *self._graph.fetches):
            if value.id >= 0:
                self._tokens += (9, value.id)
        plan = self._builder.build(errors, kernel_bytes)
        self._numbers[id(plan)] = len(self.plans)
        self.plans.append([*self._tokens, 0])
        return plan


def _attr_tokens(kind: int, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if kind in _FLOATS:
            yield float(item)
        elif isinstance(item, (str, bytes)):
            yield item
        else:
            yield Size(item)
