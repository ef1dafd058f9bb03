"""The gradient of a loop: a scan over the gradients of its body, in reverse order.

For each iteration, the forward loop stacks the values that the gradient reads; only loop-invariant
values are recomputed. The scan carries gradients of carried variables, and gradient sums of
captured variables.

A loop that recomputes its iterations becomes a loop over segments; each segment runs the original
loop over consecutive elements. Only the inputs of a segment are stacked for the gradient.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from opwright.backward.emitting import append_zeros
from opwright.backward.keeping import Keeping
from opwright.backward.routing import (
    ForwardName,
    ForwardOp,
    Key,
    Paths,
    Route,
    Versions,
    find_route,
)
from opwright.describe.control import Loop, names_in
from opwright.errors import GradientError
from opwright.program import Block, Operator
from opwright.program.operator import definition_of
from opwright.program.transforms import clear_block, clone_block, drop_unused_vars, prune_block
from opwright.vocabulary import ADD_N, FILL_LIKE, GRAD_SUFFIX, OUT, PROVIDER, SCAN, X

if TYPE_CHECKING:
    from opwright.backward.walking import InputGrads, OutputGrads, Walk, Wanted


def differentiate_loop(
    walk: Walk, forward: ForwardOp, control: Loop, grads: OutputGrads, wanted: Wanted
) -> InputGrads:
    """Append the gradient of a loop and return the gradients of its inputs."""
    limit = control.max_iterations
    if control.condition is not None and forward.attrs.get(limit or "") is None:
        raise GradientError(
            f"{forward}: its gradient keeps values of every iteration, so the number of iterations "
            f"must have a bound, got none; give {limit or 'a bound'}, or use {SCAN!r}"
        )
    if forward.attrs.get(control.checkpoint_every or "") is not None:
        walk.check_forward(forward)
        segment_turns(forward, control, forward.op.block or walk.block)
    return _LoopGradient(walk, forward, control, grads, wanted).write()


class _LoopGradient:
    """Writes one gradient.

    ``_block`` is the body of the new scan. Until complete, this body is nested in the body of the
    forward loop, because its operators read variables of that body; then `Keeping` passes these in.
    """

    def __init__(
        self, walk: Walk, forward: ForwardOp, control: Loop, grads: OutputGrads, wanted: Wanted
    ) -> None:
        self._walk = walk
        self._forward = forward
        self._control = control
        attrs = forward.attrs
        (names,) = control.bodies(attrs)
        self._program = walk.block.program
        self._body = self._program.block(names.block)
        walk.check_forward(forward)
        for name in (*names.entering, *names.leaving):
            self._body.get_var(name, str(forward))
        self._inputs = names_in(attrs, control.block_inputs)
        self._nexts = names_in(attrs, control.block_outputs)
        self._given = grads.get(control.outputs) or [None] * len(self._nexts)
        self._stacked = [
            (name, grad)
            for slot, attr in control.stacks
            for name, grad in zip(names_in(attrs, attr), grads.get(slot, ()), strict=False)
            if grad is not None
        ]
        self._wanted_init = wanted.get(control.carried, ())
        self._captured = forward.wanted_positions(control.captured, wanted)
        flags = wanted.get(control.sequences or "", ())
        elements = names_in(attrs, control.block_elements)
        self._sequences = {name: i for i, name in enumerate(elements) if flags[i]}
        self._prefix = f"{walk.prefix}{forward.first_output}{GRAD_SUFFIX}/"
        self._block = self._body
        self._is_segment = attrs.get(control.segment or "") is not None
        self._segmented = set(names_in(attrs, control.segmented))
        self._carried: dict[int, str] = {}  # incoming gradients of carried variables
        self._seeds: list[tuple[str, str]] = []  # gradients of an array and its element
        self._local: dict[str, str] = {}  # the gradients that an iteration computes, by name
        self._sums: dict[str, str] = {}  # gradients of captured variables, summed in the iteration
        self._blocked: set[str] = set()

    def write(self) -> InputGrads:
        """Emit the body and the scan that runs it."""
        carried = self._find_carried()
        targets = [self._nexts[i] for i in carried] + [name for name, _ in self._stacked]
        if not targets:
            return {}
        wanted = [*(self._inputs[i] for i in carried), *self._sequences, *self._captured]
        route = find_route(self._body, targets, wanted, self._walk.route.stopped)
        self._check_unchanged(route)
        self._block = self._program.add_block(self._body.idx)
        forward_ops, forward_vars = list(self._body.ops), dict(self._body.vars)
        self._differentiate(route, carried)
        self._captured = {n: i for n, i in self._captured.items() if n in self._local}
        self._sequences = {n: i for n, i in self._sequences.items() if n in self._local}
        gives_any = self._captured or self._sequences or any(map(self._gives_init, carried))
        results = self._finish() if gives_any else {}
        if self._is_segment:  # nothing is stacked: the gradient recomputes the iteration
            self._body.replace_ops(forward_ops)
            self._body.replace_vars(forward_vars)
        return results

    def _check_unchanged(self, route: Route) -> None:
        for body in self._control.bodies(self._forward.attrs):
            for name in body.entering:
                if name in route.versions.last:
                    raise GradientError(
                        f"{self._forward}: its gradient reads {name!r} from the start of an "
                        f"iteration, which {route.versions.writers[Key(name, 1)]} overwrites; "
                        "make that write to another name"
                    )

    def _find_carried(self) -> list[int]:
        """Return the positions of the carried variables with a gradient."""
        versions = Versions(self._body.ops)
        count = range(len(self._inputs))
        entering = [Key(name, 0) for name in self._inputs]
        leaving = [versions.last_key(name) for name in self._nexts]
        targets = {versions.last_key(name) for name, _ in self._stacked}
        wanted = {Key(name, 0) for name in (*self._sequences, *self._captured)}
        reached = {i for i in count if self._given[i] is not None}
        flowing = {i for i in count if self._wanted_init[i]}
        while True:
            nexts = {leaving[i] for i in reached}
            paths = Paths(self._body, versions, targets | nexts, self._walk.route.stopped)
            needed = paths.find_needed(wanted | {entering[i] for i in flowing})
            before = len(reached) + len(flowing)
            reached |= {i for i in count if entering[i] in paths.influence}
            flowing |= {i for i in count if leaving[i] in needed}
            if len(reached) + len(flowing) == before:
                break
        return [i for i in sorted(reached & flowing) if paths.find_stop(entering[i]) is None]

    def _differentiate(self, route: Route, carried: list[int]) -> None:
        """Append the gradients of one iteration."""
        inner = type(self._walk)(route._replace(block=self._block), self._prefix)
        for i in carried:
            self._carried[i] = self._define_grad(self._nexts[i])
            inner.add(route.versions.last_key(self._nexts[i]), self._carried[i])
        for name, grad in self._stacked:
            self._seeds.append((grad, self._define_grad(name)))
            inner.add(route.versions.last_key(name), self._seeds[-1][1])
        if self._is_segment and len(self._body.ops) == 1:
            # If a segment is a single loop, this loop adds to the earlier sums, in the order of a
            # loop without segments, so results are bitwise identical.
            self._sums = {name: self._define_grad(name, "/sum") for name in self._captured}
            inner.sums = self._sums
        inner.run()
        self._local, self._blocked = self._walk.collect(inner, self._forward)

    def _define_grad(self, name: str, word: str = "") -> str:
        """Define a copy of a forward body's variable in the gradient body; return its name."""
        like = self._body.var(name)
        free = self._program.free_name(self._prefix + name + GRAD_SUFFIX + word)
        self._block.define_var(free, like.shape, like.dtype)
        return free

    def _gives_init(self, i: int) -> bool:
        """Whether an initial value has a gradient: that of the result if no iteration runs."""
        name = self._inputs[i]
        return self._wanted_init[i] and (name in self._local or name not in self._blocked)

    def _finish(self) -> InputGrads:
        """Close the body, and append the scan."""
        block, local = self._block, self._local
        entering, leaving = list(self._carried.values()), []
        for i, grad in self._carried.items():
            name = self._inputs[i]
            zeros_name = self._prefix + name + GRAD_SUFFIX
            leaving.append(local.get(name) or append_zeros(block, grad, zeros_name))
        for name in self._captured:
            if name in self._sums:
                entering.append(self._sums[name])
                leaving.append(local[name])
                continue
            entering.append(self._define_grad(name, "/sum"))
            leaving.append(self._program.free_name(f"{self._prefix}{name}{GRAD_SUFFIX}/next"))
            block.append_op(ADD_N, {X: [entering[-1], local[name]]}, {OUT: leaving[-1]})
        elements = [local[name] for name in self._sequences]
        prune_block(block, {*leaving, *elements})
        used = {name for op in block.ops for name in op.input_names()}
        used.update(leaving, elements)
        keeping = Keeping(self._walk.block, self._forward, self._control, self._body)
        arrays = keeping.move(block)
        arrays += [seed for seed in self._seeds if seed[1] in used]
        for (name, _), (_, seed) in zip(self._stacked, self._seeds, strict=True):
            self._segmented.update({seed} if name in self._segmented else ())
        self._segmented.update(local[n] for n in self._sequences if n in self._segmented)
        attrs = keeping.describe_turns(_scan_control(self._forward), arrays)
        entered = (inner for _, inner in arrays)
        drop_unused_vars(block, {*leaving, *elements, *entering, *entered})
        return self._emit(attrs, entering, leaving, elements, arrays, keeping.turns())

    def _emit(
        self,
        attrs: dict[str, Any],
        entering: list[str],
        leaving: list[str],
        elements: list[str],
        arrays: list[tuple[str, str]],
        turns: str | None,
    ) -> InputGrads:
        """Append the scan, and return the gradients that it computes."""
        if turns is not None and elements:
            raise GradientError(
                f"{self._forward}: a loop whose number of iterations is known only at run "
                "time has no gradient for its sequences, got a sequence that needs one; set its "
                "stop_gradient=True"
            )
        scan = _scan_control(self._forward)
        captured = self._control.captured
        finals = self._forward.writes.get(self._control.outputs, ())
        init = [self._given[i] or self._zeros(ForwardName.of(finals[i])) for i in self._carried]
        init += [
            self._walk.sums.get(name) or self._zeros(self._forward.captured_name(captured, name))
            for name in self._captured
        ]
        attrs[scan.block] = self._block.idx
        attrs[scan.block_inputs], attrs[scan.block_outputs] = entering, leaving
        attrs[str(scan.block_elements)] = [inner for _, inner in arrays]
        if self._is_segment:
            attrs[str(scan.segment)] = self._forward.attrs[str(self._control.segment)]
            names = [*attrs[str(scan.block_elements)], *elements]
            attrs[str(scan.segmented)] = [name for name in names if name in self._segmented]
        stack, attrs[scan.stacks[0][1]] = scan.stacks[0][0], elements
        outer_names = [self._forward.captured_name(captured, n) for n in self._block.captured()]
        inputs = {
            scan.carried: init,
            str(scan.sequences): [outer for outer, _ in arrays],
            scan.captured: outer_names,
            str(scan.turns): [] if turns is None else [turns],
        }
        counts = {scan.outputs: len(init), stack: len(elements)}
        emitter = self._walk.emitter
        emitter.prefix = self._prefix.rstrip("/")
        given = {slot: tuple(names) for slot, names in inputs.items() if names}
        outputs = emitter.emit(SCAN, given, {s: n for s, n in counts.items() if n}, attrs)
        return self._results(outputs.get(scan.outputs, []), outputs.get(stack, []))

    def _zeros(self, name: str) -> str:
        self._walk.emitter.prefix = self._prefix + name + GRAD_SUFFIX
        outputs = self._walk.emitter.emit(FILL_LIKE, {X: (name,)}, {OUT: 1}, {"value": 0.0})
        return outputs[OUT][0]

    def _results(self, finals: list[str], arrays: list[str]) -> InputGrads:
        control, n_carried = self._control, len(self._carried)
        carried = zip(self._carried, finals, strict=False)
        captured = zip(self._captured.values(), finals[n_carried:], strict=True)
        sequences = zip(self._sequences.values(), arrays, strict=True)
        return {
            **{(control.carried, i): name for i, name in carried if self._gives_init(i)},
            **{(control.captured, i): name for i, name in captured},
            **{(str(control.sequences), i): name for i, name in sequences},
        }


def _scan_control(forward: ForwardOp) -> Loop:
    """Return the Loop description of the operator that runs the gradient of a loop."""
    control = definition_of(SCAN).control
    if isinstance(control, Loop) and control.condition is None and control.stacks:
        return control
    raise GradientError(
        f"{forward}: its gradient needs a {SCAN!r} that is a loop over sequences, got {control}; "
        f"install {PROVIDER}"
    )


def segment_turns(forward: ForwardOp, control: Loop, place: Block) -> None:
    """Replace a loop with `checkpoint_every` by a loop over segments."""
    op = forward.op
    attrs: dict[str, Any] = dict(op.attrs)
    rows = attrs.pop(str(control.checkpoint_every))
    attrs.pop(str(control.max_iterations), None)  # a segment has its own number of iterations
    segment = place.program.block(attrs[control.block])
    body = clone_block(segment, segment.idx)
    clear_block(segment)
    attrs[control.block] = body.idx
    define = partial(_define_like, segment, body, f"{forward.first_output}/segment")
    init = define(names_in(attrs, control.block_inputs), "in")
    finals = define(names_in(attrs, control.block_outputs), "out")
    sequences = define(names_in(attrs, control.block_elements), "in", segmented=True)
    outputs, stacked = {control.outputs: finals}, {}
    for slot, attr in control.stacks:
        stacked[attr] = define(names_in(attrs, attr), "out", segmented=True)
        outputs[slot] = stacked[attr]
    inputs = {
        control.carried: init,
        str(control.sequences): sequences,
        control.captured: op.inputs.get(control.captured, ()),
    }
    definition = op.definition
    turns = Operator.make(
        segment,
        definition,
        {slot: inputs[slot] for slot in definition.input_index if inputs.get(slot)},
        {slot: outputs[slot] for slot in definition.output_index if outputs.get(slot)},
        attrs,
    )
    segment.replace_ops([turns])
    segmented = (*sequences, *(name for names in stacked.values() for name in names))
    outer_attrs: dict[str, Any] = {
        **attrs,
        control.block: segment.idx,
        control.block_inputs: init,
        control.block_outputs: finals,
        str(control.block_elements): sequences,
        str(control.segment): rows,
        str(control.segmented): segmented,
        **stacked,
    }
    new = Operator.make(place, definition, dict(op.inputs), dict(op.outputs), outer_attrs)
    place.replace_op(op, new)
    forward.op = new


def _define_like(
    segment: Block,
    body: Block,
    prefix: str,
    names: tuple[str, ...],
    word: str,
    *,
    segmented: bool = False,
) -> tuple[str, ...]:
    """Define copies of body variables, or arrays of them, in a segment; return the new names."""
    new_names = []
    for name in names:
        like = body.var(name)
        shape = like.shape
        if segmented and shape is not None:
            shape = (-1, *shape)
        new_names.append(segment.program.free_name(f"{prefix}/{name}/{word}"))
        segment.define_var(new_names[-1], shape, like.dtype)
    return tuple(new_names)
