"""Masked reductions, and masked functions along an axis.

Masked elements become the neutral element: 0 in a sum, -inf in a maximum. Reductions that ignore
NaN use the mask of non-NaN elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from opwright.op import (
    BodyContext,
    InferContext,
    OpDefinition,
    OpMaker,
    no_gradient,
)
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import FLOATS, NUMBERS
from opwright_std.operators.cumulative import CUMPROD, CUMSUM, cumulative
from opwright_std.operators.log_softmax import LOG_SOFTMAX
from opwright_std.operators.reduction import (
    ARGMAX,
    ARGMIN,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    accumulation,
    known_meta,
    position,
    reduction,
)
from opwright_std.operators.softmax import SOFTMAX, along_axis
from opwright_std.operators.statistics import LOGSUMEXP, NORM, STD, VARIANCE

Writer = Callable[[BodyContext, Expression, Expression], Expression]
"""Writes an operator on x and the mask."""


def _axes(b: BodyContext, **changes: Any) -> dict[str, Any]:
    return {"axis": list(b.attr("axis")), "keepdims": b.attr("keepdims"), **changes}


def _counts(b: BodyContext, x: Expression, mask: Expression, **changes: Any) -> Expression:
    """Return the number of unmasked elements in each reduction."""
    return mask.choose(x.filled(1.0), x.filled(0.0)).then("sum", **_axes(b, **changes))


def _sum(b: BodyContext, x: Expression, mask: Expression, **changes: Any) -> Expression:
    return mask.choose(x, x.filled(0.0)).then("sum", **_axes(b, **changes))


def _prod(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return mask.choose(x, x.filled(1.0)).then("prod", **_axes(b))


def _mean(b: BodyContext, x: Expression, mask: Expression, **changes: Any) -> Expression:
    return _sum(b, x, mask, **changes) / _counts(b, x, mask, **changes)


def _max(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return _shown_to_maximum(b, x, mask).then("max", **_axes(b))


def _shown_to_maximum(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    dtype = known_meta(b).dtype
    lowest = 0.0 if dtype.startswith("u") or dtype == "bool" else -math.inf
    if dtype.startswith("int"):
        lowest = -(2.0 ** (int(dtype.removeprefix("int")) - 1))
    return mask.choose(x, x.filled(lowest))


def _min(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    turned = _turned(b, x)
    return _turned(b, _max(b, turned, mask))


def _turned(b: BodyContext, x: Expression) -> Expression:
    """Return numbers that sort in reverse order; integers do not overflow."""
    return x.then("negative" if known_meta(b).dtype in FLOATS else "bitwise_not")


def _argmax(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    shown = _shown_to_maximum(b, x, mask)
    return shown.then("argmax", axis=b.attr("axis"), keepdims=b.attr("keepdims"))


def _argmin(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return _argmax(b, _turned(b, x), mask)


def _logsumexp(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return mask.choose(x, x.filled(-math.inf)).then("logsumexp", **_axes(b))


def _norm(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    hidden = math.inf if b.attr("p") == -math.inf else 0.0
    return mask.choose(x, x.filled(hidden)).then("norm", **_axes(b, p=b.attr("p")))


def _variance(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    away = mask.choose(x - _mean(b, x, mask, keepdims=True), x.filled(0.0))
    count = _counts(b, x, mask) - float(b.attr("correction"))
    return away.then("square").then("sum", **_axes(b)) / count.then("clip", min=0.0)


def _std(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    away = mask.choose(x - _mean(b, x, mask, keepdims=True), x.filled(0.0))
    count = (_counts(b, x, mask) - float(b.attr("correction"))).then("clip", min=0.0)
    return away.then("norm", **_axes(b)) / count.then("sqrt")


def _softmax(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    shown = mask.choose(x, x.filled(-math.inf)).then("softmax", axis=b.attr("axis"))
    return mask.choose(shown, x.filled(0.0))


def _log_softmax(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    lowest = x.filled(-math.inf)
    return mask.choose(mask.choose(x, lowest).then("log_softmax", axis=b.attr("axis")), lowest)


def _cumsum(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return mask.choose(x, x.filled(0.0)).then("cumsum", **b.attrs)


def _cumprod(b: BodyContext, x: Expression, mask: Expression) -> Expression:
    return mask.choose(x, x.filled(1.0)).then("cumprod", **b.attrs)


def _masked(
    maker: OpMaker, like: OpDefinition, write: Writer, *, has_gradient: bool = True
) -> OpDefinition:
    """Build a variant of the operator `like` with an additional mask."""
    plain = like.infer_shape

    def infer_shape(ctx: InferContext) -> None:
        require_broadcast(ctx, "mask", ctx.input("x").shape)
        plain(ctx)

    infer_shape.__doc__ = f"{plain.__doc__} The mask broadcasts to x."

    def written(b: BodyContext) -> Expression:
        return write(b, read(b, "x"), read(b, "mask"))

    def position_body(b: BodyContext) -> None:
        b.set_output("out", written(b).name)

    maker.add_input("mask", "bool, broadcasts to x: true for elements that count").dtypes("bool")
    if has_gradient:
        return maker.build(infer_shape=infer_shape, body=in_float32(written))
    none = no_gradient("its result is an index")
    return maker.build(infer_shape=infer_shape, gradient=none, body=position_body)


_HIDDEN = "of the elements whose mask is true"

MASKED_SUM = _masked(
    accumulation("masked_sum", f"Sum over axes {_HIDDEN}, 0 if there are none."), SUM, _sum
)
MASKED_PROD = _masked(
    accumulation("masked_prod", f"Product over axes {_HIDDEN}, 1 if there are none."),
    PROD,
    _prod,
)
MASKED_MEAN = _masked(
    reduction("masked_mean", f"Mean over axes {_HIDDEN}, NaN if there are none.", FLOATS),
    MEAN,
    _mean,
)
MASKED_MAX = _masked(
    reduction(
        "masked_max",
        f"Maximum over axes {_HIDDEN}; if there are none, -inf, or the minimum of an integer "
        f"dtype.",
        NUMBERS,
    ),
    MAX,
    _max,
)
MASKED_MIN = _masked(
    reduction(
        "masked_min",
        f"Minimum over axes {_HIDDEN}; if there are none, inf, or the maximum of an integer dtype.",
        NUMBERS,
    ),
    MIN,
    _min,
)
MASKED_ARGMAX = _masked(
    position("masked_argmax", f"Index of the first maximum {_HIDDEN}, along an axis."),
    ARGMAX,
    _argmax,
    has_gradient=False,
)
MASKED_ARGMIN = _masked(
    position("masked_argmin", f"Index of the first minimum {_HIDDEN}, along an axis."),
    ARGMIN,
    _argmin,
    has_gradient=False,
)
MASKED_LOGSUMEXP = _masked(
    reduction("masked_logsumexp", f"out = log(sum(exp(x))) over axes {_HIDDEN}.", FLOATS),
    LOGSUMEXP,
    _logsumexp,
)
MASKED_NORM = _masked(
    reduction("masked_norm", f"The p-norm, as `norm`, over axes {_HIDDEN}.", FLOATS)
    .add_attr("p", float, "the exponent")
    .default(2.0),
    NORM,
    _norm,
)


def _spread(op_type: str, comment: str) -> OpMaker:
    return (
        reduction(op_type, comment, FLOATS)
        .add_attr("correction", float, "1 is unbiased for a sample x")
        .default(0.0)
    )


MASKED_VARIANCE = _masked(
    _spread("masked_variance", f"Variance, as `variance`, over axes {_HIDDEN}."),
    VARIANCE,
    _variance,
)
MASKED_STD = _masked(
    _spread("masked_std", f"Standard deviation, as `std`, over axes {_HIDDEN}."), STD, _std
)
MASKED_SOFTMAX = _masked(
    along_axis("masked_softmax", f"Softmax along an axis {_HIDDEN}; the rest is 0."),
    SOFTMAX,
    _softmax,
)
MASKED_LOG_SOFTMAX = _masked(
    along_axis(
        "masked_log_softmax", f"Logarithm of softmax along an axis {_HIDDEN}; the rest is -inf."
    ),
    LOG_SOFTMAX,
    _log_softmax,
)
MASKED_CUMSUM = _masked(
    cumulative("masked_cumsum", f"Cumulative sum along one axis {_HIDDEN}."), CUMSUM, _cumsum
)
MASKED_CUMPROD = _masked(
    cumulative("masked_cumprod", f"Cumulative product along one axis {_HIDDEN}."), CUMPROD, _cumprod
)


def _nan_sum_body(b: BodyContext) -> Expression:
    x = read(b, "x")
    return _sum(b, x, x.with_("equal", x))


def _nan_mean_body(b: BodyContext) -> Expression:
    x = read(b, "x")
    return _mean(b, x, x.with_("equal", x))


NANSUM = accumulation(
    "nansum", "Sum over axes of the elements other than NaN, 0 for none, as numpy.nansum."
).build(infer_shape=SUM.infer_shape, body=in_float32(_nan_sum_body))
NANMEAN = reduction(
    "nanmean", "Mean over axes of the elements other than NaN; NaN for none.", FLOATS
).build(infer_shape=MEAN.infer_shape, body=in_float32(_nan_mean_body))
