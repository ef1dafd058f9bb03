"""Gradients of single calls as networks, cached by call, dtypes and shapes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import torch

import opwright as ow
from opwright.errors import GradientError
from opwright.op import Meta
from opwright_torch.dtypes import dtype_name
from opwright_torch.ops.calls import Call, Vjp, What, Whole, unflatten

MAX_NETWORKS: Final = 512
"""Maximum number of cached gradients; the least recently used gradient is evicted first."""

Metas = tuple[Meta, ...]


class Piece(NamedTuple):
    """Operators that compute results from arguments; both are given by variable name."""

    ops: tuple[ow.Operator, ...]
    block: ow.Block
    arguments: tuple[str, ...]
    results: tuple[str | None, ...]  # None for a constant


class Compiled(NamedTuple):
    """A network, and how its feeds and fetches map to arguments and results."""

    call: Any
    feeds: tuple[int, ...]  # indices of the arguments
    sources: tuple[tuple[str, int] | None, ...]  # of each result: ("fetch" or "argument", index)


def run(context: Any, what: What, values: Sequence[Any]) -> list[Any]:
    """Compute a call in a Context; a `Meta` replaces a tensor if only its shape is needed.

    The returned list contains None for a constant result, and may contain an argument itself.
    """
    metas = tuple(map(meta_of, values))
    device = next(v.device for v in values if isinstance(v, torch.Tensor))
    unread = tuple(i for i, v in enumerate(values) if not isinstance(v, torch.Tensor))
    compiled = find_network(context, what, metas, str(device), unread)
    fetched = compiled.call(*[values[i] for i in compiled.feeds]) if compiled.call else []
    return [
        None if source is None else (fetched if source[0] == "fetch" else values)[source[1]]
        for source in compiled.sources
    ]


def separate(results: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the results, with copies of results that are arguments."""
    arguments = {id(value) for value in values}
    return [r.clone() if r is not None and id(r) in arguments else r for r in results]


def meta_of(value: Any) -> Meta:
    """Return the meta of a tensor, or a Meta unchanged."""
    return Meta(value.shape, dtype_name(value.dtype)) if isinstance(value, torch.Tensor) else value


@lru_cache(maxsize=MAX_NETWORKS)
def find_network(
    context: Any, what: What, metas: Metas, device: str, unread: tuple[int, ...]
) -> Compiled:
    """Return the network of a call for tensors of these metas on a device."""
    with ow.context_guard(context):
        return _compile(make_piece(what, metas), device, unread)


def _compile(piece: Piece, device: str, unread: tuple[int, ...]) -> Compiled:
    places = {name: i for i, name in enumerate(piece.arguments)}
    has_blocks = len(piece.block.program.blocks) > 1
    network = ow.Network(piece.block if has_blocks else piece.ops)
    read = [name for name in places if name in set(ow.names_read_first(network.ops))]
    fetch = [n for n in dict.fromkeys(piece.results) if n is not None and n not in places]
    sources = tuple(
        None
        if name is None
        else ("argument", places[name])
        if name in places
        else ("fetch", fetch.index(name))
        for name in piece.results
    )
    call = None
    if fetch:
        on_host = device == "cpu"
        call = network.compile(
            feed=read,
            fetch=fetch,
            device=device,
            scope=ow.Scope(),
            fetch_device=not on_host,
            shape_only=[name for name in read if places[name] in unread],
            fetch_as=torch.Tensor if on_host else torch.from_dlpack,
            detach=True,
        )
    return Compiled(call, tuple(places[name] for name in read), sources)


def make_piece(what: What, metas: Metas) -> Piece:
    """Return the operators of a call for arguments of these metas."""
    if isinstance(what, Whole):
        return _make_whole(what, metas)
    block = ow.Program().global_block()
    if isinstance(what, Call):
        return _make_forward(what, block, metas)
    base = make_piece(what.of, metas[: what.n_args])
    if _is_whole(what.of):  # the program can have blocks, which cannot be replayed
        block = base.block
        arguments = [block.var(name) for name in base.arguments]
        names = {name: name for name in block.vars}
    else:
        arguments = [_create(block, f"a{i}", meta) for i, meta in enumerate(metas[: what.n_args])]
        names = replay(base, block, arguments)
    results = [name if name is None else block.var(names[name]) for name in base.results]
    kept = [names[name] for slot in what.kept for name in base.ops[0].output(slot)]
    begin = what.n_args + len(what.kept)
    free = block.program.free_name
    grads = [_create(block, free(f"g{i}"), meta) for i, meta in enumerate(metas[begin:])]
    found = _append_gradients(block, what, results, arguments, grads)
    ops = ow.operators_between(block.ops, [name for name in found if name], kept)
    written = {name for op in ops for name in op.output_names()}
    kept = [f"{name} is recomputed" if name in written else name for name in kept]
    names_of = (*[v.name for v in arguments], *kept, *[v.name for v in grads])
    return Piece(ops, block, names_of, tuple(found))


def _is_whole(what: What) -> bool:
    return _is_whole(what.of) if isinstance(what, Vjp) else isinstance(what, Whole)


def _make_whole(whole: Whole, metas: Metas) -> Piece:
    program = read_program(whole)
    block = program.global_block()
    for name, meta in zip(whole.arguments, metas, strict=True):
        let_flow(block.var(name)).shape = meta.shape
    program.infer_shapes()
    return Piece(tuple(block.ops), block, whole.arguments, whole.results)


def let_flow(variable: ow.Variable) -> ow.Variable:
    """Make a variable require a gradient, and return it."""
    variable.stop_gradient = False
    if isinstance(variable, ow.Parameter):
        variable.trainable = True
    return variable


def read_program(whole: Whole) -> ow.Program:
    """Return the Program of a call; each invocation creates a new object."""
    message = type(ow.Program().to_proto()).FromString(base64.b64decode(whole.program))
    return ow.Program.from_proto(message)


def _make_forward(call: Call, block: ow.Block, metas: Metas) -> Piece:
    definition = ow.current_context().ops.get(call.type)
    proto = definition.proto
    arguments = [_create(block, f"a{i}", meta) for i, meta in enumerate(metas)]
    inputs = zip(proto.inputs, unflatten(proto, call.counts, arguments), strict=True)
    attrs = zip(proto.attrs, call.attrs, strict=True)
    wanted = [proto.output_slots[name] for name in call.returned]
    op = block.append_op(
        call.type,
        {slot.name: value for slot, value in inputs if value is not None},
        {slot.name: f"o_{slot.name}" for slot in wanted if slot.optional and not slot.aliases},
        {attr.name: value for attr, value in attrs if value is not None},
    )
    results = tuple(name for slot in wanted for name in op.output(slot.name))
    return Piece(tuple(block.ops), block, tuple(v.name for v in arguments), results)


def _create(block: ow.Block, name: str, meta: Meta) -> ow.Variable:
    return block.create_var(name, list(meta.shape), meta.dtype, is_data=True)


def replay(piece: Piece, block: ow.Block, arguments: Sequence[ow.Variable]) -> dict[str, str]:
    """Append the operators of a `Piece` to another block; return the new variable names."""
    names = dict(zip(piece.arguments, (v.name for v in arguments), strict=True))
    free = block.program.unique_name
    for op in piece.ops:
        inputs = {slot: [names[name] for name in listed] for slot, listed in op.inputs.items()}
        for name in op.output_names():
            names.setdefault(name, free(name))
        outputs = {slot: [names[name] for name in listed] for slot, listed in op.outputs.items()}
        block.append_op(op.type, inputs, outputs, dict(op.attrs))
        for name in op.output_names():  # a gradient rule may have declared it constant
            if piece.block.var(name).stop_gradient:
                block.var(names[name]).stop_gradient = True
    return names


def _append_gradients(
    block: ow.Block,
    what: Vjp,
    results: Sequence[ow.Variable | None],
    arguments: Sequence[ow.Variable],
    grads: Sequence[ow.Variable],
) -> list[str | None]:
    """Append the gradients; return their names, with None for arguments without effect."""
    pairs_of = zip([results[i] for i in what.given], grads, strict=True)
    seeds: dict[Any, Any] = {target: grad for target, grad in pairs_of if target is not None}
    if not seeds:
        return [None] * len(what.wanted)
    wanted = [arguments[i] for i in what.wanted]
    try:
        pairs = ow.append_backward(list(seeds), wanted, grads=seeds, allow_unused=True)
    except GradientError as error:
        raise GradientError(f"{_type_of(what)}: {error}") from None
    found = {variable.name: gradient.name for variable, gradient in pairs}
    return [found.get(arguments[i].name) for i in what.wanted]


def _type_of(what: What) -> str:
    if isinstance(what, Vjp):
        return f"gradient of {_type_of(what.of)}"
    return what.type if isinstance(what, Call) else "a program"
