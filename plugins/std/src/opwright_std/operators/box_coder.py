"""Encode boxes as offsets from prior boxes, and decode them."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape, merge_dims
from opwright_std.numerics.dtypes import FLOATS


def _box_coder_shape(ctx: InferContext) -> None:
    """The output has four numbers per pair of a box and a prior box."""
    x, prior = ctx.input("x").shape, ctx.input("prior").shape
    encodes = ctx.attr("code_type") == "encode"
    rank = 2 if encodes else 3
    if len(x) != rank or x[-1] not in (4, -1):
        wanted = "boxes [n, 4] to encode" if encodes else "offsets [n, m, 4] to decode"
        ctx.fail(f"x must be {wanted}, got {format_shape(x)}")
    if len(prior) != 2 or prior[1] not in (4, -1):
        ctx.fail(f"prior must be boxes [m, 4], got {format_shape(prior)}")
    ctx.require(
        not encodes or ctx.attr("axis") == 0,
        "axis must be 0 to encode: every box is paired with every prior box, got axis=1",
    )
    shape = (x[0], prior[0], 4) if encodes else (*x[:2], 4)
    if not encodes:
        axis = 1 - ctx.attr("axis")
        ctx.require_shape("prior", (x[axis], 4))
        merged = merge_dims(x[axis], prior[0])
        shape = (x[0], merged, 4) if axis == 1 else (merged, x[1], 4)
    if ctx.has_input("variance"):
        variance = ctx.input("variance").shape
        ctx.require_shape("variance", (4,) if len(variance) == 1 else (prior[0], 4))
    ctx.set_output("out", shape)


class _Pairs:
    """The steps shared by encoding and decoding; pairs are [n, m, 4]."""

    def __init__(self, b: BodyContext) -> None:
        self._b = b
        self.border = 0.0 if b.attr("normalized") else 1.0
        encodes = b.attr("code_type") == "encode"
        self._prior_axis = 0 if encodes else b.attr("axis")
        self.center, self.size = self.measure(self.align(b.input("prior"), self._prior_axis))

    def align(self, name: str | None, axis: int) -> str:
        return self._b.emit("unsqueeze", {"x": name}, attrs={"axis": [axis]})

    def half(self, name: str, first: int) -> str:
        """Return the first two or the last two of the four values."""
        attrs = {"axes": [2], "starts": [first], "ends": [first + 2]}
        return self._b.emit("slice", {"x": name}, attrs=attrs)

    def pair(self, op: str, x: str, y: str) -> str:
        return self._b.emit(op, {"x": x, "y": y})

    def scaled(self, x: str, scale: float, bias: float = 0.0) -> str:
        return self._b.emit("scale", {"x": x}, attrs={"scale": scale, "bias": bias})

    def measure(self, boxes: str, of_prior: bool = True) -> tuple[str, str]:
        """Return center and size; the center of a prior box includes the border."""
        begin, end = self.half(boxes, 0), self.half(boxes, 2)
        size = self.pair("subtract", end, begin)
        if self.border:
            size = self.scaled(size, 1.0, self.border)
        if of_prior:
            return self.pair("add", begin, self.scaled(size, 0.5)), size
        return self.scaled(self.pair("add", begin, end), 0.5), size

    def vary(self, op: str, name: str) -> str:
        """Multiply or divide by the variance, if given."""
        variance = self._b.input("variance")
        if variance is None:
            return name
        meta = self._b.meta(variance)
        if meta is None or len(meta.shape) == 2:
            variance = self.align(variance, self._prior_axis)
        return self.pair(op, name, variance)


def _box_coder_body(b: BodyContext) -> None:
    pairs = _Pairs(b)
    if b.attr("code_type") == "encode":
        center, size = pairs.measure(pairs.align(b.input("x"), 1), of_prior=False)
        moved = pairs.pair("divide", pairs.pair("subtract", center, pairs.center), pairs.size)
        ratio = b.emit("abs", {"x": pairs.pair("divide", size, pairs.size)})
        joined = b.emit("concat", {"x": [moved, b.emit("log", {"x": ratio})]}, attrs={"axis": 2})
        b.emit("assign", {"x": pairs.vary("divide", joined)}, {"out": b.output("out")})
        return
    offsets = pairs.vary("multiply", b.input("x") or "")
    center = pairs.pair("multiply", pairs.half(offsets, 0), pairs.size)
    center = pairs.pair("add", center, pairs.center)
    size = pairs.pair("multiply", b.emit("exp", {"x": pairs.half(offsets, 2)}), pairs.size)
    half = pairs.scaled(size, 0.5)
    end = pairs.pair("add", center, half)
    if pairs.border:
        end = pairs.scaled(end, 1.0, -pairs.border)
    sides = [pairs.pair("subtract", center, half), end]
    b.emit("concat", {"x": sides}, {"out": b.output("out")}, attrs={"axis": 2})


def _box_coder_maker() -> OpMaker:
    maker = OpMaker("box_coder").add_comment(
        "Encodes boxes as offsets from prior boxes, or decodes offsets, as Paddle's box_coder. A "
        "box is "
        "left, top, right, bottom. With centers c and sizes s, along each axis, encoding gives "
        "offset = (c - prior_c) / prior_s / variance and growth = log(|s / prior_s|) / variance. "
        "Decoding inverts it, c = offset * variance * prior_s + prior_c and "
        "s = exp(growth * variance) * prior_s."
    )
    maker.add_input("x", "float: boxes [n, 4] to encode, or offsets [n, m, 4] to decode")
    maker.dtypes(*FLOATS)
    maker.add_input("prior", "boxes, [m, 4], or [n, 4] with axis 1; dtype of x")
    maker.same_dtype_as("x")
    maker.add_input("variance", "[4], or shape of prior; absent: 1; dtype of x").same_dtype_as("x")
    maker.as_optional()
    maker.add_output("out", "[n, m, 4], dtype of x").same_dtype_as("x")
    maker.add_attr("code_type", str, "whether boxes become offsets, or offsets boxes")
    maker.default("encode").one_of("encode", "decode")
    maker.add_attr(
        "normalized",
        bool,
        "whether right and bottom are edges; otherwise they are pixels of the box",
    )
    maker.default(True)
    maker.add_attr("axis", int, "decoding: the axis of x along which a prior box is repeated")
    return maker.default(0).between(0, 1)


BOX_CODER = _box_coder_maker().build(infer_shape=_box_coder_shape, body=_box_coder_body)
