"""Standard operators that lack a CUDA kernel for some or all dtypes, for the coverage page."""

from __future__ import annotations

from typing import Final

NOT_THERE: Final = {
    **dict.fromkeys(("sort", "argsort"), "the body is a top_k of all elements (2026-11-23)"),
    **dict.fromkeys(
        ("inverse", "cholesky", "solve", "triangular_solve", "fft", "ifft", "rfft", "irfft"),
        'computed on the host with fallback="cpu" (2026-11-28)',
    ),
    **dict.fromkeys(
        (
            *("det", "det_grad", "slogdet", "fftn", "ifftn"),
            *("lgamma", "digamma", "polygamma", "erfinv", "cummax", "cummin", "logcumsumexp"),
            "logcumsumexp_grad",
        ),
        'computed on the host with fallback="cpu" (2026-11-28)',
    ),
    **dict.fromkeys(
        ("grid_sample", "grid_sample_grad", "unfold", "fold"),
        "the body consists of gathers, slices and sums (2026-11-28)",
    ),
    **dict.fromkeys(
        ("embedding_bag", "embedding_bag_grad"),
        'the body consists of gathers and sums; mode max needs fallback="cpu" (2026-11-30)',
    ),
    "masked_select": "the number of true elements depends on values, as for nonzero (2026-11-28)",
    **dict.fromkeys(
        ("unique", "unique_consecutive"),
        "the number of distinct elements depends on values, as for nonzero (2026-11-23)",
    ),
    **dict.fromkeys(
        ("resize", "resize_grad"), 'computed on the host with fallback="cpu" (2026-11-28)'
    ),
    **dict.fromkeys(
        ("add", "multiply", "maximum", "minimum", "cumsum", "cumprod", "top_k"),
        'bool is computed on the host with fallback="cpu" (2026-11-28)',
    ),
    **dict.fromkeys(
        (
            *("scale", "pow_scalar", "max_pool2d", "max_pool3d"),
            *("adaptive_max_pool2d", "adaptive_max_pool3d"),
        ),
        'integers are computed on the host with fallback="cpu" (2026-11-28)',
    ),
    "roi_align_places": (
        'needed by gradients of the mode max, on the host with fallback="cpu" (2026-11-29)'
    ),
    "print": 'the values are printed by the host, with fallback="cpu" (2026-11-23)',
    **dict.fromkeys(
        ("nms", "batched_nms", "multiclass_nms"),
        "the number of kept boxes depends on values, as for nonzero (2026-11-23)",
    ),
    "sequence_pack": "the number of rows depends on the lengths, as for nonzero (2026-11-23)",
    "nonzero": "the number of nonzero elements depends on values, but a plan that is launched, "
    "or recorded as a graph, allocates its outputs before it runs (2026-11-22)",
}
"""The reasons why operators do not have a CUDA kernel for some dtype, with dates."""
