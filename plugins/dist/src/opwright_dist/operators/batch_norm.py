"""`dist.batch_norm`, batch normalization over the batch of all processes.

With one process, and in inference, `dist.batch_norm` is the same as `batch_norm`. With several
processes, mean and variance cover the whole batch: the mean is the weighted mean of the process
means, and the variance is the weighted mean of the mean squared deviation of each process from this
mean. As in `data_parallel`, the differentiated loss is the mean of the process losses, and each
process loss is a mean over the examples of its process.
"""

from __future__ import annotations

from typing import Any, Final

from opwright.errors import ShapeError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    format_shape,
    grad_op,
    merge_dims,
)
from opwright_dist.groups.world import current_world
from opwright_dist.operators.description import add_group, find_group

_FLOATS: Final = ("float32", "float64")
_STATISTICS: Final = ("mean", "variance")
_OWN_ATTRS: Final = ("momentum", "epsilon", "training", "unbiased")


class _Writer:
    """Writes the operators of a body."""

    def __init__(self, b: BodyContext) -> None:
        self.b = b
        meta = b.meta(b.input("x") or "")
        if meta is None:
            raise ShapeError(
                f"{b.type}: x must have a known number of dimensions, got none; declare its shape"
            )
        self.shape = meta.shape
        self.axes = [0, *range(2, len(self.shape))]

    def apply(self, op_type: str, x: str, y: str | None = None, **attrs: Any) -> str:
        """Emit an operator with one or two inputs."""
        inputs = {"x": x} if y is None else {"x": x, "y": y}
        return self.b.emit(op_type, inputs, attrs=attrs)

    def line_up(self, channels: str) -> str:
        """Emit a reshape that aligns a channel vector with x."""
        lined_up = [1, -1, *(1 for _ in self.shape[2:])]
        return self.apply("reshape", channels, shape=lined_up)

    def average(self, channels: str) -> str:
        """Emit the mean over the processes, weighted by their example counts."""
        attrs = {name: self.b.attr(name) for name in ("group", "unequal_rows")}
        inputs = {"x": channels, "rows": self.b.input("x")}
        return self.b.emit("dist.all_reduce", inputs, attrs={"reduce": "mean", **attrs})

    def correction(self) -> str:
        """Emit n / (n - 1), where n counts the elements of a channel over all processes."""
        ones = self.apply("fill_like", self.b.input("x") or "", value=1.0)
        own = self.apply("sum", ones, axis=self.axes)
        attrs = {"reduce": "sum", "group": self.b.attr("group")}
        n = self.b.emit("dist.all_reduce", {"x": own}, attrs=attrs)
        return self.apply("divide", n, self.apply("scale", n, bias=-1.0))

    def move(self, running: str, batch: str, out: str) -> None:
        """Emit momentum * running + (1 - momentum) * batch."""
        share = self.b.attr("momentum")
        old = self.apply("scale", running, scale=share)
        new = self.apply("scale", batch, scale=1.0 - share)
        self.b.emit("add", {"x": old, "y": new}, {"out": out})


def _is_plain(b: BodyContext) -> bool:
    """Return whether the statistics are local to this process or are the running statistics."""
    return not b.attr("training") or current_world().group(b.attr("group")).size == 1


def _emit_plain(b: BodyContext, op_type: str) -> None:
    inputs = {slot: b.inputs(slot) for slot in b.proto.input_slots}
    outputs = {slot: b.outputs(slot) for slot in b.proto.output_slots if b.has_output(slot)}
    b.emit_multi(op_type, inputs, outputs, {name: b.attr(name) for name in _OWN_ATTRS})


def _body(b: BodyContext) -> None:
    if _is_plain(b):
        _emit_plain(b, "batch_norm")
        return
    w = _Writer(b)
    x, scale, bias = (b.input(slot) or "" for slot in ("x", "scale", "bias"))
    mean = w.average(w.apply("mean", x, axis=w.axes))
    deviation = w.apply("subtract", x, w.line_up(mean))
    spread = w.average(w.apply("mean", w.apply("square", deviation), axis=w.axes))
    inv_std = w.apply("rsqrt", w.apply("scale", spread, scale=1.0, bias=b.attr("epsilon")))
    normal = w.apply("multiply", deviation, w.line_up(w.apply("multiply", inv_std, scale)))
    b.emit("add", {"x": normal, "y": w.line_up(bias)}, {"out": b.output("out")})
    b.set_output("saved_mean", mean)
    b.set_output("saved_inv_std", inv_std)
    if b.has_output("mean_out"):
        w.move(b.input("mean") or "", mean, b.output("mean_out") or "")
    if b.has_output("variance_out"):
        moved = w.apply("multiply", spread, w.correction()) if b.attr("unbiased") else spread
        w.move(b.input("variance") or "", moved, b.output("variance_out") or "")


def _grad_body(b: BodyContext) -> None:
    """Emit the gradient, with sums over the whole batch; the module docstring defines the loss."""
    if _is_plain(b):
        _emit_plain(b, "batch_norm_grad")
        return
    w = _Writer(b)
    x, grad = b.input("x") or "", b.input("out_grad") or ""
    inv_std = b.input("saved_inv_std") or ""
    deviation = w.apply("subtract", x, w.line_up(b.input("saved_mean") or ""))
    normal = w.apply("multiply", deviation, w.line_up(inv_std))
    sum_grad = w.apply("sum", grad, axis=w.axes)
    sum_normal = w.apply("sum", w.apply("multiply", grad, normal), axis=w.axes)
    if b.has_output("bias_grad"):
        b.set_output("bias_grad", sum_grad)
    if b.has_output("scale_grad"):
        b.set_output("scale_grad", sum_normal)
    if not b.has_output("x_grad"):
        return
    count = w.apply("sum", w.apply("fill_like", x, value=1.0), axis=w.axes)
    shares = [w.apply("divide", w.average(total), count) for total in (sum_grad, sum_normal)]
    along = w.apply("multiply", normal, w.line_up(shares[1]))
    left = w.apply("subtract", w.apply("subtract", grad, w.line_up(shares[0])), along)
    factor = w.apply("multiply", inv_std, b.input("scale") or "")
    b.emit("multiply", {"x": left, "y": w.line_up(factor)}, {"out": b.output("x_grad")})


def _shape(ctx: InferContext) -> None:
    """Give the output the shape of x; the statistics are [channels]."""
    find_group(ctx)
    shape = ctx.input("x").shape
    ctx.require(len(shape) >= 2, f"x must be [n, channels, ...], got {format_shape(shape)}")
    channels = shape[1]
    for slot in ("scale", "bias", *_STATISTICS):
        ctx.require_shape(slot, (channels,))
        channels = merge_dims(channels, ctx.input(slot).shape[0])
    ctx.set_output("out", (shape[0], channels, *shape[2:]))
    for slot in ("mean_out", "variance_out", "saved_mean", "saved_inv_std"):
        ctx.set_output(slot, (channels,))


def _maker() -> OpMaker:
    maker = OpMaker("dist.batch_norm").add_comment(
        "batch_norm over the batch of all processes of a group: in training, mean and "
        "variance cover the examples of all processes. Its gradient is that of the mean "
        "loss of the processes, weighted by their numbers of examples. Ioffe and Szegedy, "
        "2015."
    )
    maker.add_input("x", "float [n, channels, ...], n of this process").dtypes(*_FLOATS)
    for slot in ("scale", "bias"):
        maker.add_input(slot, "[channels]").same_dtype_as("x")
    for slot in _STATISTICS:
        maker.add_input(slot, "[channels], running").same_dtype_as("x")
    maker.add_output("out", "shape and dtype of x").same_dtype_as("x")
    for slot in _STATISTICS:
        maker.add_output(f"{slot}_out", f"the new {slot}, which replaces the old value")
        maker.same_dtype_as("x").aliases(slot)
    maker.add_output("saved_mean", "[channels], of the batch").same_dtype_as("x").as_intermediate()
    maker.add_output("saved_inv_std", "[channels], 1 / sqrt(variance + epsilon)")
    return maker.same_dtype_as("x").as_intermediate()


BATCH_NORM = (
    add_group(_maker())
    .add_attr("unequal_rows", str, "whether processes can have unequal numbers of examples")
    .default("refuse")
    .one_of("refuse", "weight")
    .add_attr("momentum", float, "weight of the old running statistics")
    .default(0.9)
    .between(0.0, 1.0)
    .add_attr("epsilon", float, "added to the variance")
    .default(1e-5)
    .at_least(0.0)
    .add_attr("training", bool, "whether to use batch statistics and update the running statistics")
    .default(False)
    .add_attr("unbiased", bool, "whether the running variance uses v * n / (n - 1)")
    .default(False)
    .build(
        infer_shape=_shape,
        body=_body,
        gradient=grad_op(
            "dist.batch_norm_grad",
            needs=["x", "scale", "saved_mean", "saved_inv_std"],
            no_grad=_STATISTICS,
            body=_grad_body,
        ),
        unchanged=lambda attrs: not attrs["training"],
    )
)
