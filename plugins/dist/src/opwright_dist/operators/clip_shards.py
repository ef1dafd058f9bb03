"""Defines `dist.clip_by_norm` and `dist.clip_by_global_norm` for sharded tensors.

Squares are summed in float64, as in the operators for unsharded tensors, first within this process
and then over all processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opwright.op import BodyContext, InferContext, OpMaker, no_gradient
from opwright_dist.operators.description import add_group, find_group, same_shape

_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_NO_GRADIENT: Final = no_gradient("it clips gradients before an update")


class _Clip:
    """Emits the norm of tensors over all processes, and the clipped tensors."""

    def __init__(self, b: BodyContext, tensors: Sequence[str], dtype: str) -> None:
        self.b = b
        self.tensors = tensors
        self.dtype = dtype

    def norm(self) -> str:
        """Emit the joint norm of all tensors, float64 []."""
        squares = [self._sum_of_squares(x) for x in self.tensors]
        own = squares[0] if len(squares) == 1 else self.b.emit("add_n", {"x": squares})
        attrs = {"group": self.b.attr("group")}
        return self.b.emit("sqrt", {"x": self.b.emit("dist.all_reduce", {"x": own}, attrs=attrs)})

    def factor(self, norm: str) -> str:
        """Emit the scaling factor of the tensors; exactly 1 if the norm is within the bound."""
        bound = self.b.emit("fill_like", {"x": norm}, attrs={"value": self.b.attr("max_norm")})
        longest = self.b.emit("maximum", {"x": norm, "y": bound})
        return self.narrow(self.b.emit("divide", {"x": bound, "y": longest}))

    def narrow(self, number: str, out: str | None = None) -> str:
        """Emit a scalar in the dtype of the tensors."""
        outputs = None if out is None else {"out": out}
        return self.b.emit("cast", {"x": number}, outputs, attrs={"dtype": self.dtype})

    def _sum_of_squares(self, x: str) -> str:
        wide = self.b.emit("cast", {"x": x}, attrs={"dtype": "float64"})
        return self.b.emit("sum", {"x": self.b.emit("square", {"x": wide})})


def _dtype_of(b: BodyContext, name: str) -> str:
    meta = b.meta(name)
    return "float32" if meta is None else meta.dtype


def _clip_body(b: BodyContext) -> None:
    x = b.input("x") or ""
    clip = _Clip(b, [x], _dtype_of(b, x))
    b.emit("multiply", {"x": x, "y": clip.factor(clip.norm())}, {"out": b.output("out")})


def _add_bound(maker: OpMaker) -> OpMaker:
    return (
        add_group(maker).add_attr("max_norm", float, "the maximum norm").required()
    ).greater_than(0.0)


CLIP_BY_NORM = _add_bound(
    OpMaker("dist.clip_by_norm")
    .add_comment("clip_by_norm of a tensor sharded over the processes.")
    .add_input("x", "float, the shard of this process")
    .dtypes(*_FLOATS)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=same_shape, body=_clip_body, gradient=_NO_GRADIENT)


def _clip_all_shape(ctx: InferContext) -> None:
    """Give each output the shape of its input; the norm is a scalar."""
    find_group(ctx)
    ctx.set_metas("out", ctx.inputs("x"))
    ctx.set_output("norm", ())


def _clip_all_body(b: BodyContext) -> None:
    xs = b.inputs("x")
    clip = _Clip(b, xs, _dtype_of(b, xs[0]))
    norm = clip.norm()
    factor = clip.factor(norm)
    for x, out in zip(xs, b.outputs("out"), strict=True):
        b.emit("multiply", {"x": x, "y": factor}, {"out": out})
    b.set_output("norm", clip.narrow(norm))


def _count_outputs(ctx: InferContext) -> int:
    return len(ctx.inputs("x"))


CLIP_BY_GLOBAL_NORM = _add_bound(
    OpMaker("dist.clip_by_global_norm")
    .add_comment("clip_by_global_norm of tensors sharded over the processes.")
    .add_input("x", "list of floats of one dtype, the shards of this process")
    .as_duplicable()
    .dtypes(*_FLOATS)
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of each input")
    .as_duplicable()
    .same_dtype_as("x")
    .add_output("norm", "[], the joint norm of all tensors before clipping")
    .same_dtype_as("x")
).build(
    infer_shape=_clip_all_shape,
    body=_clip_all_body,
    gradient=_NO_GRADIENT,
    count_outputs=_count_outputs,
)
