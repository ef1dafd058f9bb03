"""Views, permutations, joins and cuts."""

from __future__ import annotations

import math
from typing import Any, Final

import opwright as ow
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

LAST: Final = 2**63 - 1
"""The end of a slice up to the last element, as in PyTorch."""


def rank(x: ow.Variable) -> int:
    """Return the number of axes."""
    return len(x.shape or ())


def axis_of(x: ow.Variable, dim: int, added: int = 0) -> int:
    """Return an axis counted from the front; a number has one axis, as in PyTorch."""
    return dim % max(rank(x) + added, 1)


def with_shape(t: Translator, x: ow.Variable, shape: list[int]) -> Value:
    """Return the elements of `x` under another shape."""
    return x if list(x.shape or ()) == shape else t.op("reshape", x, shape=shape)


@ROWS.row("aten::view", "aten::_unsafe_view", "aten::reshape", "aten::view_copy", "aten::flatten")
@ROWS.row("aten::squeeze", "aten::squeeze_copy", "aten::unflatten", "aten::ravel")
@ROWS.row("aten::view_as", "aten::reshape_as", "aten::_reshape_alias", "aten::unsqueeze")
@ROWS.row("aten::unsqueeze_copy", "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d")
def reshape(t: Translator, input: Value, dtype: Value = None, **_: Value) -> Value:
    """The same elements under the shape of the result."""
    if dtype is not None:
        raise Decline(f"the bits of {input.dtype} as {t.dtype()}")
    return with_shape(t, input, t.shape())


@ROWS.row("aten::permute", "aten::permute_copy")
def permute(t: Translator, input: Value, dims: Value) -> Value:
    """The axes in another order."""
    axes = [axis_of(input, dim) for dim in dims]
    if axes == list(range(rank(input))):
        return input
    # Where only axes of length 1 move, nothing does.
    long = [axis for axis in axes if input.shape[axis] != 1]
    if long == sorted(long):
        return with_shape(t, input, t.shape())
    return t.op("transpose", input, axes=axes)


@ROWS.row("aten::transpose", "aten::transpose_copy", "aten::swapdims")
def transpose(t: Translator, input: Value, dim0: int, dim1: int) -> Value:
    """Two axes exchanged."""
    axes = list(range(rank(input)))
    if axes:
        first, second = axis_of(input, dim0), axis_of(input, dim1)
        axes[first], axes[second] = axes[second], axes[first]
    return permute(t, input, axes)


@ROWS.row("aten::swapaxes")
def swapaxes(t: Translator, input: Value, axis0: int, axis1: int) -> Value:
    """Two axes exchanged."""
    return transpose(t, input, axis0, axis1)


@ROWS.row("aten::t", "aten::t_copy", "aten::matrix_H", "aten::mT", "aten::mH")
@ROWS.row("aten::adjoint")
def t_(t: Translator, input: Value) -> Value:
    """A matrix transposed."""
    return transpose(t, input, -2, -1) if rank(input) > 1 else input


ROWS["aten::numpy_T"] = lambda t, input: permute(t, input, list(range(rank(input)))[::-1])


@ROWS.row("aten::movedim", "aten::moveaxis")
def movedim(t: Translator, input: Value, source: Value, destination: Value) -> Value:
    """Axes at other positions, the others in their order."""
    pairs = [[v] if isinstance(v, int) else v for v in (source, destination)]
    sources, targets = ([axis_of(input, dim) for dim in dims] for dims in pairs)
    rest = iter(axis for axis in range(rank(input)) if axis not in sources)
    moved = dict(zip(targets, sources, strict=True))
    axes = [moved[i] if i in moved else next(rest) for i in range(rank(input))]
    return permute(t, input, axes)


@ROWS.row("aten::expand", "aten::expand_copy", "aten::expand_as", "aten::broadcast_to")
def expand(t: Translator, input: Value, **_: Value) -> Value:
    """The input, repeated along axes of length 1 and new ones."""
    shape = t.shape()
    return input if list(input.shape) == shape else t.op("expand", input, shape=shape)


@ROWS.row("aten::select", "aten::select_copy")
def select(t: Translator, input: Value, dim: int, index: int) -> Value:
    """What lies at one position of an axis."""
    axis = axis_of(input, dim)
    cut = _slice(t, input, axis, index, index + 1 if index != -1 else LAST)
    return t.op("squeeze", cut, axis=[axis])


def _slice(t: Translator, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    return t.op("slice", x, axes=[axis], starts=[start], ends=[end], steps=[step])


@ROWS.row("aten::slice", "aten::slice_copy")
def slice_(
    t: Translator,
    input: Value,
    dim: int = 0,
    start: Value = None,
    end: Value = None,
    step: int = 1,
) -> Value:
    """The positions from `start` to before `end`."""
    if list(input.shape) == t.shape():
        return input
    axis = axis_of(input, dim)
    return _slice(t, input, axis, start or 0, LAST if end is None else end, step)


@ROWS.row("aten::narrow", "aten::narrow_copy")
def narrow(t: Translator, input: Value, dim: int, start: Value, length: int) -> Value:
    """So many positions from `start`."""
    if not isinstance(start, int):
        raise Decline("start is a tensor")
    axis = axis_of(input, dim)
    begin = start % input.shape[axis] if start < 0 else start
    return _slice(t, input, axis, begin, begin + length)


@ROWS.row("aten::cat", "aten::concat", "aten::concatenate")
def cat(t: Translator, tensors: Value, dim: int = 0) -> Value:
    """Tensors one behind another along an axis; empty ones with one axis do not count."""
    parts = [x for x in tensors if tuple(x.shape) != (0,)] or list(tensors)
    axis = axis_of(parts[0], dim)
    parts = list(t.promote(*parts))
    return parts[0] if len(parts) == 1 else t.op("concat", parts, axis=axis)


@ROWS.row("aten::stack")
def stack(t: Translator, tensors: Value, dim: int = 0) -> Value:
    """Tensors along a new axis."""
    return t.op("stack", list(t.promote(*tensors)), axis=axis_of(tensors[0], dim, 1))


def _parts(t: Translator, input: Value, dim: int) -> Value:
    """The input cut along an axis into what PyTorch's results are."""
    axis = axis_of(input, dim)
    sections = [t.size(part.shape[axis]) for part in t.meta()]
    if len(sections) == 1:
        return (input,)
    return t.op("split", input, axis=axis, sections=sections)


@ROWS.row("aten::split", "aten::split_copy", "aten::split_with_sizes", "aten::chunk")
@ROWS.row("aten::split_with_sizes_copy", "aten::tensor_split", "aten::unsafe_split")
@ROWS.row("aten::unsafe_chunk", "aten::unsafe_split_with_sizes")
def split(t: Translator, input: Value, dim: int = 0, **_: Value) -> Value:
    """Parts along an axis, as long as PyTorch's."""
    return _parts(t, input, dim)


ROWS["aten::hsplit"] = lambda t, input, **_: _parts(t, input, 1 if rank(input) > 1 else 0)
ROWS["aten::vsplit"] = lambda t, input, **_: _parts(t, input, 0)
ROWS["aten::dsplit"] = lambda t, input, **_: _parts(t, input, 2)


@ROWS.row("aten::unbind", "aten::unbind_copy")
def unbind(t: Translator, input: Value, dim: int = 0) -> Value:
    """What lies at each position of an axis."""
    axis = axis_of(input, dim)
    if not input.shape[axis]:
        raise Decline(f"axis {axis} has no positions")
    return t.op("unstack", input, axis=axis, num=input.shape[axis])


@ROWS.row("aten::roll")
def roll(t: Translator, input: Value, shifts: Value, dims: Value = ()) -> Value:
    """Elements moved along axes, what falls out comes in at the other end."""
    if not dims:
        flat = t.op("roll", with_shape(t, input, [-1]), shift=[*shifts], axis=[0])
        return with_shape(t, flat, t.shape())
    return t.op("roll", input, shift=list(shifts), axis=[axis_of(input, dim) for dim in dims])


@ROWS.row("aten::flip")
def flip(t: Translator, input: Value, dims: Value) -> Value:
    """Axes backwards."""
    return t.op("flip", input, axis=[axis_of(input, dim) for dim in dims]) if dims else input


ROWS["aten::fliplr"] = lambda t, input: flip(t, input, [1])
ROWS["aten::flipud"] = lambda t, input: flip(t, input, [0])


@ROWS.row("aten::repeat", "aten::tile")
def repeat(t: Translator, input: Value, repeats: Value = (), dims: Value = ()) -> Value:
    """The input so often along each axis; further axes are in front."""
    counts = list(repeats or dims)
    counts = [1] * (rank(input) - len(counts)) + counts
    x = with_shape(t, input, [1] * (len(counts) - rank(input)) + list(input.shape))
    return t.op("tile", x, repeats=counts) if set(counts) != {1} else x


@ROWS.row("aten::repeat_interleave.self_int")
def repeat_interleave(
    t: Translator, input: Value, repeats: int, dim: Value = None, output_size: Value = None
) -> Value:
    """Each position so often, one behind another."""
    x = with_shape(t, input, [math.prod(input.shape)]) if dim is None else input
    axis = axis_of(x, dim or 0)
    shape = list(x.shape)
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
    """A border; widths are pairs, the last axis first."""
    name = t.node.target.name()
    kind = {"aten::refl": "reflect", "aten::repl": "edge"}.get(name[:10], mode)
    kind = {"replicate": "edge"}.get(kind, kind)
    widths = list(pad if pad is not None else padding)
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    flat = [width for pair in reversed(pairs) for width in pair]
    flat = [0] * (2 * rank(input) - len(flat)) + flat
    if kind == "circular":
        return _wrap(t, input, flat)
    if kind != "constant" and min(flat) < 0:
        raise Decline(f"negative widths in mode {kind!r}: {flat}")
    return t.op("pad", input, paddings=flat, mode=kind, value=float(value or 0))


def _wrap(t: Translator, x: Value, widths: list[int]) -> Value:
    """A border that continues at the other end."""
    for axis in range(rank(x)):
        begin, end = widths[2 * axis], widths[2 * axis + 1]
        if min(begin, end) < 0:
            raise Decline(f"negative widths in mode 'circular': {widths}")
        before = [_slice(t, x, axis, x.shape[axis] - begin, LAST)] if begin else []
        after = [_slice(t, x, axis, 0, end)] if end else []
        if before or after:
            x = t.op("concat", [*before, x, *after], axis=axis)
    return x


@ROWS.row("aten::as_strided", "aten::as_strided_copy")
def as_strided(
    t: Translator, input: Value, size: Value, stride: Value, storage_offset: Value = None
) -> Value:
    """A plain view of contiguous memory: the same elements, or the first of them."""
    count, contiguous = 1, []
    for length in reversed(size):
        contiguous.insert(0, count)
        count *= length
    plain = all(a == b or n == 1 for a, b, n in zip(stride, contiguous, size, strict=True))
    total = math.prod(input.shape)
    source = t.meta(t.node.args[0])
    offset = storage_offset or 0
    if not plain or not source.is_contiguous() or source.storage_offset() or offset + count > total:
        raise Decline(f"size={size}, stride={stride}, storage_offset={storage_offset}")
    x = with_shape(t, input, [total])
    return with_shape(t, x if count == total else _slice(t, x, 0, offset, offset + count), [*size])


@ROWS.row("aten::pixel_shuffle")
def pixel_shuffle(t: Translator, input: Value, upscale_factor: int) -> Value:
    """Channels as pixels."""
    *batch, c, h, w = input.shape
    r = upscale_factor
    n = len(batch)
    x = with_shape(t, input, [*batch, c // (r * r), r, r, h, w])
    axes = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return with_shape(t, t.op("transpose", x, axes=axes), t.shape())


@ROWS.row("aten::pixel_unshuffle")
def pixel_unshuffle(t: Translator, input: Value, downscale_factor: int) -> Value:
    """Pixels as channels."""
    *batch, c, h, w = input.shape
    r = downscale_factor
    n = len(batch)
    x = with_shape(t, input, [*batch, c, h // r, r, w // r, r])
    axes = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return with_shape(t, t.op("transpose", x, axes=axes), t.shape())


@ROWS.row("aten::channel_shuffle", "aten::native_channel_shuffle")
def channel_shuffle(t: Translator, input: Value, groups: int) -> Value:
    """The channels of groups in turn."""
    batch, c, *rest = input.shape
    x = with_shape(t, input, [batch, groups, c // groups, *rest])
    return with_shape(t, transpose(t, x, 1, 2), t.shape())


def transposed_last(t: Translator, x: Value, dims: list[int]) -> Value:
    """Return `x` with some axes last, in their order."""
    axes = [axis for axis in range(rank(x)) if axis not in dims] + dims
    return x if axes == list(range(rank(x))) else t.op("transpose", x, axes=axes)


@ROWS.row("aten::diagonal", "aten::diagonal_copy", "aten::linalg_diagonal")
def diagonal(t: Translator, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two axes, as the last one."""
    x = transposed_last(t, input, [axis_of(input, dim1), axis_of(input, dim2)])
    *batch, rows, columns = x.shape
    length = t.shape()[-1]
    if not length or not math.prod(x.shape):
        return t.full(0, t.shape(), x.dtype)
    first = offset if offset >= 0 else -offset * columns
    flat = with_shape(t, x, [*batch, rows * columns])
    end = first + (length - 1) * (columns + 1) + 1
    return _slice(t, flat, len(batch), first, end, columns + 1)


@ROWS.row("aten::tril", "aten::triu")
def triangle(t: Translator, input: Value, diagonal: int = 0) -> Value:
    """The lower or the upper triangle, and zeros."""
    kind = t.node.target.name()[6:10]
    if input.dtype == "bool":
        return t.cast(t.op(kind, t.cast(input, "uint8"), k=diagonal), "bool")
    return t.op(kind, input, k=diagonal)


@ROWS.row("aten::unfold", "aten::unfold_copy")
def unfold(t: Translator, input: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of an axis, as the last axis."""
    axis = axis_of(input, dimension)
    count = t.shape()[axis]
    if rank(input) == 0:
        raise Decline("a number has no axis")
    if size == step:
        cut = _slice(t, input, axis, 0, count * step)
        shape = list(input.shape)
        x = with_shape(t, cut, [*shape[:axis], count, size, *shape[axis + 1 :]])
        return transposed_last(t, x, [axis + 1])
    places = [i * step + j for i in range(count) for j in range(size)]
    index = t.op("constant", values=places, shape=[count, size], dtype="int64")
    return transposed_last(t, t.op("gather", input, index, axis=axis), [axis + 1])


@ROWS.row("aten::slice_scatter")
def slice_scatter(
    t: Translator,
    input: Value,
    src: Value,
    dim: int = 0,
    start: Value = None,
    end: Value = None,
    step: int = 1,
) -> Value:
    """The input with a slice of it replaced."""
    x, updates = t.promote(input, src)
    if list(x.shape) == list(updates.shape) and step == 1:
        return updates
    box: dict[str, Any] = {"starts": [start or 0], "ends": [LAST if end is None else end]}
    axis = axis_of(input, dim)
    return t.op("slice_scatter", x, updates, axes=[axis], steps=[step], **box)


@ROWS.row("aten::select_scatter")
def select_scatter(t: Translator, input: Value, src: Value, dim: int, index: int) -> Value:
    """The input with one position of an axis replaced."""
    axis = axis_of(input, dim)
    x, updates = t.promote(input, src)
    updates = t.op("unsqueeze", updates, axis=[axis])
    ends = [index + 1 if index != -1 else LAST]
    return t.op("slice_scatter", x, updates, axes=[axis], starts=[index], ends=ends, steps=[1])


@ROWS.row("aten::copy")
def copy(t: Translator, input: Value, src: Value, non_blocking: Value = False) -> Value:
    """`src` in the dtype and the shape of the input."""
    x = t.cast(src, t.dtype())
    return x if list(x.shape) == t.shape() else t.op("expand", x, shape=t.shape())


@ROWS.row("aten::im2col")
def im2col(
    t: Translator, input: Value, kernel_size: Value, dilation: Value, padding: Value, stride: Value
) -> Value:
    """The windows of images as columns."""
    x = input
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel_size, dilation, padding, stride
    single = rank(x) == 3
    if single:
        x = t.op("unsqueeze", x, axis=[0])
    if ph or pw:
        x = t.op("pad", x, paddings=[0, 0, 0, 0, ph, ph, pw, pw])
    *_, h, w = x.shape
    rows = [(h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1]
    for axis, k, d, s, count in ((2, kh, dh, sh, rows[0]), (4, kw, dw, sw, rows[1])):
        places = [j * d + i * s for j in range(k) for i in range(count)]
        index = t.op("constant", values=places, shape=[k, count], dtype="int64")
        x = t.op("gather", x, index, axis=axis)
    x = t.op("transpose", x, axes=[0, 1, 2, 4, 3, 5])
    return with_shape(t, x, t.shape())


@ROWS.row("aten::meshgrid")
def meshgrid(t: Translator, tensors: Value, indexing: str = "ij") -> Value:
    """Coordinates of a grid."""
    shapes = [[t.size(dim) for dim in part.shape] for part in t.meta()]
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    lines = [[-1 if i == axis else 1 for i in range(len(axes))] for axis in axes]
    return tuple(
        t.op("expand", t.op("reshape", x, shape=line), shape=shape)
        for x, line, shape in zip(tensors, lines, shapes, strict=True)
    )
