"""stft and istft: the Fourier transform of each frame of a signal, and its inverse."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, Meta, OpMaker, dims_match, format_shape
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import WIDE
from opwright_std.operators.reduction import known_meta

_MOST = 2**31 - 1
_LEAST_ENVELOPE = 1e-11
"""A smaller sum of squared windows means that no window covers the element, as in PyTorch."""


def _hop(ctx: InferContext | BodyContext) -> int:
    return int(ctx.attr("hop_length") or max(ctx.attr("n_fft") // 4, 1))


def _check_window(ctx: InferContext) -> None:
    n_fft = ctx.attr("n_fft")
    if not ctx.has_input("window"):
        return
    shape = ctx.input("window").shape
    if len(shape) != 1 or shape[0] > n_fft:
        ctx.fail(f"window must be [n] with n at most n_fft={n_fft}, got {format_shape(shape)}")


def _stft_shape(ctx: InferContext) -> None:
    """The output has one row per frequency, and one column per frame."""
    shape, n_fft = ctx.input("x").shape, ctx.attr("n_fft")
    if len(shape) not in (1, 2):
        ctx.fail(f"x must be [n] or [batch, n], got {format_shape(shape)}")
    _check_window(ctx)
    n, reach = shape[-1], n_fft // 2 if ctx.attr("center") else 0
    frames = -1
    if n >= 0:
        if ctx.attr("center") and ctx.attr("pad_mode") == "reflect" and n <= reach:
            ctx.fail(f"x must have more than n_fft // 2 = {reach} elements to reflect, got {n}")
        padded = n + 2 * reach
        if padded < n_fft:
            ctx.fail(f"n_fft must be at most the {padded} elements of padded x, got {n_fft}")
        frames = (padded - n_fft) // _hop(ctx) + 1
    rows = n_fft // 2 + 1 if ctx.attr("onesided") else n_fft
    ctx.set_output("out", (*shape[:-1], rows, frames, 2))


def _window(b: BodyContext, dtype: str) -> Expression:
    """Emit the window, centered in n_fft numbers; all ones if no window is given."""
    n_fft = b.attr("n_fft")
    if not b.has_input("window"):
        attrs = {"shape": [n_fft], "value": 1.0, "dtype": dtype}
        return Expression(b, b.emit("fill", {}, attrs=attrs))
    window = read(b, "window")
    meta = b.meta(window.name)
    if meta is None or meta.shape[0] < 0:
        return _window_of_unknown_length(b, window, dtype)
    missing = n_fft - meta.shape[0]
    if not missing:
        return window
    return window.then("pad", paddings=[missing // 2, missing - missing // 2])


def _window_of_unknown_length(b: BodyContext, window: Expression, dtype: str) -> Expression:
    """Pad the window with n_fft zeros on both sides, and select the middle n_fft numbers."""
    n_fft = b.attr("n_fft")
    zeros = b.emit("fill", {}, attrs={"shape": [n_fft], "value": 0.0, "dtype": dtype})
    padded = b.emit("concat", {"x": [zeros, window.name, zeros]}, attrs={"axis": 0})
    length = window.then("shape")
    doubled = length + length.filled(n_fft + 1)
    begin = doubled.with_("floor_divide", length.filled(2))
    end = begin + length.filled(n_fft)
    middle = Expression(b, padded).then("slice", axes=[0], starts=[begin.name], ends=[end.name])
    return middle.then("reshape", shape=[n_fft])


def _stft_body(b: BodyContext) -> None:
    meta, n_fft = known_meta(b), b.attr("n_fft")
    signal = read(b, "x") if len(meta.shape) == 2 else read(b, "x").then("unsqueeze", axis=[0])
    if b.attr("center"):
        paddings = [0, 0, n_fft // 2, n_fft // 2]
        signal = signal.then("pad", paddings=paddings, mode=b.attr("pad_mode"))
    lines = signal.then("unsqueeze", axis=[1, 2])
    columns = lines.then("unfold", kernel=[1, n_fft], strides=[1, _hop(b)])
    frames = columns.then("transpose", axes=[0, 2, 1]) * _window(b, meta.dtype)
    if b.attr("onesided"):
        pairs = frames.then("rfft")
    else:
        names = [frames.name, frames.filled(0.0).name]
        both = Expression(b, b.emit("stack", {"x": names}, attrs={"axis": 3}))
        pairs = both.then("fft")
    if b.attr("normalized"):
        pairs = pairs * n_fft**-0.5
    out = pairs.then("transpose", axes=[0, 2, 1, 3])
    if len(meta.shape) == 1:
        out = out.then("squeeze", axis=[0])
    b.set_output("out", out.name)


def _transform(op_type: str, comment: str, x: str, out: str) -> OpMaker:
    """Start the definition of an operator on the frames of a signal."""
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", x).dtypes(*WIDE)
    maker.add_input("window", "[n], at most n_fft numbers, centered; absent: ones")
    maker.same_dtype_as("x").as_optional()
    maker.add_output("out", f"{out}, dtype of x").same_dtype_as("x")
    maker.add_attr("n_fft", int, "length of a frame").required().between(1, 2**30)
    maker.add_attr("hop_length", int, "distance between frames; 0: a quarter of n_fft")
    maker.default(0).at_least(0)
    maker.add_attr(
        "center", bool, "whether positions refer to the middle of frames instead of the begin"
    )
    maker.default(True)
    maker.add_attr("normalized", bool, "whether transforms are divided by sqrt(n_fft)")
    maker.default(False)
    maker.add_attr("onesided", bool, "whether there are only the first n_fft // 2 + 1 frequencies")
    return maker.default(True)


STFT = (
    _transform(
        "stft",
        "Short-time Fourier transform, out[..., k, frame] = sum(window[i] * x[..., frame * "
        "hop_length + i] * exp(-2 * pi * j * k * i / n_fft)), as torch.stft: pairs of real and "
        "imaginary part. With center, x is first padded by n_fft // 2 at both ends.",
        "[n] or [batch, n]",
        "[..., frequencies, frames, 2]",
    )
    .add_attr("pad_mode", str, "padding of x")
    .default("reflect")
    .one_of("reflect", "constant", "edge")
    .build(infer_shape=_stft_shape, body=_stft_body)
)


def _signal_length(ctx: InferContext | BodyContext, frames: int) -> int:
    """Return the length covered by the frames, without the padding of stft."""
    n_fft = ctx.attr("n_fft")
    reach = n_fft // 2 if ctx.attr("center") else 0
    return n_fft + _hop(ctx) * (frames - 1) - 2 * reach  # type: ignore[no-any-return]


def _istft_shape(ctx: InferContext) -> None:
    """The output has the length that the frames cover, or the given length."""
    shape, n_fft = ctx.input("x").shape, ctx.attr("n_fft")
    rows = n_fft // 2 + 1 if ctx.attr("onesided") else n_fft
    if len(shape) not in (3, 4) or not (dims_match(shape[-3], rows) and dims_match(shape[-1], 2)):
        ctx.fail(f"x must be [..., {rows}, frames, 2] for n_fft={n_fft}, got {format_shape(shape)}")
    _check_window(ctx)
    length, frames = ctx.attr("length"), shape[-2]
    if frames >= 0:
        ctx.require(frames > 0, "x must have at least 1 frame, got 0")
        covered = _signal_length(ctx, frames)
        most = covered + (n_fft // 2 if ctx.attr("center") else 0)
        if length is not None and length > most:
            ctx.fail(f"length must be at most {most}, which the frames cover, got {length}")
        ctx.require(covered > 0, f"the frames must cover at least 1 number, got {covered}")
        length = covered if length is None else length
    ctx.set_output("out", (*shape[:-3], length))


def _istft_body(b: BodyContext) -> None:
    meta, n_fft = known_meta(b), b.attr("n_fft")
    pairs = read(b, "x") if len(meta.shape) == 4 else read(b, "x").then("unsqueeze", axis=[0])
    rows = pairs.then("transpose", axes=[0, 2, 1, 3])
    if not b.attr("onesided"):
        rows = rows.then("slice", axes=[2], starts=[0], ends=[n_fft // 2 + 1])
    frames = rows.then("irfft", n=n_fft)
    if b.attr("normalized"):
        frames = frames * n_fft**0.5
    window = _window(b, meta.dtype)
    # Squares of large numbers would overflow; scaling by a power of 2 is exact.
    unit = _power_of_2(window)
    window = window / unit
    count, size = _counted(b, meta)
    total = _added(b, frames * window, size)
    squares = window.then("square").then("expand", shape=[1, count, n_fft])
    envelope = _added(b, squares, size)
    least = (unit.then("reciprocal") * _LEAST_ENVELOPE**0.5).then("square")
    is_there = envelope.with_("greater", least)
    quotient = total / is_there.choose(envelope, envelope.filled(1.0))
    total = is_there.choose(quotient / unit, quotient * unit)
    begin, length = n_fft // 2 if b.attr("center") else 0, b.attr("length")
    end = begin + length if length else -begin or _MOST
    out = total.then("slice", axes=[1], starts=[begin], ends=[end])
    if len(meta.shape) == 3:
        out = out.then("squeeze", axis=[0])
    b.set_output("out", out.name)


def _power_of_2(window: Expression) -> Expression:
    """Emit the largest power of 2, at least 1, below the largest magnitude; its gradient is 0.

    The scale is 1 for a window with infinity or NaN, which then affect only positions in the
    window.
    """
    largest = window.then("abs").reduce("max", [0])
    one = largest.filled(1.0)
    bounded = largest.then("isfinite").choose(largest.with_("maximum", one), one)
    return bounded.then("log2").then("floor").then("exp2")


def _counted(b: BodyContext, meta: Meta) -> tuple[int | str, int | str]:
    """Return the number of frames and the length of their sum, as variables if unknown."""
    hop, count = _hop(b), meta.shape[-2]
    rest = b.attr("n_fft") - hop
    if count >= 0:
        return count, hop * count + rest
    frames = read(b, "x").then("shape").then("slice", axes=[0], starts=[-2], ends=[-1])
    numbers = frames * frames.filled(hop) + frames.filled(rest)
    return frames.name, numbers.name


def _added(b: BodyContext, frames: Expression, size: int | str) -> Expression:
    """Overlap and add [n, frames, n_fft] to [n, size]."""
    kernel, strides = [1, b.attr("n_fft")], [1, _hop(b)]
    columns = frames.then("transpose", axes=[0, 2, 1])
    images = columns.then("fold", output_size=[1, size], kernel=kernel, strides=strides)
    return images.then("squeeze", axis=[1, 2])


ISTFT = (
    _transform(
        "istft",
        "The inverse of stft, as torch.istft: frames are transformed back, multiplied by the "
        "window, overlapped and added, and divided by the sum of the squared windows if that "
        "is above 1e-11. Without onesided, frequencies above n_fft // 2 are not read, and are "
        "taken to be those of a real signal.",
        "[..., frequencies, frames, 2], real and imaginary parts",
        "[..., length]",
    )
    .add_attr("length", int, "length of out; absent: the length that the frames cover")
    .at_least(1)
    .build(infer_shape=_istft_shape, body=_istft_body)
)
