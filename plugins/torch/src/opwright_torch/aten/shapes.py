"""Views, permutations, concatenation and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.sizes import Size
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def rank(x: Value) -> int:
    """Return the number of axes."""
    return len(x.shape or ())


def axis_of(x: Value, dim: int, added: int = 0) -> int:
    """Return an axis as a non-negative index; a scalar has one axis, as in PyTorch."""
    return dim % max(rank(x) + added, 1)


def with_shape(t: Translator, x: Value, shape: list[int]) -> Value:
    """Reshape `x`."""
    if t.shape(x) == shape:
        return x
    if (written := t.writer(x, "reshape")) is not None:
        return with_shape(t, t.block.var(written.input("x")[0]), shape)
    if 0 not in shape:
        return t.op("reshape", x, shape=shape)
    # A 0 in `shape` would copy the dimension of x.
    flat = t.op("reshape", x, shape=[-1])
    others = [axis for axis in range(len(shape)) if axis != shape.index(0)]
    return t.op("expand", t.op("unsqueeze", flat, axis=others) if others else flat, shape=shape)


def broadcast_shape(t: Translator, values: Sequence[Value]) -> list[Value]:
    """Return the broadcast shape of Variables under PyTorch's rules."""
    return broadcast_dims([t.shape(value) for value in values])


def broadcast_dims(shapes: Sequence[Sequence[Value]]) -> list[Value]:
    """Return the shape that some shapes broadcast to, under PyTorch's rules."""
    columns = zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
    return [next((dim for dim in dims if dim != 1), 1) for dims in columns][::-1]


def broadcast(t: Translator, *values: Value) -> tuple[Value, ...]:
    """Expand Variables to the shape of the node's result."""
    shape = t.shape()
    return tuple(v if t.shape(v) == shape else t.op("expand", v, shape=shape) for v in values)


@ROWS.row("aten::view", "aten::_unsafe_view", "aten::reshape", "aten::view_copy", "aten::flatten")
@ROWS.row("aten::squeeze", "aten::squeeze_copy", "aten::unflatten", "aten::ravel")
@ROWS.row("aten::view_as", "aten::reshape_as", "aten::_reshape_alias", "aten::unsqueeze")
@ROWS.row("aten::unsqueeze_copy", "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d")
def reshape(t: Translator, input: Value, dtype: Value = None, **_: Value) -> Value:
    """Reshape the input to the shape of the result."""
    if dtype is not None:
        raise Decline(f"bits cannot be reinterpreted, got {input.dtype} as {t.dtype()}")
    return with_shape(t, input, t.shape())


@ROWS.row("aten::permute", "aten::permute_copy")
def permute(t: Translator, input: Value, dims: Value) -> Value:
    """Permute axes."""
    axes = [axis_of(input, dim) for dim in dims]
    # Moving axes of length 1 does not need a copy.
    kept = [axis for axis, length in enumerate(t.shape(input)) if length != 1]
    x = with_shape(t, input, [t.shape(input)[axis] for axis in kept])
    order = [kept.index(axis) for axis in axes if axis in kept]
    if order != sorted(order):
        x = t.op("transpose", x, axes=order)
    return with_shape(t, x, [t.shape(input)[axis] for axis in axes])


@ROWS.row("aten::transpose", "aten::transpose_copy", "aten::swapdims")
def transpose(t: Translator, input: Value, dim0: int, dim1: int) -> Value:
    """Swap two axes."""
    axes = list(range(rank(input)))
    if axes:
        first, second = axis_of(input, dim0), axis_of(input, dim1)
        axes[first], axes[second] = axes[second], axes[first]
    return permute(t, input, axes)


@ROWS.row("aten::swapaxes")
def swapaxes(t: Translator, input: Value, axis0: int, axis1: int) -> Value:
    """Swap two axes."""
    return transpose(t, input, axis0, axis1)


@ROWS.row("aten::t", "aten::t_copy", "aten::matrix_H", "aten::mT", "aten::mH")
@ROWS.row("aten::adjoint")
def t_(t: Translator, input: Value) -> Value:
    """Transpose a matrix."""
    return transpose(t, input, -2, -1) if rank(input) > 1 else input


ROWS["aten::numpy_T"] = lambda t, input: permute(t, input, list(range(rank(input)))[::-1])


@ROWS.row("aten::movedim", "aten::moveaxis")
def movedim(t: Translator, input: Value, source: Value, destination: Value) -> Value:
    """Move axes to other positions."""
    pairs = [[v] if isinstance(v, int) else v for v in (source, destination)]
    sources, targets = ([axis_of(input, dim) for dim in dims] for dims in pairs)
    rest = iter(axis for axis in range(rank(input)) if axis not in sources)
    moved = dict(zip(targets, sources, strict=True))
    axes = [moved[i] if i in moved else next(rest) for i in range(rank(input))]
    return permute(t, input, axes)


@ROWS.row("aten::expand", "aten::expand_copy", "aten::expand_as", "aten::broadcast_to")
def expand(t: Translator, input: Value, **_: Value) -> Value:
    """Repeat the input along axes of length 1 and along new axes."""
    shape = t.shape()
    return input if t.shape(input) == shape else t.op("expand", input, shape=shape)


@ROWS.row("aten::cat", "aten::concat", "aten::concatenate")
def cat(t: Translator, tensors: Value, dim: int = 0) -> Value:
    """Concatenate tensors along an axis; empty 1-d tensors are ignored."""
    parts = [x for x in tensors if t.shape(x) != [0]] or list(tensors)
    axis = axis_of(parts[0], dim)
    parts = list(t.promote(*parts))
    return parts[0] if len(parts) == 1 else t.op("concat", parts, axis=axis)


@ROWS.row("aten::stack")
def stack(t: Translator, tensors: Value, dim: int = 0) -> Value:
    """Stack tensors along a new axis."""
    return t.op("stack", list(t.promote(*tensors)), axis=axis_of(tensors[0], dim, 1))


@ROWS.row("aten::roll")
def roll(t: Translator, input: Value, shifts: Value, dims: Value = ()) -> Value:
    """Roll elements along axes."""
    if not dims:
        flat = t.op("roll", with_shape(t, input, [-1]), shift=[*shifts], axis=[0])
        return with_shape(t, flat, t.shape())
    return t.op("roll", input, shift=list(shifts), axis=[axis_of(input, dim) for dim in dims])


@ROWS.row("aten::flip")
def flip(t: Translator, input: Value, dims: Value) -> Value:
    """Reverse axes."""
    return t.op("flip", input, axis=[axis_of(input, dim) for dim in dims]) if dims else input


@ROWS.row("aten::rot90")
def rot90(t: Translator, input: Value, k: int = 1, dims: Value = (0, 1)) -> Value:
    """Rotate by multiples of 90 degrees in the plane of two axes."""
    if k % 4 == 0:
        return input
    if k % 4 == 2:
        return flip(t, input, dims)
    if k % 4 == 1:
        return transpose(t, flip(t, input, [dims[1]]), *dims)
    return flip(t, transpose(t, input, *dims), [dims[1]])


ROWS["aten::fliplr"] = lambda t, input: flip(t, input, [1])
ROWS["aten::flipud"] = lambda t, input: flip(t, input, [0])


@ROWS.row("aten::repeat", "aten::tile")
def repeat(t: Translator, input: Value, repeats: Value = (), dims: Value = ()) -> Value:
    """Repeat the input along each axis; additional axes are prepended."""
    counts = list(repeats or dims)
    counts = [1] * (rank(input) - len(counts)) + counts
    x = with_shape(t, input, [1] * (len(counts) - rank(input)) + t.shape(input))
    return t.op("tile", x, repeats=counts) if set(counts) != {1} else x


@ROWS.row("aten::repeat_interleave.self_int")
def repeat_interleave(
    t: Translator, input: Value, repeats: int, dim: Value = None, output_size: Value = None
) -> Value:
    """Repeat each element consecutively."""
    x = with_shape(t, input, [math.prod(t.shape(input))]) if dim is None else input
    axis = axis_of(x, dim or 0)
    shape = t.shape(x)
    wide = t.op("unsqueeze", x, axis=[axis + 1])
    wide = t.op("expand", wide, shape=[*shape[: axis + 1], repeats, *shape[axis + 1 :]])
    return with_shape(t, wide, t.shape())


@ROWS.row("aten::constant_pad_nd", "aten::pad")
@ROWS.row("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
@ROWS.row("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def pad(
    t: Translator,
    input: Value,
    pad: Value = None,
    mode: str = "constant",
    value: Value = None,
    padding: Value = None,
) -> Value:
    """Pad the input; widths are given as pairs, starting with the last axis."""
    name = t.node.target.name()
    kind = {"aten::refl": "reflect", "aten::repl": "edge"}.get(name[:10], mode)
    kind = {"replicate": "edge", "circular": "wrap"}.get(kind, kind)
    widths = list(pad if pad is not None else padding)
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    flat = [width for pair in reversed(pairs) for width in pair]
    flat = [0] * (2 * rank(input) - len(flat)) + flat
    if kind == "wrap" and min(flat, default=0) < 0:  # wraps the cropped input
        input = t.op("pad", input, paddings=[min(width, 0) for width in flat])
        flat = [max(width, 0) for width in flat]
    return t.op("pad", input, paddings=flat, mode=kind, value=float(value or 0))


@ROWS.row("aten::pixel_unshuffle")
def pixel_unshuffle(t: Translator, input: Value, downscale_factor: int) -> Value:
    """Rearrange pixels into channels."""
    *batch, c, h, w = t.shape(input)
    r = downscale_factor
    n = len(batch)
    x = with_shape(t, input, [*batch, c, h // r, r, w // r, r])
    axes = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return with_shape(t, t.op("transpose", x, axes=axes), t.shape())


@ROWS.row("aten::channel_shuffle", "aten::native_channel_shuffle")
def channel_shuffle(t: Translator, input: Value, groups: int) -> Value:
    """Shuffle channels across groups."""
    batch, c, *rest = t.shape(input)
    x = with_shape(t, input, [batch, groups, c // groups, *rest])
    return with_shape(t, transpose(t, x, 1, 2), t.shape())


@ROWS.row("aten::tril", "aten::triu")
def triangle(t: Translator, input: Value, diagonal: Value = 0) -> Value:
    """Return the lower or upper triangle, with zeros elsewhere."""
    kind = t.node.target.name()[6:10]
    if isinstance(diagonal, Size):
        compared = "less_equal" if kind == "tril" else "greater_equal"
        kept = t.op(compared, _diagonals(t, *t.shape(input)[-2:]), diagonal)
        return t.op("where", kept, input, t.full(0, (), input.dtype))
    if input.dtype == "bool":
        return t.cast(t.op(kind, t.cast(input, "uint8"), k=diagonal), "bool")
    return t.op(kind, input, k=diagonal)


def identity(t: Translator, n: Value, m: Value, dtype: str, diagonal: int = 0) -> Value:
    """Return an `n` × `m` matrix with ones on a diagonal and zeros elsewhere."""
    if isinstance(n, int) and isinstance(m, int):
        return t.op("eye", n_rows=n, n_cols=m, k=diagonal, dtype=dtype)
    return t.cast(t.op("equal", _diagonals(t, n, m), diagonal), dtype)


def _diagonals(t: Translator, n: Value, m: Value) -> Value:
    """Return an `n` × `m` matrix with the index of each element's diagonal."""
    rows, columns = (t.op("arange", start=0, stop=s, step=1, dtype="int64") for s in (n, m))
    return t.op("subtract", columns, t.op("unsqueeze", rows, axis=[1]))


@ROWS.row("aten::copy")
def copy(t: Translator, input: Value, src: Value, non_blocking: Value = False) -> Value:
    """Return `src` in the dtype and the shape of the input."""
    x = t.cast(src, t.dtype())
    return x if t.shape(x) == t.shape() else t.op("expand", x, shape=t.shape())


@ROWS.row("aten::meshgrid")
def meshgrid(t: Translator, tensors: Value, indexing: str = "ij") -> Value:
    """Return a coordinate grid."""
    shapes = [[t.size(dim) for dim in part.shape] for part in t.meta()]
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    lines = [[-1 if i == axis else 1 for i in range(len(axes))] for axis in axes]
    return tuple(
        t.op("expand", t.op("reshape", x, shape=line), shape=shape)
        for x, line, shape in zip(tensors, lines, shapes, strict=True)
    )
