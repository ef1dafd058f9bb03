"""JAX and opwright functions on signals, indices, matrices, layers and losses.

A row has our function, the JAX function, and their differentiable arguments.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax.numpy import fft, linalg
from jax.scipy.linalg import solve_triangular
from pairs_of_images import IMAGE, WINDOWS, Row, numbers

from opwright_jax import ops


def positive(x: Any) -> Any:
    """Return a positive definite matrix."""
    return x @ jnp.swapaxes(x, -1, -2) + 2 * jnp.eye(x.shape[-1])


def pairs_of(z: Any) -> Any:
    """Return complex numbers as (real, imaginary) pairs along a new last axis."""
    return jnp.stack([z.real, z.imag], -1)


def joined(x: Any) -> Any:
    """Return the complex numbers of (real, imaginary) pairs along the last axis."""
    return lax.complex(x[..., 0], x[..., 1])


def normalized(x: Any, axes: Any) -> Any:
    """Return numbers with mean 0 and variance 1 along axes."""
    centered = x - x.mean(axes, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(axes, keepdims=True) + 1e-5)


def group_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalize two groups of channels."""
    n, c, *size = x.shape
    grouped = normalized(x.reshape(n, 2, -1), (2,)).reshape(x.shape)
    return grouped * scale.reshape(c, *[1] * len(size)) + bias.reshape(c, *[1] * len(size))


def attention(q: Any, k: Any, v: Any) -> Any:
    """Compute causal attention with jax.nn, with the heads in axis 1."""
    swapped = [jnp.swapaxes(a, 1, 2) for a in (q, k, v)]
    return jnp.swapaxes(nn.dot_product_attention(*swapped, is_causal=True), 1, 2)


SIGNAL = numbers(3, 8, 2)
TRANSFORMS: dict[str, Row] = {
    "fft": (ops.fft, lambda x: pairs_of(fft.fft(joined(x))), [SIGNAL]),
    "ifft": (ops.ifft, lambda x: pairs_of(fft.ifft(joined(x))), [SIGNAL]),
    "fft2": (ops.fft2, lambda x: pairs_of(fft.fft2(joined(x))), [SIGNAL]),
    "ifft2": (ops.ifft2, lambda x: pairs_of(fft.ifft2(joined(x))), [SIGNAL]),
    "rfft": (ops.rfft, lambda x: pairs_of(fft.rfft(x)), [numbers(3, 7)]),
    "rfft with a norm": (
        partial(ops.rfft, norm="ortho"), lambda x: pairs_of(fft.rfft(x, norm="ortho")),
        [numbers(3, 8)],
    ),
    "irfft": (
        partial(ops.irfft, n=8), lambda x: fft.irfft(joined(x), 8), [numbers(3, 5, 2)]
    ),
    "rfftn": (ops.rfftn, lambda x: pairs_of(fft.rfftn(x)), [numbers(4, 6)]),
    "fftshift": (ops.fftshift, fft.fftshift, [numbers(4, 5)]),
    "ifftshift": (ops.ifftshift, fft.ifftshift, [numbers(4, 5)]),
}  # fmt: skip

INDEX = np.array([2, 0, 2, 1])
ALONG = np.array([[0, 3, 1], [2, 2, 0], [1, 0, 3]])
TABLE = numbers(3, 4)
ORDER: dict[str, Row] = {
    "gather": (lambda x: ops.gather(x, INDEX, axis=0), lambda x: x[INDEX], [TABLE]),
    "gather along axis 1": (
        lambda x: ops.gather(x, INDEX, axis=1), lambda x: jnp.take(x, INDEX, 1), [TABLE]
    ),
    "index_select": (
        lambda x: ops.index_select(x, INDEX, axis=1), lambda x: x[:, INDEX], [TABLE]
    ),
    "gather_nd": (
        lambda x: ops.gather_nd(x, ALONG[:, :2] % 3), lambda x: x[tuple(ALONG[:, :2].T % 3)],
        [TABLE],
    ),
    "take_along_axis": (
        lambda x: ops.take_along_axis(x, ALONG, axis=1),
        lambda x: jnp.take_along_axis(x, ALONG, 1),
        [TABLE],
    ),
    "embedding": (lambda w: ops.embedding(w, ALONG % 3), lambda w: w[ALONG % 3], [TABLE]),
    "scatter": (
        lambda x, u: ops.scatter(x, ALONG[:, :2], u, axis=1),
        lambda x, u: x.at[np.arange(3)[:, None], ALONG[:, :2]].set(u),
        [TABLE, numbers(3, 2)],
    ),
    "scatter and add": (
        lambda x, u: ops.scatter(x, ALONG, u, axis=1, reduction="add"),
        lambda x, u: x.at[np.arange(3)[:, None], ALONG].add(u),
        [TABLE, numbers(3, 3)],
    ),
    "scatter_nd": (
        lambda x, u: ops.scatter_nd(x, np.array([[0, 1], [2, 3]]), u),
        lambda x, u: x.at[[0, 2], [1, 3]].set(u),
        [TABLE, numbers(2)],
    ),
    "index_add": (
        lambda x, u: ops.index_add(x, INDEX, u, axis=1, alpha=2.0),
        lambda x, u: x.at[:, INDEX].add(2 * u),
        [TABLE, numbers(3, 4)],
    ),
    "index_copy": (
        lambda x, u: ops.index_copy(x, np.array([3, 1]), u, axis=1),
        lambda x, u: x.at[:, [3, 1]].set(u),
        [TABLE, numbers(3, 2)],
    ),
    "index_put": (
        lambda x, u: ops.index_put(x, [INDEX, INDEX + 1], u, accumulate=True),
        lambda x, u: x.at[INDEX, INDEX + 1].add(u),
        [TABLE, numbers(4)],
    ),
    "concat": (
        lambda x, y: ops.concat([x, y, x], axis=1), lambda x, y: jnp.concatenate([x, y, x], 1),
        [TABLE, numbers(3, 2)],
    ),
    "stack": (
        lambda x, y: ops.stack([x, y], axis=1), lambda x, y: jnp.stack([x, y], 1),
        [TABLE, TABLE[::-1].copy()],
    ),
    "split": (
        lambda x: ops.multiply(*ops.split(x, axis=1, num=2)),
        lambda x: jnp.multiply(*jnp.split(x, 2, 1)),
        [TABLE],
    ),
    "unstack": (
        lambda x: ops.subtract(*ops.unstack(x, axis=0)[:2]), lambda x: x[0] - x[1], [TABLE]
    ),
    "slice": (
        partial(ops.slice, axes=[0, 1], starts=[2, 1], ends=[-4, 4], steps=[-1, 2]),
        lambda x: x[2::-1, 1:4:2],
        [TABLE],
    ),
    "slice_scatter": (
        lambda x, u: ops.slice_scatter(x, u, axes=[1], starts=[1], ends=[4], steps=[2]),
        lambda x, u: x.at[:, 1:4:2].set(u),
        [TABLE, numbers(3, 2)],
    ),
    "pad": (
        partial(ops.pad, paddings=[1, 0, 2, 1], value=0.5),
        lambda x: jnp.pad(x, [(1, 0), (2, 1)], constant_values=0.5),
        [TABLE],
    ),
    "pad by reflection": (
        partial(ops.pad, paddings=[1, 2, 0, 3], mode="reflect"),
        lambda x: jnp.pad(x, [(1, 2), (0, 3)], "reflect"),
        [TABLE],
    ),
    "pad with the edge": (
        partial(ops.pad, paddings=[1, 2, 0, 3], mode="edge"),
        lambda x: jnp.pad(x, [(1, 2), (0, 3)], "edge"),
        [TABLE],
    ),
    "tile": (partial(ops.tile, repeats=[2, 3]), lambda x: jnp.tile(x, (2, 3)), [TABLE]),
    "expand": (
        partial(ops.expand, shape=[2, 3, 4]), lambda x: jnp.broadcast_to(x, (2, 3, 4)), [TABLE]
    ),
    "squeeze": (
        lambda x: ops.squeeze(ops.unsqueeze(x, axis=[1]), axis=[1]), lambda x: x, [TABLE]
    ),
    "flatten": (partial(ops.flatten, start_axis=0), jnp.ravel, [TABLE]),
    "diag": (ops.diag, jnp.diag, [numbers(5)]),
    "sort": (partial(ops.sort, returns="out"), jnp.sort, [TABLE]),
    "sort from the largest": (
        partial(ops.sort, axis=0, descending=True, returns="out"),
        lambda x: jnp.sort(x, 0, descending=True),
        [TABLE],
    ),
    "top_k": (
        partial(ops.top_k, k=2, returns="out"), lambda x: lax.top_k(x, 2)[0], [TABLE]
    ),
    "cumsum backwards": (
        partial(ops.cumsum, axis=0, reverse=True), lambda x: lax.cumsum(x, 0, reverse=True),
        [TABLE],
    ),
    "cumprod backwards": (
        partial(ops.cumprod, axis=1, reverse=True), lambda x: lax.cumprod(x, 1, reverse=True),
        [TABLE],
    ),
    "quantile": (
        partial(ops.quantile, q=0.3, axis=[1]), lambda x: jnp.quantile(x, 0.3, 1), [TABLE]
    ),
    "nanmedian": (partial(ops.nanmedian, axis=[1]), lambda x: jnp.nanmedian(x, 1), [TABLE]),
    "max over an axis": (partial(ops.max, axis=[1]), lambda x: x.max(1), [TABLE]),
    "where of two": (
        lambda x, y: ops.where(ALONG > 1, x, y), lambda x, y: jnp.where(ALONG > 1, x, y),
        [numbers(3, 3), numbers(1, 3)],
    ),
}  # fmt: skip

SQUARE = numbers(3, 3) + 2 * np.eye(3)
BATCH = numbers(2, 3, 3) + 2 * np.eye(3)
SIDE = numbers(3, 2)
MATRICES: dict[str, Row] = {
    "matmul of batches": (ops.matmul, jnp.matmul, [BATCH, numbers(3, 2)]),
    "matmul of transposed": (
        partial(ops.matmul, transpose_x=True), lambda x, y: x.T @ y, [SQUARE, SIDE]
    ),
    "dot": (ops.dot, jnp.dot, [numbers(5), numbers(5)[::-1].copy()]),
    "gemm": (
        partial(ops.gemm, alpha=2.0, beta=0.5, transpose_b=True),
        lambda a, b, c: 2 * a @ b.T + 0.5 * c,
        [SQUARE, numbers(2, 3), numbers(2)],
    ),
    "einsum": (
        lambda x, y: ops.einsum([x, y], equation="bij,jk->bik"),
        lambda x, y: jnp.einsum("bij,jk->bik", x, y),
        [BATCH, SIDE],
    ),
    "einsum of three": (
        lambda x, y, z: ops.einsum([x, y, z], equation="bij,jk,b->ki"),
        lambda x, y, z: jnp.einsum("bij,jk,b->ki", x, y, z),
        [BATCH, SIDE, numbers(2)],
    ),
    "einsum of a diagonal": (
        lambda x: ops.einsum([x], equation="bii->i"), lambda x: jnp.einsum("bii->i", x), [BATCH]
    ),
    "bilinear": (
        ops.bilinear, lambda x, y, w: jnp.einsum("ni,oij,nj->no", x, w, y),
        [numbers(4, 3), numbers(4, 2), numbers(5, 3, 2)],
    ),
    "cholesky of batches": (
        lambda x: ops.cholesky(positive(x)), lambda x: linalg.cholesky(positive(x)), [BATCH]
    ),
    "cholesky above the diagonal": (
        lambda x: ops.cholesky(positive(x), upper=True),
        lambda x: linalg.cholesky(positive(x), upper=True),
        [SQUARE],
    ),
    "solve of batches": (ops.solve, linalg.solve, [BATCH, numbers(2, 3, 2)]),
    "triangular_solve below": (
        partial(ops.triangular_solve, upper=False),
        lambda a, b: solve_triangular(a, b, lower=True),
        [SQUARE, SIDE],
    ),
    "triangular_solve of a transposed": (
        partial(ops.triangular_solve, transpose=True, unit_diagonal=True),
        lambda a, b: solve_triangular(a, b, trans=1, unit_diagonal=True),
        [SQUARE, SIDE],
    ),
    "det of batches": (ops.det, linalg.det, [BATCH]),
    "slogdet": (
        partial(ops.slogdet, returns="logabsdet"), lambda x: linalg.slogdet(x)[1], [BATCH]
    ),
    "inverse of batches": (ops.inverse, linalg.inv, [BATCH]),
    "norm of 1": (
        partial(ops.norm, p=1.0, axis=[1]), lambda x: linalg.norm(x, 1, 1), [SQUARE]
    ),
    "norm of 3": (
        partial(ops.norm, p=3.0, axis=[0], keepdims=True),
        lambda x: linalg.norm(x, 3, 0, keepdims=True),
        [SQUARE],
    ),
    "norm of infinity": (
        partial(ops.norm, p=float("inf"), axis=[1]),
        lambda x: linalg.norm(x, jnp.inf, 1),
        [SQUARE],
    ),
    "cdist": (
        ops.cdist, lambda x, y: linalg.norm(x[:, None] - y[None], axis=-1),
        [numbers(4, 3), numbers(2, 3)],
    ),
}  # fmt: skip

CLASSES = np.array([2, 0, 3])
TARGET = np.exp(TABLE[::-1]) / np.exp(TABLE[::-1]).sum(1, keepdims=True)
LAYERS: dict[str, Row] = {
    "layer_norm": (
        partial(ops.layer_norm, returns="out"),
        lambda x, s, b: normalized(x, (1,)) * s + b,
        [TABLE, numbers(4), numbers(4)[::-1].copy()],
    ),
    "rms_norm": (
        partial(ops.rms_norm, returns="out"),
        lambda x, s: x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * s,
        [TABLE, numbers(4)],
    ),
    "group_norm": (
        partial(ops.group_norm, groups=2, returns="out"), group_norm,
        [numbers(2, 4, 3), numbers(4), numbers(4)[::-1].copy()],
    ),
    "instance_norm": (
        partial(ops.instance_norm, returns="out"), lambda x: normalized(x, (2, 3)),
        [numbers(2, 3, 2, 3)],
    ),
    "attention": (
        partial(ops.scaled_dot_product_attention, causal=True, returns="out"), attention,
        [numbers(1, 2, 4, 3), numbers(1, 2, 4, 3) * 0.7, numbers(1, 2, 4, 3)[..., ::-1].copy()],
    ),
    "fc": (
        partial(ops.fc, activation="tanh"), lambda x, w, b: jnp.tanh(x @ w + b),
        [TABLE, numbers(4, 2), numbers(2)],
    ),
    "prelu": (ops.prelu, lambda x, w: jnp.where(x > 0, x, w * x), [TABLE, numbers(1)]),
    "softmax along axis 0": (partial(ops.softmax, axis=0), partial(nn.softmax, axis=0), [TABLE]),
    "maxout": (
        partial(ops.maxout, groups=2), lambda x: x.reshape(2, 2, 2, 6, 7).max(2), [IMAGE]
    ),
    "lerp": (
        ops.lerp, lambda x, y, w: x + w * (y - x), [TABLE, TABLE[::-1].copy(), numbers(4)]
    ),
    "softmax_with_cross_entropy": (
        lambda x: ops.softmax_with_cross_entropy(x, CLASSES[:, None], returns="out"),
        lambda x: -nn.log_softmax(x)[jnp.arange(3), CLASSES][:, None],
        [TABLE],
    ),
    "softmax_with_cross_entropy of soft labels": (
        lambda x: ops.softmax_with_cross_entropy(x, TARGET, soft_label=True, returns="out"),
        lambda x: -(TARGET * nn.log_softmax(x)).sum(1, keepdims=True),
        [TABLE],
    ),
    "nll": (
        lambda x: ops.nll(x, CLASSES), lambda x: -x[jnp.arange(3), CLASSES], [TABLE]
    ),
    "sigmoid_cross_entropy_with_logits": (
        ops.sigmoid_cross_entropy_with_logits,
        lambda x, y: -(y * nn.log_sigmoid(x) + (1 - y) * nn.log_sigmoid(-x)),
        [TABLE, TARGET],
    ),
    "binary_cross_entropy": (
        lambda x: ops.binary_cross_entropy(x, TARGET),
        lambda x: -(TARGET * jnp.log(x) + (1 - TARGET) * jnp.log(1 - x)),
        [TARGET[::-1].copy()],
    ),
    "kl_div": (
        lambda x: ops.kl_div(x, TARGET), lambda x: TARGET * (jnp.log(TARGET) - x), [TABLE]
    ),
    "mse": (ops.mse, lambda x, y: (x - y) ** 2, [TABLE, TARGET]),
    "l1": (lambda x: ops.l1(x, TARGET), lambda x: abs(x - TARGET), [TABLE]),
    "huber": (
        lambda x: ops.huber(x, TARGET, delta=0.7),
        lambda x: jnp.where(
            abs(x - TARGET) < 0.7, (x - TARGET) ** 2 / 2, 0.7 * (abs(x - TARGET) - 0.35)
        ),
        [TABLE],
    ),
    "poisson_nll": (
        lambda x: ops.poisson_nll(x, TARGET), lambda x: jnp.exp(x) - TARGET * x, [TABLE]
    ),
}  # fmt: skip

STRUCTURED: dict[str, Row] = WINDOWS | TRANSFORMS | ORDER | MATRICES | LAYERS
