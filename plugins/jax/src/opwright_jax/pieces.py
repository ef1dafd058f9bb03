"""The programs of computations, for arguments of known dtypes and shapes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import GradientError, ShapeError
from opwright.op import Meta, format_shape
from opwright_jax.calls import Call, Forward, Vjp, What, Whole, label, read_attrs
from opwright_jax.dtypes import NARROW

MAX_PIECES: Final = 1024
"""Maximum number of cached programs; the least recently used program is dropped first."""

Metas = tuple[Meta, ...]


class Piece(NamedTuple):
    """A program owned by the caller, with the names of its arguments and results."""

    program: ow.Program
    arguments: tuple[str, ...]
    results: tuple[str | None, ...]  # None if it does not depend on arguments

    @property
    def block(self) -> ow.Block:
        """The block that computes the results."""
        return self.program.global_block()


class Compiled(NamedTuple):
    """The arguments of a custom call, and how its operands and results fit the computation."""

    text: str
    digest: tuple[int, int]
    reads: tuple[int, ...]  # arguments
    fetches: Metas
    sources: tuple[tuple[str, int] | None, ...]  # of results: ("fetch" or "argument", its place)
    has_shapes: bool  # whether the arguments have the shapes that the program infers for them

    @property
    def places(self) -> tuple[int, ...]:
        """For each fetch, the first result that is this fetch."""
        return tuple(self.sources.index(("fetch", i)) for i in range(len(self.fetches)))


@lru_cache(maxsize=MAX_PIECES)
def compile_piece(what: What, metas: Metas) -> Compiled:
    """Return the custom call of a computation for arguments of these metas.

    Raises ShapeError if the shape of a result is unknown before it is computed.
    """
    piece = make_piece(what, metas)
    places = {name: i for i, name in enumerate(piece.arguments)}
    fetches = [n for n in dict.fromkeys(piece.results) if n is not None and n not in places]
    program = piece.program.prune(fetches) if fetches else ow.Program()
    block = program.global_block()
    first = set(ow.names_read_first(block.ops))
    reads = [name for name in places if name in first]
    described = [_describe(block, name, what) for name in fetches]
    feeds = [(name, metas[places[name]].dtype, metas[places[name]].shape) for name in reads]
    text = _write(program, feeds, [(n, m.dtype, m.shape) for n, m in zip(fetches, described)])
    sources = tuple(
        None
        if name is None
        else ("argument", places[name])
        if name in places
        else ("fetch", fetches.index(name))
        for name in piece.results
    )
    has_shapes = all(
        piece.block.var(name).shape == meta.shape
        for name, meta in zip(piece.arguments, metas, strict=True)
    )
    indices = tuple(places[n] for n in reads)
    return Compiled(text, digest_of(text), indices, tuple(described), sources, has_shapes)


def digest_of(text: str) -> tuple[int, int]:
    """Return two 64-bit numbers that identify a string."""
    both = blake2b(text.encode(), digest_size=16).digest()
    high, low = (int.from_bytes(half, "little", signed=True) for half in (both[:8], both[8:]))
    return high, low


def _write(program: ow.Program, feeds: list[Any], fetches: list[Any]) -> str:
    """Serialize a program to text that is equal for equal computations in all processes."""
    message = program.to_proto().SerializeToString(deterministic=True)
    return json.dumps({"program": message.hex(), "feeds": feeds, "fetches": fetches})


def read_program(message: bytes) -> ow.Program:
    """Parse a serialized Program."""
    return ow.Program.from_proto(type(ow.Program().to_proto()).FromString(message))


def make_piece(what: What, metas: Metas) -> Piece:
    """Return the program of a computation for arguments of these metas."""
    if isinstance(what, Call):
        return _make_call(what, metas)
    if isinstance(what, Whole):
        return _make_whole(what, metas)
    if isinstance(what, Forward):
        gradients = differentiate(what.of, metas, what.given, what.wanted)
        base = gradients.base
        return base._replace(results=(*base.results, *gradients.saved))
    n = len(metas) - len(what.given) - len(what.saved)
    return _make_vjp(what, metas[:n])


def _make_call(call: Call, metas: Metas) -> Piece:
    proto = ow.current_context().ops.get(call.type).proto
    program = ow.Program()
    block = program.global_block()
    names = [
        f"{slot.name}.{i}" if slot.duplicable else slot.name
        for slot, count in zip(proto.inputs, call.counts, strict=True)
        for i in range(count)
    ]
    arguments = [
        block.create_var(name, list(meta.shape), meta.dtype, is_data=True)
        for name, meta in zip(names, metas, strict=True)
    ]
    items = iter(arguments)
    inputs: dict[str, Any] = {}
    written = {slot.aliases for slot in proto.outputs}
    for slot, count in zip(proto.inputs, call.counts, strict=True):
        listed = [_widen(block, next(items), slot.dtypes) for _ in range(max(count, 0))]
        if slot.name in written:  # JAX arrays are immutable, so the operator writes a copy
            listed = [block.var(_append_unary(block, "assign", v.name)) for v in listed]
        if count >= 0:
            inputs[slot.name] = listed if slot.duplicable else listed[0]
    wanted = [proto.output_slots[name] for name in call.returned]
    asked = {s.name: f"o_{s.name}" for s in wanted if s.optional and not s.aliases}
    op = block.append_op(call.type, inputs, asked, read_attrs(call.attrs))
    results = [name for slot in wanted for name in op.output(slot.name)]
    return Piece(program, tuple(v.name for v in arguments), _narrow(block, results, call.is_wide))


def _make_whole(whole: Whole, metas: Metas) -> Piece:
    program = read_program(whole.program)
    block = program.global_block()
    arguments = []
    for name, meta in zip(whole.arguments, metas, strict=True):
        variable = block.var(name)
        variable.stop_gradient = False
        if isinstance(variable, ow.Parameter):
            variable.trainable = True
        variable.shape = meta.shape
        if NARROW.get(variable.dtype) == meta.dtype and not whole.is_wide:
            narrow = program.free_name(f"{name} in 32 bits")
            arguments.append(block.create_var(narrow, list(meta.shape), meta.dtype, is_data=True))
            block.prepend_op("cast", {"x": narrow}, {"out": name}, {"dtype": variable.dtype})
        else:
            arguments.append(variable)
    program.infer_shapes()
    results = _narrow(block, whole.results, whole.is_wide)
    return Piece(program, tuple(v.name for v in arguments), results)


def _widen(block: ow.Block, variable: ow.Variable, dtypes: Sequence[str]) -> ow.Variable:
    """Return a 32-bit argument as 64 bits if an operator requires that."""
    dtype = variable.dtype
    wide = next((w for w, n in NARROW.items() if n == dtype and w in dtypes), None)
    if wide is None or not dtypes or dtype in dtypes:
        return variable
    return block.var(_append_unary(block, "cast", variable.name, dtype=wide))


def _append_unary(block: ow.Block, op_type: str, name: str, **attrs: Any) -> str:
    """Append an operator of one input; return the name of its result."""
    return block.append_op(op_type, {"x": name}, attrs=attrs).output("out")[0]


def _narrow(block: ow.Block, names: Sequence[str], is_wide: bool) -> tuple[str, ...]:
    """Return results in JAX dtypes, which have 32 bits without 64-bit types."""
    narrow = []
    for name in names:
        dtype = None if is_wide else NARROW.get(block.var(name).dtype)
        narrow.append(_append_unary(block, "cast", name, dtype=dtype) if dtype else name)
    return tuple(narrow)


class Gradients(NamedTuple):
    """A computation and its gradients in one program."""

    base: Piece
    seeds: tuple[str, ...]  # the gradients of the results that are given
    found: tuple[str | None, ...]  # the gradients that are wanted
    saved: tuple[str, ...]  # values read besides arguments and seeds


def differentiate(of: What, metas: Metas, given: Sequence[int], wanted: Sequence[int]) -> Gradients:
    """Append the gradients of a computation; GradientError if a rule is missing."""
    base = make_piece(of, metas)
    block = base.block
    results = [block.var(str(base.results[i])) for i in given]
    seeds = []
    for i, result in enumerate(results):
        name = base.program.free_name(f"g{i}")
        seeds.append(block.create_var(name, list(result.shape or ()), result.dtype, is_data=True))
    listed = [block.var(base.arguments[i]) for i in wanted]
    by_name = _append(block, results, seeds, listed, of)
    found = tuple(by_name.get(variable.name) for variable in listed)
    names = [name for name in base.results if name is not None]
    forward = {
        n
        for op in ow.operators_between(block.ops, names, base.arguments)
        for n in op.output_names()
    }
    backward = ow.operators_between(block.ops, [n for n in found if n], [*base.arguments, *forward])
    saved = [n for n in ow.names_read_first(backward) if n in forward]
    written = Counter(name for op in block.ops for name in op.output_names())
    is_wide = _is_wide(of)
    dtypes = {block.var(name).dtype for name in saved}
    if any(n > 1 for n in written.values()) or not (is_wide or dtypes.isdisjoint(NARROW)):
        saved = []  # recomputed
    return Gradients(base, tuple(v.name for v in seeds), found, tuple(saved))


def _is_wide(what: What) -> bool:
    return what.is_wide if isinstance(what, (Call, Whole)) else _is_wide(what.of)


def _make_vjp(vjp: Vjp, metas: Metas) -> Piece:
    gradients = differentiate(vjp.of, metas, vjp.given, vjp.wanted)
    base, block = gradients.base, gradients.base.block
    leaves = [*base.arguments, *vjp.saved, *gradients.seeds]
    found = [name for name in gradients.found if name]
    block.replace_ops(ow.operators_between(block.ops, found, leaves))
    return Piece(base.program, tuple(leaves), gradients.found)


def _append(
    block: ow.Block,
    results: Sequence[ow.Variable],
    seeds: Sequence[ow.Variable],
    wanted: Sequence[ow.Variable],
    of: What,
) -> dict[str, str]:
    """Append gradients; return them by variable, without the gradients of unused results."""
    pairs: dict[Any, Any] = {}
    for result, seed in zip(results, seeds, strict=True):
        known = pairs.get(result)  # the same variable may be two results
        pairs[result] = seed if known is None else _append_sum(block, known, seed)
    targets = list(pairs)
    try:
        appended = ow.append_backward(targets, wanted, grads=pairs, allow_unused=True)
    except GradientError as error:
        raise GradientError(
            f"{label(of)}: {error}; jax.lax.stop_gradient omits an argument in JAX"
        ) from None
    return {variable.name: gradient.name for variable, gradient in appended}


def _append_sum(block: ow.Block, x: ow.Variable, y: ow.Variable) -> ow.Variable:
    return block.var(block.append_op("add", {"x": x, "y": y}).output("out")[0])


def _describe(block: ow.Block, name: str, what: What) -> Meta:
    variable = block.var(name)
    if variable.shape is None or any(dim < 0 for dim in variable.shape):
        shown = "?" if variable.shape is None else format_shape(variable.shape)
        raise ShapeError(
            f"{label(what)}: results must have shapes that are known before a run, got {shown} for "
            f"{name!r}; compute it outside of JAX, which compiles for fixed shapes"
        )
    return Meta(tuple(variable.shape), variable.dtype)
