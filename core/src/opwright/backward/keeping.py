"""Makes a forward loop stack, for each iteration, the values that its gradient reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright.backward.routing import ForwardName, ForwardOp
from opwright.describe.control import Loop, names_in
from opwright.program import Block, Operator
from opwright.program.transforms import clone_operator


class Keeping:
    """Passes values from the body of a forward loop to the body of its gradient.

    `outer` is the block for the scan of the gradient. `body` is the body of the forward
    loop `forward`, which is replaced by a loop with more stacked outputs.
    """

    def __init__(self, outer: Block, forward: ForwardOp, control: Loop, body: Block) -> None:
        self._outer = outer
        self._forward = forward
        self._control = control
        self._body = body
        self._place = forward.op.block or outer
        self._arrays = self._known_arrays()

    def move(self, block: Block) -> list[tuple[str, str]]:
        """Move a block out of the body; return pairs of an outer array and a variable of the block.

        Values of the body that the block reads become elements of arrays. Loop-invariant
        values are recomputed instead, since an array would hold a copy per iteration. An iteration
        over segments is recomputed as a whole.
        """
        self._inner = block
        self._copy_writers(block)
        needed = [name for name in block.captured() if name in self._body.vars]
        self._keep([name for name in needed if name not in self._arrays])
        for name in needed:
            block.enter_copy(self._body.vars[name])
        block.move_into(self._outer)
        return [(self._arrays[name], name) for name in needed]

    def describe_turns(self, scan: Loop, arrays: list[tuple[str, str]]) -> dict[str, Any]:
        """Return the attributes of a scan over the loop's iterations in reverse order.

        If neither an array nor an attribute determines the number of iterations, a sequence of the
        loop is added to `arrays`.
        """
        attrs, control = self._forward.attrs, self._control
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
        """Return the variable with the number of iterations, or None if all iterations run."""
        outputs, control = self._forward.op.outputs, self._control
        if control.turns_taken is not None:
            names = outputs.get(control.turns_taken)
            if not names:
                names = (self._define_output("turns", (1,), "int64"),)
                self._replace({control.turns_taken: names}, {})
            return names[0]
        given = self._forward.reads.get(control.turns or "", ())
        return ForwardName.of(given[0]) if given else None

    def _known_arrays(self) -> dict[str, str]:
        """Return, by body variable, the array that stacks its values of all iterations."""
        op, control = self._forward.op, self._control
        arrays: dict[str, str] = {}
        if control.block_elements is not None:
            keys = self._forward.reads.get(control.sequences or "", ())
            pairs = zip(names_in(op.attrs, control.block_elements), keys, strict=True)
            arrays.update((name, ForwardName.of(key)) for name, key in pairs)
        for slot, attr in control.stacks:
            keys = self._forward.writes.get(slot, ())
            # Arrays stacked for an earlier gradient have no version in this walk.
            names: Sequence[str] = [ForwardName.of(key) for key in keys] or op.outputs.get(slot, ())
            for name, array in zip(names_in(op.attrs, attr), names, strict=True):
                arrays.setdefault(name, array)
        return arrays

    def _keep(self, names: list[str]) -> None:
        if not names:
            return
        slot, attr = self._control.stacks[-1]
        op = self._forward.op
        arrays = []
        for name in names:
            like = self._body.var(name)
            shape = None if like.shape is None else (self._n_turns(), *like.shape)
            arrays.append(self._define_output(name, shape, like.dtype))
        kept = (*op.outputs.get(slot, ()), *arrays)
        self._replace({slot: kept}, {attr: (*names_in(op.attrs, attr), *names)})
        self._arrays.update(zip(names, arrays, strict=True))

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

    def _define_output(self, word: str, shape: tuple[int, ...] | None, dtype: str) -> str:
        name = self._outer.program.free_name(f"{self._forward.first_output}/{word}")
        self._place.define_var(name, shape, dtype)
        return name

    def _replace(self, outputs: dict[str, tuple[str, ...]], attrs: dict[str, Any]) -> None:
        """Replace the forward operator by an operator with more outputs."""
        old = self._forward.op
        merged = {**old.outputs, **outputs}
        ordered = {slot: merged[slot] for slot in old.definition.output_index if slot in merged}
        new_attrs = {**old.attrs, **attrs}
        new = Operator.make(self._place, old.definition, dict(old.inputs), ordered, new_attrs)
        self._place.replace_op(old, new)
        self._forward.op = new

    def _copy_writers(self, block: Block) -> None:
        """Recompute in the block those values that it reads and that are not stacked."""
        writers = self._find_writers()
        names = [name for name in block.captured() if name in writers]
        copies: list[Operator] = []
        for op in reversed(self._body.ops):
            if any(name in names for name in op.output_names()) and op in writers.values():
                copies.append(clone_operator(op, block))
                names += op.input_names()
                for name in op.output_names():
                    block.enter_copy(self._body.vars[name])
        block.replace_ops([*reversed(copies), *block.ops])

    def _find_writers(self) -> dict[str, Operator]:
        """Return the writers of loop-invariant values, or of all values of a segment, by name."""
        attrs, control = self._forward.attrs, self._control
        is_segment = attrs.get(control.segment or "") is not None
        varying = {name for body in control.bodies(attrs) for name in body.entering}
        written: set[str] = set()
        writers: dict[str, Operator] = {}
        for op in self._body.ops:
            names = set(op.output_names())
            is_plain = not op.definition.random and op.definition.control is None
            is_same = is_plain and varying.isdisjoint(op.input_names())
            if (is_same or is_segment) and written.isdisjoint(names):
                writers.update(dict.fromkeys(names, op))
            else:
                varying |= names
            for name in names & written:
                writers.pop(name, None)
            written |= names
        return writers
