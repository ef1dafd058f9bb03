"""What the gradient of a loop reads of each turn: the forward loop keeps it, in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright.backward.versions import ForwardName, ForwardOp
from opwright.describe.control import Loop, names_in
from opwright.program import Block, Operator
from opwright.program.transforms import clone_operator


class Keeping:
    """Hands values of a forward body to the body of its gradient.

    Parameters
    ----------
    outer : Block
        Where the gradient's scan goes.
    forward : ForwardOp
        The forward loop, which is replaced by one that keeps more.
    control : Loop
        How it loops.
    body : Block
        Its body.
    """

    def __init__(self, outer: Block, forward: ForwardOp, control: Loop, body: Block) -> None:
        self._outer = outer
        self._forward = forward
        self._control = control
        self._body = body
        self._arrays = self._known_arrays()

    def move(self, block: Block) -> list[tuple[str, str]]:
        """Let a block within the body lie beside it: (outer array, variable of the block) pairs.

        What the block reads of the body is an element of an array from then on. Values that every
        turn computes alike are computed again instead: an array of them would hold one value often.
        A turn over segments is computed again as a whole.
        """
        self._inner = block
        self._copy_makers(block)
        needed = [name for name in block.captured() if name in self._body.vars]
        self._keep([name for name in needed if name not in self._arrays])
        for name in needed:
            block.enter_copy(self._body.vars[name])
        block.move_into(self._outer)
        return [(self._arrays[name], name) for name in needed]

    def describe_turns(self, scan: Loop, arrays: list[tuple[str, str]]) -> dict[str, Any]:
        """Return the attributes of a scan that takes the turns of the loop in opposite order.

        Where no array says their number, and no attribute, a sequence of the loop joins `arrays`.
        """
        attrs, control = self._forward.op.attrs, self._control
        described: dict[str, Any] = {}
        if scan.reverse is not None:
            described[scan.reverse] = not attrs.get(control.reverse or "")
        limit = attrs.get(control.max_iterations or "")
        if limit is not None and scan.max_iterations is not None:
            described[scan.max_iterations] = limit
        elif not arrays and control.block_elements is not None:
            name = names_in(attrs, control.block_elements)[0]
            arrays.append((self._arrays[name], name))
            self._inner.enter_copy(self._body.vars[name])
        return described

    def turns(self) -> str | None:
        """The variable with the number of turns that the loop took; None where all are taken."""
        op, control = self._forward.op, self._control
        if control.turns_taken is not None:
            names = op.outputs.get(control.turns_taken)
            return names[0] if names else self._count()
        given = self._forward.reads.get(control.turns or "", ())
        return ForwardName.of(given[0]) if given else None

    def _known_arrays(self) -> dict[str, str]:
        """The arrays that hold a variable of the body for each turn, by its name."""
        op, control = self._forward.op, self._control
        found: dict[str, str] = {}
        if control.block_elements is not None:
            keys = self._forward.reads.get(control.sequences or "", ())
            pairs = zip(names_in(op.attrs, control.block_elements), keys, strict=True)
            found.update((name, ForwardName.of(key)) for name, key in pairs)
        for slot, attr in control.stacks:
            keys = self._forward.writes.get(slot, ())
            # What was kept for an earlier gradient has no version that this walk knows.
            names: Sequence[str] = [ForwardName.of(key) for key in keys] or op.outputs.get(slot, ())
            for name, array in zip(names_in(op.attrs, attr), names, strict=True):
                found.setdefault(name, array)
        return found

    def _keep(self, names: list[str]) -> None:
        if not names:
            return
        slot, attr = self._control.stacks[-1]
        op = self._forward.op
        arrays = [self._define(name) for name in names]
        kept = (*op.outputs.get(slot, ()), *arrays)
        self._replace({slot: kept}, {attr: (*names_in(op.attrs, attr), *names)})
        self._arrays.update(zip(names, arrays, strict=True))

    def _define(self, name: str) -> str:
        """Return a new variable: an array of what a variable of the body is in each turn."""
        op = self._forward.op
        like = self._body.var(name)
        shape = None if like.shape is None else (self._n_turns(), *like.shape)
        return self._new_output(f"{next(iter(op.output_names()))}/{name}", shape, like.dtype)

    def _n_turns(self) -> int:
        op, control = self._forward.op, self._control
        limit = op.attrs.get(control.max_iterations or "")
        if isinstance(limit, int):
            return limit
        elements = names_in(op.attrs, control.block_elements)
        for name, element in zip(op.inputs.get(control.sequences or "", ()), elements, strict=True):
            shape = self._place.var(name).shape
            if shape is not None and shape[0] >= 0:
                is_segment = element in names_in(op.attrs, control.segmented)
                rows = op.attrs[str(control.segment)] if is_segment else 1
                return -(-shape[0] // int(str(rows)))
        return -1

    def _count(self) -> str:
        name = self._new_output(
            f"{next(iter(self._forward.op.output_names()))}/turns", (1,), "int64"
        )
        self._replace({str(self._control.turns_taken): (name,)}, {})
        return name

    @property
    def _place(self) -> Block:
        return self._forward.op.block or self._outer

    def _new_output(self, name: str, shape: tuple[int, ...] | None, dtype: str) -> str:
        free = self._outer.program.free_name(name)
        self._place.define_var(free, shape, dtype)
        return free

    def _replace(self, outputs: dict[str, tuple[str, ...]], attrs: dict[str, Any]) -> None:
        """Put an operator with more outputs in the place of the forward one."""
        old, place = self._forward.op, self._place
        merged = {**old.outputs, **outputs}
        ordered = {slot: merged[slot] for slot in old.definition.output_index if slot in merged}
        new = Operator.make(
            place, old.definition, dict(old.inputs), ordered, {**old.attrs, **attrs}
        )
        place.replace_ops([new if op is old else op for op in place.ops])
        self._forward.op = new

    def _copy_makers(self, block: Block) -> None:
        """Compute within the block what it reads and is not kept."""
        makers = self._find_makers()
        names = [name for name in block.captured() if name in makers]
        chosen: list[Operator] = []
        for op in reversed(self._body.ops):
            if any(name in names for name in op.output_names()) and op in makers.values():
                chosen.append(clone_operator(op, block))
                names += op.input_names()
                for name in op.output_names():
                    block.enter_copy(self._body.vars[name])
        block.replace_ops([*reversed(chosen), *block.ops])

    def _find_makers(self) -> dict[str, Operator]:
        """Who writes what depends on captured values alone, or what a segment makes, by name."""
        attrs, control = self._forward.op.attrs, self._control
        is_segment = attrs.get(control.segment or "") is not None
        varying = {name for body in control.bodies(attrs) for name in body.entering}
        written: set[str] = set()
        makers: dict[str, Operator] = {}
        for op in self._body.ops:
            names = set(op.output_names())
            plain = not op.definition.random and op.definition.control is None
            alike = plain and varying.isdisjoint(op.input_names())
            if (alike or is_segment) and written.isdisjoint(names):
                makers.update(dict.fromkeys(names, op))
            else:
                varying |= names
            for name in names & written:
                makers.pop(name, None)
            written |= names
        return makers
