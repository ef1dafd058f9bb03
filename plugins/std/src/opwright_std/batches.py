"""Batching rules: how operators process a batch along a new axis 0, for `vmap` in frameworks."""

from __future__ import annotations

from typing import Final

_POINTWISE: Final = (
    *("abs", "acos", "acosh", "add", "asin", "asinh", "assign", "atan", "atan2", "atanh"),
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "ceil", "celu"),
    *("clip", "copysign", "cos", "cosh", "deg2rad", "digamma", "divide", "elu", "equal", "erf"),
    *("erfc", "erfinv", "exp", "exp2", "expm1", "floor", "floor_divide", "fmax", "fmin"),
    *("fmod", "frac", "gelu", "greater", "greater_equal", "hard_shrink", "hard_sigmoid"),
    *("hard_swish", "heaviside", "hinge", "huber", "hypot", "isclose", "isfinite", "isinf"),
    *("isnan", "kl_div", "l1", "leaky_relu", "left_shift", "lerp", "less", "less_equal"),
    *("lgamma", "log", "log10", "log1p", "log2", "log_loss", "log_sigmoid", "logaddexp"),
    *("logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logit"),
    *("maximum", "minimum", "mish", "mod", "mse", "multiply", "nan_to_num", "negative"),
    *("not_equal", "poisson_nll", "polygamma", "pow_scalar", "power", "rad2deg", "reciprocal"),
    *("relu", "relu6", "right_shift", "round", "rsqrt", "scale", "selu", "sigmoid"),
    *("sigmoid_cross_entropy_with_logits", "sign", "signbit", "silu", "sin", "sinc", "sinh"),
    *("smooth_l1", "soft_margin_loss", "soft_relu", "soft_shrink", "softplus", "softsign"),
    *("sqrt", "square", "squared_difference", "stanh", "subtract", "swish", "tan", "tanh"),
    *("tanh_shrink", "thresholded_relu", "trunc", "where", "xlog1py", "xlogy"),
)

BROADCAST: Final = {**dict.fromkeys(_POINTWISE, 0), "matmul": 2}
"""Operators whose inputs broadcast, with the number of trailing axes that do not broadcast."""

AXES: Final = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "cumprod", "cumsum", "log_softmax"), "axis"),
    **dict.fromkeys(("logsumexp", "max", "mean", "min", "prod", "softmax", "sum"), "axis"),
    **dict.fromkeys(("layer_norm", "rms_norm"), "begin_norm_axis"),
}
"""Operators that work along axes of their first input, with the attribute that names these."""

_IMAGES: Final = (
    *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
    *("avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv1d_transpose", "conv2d"),
    *("conv2d_transpose", "conv3d", "conv3d_transpose", "fold", "group_norm", "instance_norm"),
    *("interpolate", "lp_pool1d", "lp_pool2d", "lp_pool3d", "lrn", "max_pool1d", "max_pool2d"),
    *("max_pool3d", "pixel_shuffle", "unfold"),
)

FOLDED: Final = {
    **dict.fromkeys(_IMAGES, ("x",)),
    "grid_sample": ("x", "grid"),
    "max_unpool1d": ("x", "index"),
    "max_unpool2d": ("x", "index"),
    "max_unpool3d": ("x", "index"),
    "scaled_dot_product_attention": ("q", "k", "v"),
}
"""Operators that compute each element of axis 0 separately, with the inputs that have this axis."""
