"""PyTorch functions of images and of embedding bags, as test cases."""

from __future__ import annotations

from typing import Any, Final

import torch
from row_cases import Case, drawn
from torch.nn import functional as fn


def _images() -> list[Case]:
    image, volume = drawn(2, 3, 7, 6), drawn(1, 2, 4, 5, 6)

    def resized(mode: str, **options: Any) -> Case:
        factors = options.pop("scale_factor", None)
        sizes = {"scale_factor": factors} if factors else {"size": (9, 4)}
        return Case(
            f"interpolate-{mode}-{'-'.join(options)}{factors or ''}",
            lambda x: fn.interpolate(x, mode=mode, **sizes, **options),
            [image],
        )

    place = drawn(2, 4, 5, 2, seed=7).detach().clamp(-1.2, 1.2).requires_grad_()
    offsets, table = torch.tensor([0, 2, 2]), drawn(5, 3)
    ids = torch.tensor([1, 0, 4, 1, 3])

    def bags(**options: Any) -> Case:
        name = f"embedding_bag-{'-'.join(options)}"
        return Case(
            name, lambda w, i, o: fn.embedding_bag(i, w, o, **options), [table, ids, offsets]
        )

    return [
        Case(
            "grid_sample",
            lambda x, g: (
                fn.grid_sample(x, g, align_corners=True),
                fn.grid_sample(x, g, "nearest", "border", False),
                fn.grid_sample(x, g, "bicubic", "reflection", False),
            ),
            [image, place],
        ),
        Case(
            "affine_grid",
            lambda x: fn.affine_grid(x, [2, 3, 4, 5], align_corners=False),
            [drawn(2, 2, 3)],
        ),
        Case("unfold", lambda x: fn.unfold(x, (2, 3), (1, 2), 1, 2), [image]),
        Case("fold", lambda x: fn.fold(x, (7, 6), 2, stride=(3, 2)), [drawn(2, 8, 6)]),
        Case(
            "max_unpool",
            lambda x: fn.max_unpool2d(*fn.max_pool2d(x, 2, return_indices=True), 2),
            [image],
        ),
        bags(mode="sum"),
        bags(mode="mean", padding_idx=1),
        bags(mode="max"),
        Case("max_pool-dilated", lambda x: fn.max_pool2d(x, 2, 1, 1, (2, 3)), [image]),
        Case("max_pool3d-dilated", lambda x: fn.max_pool3d(x, 2, dilation=2), [volume]),
        Case(
            "avg_pool-divisor",
            lambda x: fn.avg_pool2d(x, 2, 3, 1, True, False, divisor_override=3),
            [image],
        ),
        Case("adaptive_avg_pool3d", lambda x: fn.adaptive_avg_pool3d(x, (3, 2, 4)), [volume]),
        Case("adaptive_max_pool3d", lambda x: fn.adaptive_max_pool3d(x, (3, 2, 4)), [volume]),
        resized("nearest-exact"),
        resized("bicubic"),
        resized("bicubic", align_corners=True),
        resized("bicubic", scale_factor=(1.3, 0.7)),
        resized("bicubic", antialias=True),
        resized("bilinear", antialias=True),
        Case(
            "interpolate-trilinear",
            lambda x: fn.interpolate(x, (3, 7, 9), mode="trilinear"),
            [volume],
        ),
    ]


IMAGES: Final = _images()
