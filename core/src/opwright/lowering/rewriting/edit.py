"""Changes of a graph; each is checked when a pass requests it, and all are applied together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import filterfalse

from opwright.errors import PluginError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import view_value
from opwright.lowering.graph.uses import OUTSIDE, Uses, find_late
from opwright.lowering.graph.values import Buffer, LoweredOp, Value
from opwright.lowering.kernels.select import find_kernel
from opwright.packages import ANY


class Edit:
    """Collects changes of a pass; `fuse`, `exchange` and `bypass` return whether each is allowed.

    These methods see the graph as it was before the first change, and refuse changes that may
    conflict with earlier ones. `apply` makes all changes; a new edit sees the result.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._at: dict[LoweredOp, Sequence[LoweredOp]] = {}
        self._gone: set[LoweredOp] = set()
        self._lost: set[Value] = set()
        self._stand_in: dict[Value, Value] = {}
        self._added: dict[Value, int] = {}  # positions of values of new operators
        self._newly_read: set[Buffer] = set()
        self._pinned: set[Value] = set()
        self._moved: set[Buffer] = set()
        self._directions: set[int] = set()
        # Made at the first request, since many passes change nothing.
        self._first_uses: Uses | None = None
        self._first_late: set[Value] | None = None

    @property
    def _uses(self) -> Uses:
        if self._first_uses is None:
            self._first_uses = self._graph.uses()
        return self._first_uses

    def fuse(
        self, ops: Sequence[LoweredOp], new: Sequence[LoweredOp], at: LoweredOp | None = None
    ) -> bool:
        """Replace operators by new operators; return whether that is allowed.

        Parameters
        ----------
        ops : sequence of LoweredOp
            The operators to remove.
        new : sequence of LoweredOp
            The replacements, in order; empty to remove operators whose results are unused.
        at : LoweredOp, optional
            The operator of ``ops`` whose place the new operators take; by default the last one.

        Returns
        -------
        bool
            False, and nothing changes, if another operator or the caller of the plan needs a value
            that would be lost, if a value would be read too early or too late, if an earlier
            change of this edit has removed one of ``ops``, or if one of them has a pinned library
            and a new operator (of its type, if there is one) has a kernel of a different library.

        Raises
        ------
        PluginError
            If ``ops`` are not in the graph, or ``at`` is not one of ``ops``.
        """
        position = self._uses.position
        old = set(ops)
        places = {position.get(op, OUTSIDE): op for op in ops}
        if not ops or OUTSIDE in places or (at and at not in old):
            raise PluginError(
                f"fuse: ops must be operators of the graph and contain at, got {ops} and {at}; "
                "create a new edit after apply"
            )
        first, last = min(places), max(places)
        at = at or places[last]
        here = position[at]
        directions = {1} if first < here else set()
        if last > here:
            directions.add(-1)
        if not self._gone.isdisjoint(old) or not self._keeps_order(directions):
            return False
        lost: set[Value] = set()
        for op in ops:
            # `has_effect` is inlined, since there are many operators
            if (op.definition.effect or not any(op.outputs)) and op is not at:
                return False
            for values in op.outputs:
                lost.update(values)
        written = {value for op in new for value in op.writes()}
        lost -= written
        if not (
            self._can_lose(lost, old)
            and self._can_read(new, here, places)
            and self._can_write(written, here, places)
            and self._keeps_pins(ops, new)
            and self._keeps_halves(new, old)
        ):
            return False
        self._accept(ops, new, at, lost, directions)
        self._moved.update(v.buffer for v in written if self._uses.written_at(v, here) != here)
        return True

    def exchange(self, pairs: Mapping[LoweredOp, LoweredOp]) -> bool:
        """Replace several operators together, each in place.

        So an operator can pass different values to its gradient than before.

        Parameters
        ----------
        pairs : mapping of LoweredOp to LoweredOp
            The operators to remove, each with its replacement.

        Returns
        -------
        bool
            False, without any change, for the same reasons as for `fuse`.

        Raises
        ------
        PluginError
            If an operator is not in the graph.
        """
        position = self._uses.position
        if not pairs or not pairs.keys() <= position.keys():
            raise PluginError(
                f"exchange: keys must be operators of the graph, got {list(pairs)}; create a new "
                "edit after apply"
            )
        old = set(pairs)
        if not self._gone.isdisjoint(old) or any(op.has_effect for op in old):
            return False
        written = {value for new in pairs.values() for value in new.writes()}
        lost = {value for op in old for values in op.outputs for value in values} - written
        if not self._can_lose(lost, old):
            return False
        ordered = sorted(pairs, key=position.__getitem__)
        before: set[Value] = set()
        for op in ordered:
            new, here = pairs[op], position[op]
            if not (
                self._can_read_beside(new, here, before, lost)
                and all(self._uses.written_at(v, here) == here for v in new.writes())
                and self._keeps_pins([op], [new])
            ):
                return False
            before.update(new.writes())
        for op in ordered:
            gone = {value for values in op.outputs for value in values} & lost
            self._accept([op], [pairs[op]], op, gone, set())
        return True

    def bypass(self, op: LoweredOp, *sources: Value) -> bool:
        """Remove an operator; readers of each output then read the corresponding source instead.

        Parameters
        ----------
        op : LoweredOp
        *sources : Value
            Values with the same data as the outputs, of equal shapes and dtypes.

        Returns
        -------
        bool
            False, and nothing changes, if the output is visible outside or written in place, or
            if a reader comes after the source was overwritten.

        Raises
        ------
        PluginError
            If ``op`` is not in the graph, or a source does not fit.
        """
        outputs = op.writes()
        if op not in self._uses.position or [v.meta for v in outputs] != [v.meta for v in sources]:
            raise PluginError(f"bypass: sources must fit the outputs of {op}, got {sources}")
        if op in self._gone or not outputs:
            return False
        sources = tuple([self.current(source) for source in sources])
        pairs = list(zip(outputs, sources, strict=True))
        if not all(self._can_stand_in(out, source) for out, source in pairs):
            return False
        self._gone.add(op)
        for out, source in pairs:
            self._stand_in[out] = source
            self._newly_read.add(source.buffer)
            self._pinned.add(source.source or source)
        return True

    def current(self, value: Value) -> Value:
        """Return the replacement of a value after the bypasses so far, or the value itself."""
        while value in self._stand_in:
            value = self._stand_in[value]
        return value

    def apply(self) -> bool:
        """Apply all changes; return whether there were any."""
        if not self._gone:
            return False
        uses, old = self._graph.uses(), self._graph.ops
        ops: list[LoweredOp] = []
        begin = 0
        for place in sorted([uses.position[op] for op in self._at if op in uses.position]):
            ops += filterfalse(self._gone.__contains__, old[begin:place])
            ops += self._at[old[place]]
            begin = place + 1
        ops += filterfalse(self._gone.__contains__, old[begin:])
        added = [op for new in self._at.values() for op in new]
        for op in added:
            for value in op.writes():
                value.op = op
        redirected = [op for op in ops if self._reads_stand_in(op)] if self._stand_in else []
        left = [op for op in (*self._gone, *redirected) if op in uses.position]
        keeps_uses = 2 * len(left) < len(ops)  # otherwise it is faster to find them again
        uses.remove(left if keeps_uses else ())
        for op in redirected:
            self._redirect(op)
        if keeps_uses:
            uses.add([*redirected, *added])
            self._graph.replace_ops(ops)
        else:
            self._graph.ops = ops
        return True

    def _accept(
        self,
        ops: Sequence[LoweredOp],
        new: Sequence[LoweredOp],
        at: LoweredOp,
        lost: set[Value],
        directions: set[int],
    ) -> None:
        self._gone.update(ops)
        self._at[at] = tuple(new)
        self._lost |= lost
        self._directions |= directions
        origins = tuple(sorted({index for op in ops for index in op.origins or (op.index,)}))
        here = self._uses.position[at]
        for op in new:
            op.origins = origins
            for values in op.outputs:
                self._added.update(dict.fromkeys(values, here))
            reads = op.data_reads()
            self._newly_read.update([value.buffer for value in reads])
            self._pinned.update([value.source or value for value in reads])

    def _keeps_order(self, directions: set[int]) -> bool:
        """Whether all moves have the same direction; moves in both directions may conflict."""
        return not directions or len(directions | self._directions) == 1 or not self._directions

    def _can_lose(self, lost: set[Value], ops: set[LoweredOp]) -> bool:
        """Whether only ``ops`` need the values."""
        stays_within = self._uses.stays_within
        for value in lost:
            if not stays_within(value, ops):
                return False
        return lost.isdisjoint(self._pinned)

    def _can_read(self, new: Sequence[LoweredOp], here: int, places: Collection[int]) -> bool:
        """Whether the values that the new operators read exist at their position."""
        written: set[Value] = set()
        for op in new:
            for value in op.data_reads():
                read = self.current(value)
                own = read.source or read
                if own in written:
                    continue
                if own in self._lost or not self._exists(own, here, places):
                    return False
            written.update(op.writes())
        return True

    def _can_read_beside(
        self, new: LoweredOp, here: int, before: set[Value], lost: set[Value]
    ) -> bool:
        """Whether each input of an operator exists at its position or is in ``before``."""
        for value in new.data_reads():
            read = self.current(value)
            own = read.source or read
            if own in self._lost or own in lost:
                return False
            if own in before:
                if not self._uses.holds(own, here):
                    return False
            elif not self._exists(own, here, (here,)):
                return False
        return True

    def _exists(self, value: Value, here: int, places: Collection[int]) -> bool:
        begin = self._uses.written_at(value)
        if begin in places or value.buffer in self._moved:
            return False
        if begin == OUTSIDE and value.buffer.external is None:
            return self._added.get(value, here) < here
        return self._uses.holds(value, here, places)

    def _can_write(self, written: set[Value], here: int, places: Collection[int]) -> bool:
        """Whether no operator between the old and new positions of the writes uses their memory."""
        uses = self._uses
        for value in written:
            old = uses.written_at(value, here)
            if old == here:
                continue
            if old not in places or value.buffer in self._newly_read:
                return False
            between = (value, min(old, here), max(old, here), places)
            if uses.is_read_between(*between) or uses.is_written_between(*between):
                return False
        return True

    def _keeps_pins(self, ops: Sequence[LoweredOp], new: Sequence[LoweredOp]) -> bool:
        """Whether the new operators have kernels of the libraries pinned for the old operators.

        If new operators have the type of an old operator, only these must match its pin.
        """
        pins = self._graph.target.context.pins
        if not pins:
            return True
        for op in ops:
            library = pins.get(op.type, pins.get(ANY))
            substitutes = [other for other in new if other.type == op.type] or new
            if library is not None and not all(
                self._is_of(other, library) for other in substitutes
            ):
                return False
        return True

    @property
    def _late(self) -> set[Value]:
        if self._first_late is None:
            self._first_late = find_late(self._graph)[1]
        return self._first_late

    def _keeps_halves(self, new: Sequence[LoweredOp], old: set[LoweredOp]) -> bool:
        """Whether the values of the first half would remain independent of late feeds."""
        late = set(self._late)
        for op in new if late else ():
            if late.isdisjoint(value.source or value for value in op.data_reads()):
                continue
            for value in op.writes():
                is_early = self._uses.written_at(value) != OUTSIDE and value not in self._late
                if is_early and not self._uses.stays_within(value, old):
                    return False
            late.update(op.writes())
        return True

    def _is_of(self, op: LoweredOp, library: str) -> bool:
        if op.is_copy:
            return True
        return find_kernel(op, self._graph) and op.entry is not None and op.entry.library == library

    def _can_stand_in(self, out: Value, source: Value) -> bool:
        """Whether all readers of ``out`` may read ``source`` instead."""
        uses = self._uses
        own = source.source or source
        if out is source or out in self._pinned or out.buffer.dynamic or uses.is_visible(out):
            return False
        if own in self._lost or own.buffer in self._moved:
            return False
        return all(
            reader not in self._gone
            and uses.holds(own, uses.position[reader])
            and not _writes_over(reader, out)
            for reader in uses.readers(out)
        )

    def _reads_stand_in(self, op: LoweredOp) -> bool:
        old = self._stand_in
        for values in op.inputs:
            for value in values:
                if value in old or value.source in old:
                    return True
        return False

    def _redirect(self, op: LoweredOp) -> None:
        """Replace the inputs of an operator by their replacements."""
        op.inputs = tuple([tuple(map(self._read_instead, values)) for values in op.inputs])
        for child in op.children:
            child.bindings = tuple(
                [(self._read_instead(value), number) for value, number in child.bindings]
            )

    def _read_instead(self, value: Value) -> Value:
        if value.source in self._stand_in:
            return view_value(self.current(value.source), value.meta)
        return self.current(value)


def _writes_over(op: LoweredOp, value: Value) -> bool:
    """Whether an operator writes an output into the memory of the value."""
    return any(
        value in (read, read.source)
        for _, slot in op.definition.alias_slots
        for read in op.inputs[slot]
    )
