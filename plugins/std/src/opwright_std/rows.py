"""Table of standard operators: module, dtypes of the NumPy kernel, reusable inputs.

A new operator needs a file and one row here. By convention the module has the definition under the
upper-case operator type and the kernel under the type itself, with a trailing underscore if it is a
Python builtin (``SUM`` and ``sum_``). Operators with a NumPy ufunc as kernel are in ``names``.
"""

from __future__ import annotations

from typing import NamedTuple

FLOAT = ("float16", "float32", "float64")
WIDE = ("float32", "float64")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER = FLOAT + INT
NUMBER_OR_BOOL = (*NUMBER, "bool")
INDEX = ("int32", "int64")
ANY = ("*",)
# Operators that only move bytes, and casts.
STORED = ("*", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
NO_KERNEL = ()


class Row(NamedTuple):
    """Operators that share a module, kernel dtypes and reusable inputs.

    Attributes
    ----------
    module : str
        Module below ``opwright_std.operators``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes of the NumPy kernels; ``NO_KERNEL`` for operators that are lowered
        otherwise (control flow, composites).
    reuse : str
        Outputs that may reuse the memory of an input, such as ``"out=x out=y"``.
    kernel_only : bool
        The operator is derived (``<type>_grad``): only its kernel is registered.
    hidden : bool
        A gradient helper, listed only on request.
    deterministic : bool
        Equal inputs give bitwise identical results, also for repeated indices.
    """

    module: str
    types: str
    dtypes: tuple[str, ...] = FLOAT
    reuse: str = ""
    kernel_only: bool = False
    hidden: bool = False
    deterministic: bool = True


def gradient(module: str, types: str, dtypes: tuple[str, ...] = FLOAT, reuse: str = "") -> Row:
    """Return the row of derived gradient operators; ``types`` are the forward operators."""
    names = " ".join(f"{name}_grad" for name in types.split())
    return Row(module, names, dtypes, reuse, kernel_only=True)


def helper(module: str, types: str, dtypes: tuple[str, ...] = FLOAT, reuse: str = "") -> Row:
    """Return the row of operators that only gradients emit."""
    return Row(module, types, dtypes, reuse, hidden=True)


_ADAPTIVE = "adaptive_avg_pool2d adaptive_avg_pool3d"
_ADAPTIVE_MAX = "adaptive_max_pool2d adaptive_max_pool3d"
_MASKED = " ".join(
    f"masked_{name}"
    for name in (
        *("sum", "prod", "mean", "max", "min", "argmax", "argmin", "logsumexp", "norm"),
        *("variance", "std", "softmax", "log_softmax", "cumsum", "cumprod"),
    )
)
_WINDOWS = " ".join(
    f"{name}_window"
    for name in (
        *("hann", "hamming", "blackman", "nuttall", "general_cosine", "bartlett", "cosine"),
        *("gaussian", "exponential", "kaiser"),
    )
)

ROWS: tuple[Row, ...] = (
    # Element-wise
    Row("unary", "abs negative sign square clip", NUMBER, "out=x"),
    Row("unary", "exp log sqrt reciprocal erf", FLOAT, "out=x"),
    Row("unary", "expm1 log1p log2 rsqrt", FLOAT, "out=x"),
    Row("unary", "scale pow_scalar", NUMBER, "out=x"),
    gradient("unary", "rsqrt"),
    Row("increment", "increment", NUMBER, "out=x"),
    Row("trigonometry", "sin cos tan asin acos atan sinh cosh", FLOAT, "out=x"),
    Row("trigonometry", "atan2", FLOAT, "out=x out=y"),
    helper("trigonometry", "atan2_derivative", reuse="out=x out=y"),
    gradient("trigonometry", "tan", reuse="x_grad=out"),
    gradient("trigonometry", "asin acos atan"),
    Row("trigonometry", "deg2rad rad2deg hypot", NO_KERNEL),
    Row("hyperbolic", "asinh acosh atanh", NO_KERNEL),
    Row("logarithms", "log10 exp2 logit logaddexp logaddexp2 xlogy xlog1py", NO_KERNEL),
    Row("special", "lgamma digamma polygamma erfc erfinv", FLOAT, "out=x"),
    Row("special", "sinc", NO_KERNEL),
    Row("bits", "bitwise_and bitwise_or bitwise_xor", (*INT, "bool"), "out=x out=y"),
    Row("bits", "bitwise_not", (*INT, "bool"), "out=x"),
    Row("bits", "left_shift right_shift", INT, "out=x out=y"),
    Row("bits", "bit_cast", ANY),
    Row("bits", "copysign", FLOAT, "out=x out=y"),
    Row("bits", "signbit", NO_KERNEL),
    Row("rounding", "ceil floor round", NUMBER, "out=x"),
    Row("rounding", "trunc frac", NO_KERNEL),
    Row("rounding", "isnan isinf isfinite", NUMBER_OR_BOOL),
    Row("rounding", "nan_to_num", NUMBER),
    gradient("rounding", "nan_to_num", reuse="x_grad=x x_grad=out_grad"),
    gradient("unary", "abs erf", reuse="x_grad=x"),
    gradient("unary", "sqrt reciprocal", reuse="x_grad=out"),
    gradient("unary", "square clip", reuse="x_grad=x x_grad=out_grad"),
    Row("activations", "relu", NUMBER, "out=x"),
    Row("activations", "sigmoid tanh softplus elu leaky_relu", FLOAT, "out=x"),
    Row("activations", "silu gelu"),
    gradient("activations", "relu leaky_relu", reuse="x_grad=out x_grad=out_grad"),
    gradient("activations", "tanh softplus", reuse="x_grad=out"),
    gradient("activations", "elu", reuse="x_grad=x"),
    gradient("activations", "sigmoid silu gelu"),
    Row("kinks", "relu6 hard_sigmoid hard_shrink thresholded_relu", FLOAT, "out=x"),
    Row("kinks", "hard_swish soft_shrink"),
    gradient("kinks", "relu6 hard_sigmoid", reuse="x_grad=out x_grad=out_grad"),
    gradient("kinks", "hard_swish", reuse="x_grad=x x_grad=out_grad"),
    gradient("kinks", "hard_shrink soft_shrink thresholded_relu", reuse="x_grad=x x_grad=out_grad"),
    Row("smooth", "log_sigmoid selu celu stanh", FLOAT, "out=x"),
    Row("smooth", "softsign mish tanh_shrink swish soft_relu"),
    gradient("smooth", "log_sigmoid", reuse="x_grad=out"),
    gradient("smooth", "softsign mish tanh_shrink selu celu swish stanh soft_relu"),
    Row("prelu", "prelu", FLOAT, "out=x"),
    Row("lerp", "lerp"),
    Row("division", "mod floor_divide", NUMBER, "out=x out=y"),
    Row("division", "fmod", NO_KERNEL),
    Row("binary", "fmax fmin heaviside", NO_KERNEL),
    Row("binary", "squared_difference subtract power", NUMBER, "out=x out=y"),
    Row("binary", "add multiply maximum minimum", NUMBER_OR_BOOL, "out=x out=y"),
    Row("binary", "divide", FLOAT, "out=x out=y"),
    gradient("binary", "power"),
    Row("comparison", "equal not_equal less less_equal greater greater_equal", NUMBER_OR_BOOL),
    Row("comparison", "isclose allclose", NO_KERNEL),
    Row("logical", "logical_and logical_or logical_xor logical_not", NUMBER_OR_BOOL),
    Row("where", "where", STORED, "out=y"),
    Row("add_n", "add_n", NUMBER),
    # Reductions
    Row("reduction", "sum prod max min any all", NUMBER_OR_BOOL),
    Row("reduction", "mean"),
    gradient("reduction", "sum mean max min"),
    Row("reduction", "argmax argmin", NUMBER_OR_BOOL),
    Row("reduction", "aminmax", NO_KERNEL),
    Row("masked", _MASKED, NO_KERNEL),
    Row("masked", "nansum nanmean", NO_KERNEL),
    Row("statistics", "logsumexp norm variance std count_nonzero", NO_KERNEL),
    Row("quantile", "median quantile nanmedian nanquantile", NO_KERNEL),
    Row("counting", "searchsorted histogram", NUMBER),
    Row("counting", "bucketize", NO_KERNEL),
    Row("counting", "bincount", INDEX),
    Row("cumulative", "cumsum cumprod", NUMBER_OR_BOOL),
    gradient("cumulative", "cumprod"),
    Row("cumulative", "cummax cummin", NUMBER_OR_BOOL),
    Row("cumulative", "logcumsumexp"),
    gradient("cumulative", "logcumsumexp"),
    Row("diff", "diff", NO_KERNEL),
    # Shape and movement
    Row("reshape", "reshape", STORED, "out=x"),
    helper("reshape", "reshape_like", STORED, "out=x"),
    Row("flatten", "flatten", STORED, "out=x"),
    Row("squeeze", "squeeze unsqueeze", STORED, "out=x"),
    Row("transpose", "transpose", STORED),
    Row("concat", "concat", STORED),
    gradient("concat", "concat"),
    Row("split", "split", STORED),
    Row("slice", "slice", STORED),
    gradient("slice", "slice"),
    Row("slice", "slice_scatter", ANY, "out=x"),
    Row("stack", "stack unstack", STORED),
    Row("tile", "tile", STORED),
    gradient("tile", "tile"),
    Row("flip", "flip roll", STORED),
    Row("flip", "rot90", NO_KERNEL),
    Row("triangle", "triu tril", ANY, "out=x"),
    Row("pad", "pad", ANY),
    gradient("pad", "pad"),
    Row("expand", "expand", STORED),
    helper("sum_like", "sum_like expand_like", NUMBER),
    Row("cast", "cast", STORED),
    helper("cast", "cast_like", STORED),
    Row("quantize", "quantize dequantize", NO_KERNEL),
    Row("assign", "assign", STORED, "out=x"),
    Row("gather", "gather", STORED),
    gradient("gather", "gather"),
    Row("gather", "index_select", NO_KERNEL),
    Row("gather_nd", "gather_nd", STORED),
    Row("scatter", "take_along_axis", STORED),
    gradient("scatter", "take_along_axis"),
    Row("scatter", "scatter", NUMBER_OR_BOOL, "out=x"),
    gradient("scatter", "scatter"),
    Row("gather_nd", "scatter_nd", NUMBER_OR_BOOL, "out=x"),
    Row("scatter_reduce", "scatter_reduce", NO_KERNEL),
    gradient("gather_nd", "gather_nd scatter_nd"),
    Row("indexed_updates", "index_add index_copy index_fill index_put", NO_KERNEL),
    Row("masked_elements", "masked_scatter", NO_KERNEL),
    Row("masked_elements", "masked_select", ANY),
    Row("multiplex", "multiplex", ANY),
    gradient("multiplex", "multiplex"),
    Row("one_hot", "one_hot", INDEX),
    Row("top_k", "top_k", NUMBER_OR_BOOL),
    gradient("top_k", "top_k"),
    Row("sort", "sort argsort", NUMBER_OR_BOOL),
    gradient("sort", "sort"),
    Row("sort", "unique", NUMBER_OR_BOOL),
    Row("unique_consecutive", "unique_consecutive", NUMBER_OR_BOOL),
    Row("nonzero", "nonzero", ANY),
    # Creation
    Row("fill", "fill fill_like", ANY),
    Row("random", "uniform normal truncated_normal"),
    Row("random_integers", "bernoulli"),
    Row("random_integers", "randint", INT),
    Row("random_integers", "permutation", NO_KERNEL),
    Row("creation", "constant eye", ANY),
    Row("creation", "arange", NUMBER),
    Row("creation", "linspace"),
    Row("creation", "logspace", NO_KERNEL),
    Row("shape", "shape size is_empty", NO_KERNEL),
    Row("signal_windows", _WINDOWS, NO_KERNEL),
    # Matrix
    Row("matmul", "matmul", NUMBER),
    Row("grouped_matmul", "grouped_matmul grouped_outer"),
    Row("fc", "fc", NO_KERNEL),
    Row("gemm", "gemm bilinear", NO_KERNEL),
    Row("einsum", "einsum", NO_KERNEL),
    Row("vectors", "outer dot cross kron", NO_KERNEL),
    Row("diagonal", "diag trace", NO_KERNEL),
    Row("linear_algebra", "inverse cholesky solve triangular_solve", WIDE),
    Row("determinant", "det slogdet", WIDE),
    gradient("determinant", "det", WIDE),
    Row("fourier", "fft ifft rfft irfft", WIDE),
    Row("fourier", "hfft ihfft", NO_KERNEL),
    Row("cdist", "cdist", NO_KERNEL),
    Row("fourier_nd", "fftn ifftn", WIDE),
    Row("fourier_nd", "fft2 ifft2 rfftn irfftn", NO_KERNEL),
    Row("stft", "stft istft", NO_KERNEL),
    Row("fourier_shifts", "fftshift ifftshift", NO_KERNEL),
    Row("cos_sim", "cos_sim", WIDE),
    gradient("cos_sim", "cos_sim", WIDE),
    # Neural network
    Row("embedding", "embedding"),
    gradient("embedding", "embedding"),
    Row("embedding_bag", "embedding_bag"),
    gradient("embedding_bag", "embedding_bag"),
    Row("convolution", "conv1d", NO_KERNEL),
    Row("convolution", "conv2d conv3d", WIDE),
    gradient("convolution", "conv2d conv3d", WIDE),
    Row("conv_transpose", "conv1d_transpose", NO_KERNEL),
    Row("conv_transpose", "conv2d_transpose conv3d_transpose", WIDE),
    Row("max_pool", "max_pool1d", NO_KERNEL),
    Row("max_pool", "max_pool2d max_pool3d", WIDE + INT),
    gradient("max_pool", "max_pool2d max_pool3d", WIDE),
    Row("avg_pool", "avg_pool1d", NO_KERNEL),
    Row("avg_pool", "avg_pool2d avg_pool3d", WIDE),
    gradient("avg_pool", "avg_pool2d avg_pool3d", WIDE),
    Row("adaptive_pool", _ADAPTIVE, WIDE),
    gradient("adaptive_pool", _ADAPTIVE, WIDE),
    Row("adaptive_pool", _ADAPTIVE_MAX, WIDE + INT),
    gradient("adaptive_pool", _ADAPTIVE_MAX, WIDE),
    Row("interpolate", "interpolate", WIDE),
    gradient("interpolate", "interpolate", WIDE),
    Row("resize", "resize", WIDE),
    gradient("resize", "resize", WIDE),
    Row("iou", "iou", NO_KERNEL),
    Row("box_coder", "box_coder", NO_KERNEL),
    Row("prior_box", "prior_box", WIDE),
    Row("nms", "nms batched_nms"),
    Row("multiclass_nms", "multiclass_nms", WIDE),
    Row("max_unpool", "max_unpool1d max_unpool3d", NO_KERNEL),
    Row("max_unpool", "max_unpool2d", WIDE),
    gradient("max_unpool", "max_unpool2d", WIDE),
    Row("lp_pool", "lp_pool1d lp_pool2d lp_pool3d", NO_KERNEL),
    Row("affine_grid", "affine_grid", NO_KERNEL),
    Row("grid_sample", "grid_sample", WIDE),
    gradient("grid_sample", "grid_sample", WIDE),
    Row("unfold", "unfold fold"),
    Row("deform_conv2d", "deform_conv2d", NO_KERNEL),
    Row("roi_align", "roi_align", WIDE),
    gradient("roi_align", "roi_align", WIDE),
    helper("roi_align", "roi_align_places", WIDE),
    Row("roi_pool", "roi_pool", WIDE),
    gradient("roi_pool", "roi_pool", WIDE),
    Row("pixel_shuffle", "pixel_shuffle", NO_KERNEL),
    Row("maxout", "maxout", NO_KERNEL),
    Row("lrn", "lrn", NO_KERNEL),
    Row("dropout", "dropout", FLOAT, "out=x"),
    gradient("dropout", "dropout", reuse="x_grad=out_grad"),
    Row("softmax", "softmax", WIDE, "out=x"),
    gradient("softmax", "softmax", WIDE),
    Row("log_softmax", "log_softmax", WIDE, "out=x"),
    gradient("log_softmax", "log_softmax", WIDE, "x_grad=out"),
    Row("layer_norm", "layer_norm", WIDE),
    gradient("layer_norm", "layer_norm", WIDE),
    Row("rms_norm", "rms_norm", WIDE),
    gradient("rms_norm", "rms_norm", WIDE),
    Row("group_norm", "group_norm instance_norm", WIDE),
    gradient("group_norm", "group_norm instance_norm", WIDE),
    Row("scaled_dot_product_attention", "scaled_dot_product_attention", WIDE),
    gradient("scaled_dot_product_attention", "scaled_dot_product_attention", WIDE),
    Row("dropout_attention", "dropout_attention", NO_KERNEL),
    Row("cached_attention", "cached_attention", NO_KERNEL),
    Row("multi_head_attention", "multi_head_attention", NO_KERNEL),
    Row("rotary_embedding", "rotary_embedding", WIDE),
    gradient("rotary_embedding", "rotary_embedding", WIDE),
    Row("recurrent", "lstm gru rnn", WIDE),
    gradient("recurrent", "lstm gru rnn", WIDE),
    Row("general_lstm", "general_lstm", NO_KERNEL),
    Row("recurrent_cells", "lstm_cell gru_cell", WIDE),
    gradient("recurrent_cells", "lstm_cell gru_cell", WIDE),
    Row("sequence", "sequence_mask", INDEX),
    Row("sequence", "sequence_reverse sequence_pack sequence_unpack", ANY),
    gradient("sequence", "sequence_pack sequence_unpack", ANY),
    Row("sequence_pool", "sequence_pool"),
    gradient("sequence_pool", "sequence_pool"),
    Row("sequence_layers", "sequence_softmax sequence_conv", NO_KERNEL),
    Row("batch_norm", "batch_norm", WIDE),
    gradient("batch_norm", "batch_norm", WIDE),
    # Losses
    Row("cross_entropy", "cross_entropy", WIDE),
    gradient("cross_entropy", "cross_entropy", WIDE),
    Row("softmax_with_cross_entropy", "softmax_with_cross_entropy", WIDE),
    gradient("softmax_with_cross_entropy", "softmax_with_cross_entropy", WIDE),
    Row("sigmoid_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits", WIDE),
    gradient("sigmoid_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits", WIDE),
    Row("nll", "nll", WIDE),
    gradient("nll", "nll", WIDE),
    Row("mse", "mse", WIDE, "out=x out=label"),
    gradient("mse", "mse", WIDE),
    Row("pointwise_losses", "l1 smooth_l1 huber hinge log_loss kl_div", WIDE),
    gradient("pointwise_losses", "l1 smooth_l1 huber hinge log_loss kl_div", WIDE),
    Row("ranking_losses", "margin_rank_loss rank_loss", WIDE),
    gradient("ranking_losses", "margin_rank_loss rank_loss", WIDE),
    Row("likelihoods", "gaussian_nll poisson_nll", NO_KERNEL),
    Row("margin_losses", "soft_margin_loss multi_margin_loss triplet_margin_loss", NO_KERNEL),
    Row("margin_losses", "multilabel_margin_loss multilabel_soft_margin_loss", NO_KERNEL),
    Row("edit_distance", "edit_distance", INDEX),
    Row("linear_chain_crf", "linear_chain_crf viterbi_decode", WIDE),
    gradient("linear_chain_crf", "linear_chain_crf", WIDE),
    Row("sampled_losses", "nce sampled_softmax", NO_KERNEL),
    Row("label_smooth", "label_smooth", NO_KERNEL),
    Row("weighted_losses", "weighted_cross_entropy weighted_nll", NO_KERNEL),
    Row("weighted_losses", "weighted_sigmoid_cross_entropy binary_cross_entropy", NO_KERNEL),
    Row("cosine_embedding_loss", "cosine_embedding_loss", NO_KERNEL),
    Row("ctc_loss", "ctc_loss", WIDE),
    gradient("ctc_loss", "ctc_loss", WIDE),
    # Control flow
    Row("cond", "cond", NO_KERNEL),
    Row("watching", "print", STORED, "out=x"),
    Row("watching", "assert_true", ("bool",)),
    Row("loops", "scan while_loop", NO_KERNEL),
    # Optimizers and metrics
    Row("optimizers", "sgd momentum lion", WIDE),
    Row("adam", "adam adamw", WIDE),
    Row("adam_variants", "adamax nadam radam lamb", WIDE),
    Row("adaptive_optimizers", "adagrad adadelta rmsprop", WIDE),
    Row("proximal_optimizers", "proximal_gd proximal_adagrad ftrl", WIDE),
    Row("sparse_optimizers", "sparse_sgd sparse_momentum sparse_adagrad sparse_adam", WIDE),
    Row("clip_by_norm", "clip_by_norm clip_by_global_norm", FLOAT, "out=x"),
    Row("accuracy", "accuracy"),
    Row("auc", "auc"),
    Row("precision_recall", "precision_recall"),
)
