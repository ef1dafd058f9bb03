"""Recurrent layers step by step, for rare attributes and second gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from opwright.errors import GradientError
from opwright.op import BodyContext, by_differentiating
from opwright_std.compositions.expression import Expression, read


class Memory(NamedTuple):
    """State, LSTM cell and gates of one direction of a layer at one step."""

    state: Expression
    cell: Expression | None = None
    gates: Expression | None = None


Step = Callable[[Expression, Memory], Memory]
"""Maps the contribution of x to the gates and the old `Memory` to the new `Memory`."""


def split(x: Expression, count: int) -> list[Expression]:
    """Split the columns into equal parts."""
    return x.each("split", count, axis=1, num=count)


def _joined(b: BodyContext, op_type: str, parts: Sequence[Expression], axis: int) -> Expression:
    names = [part.name for part in parts]
    return Expression(b, b.emit(op_type, {"x": names}, attrs={"axis": axis}))


def _rows(x: Expression, begin: int, end: int) -> Expression:
    return x.then("slice", axes=[0], starts=[begin], ends=[end])


def _parameter(b: BodyContext, slot: str, place: int) -> Expression | None:
    names = b.inputs(slot)
    return Expression(b, names[place]) if names else None


def _affine(x: Expression, weight: Expression, bias: Expression | None) -> Expression:
    out = x.with_("matmul", weight, transpose_y=True)
    return out if bias is None else out + bias


def gru_step(
    b: BodyContext, weight: Expression, bias: Expression | None, size: int, reset_after: bool
) -> Step:
    """Return the step function of a GRU with `size` hidden units."""
    if reset_after:

        def step(x_part: Expression, memory: Memory) -> Memory:
            inputs, states = split(x_part, 3), split(_affine(memory.state, weight, bias), 3)
            r, z = ((inputs[k] + states[k]).then("sigmoid") for k in (0, 1))
            n = (inputs[2] + r * states[2]).then("tanh")
            return _next_gru(b, memory.state, r, z, n, states[2])

        return step
    ends = ((0, 2 * size), (2 * size, 3 * size))
    weights = [_rows(weight, *pair) for pair in ends]
    biases = [None if bias is None else _rows(bias, *pair) for pair in ends]

    def step_before(x_part: Expression, memory: Memory) -> Memory:
        inputs = split(x_part, 3)
        states = split(_affine(memory.state, weights[0], biases[0]), 2)
        r, z = ((inputs[k] + states[k]).then("sigmoid") for k in (0, 1))
        kept = r * memory.state
        n = (inputs[2] + _affine(kept, weights[1], biases[1])).then("tanh")
        return _next_gru(b, memory.state, r, z, n, kept)

    return step_before


def _next_gru(
    b: BodyContext, state: Expression, r: Expression, z: Expression, n: Expression, last: Expression
) -> Memory:
    gates = _joined(b, "concat", [r, z, n, last], 1)
    return Memory((1.0 - z) * n + z * state, None, gates)


def lstm_step(
    b: BodyContext,
    weight: Expression,
    bias: Expression | None,
    peephole: Expression | None,
    projection: Expression | None,
) -> Step:
    """Return the step function of an LSTM, with peepholes, bounds and a projection if given."""
    clip = float(b.attr("clip"))

    def bounded(x: Expression) -> Expression:
        return x.then("clip", min=-clip, max=clip) if clip else x

    def step(x_part: Expression, memory: Memory) -> Memory:
        cell = memory.cell or memory.state
        i, f, g, o = split(x_part + _affine(memory.state, weight, bias), 4)
        parts = peephole.each("split", 3, axis=0, num=3) if peephole else []
        if parts:
            i, f = i + parts[0] * cell, f + parts[1] * cell
        kept = bounded(f).then("sigmoid") * cell
        cell = kept + bounded(i).then("sigmoid") * bounded(g).then("tanh")
        if parts:
            o = o + parts[2] * cell
        state = bounded(o).then("sigmoid") * cell.then("tanh")
        if projection is not None:
            state = state.with_("matmul", projection, transpose_y=True)
        return Memory(state, cell)

    return step


class _Dims(NamedTuple):
    steps: int
    n: int
    dtype: str


def _dims(b: BodyContext) -> _Dims:
    meta = b.meta(b.input("x") or "")
    if meta is None or -1 in meta.shape[:2]:
        raise GradientError(
            f"{b.type}: the layer is unrolled, so the numbers of steps and rows must be known, "
            f"got {meta}; declare axes 0 and 1 of x"
        )
    first, second = meta.shape[:2]
    return _Dims(*((second, first) if b.attr("batch_first") else (first, second)), meta.dtype)


def _first(b: BodyContext, slot: str, place: int, size: int, dims: _Dims) -> Expression:
    """Emit the initial states or cells of one direction of a layer."""
    if b.has_input(slot):
        return _rows(read(b, slot), place, place + 1).then("squeeze", axis=[0])
    attrs = {"shape": [dims.n, size], "value": 0.0, "dtype": dims.dtype}
    return Expression(b, b.emit("fill", {}, attrs=attrs))


def _find_valid(b: BodyContext, dims: _Dims) -> Expression | None:
    """Emit the mask of valid steps, [t, n, 1]; return None if all steps are valid."""
    if not b.has_input("lengths"):
        return None
    lengths = read(b, "lengths")
    meta = b.meta(lengths.name)
    attrs = {"start": 0, "stop": dims.steps, "dtype": meta.dtype if meta else "int64"}
    steps = Expression(b, b.emit("arange", {}, attrs=attrs)).then("unsqueeze", axis=[1, 2])
    return lengths.then("unsqueeze", axis=[0, 2]).with_("greater", steps)


def _run_direction(
    step: Step,
    memory: Memory,
    parts: Sequence[Expression],
    valid: Sequence[Expression],
    is_reverse: bool,
) -> tuple[list[Memory], Memory]:
    """Emit all steps of one direction; return the `Memory` of each step, and the last one."""
    made: list[Memory] = [memory] * len(parts)
    for place in range(len(parts))[:: -1 if is_reverse else 1]:
        new = step(parts[place], memory)
        if valid:
            cell = new.cell and memory.cell and valid[place].choose(new.cell, memory.cell)
            new = Memory(valid[place].choose(new.state, memory.state), cell, new.gates)
        memory = made[place] = new
    return made, memory


def run_layers(
    b: BodyContext, make_step: Callable[[int], Step], sizes: tuple[int, int | None]
) -> dict[str, Callable[[], Expression]]:
    """Emit all layers; return, by output name, functions that emit the outputs.

    `sizes` has the size of the state and the size of the cell, or None for layers without a cell.
    """
    dims, directions = _dims(b), 1 + b.attr("bidirectional")
    flow = read(b, "x").then("transpose", axes=[1, 0, 2]) if b.attr("batch_first") else read(b, "x")
    mask, made, ends = _find_valid(b, dims), [], []
    valid: list[Expression] = []
    if mask is not None:
        flow = mask.choose(flow, flow.filled(0.0))  # padding may be NaN
        valid = mask.each("unstack", dims.steps, axis=0)
    for place in range(len(b.inputs("weight_ih"))):
        bias = _parameter(b, "bias_ih", place)
        weight = Expression(b, b.inputs("weight_ih")[place])
        parts = _affine(flow, weight, bias).each("unstack", dims.steps, axis=0)
        cell = None if sizes[1] is None else _first(b, "c0", place, sizes[1], dims)
        memory = Memory(_first(b, "h0", place, sizes[0], dims), cell)
        is_last = place % directions == directions - 1
        is_reverse = place % directions == 1
        steps, last = _run_direction(make_step(place), memory, parts, valid, is_reverse)
        made.append(steps)
        ends.append(last)
        if is_last:
            flow = _layer_output(b, made[-directions:], valid, dims, sizes[0] * directions)
    out = flow

    def stacked(pick: Callable[[Memory], Expression | None]) -> Expression:
        lines = [_joined(b, "stack", [pick(m) or m.state for m in steps], 0) for steps in made]
        return _joined(b, "stack", lines, 0)

    return {
        "out": lambda: out.then("transpose", axes=[1, 0, 2]) if b.attr("batch_first") else out,
        "h_n": lambda: _joined(b, "stack", [memory.state for memory in ends], 0),
        "c_n": lambda: _joined(b, "stack", [m.cell or m.state for m in ends], 0),
        "states": lambda: stacked(lambda memory: memory.state),
        "gates": lambda: stacked(lambda memory: memory.gates),
    }


def _layer_output(
    b: BodyContext,
    sides: Sequence[Sequence[Memory]],
    valid: Sequence[Expression],
    dims: _Dims,
    width: int,
) -> Expression:
    """Emit a layer's output: the states of its directions concatenated, 0 in the padding."""
    if dims.steps == 0:
        attrs = {"shape": [0, dims.n, width], "value": 0.0, "dtype": dims.dtype}
        return Expression(b, b.emit("fill", {}, attrs=attrs))
    joined = [
        _joined(b, "concat", [side[step].state for side in sides], 1) for step in range(dims.steps)
    ]
    if valid:
        joined = [v.choose(row, row.filled(0.0)) for v, row in zip(valid, joined, strict=True)]
    return _joined(b, "stack", joined, 0)


def _size_of(b: BodyContext, slot: str, axis: int) -> int:
    meta = b.meta(b.inputs(slot)[0])
    if meta is None or meta.shape[axis] < 0:
        raise GradientError(f"{b.type}: the shape of {slot} must be known, got {meta}; declare it")
    return meta.shape[axis]


def _gru(b: BodyContext) -> dict[str, Callable[[], Expression]]:
    size = _size_of(b, "weight_hh", 1)

    def make_step(place: int) -> Step:
        weight = Expression(b, b.inputs("weight_hh")[place])
        bias = _parameter(b, "bias_hh", place)
        return gru_step(b, weight, bias, size, b.attr("reset_after"))

    return run_layers(b, make_step, (size, None))


def gru_body(b: BodyContext) -> bool:
    """Emit a GRU that resets the state before the product; return False if not applicable."""
    if b.attr("reset_after") or _dims(b).steps == 0:
        return False
    for slot, write in _gru(b).items():
        if slot in b.proto.output_slots and b.has_output(slot):
            b.set_output(slot, write().name)
    return True


@by_differentiating
def gru(b: BodyContext) -> dict[str, str]:
    made = _gru(b)
    return {slot: made[slot]().name for slot in ("out", "h_n")}


def _lstm(b: BodyContext) -> dict[str, str]:
    size, width = _size_of(b, "weight_hh", 0) // 4, _size_of(b, "weight_hh", 1)

    def make_step(place: int) -> Step:
        weight = Expression(b, b.inputs("weight_hh")[place])
        given = [_parameter(b, slot, place) for slot in ("bias_hh", "peephole", "weight_hr")]
        return lstm_step(b, weight, *given)

    made = run_layers(b, make_step, (width, size))
    return {slot: made[slot]().name for slot in ("out", "h_n", "c_n")}


def lstm_body(b: BodyContext) -> None:
    """Emit an LSTM with the given operands."""
    for slot, name in _lstm(b).items():
        b.set_output(slot, name)


LSTM = by_differentiating(_lstm)
