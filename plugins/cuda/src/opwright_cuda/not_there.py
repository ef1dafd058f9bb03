"""Standard operators without a CUDA kernel, at least for some dtype, for the coverage page."""

from __future__ import annotations

from typing import Final

NOT_THERE: Final = {
    **dict.fromkeys(("sort", "argsort"), "their body is a top_k of all elements (2026-11-23)"),
    **dict.fromkeys(
        ("inverse", "cholesky", "solve", "triangular_solve", "fft", "ifft", "rfft", "irfft"),
        'the host computes it: fallback="cpu" runs it there (2026-11-28)',
    ),
    **dict.fromkeys(
        (
            *("det", "det_grad", "slogdet", "fftn", "ifftn", "embedding_bag", "embedding_bag_grad"),
            *("lgamma", "digamma", "polygamma", "erfinv", "cummax", "cummin", "logcumsumexp"),
            "logcumsumexp_grad",
        ),
        'the host computes it: fallback="cpu" runs it there (2026-11-28)',
    ),
    **dict.fromkeys(
        ("grid_sample", "grid_sample_grad", "unfold", "fold"),
        "their bodies are gathers, slices and sums (2026-11-28)",
    ),
    "masked_select": "how many are true, only the values tell: as of nonzero (2026-11-28)",
    **dict.fromkeys(
        ("unique", "unique_consecutive"),
        "how many elements differ, only the values tell: as of nonzero (2026-11-23)",
    ),
    **dict.fromkeys(("resize", "resize_grad"), 'fallback="cpu" runs it there (2026-11-28)'),
    **dict.fromkeys(
        ("add", "multiply", "maximum", "minimum", "cumsum", "cumprod", "top_k"),
        'the host computes bool: fallback="cpu" runs it there (2026-11-28)',
    ),
    **dict.fromkeys(
        (
            *("scale", "pow_scalar", "max_pool2d", "max_pool3d"),
            *("adaptive_max_pool2d", "adaptive_max_pool3d"),
        ),
        'the host computes integers: fallback="cpu" runs it there (2026-11-28)',
    ),
    "roi_align_places": 'for gradients of the mode max: fallback="cpu" runs it (2026-11-29)',
    "print": 'the host writes the values: fallback="cpu" runs it there (2026-11-23)',
    **dict.fromkeys(
        ("nms", "batched_nms", "multiclass_nms"),
        "how many boxes are kept, only the values tell: as of nonzero (2026-11-23)",
    ),
    "sequence_pack": "how many rows there are, only the lengths tell: as of nonzero (2026-11-23)",
    "nonzero": "how many elements are not 0, only the values tell: a plan that is launched, or "
    "recorded as a graph, has made the output before it runs (2026-11-22)",
}
"""Standard operators without a CUDA kernel in some dtype: why, and when that was found."""
