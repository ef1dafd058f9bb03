"""PyTorch functions with inputs, as test cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional as fn

NAN, INF = float("nan"), float("inf")


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    tensors: Sequence[torch.Tensor]


def line(*values: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, requires_grad=dtype.is_floating_point)


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def whole(*shape: int, high: int = 5, low: int = 0, dtype: torch.dtype = torch.int64) -> Any:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3)).to(dtype)


A, B = drawn(3, 4), drawn(3, 4, seed=1)
ROW, NUMBER = drawn(4, seed=2), drawn(seed=3)
POSITIVE = (drawn(3, 4).abs() + 0.1).detach().requires_grad_()
INNER = torch.sigmoid(drawn(3, 4)).detach().requires_grad_()
CUBE = drawn(2, 3, 4)
KINKS = line(-6, -3, -1, -0.5, 0, 0.5, 1, 3, 6, 0.25, -INF, INF)
TIED = torch.tensor([[1.0, 2, 2, 0], [3, 3, 3, 3], [0, -1, 0, 0]], dtype=torch.float64)
TIED.requires_grad_()
MASK = whole(3, 4, high=2, dtype=torch.bool)
WHOLE, SMALL = whole(3, 4, low=-5), whole(3, 4, low=1, dtype=torch.int32)
PICTURE = drawn(2, 4, 4, 4)

UNARY: Final = (
    "neg exp expm1 sin cos tan sinh cosh tanh erf sigmoid square abs relu exp2 "
    "sqrt rsqrt log log2 log10 log1p reciprocal asin acos atan frac asinh atanh deg2rad rad2deg "
    "sinc lgamma digamma erfc erfinv"
)
ACTIVATIONS: Final = (
    "relu relu6 hardtanh hardsigmoid leaky_relu silu mish selu elu celu softsign "
    "logsigmoid tanhshrink hardshrink softshrink softplus gelu"
)
COMPARISONS: Final = ["eq", "ne", "lt", "le", "gt", "ge"]
REDUCTIONS: Final = ["sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std"]


def _complex() -> list[Case]:
    pairs, angles = drawn(2, 3, 4, 2), drawn(3, 4, seed=1)

    def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        turns = torch.polar(torch.ones_like(angles), angles) * 0.5
        return torch.view_as_real(torch.view_as_complex(x) * turns.unsqueeze(0)).flatten(2)

    def scale(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x).reshape(6, 4)
        return torch.view_as_real(y * z.view(2, 3, 4)[:, None].squeeze(1))

    return [
        Case("complex-rotary", rotate, [pairs, angles]),
        Case("complex-real-factor", scale, [pairs, angles]),
        Case(
            "complex-parts",
            lambda a, b: torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)),
            [A, B],
        ),
    ]


def _pointwise() -> list[Case]:
    cases = [Case(name, getattr(torch, name), [INNER]) for name in UNARY.split()]
    cases += [
        Case(name, getattr(torch, name), [A])
        for name in ("floor", "ceil", "trunc", "round", "sign")
    ]
    cases += [Case(f"{name}-whole", getattr(torch, name), [SMALL]) for name in ("exp", "sqrt")]
    cases += [
        Case(f"{name}-kinks", getattr(fn, name), [KINKS[:-2]]) for name in ACTIVATIONS.split()
    ]
    cases += [
        Case("add", torch.add, [A, B]),
        Case("add-alpha", lambda x, y: torch.add(x, y, alpha=2.5), [A, ROW]),
        Case("add-number", lambda x: x + 2.5, [A]),
        Case("add-bool", torch.add, [MASK, ~MASK]),
        Case("sub", lambda x, y: torch.sub(x, y, alpha=0.5), [A, ROW]),
        Case("sub-number", lambda x: x - 3, [WHOLE]),
        Case("rsub", lambda x: 3 - x, [A]),
        Case("rsub-whole", lambda x: 3 - x, [WHOLE]),
        Case("mul", torch.mul, [A, NUMBER]),
        Case("mul-number", lambda x: x * 0.1, [A]),
        Case("mul-bool", torch.mul, [MASK, ~MASK]),
        Case("div", torch.div, [A, POSITIVE]),
        Case("div-number", lambda x: (x / 3, x / 4), [A]),
        Case("div-whole", torch.div, [WHOLE, SMALL]),
        Case("div-trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), [WHOLE, SMALL]),
        Case("div-floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), [WHOLE, SMALL]),
        Case("div-trunc-float", lambda x: torch.div(x, 0.3, rounding_mode="trunc"), [A]),
        Case("div-floor-float", lambda x, y: torch.div(x, y, rounding_mode="floor"), [A, POSITIVE]),
        Case("floor_divide", torch.floor_divide, [A.detach(), POSITIVE.detach()]),
        Case("remainder", torch.remainder, [A, POSITIVE]),
        Case("remainder-whole", lambda x: x % 3, [WHOLE]),
        Case("fmod", torch.fmod, [A, POSITIVE]),
        Case("polygamma", lambda x: (torch.polygamma(2, x), torch.polygamma(3, x)), [POSITIVE]),
        Case("bits", lambda x, y: (x & y, x | y, x ^ y, ~x, x << y, x >> y), [WHOLE, SMALL]),
        Case("bytes", lambda x: (x.view(torch.int32), x.signbit()), [A.detach()]),
        Case("fmod-whole", torch.fmod, [WHOLE, SMALL]),
        Case("pow", torch.pow, [POSITIVE, B]),
        *(Case(f"pow-{n}", lambda x, n=n: x**n, [POSITIVE]) for n in (2, 3, 0.5, -1, -0.5, 0, 1)),
        Case("pow-of-number", lambda x: 2**x, [A]),
        Case("pow-whole", lambda x: (x**2, x**3), [WHOLE]),
        Case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), [A, B, ROW]),
        Case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=2), [A, B, POSITIVE]),
        Case("lerp", torch.lerp, [A, B, INNER]),
        Case("lerp-number", lambda x, y: torch.lerp(x, y, 0.3), [A, ROW]),
        Case("maximum-ties", torch.maximum, [TIED, TIED.detach().flip(1).requires_grad_()]),
        Case("minimum-ties", torch.minimum, [TIED, TIED.detach().flip(1).requires_grad_()]),
        Case("fmax-nan", torch.fmax, [line(NAN, 1, 2, 3), line(1, NAN, 2, 4)]),
        Case("fmin-nan", torch.fmin, [line(NAN, 1, 2, 3), line(1, NAN, 2, 4)]),
        Case("clamp-bounds", lambda x: x.clamp(-1, 1), [KINKS]),
        Case("clamp-nan", lambda x: x.clamp(-1, 1), [line(NAN, 0, 5)]),
        Case("clamp-tensor", torch.clamp, [TIED, line(0, 0, 0, 0), line(2, 2, 1, -1)]),
        Case("clamp-min", lambda x: x.clamp_min(0), [TIED]),
        Case("clamp-whole-to-float", lambda x: x.clamp(min=0.5), [WHOLE]),
        Case("abs-at-0", torch.abs, [KINKS]),
        Case("round-decimals", lambda x: x.round(decimals=2), [A]),
        Case("nan_to_num", torch.nan_to_num, [line(NAN, INF, -INF, 1)]),
        Case("logaddexps", lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)), [A, B]),
        Case("xlogy", torch.xlogy, [line(0, 0, 2), line(-1, 2, 3)]),
        Case("xlog1py", torch.special.xlog1py, [line(0, 0, 2), line(-2, 2, 3)]),
        Case("entr", torch.special.entr, [line(0.5, 2, 0.25)]),
        Case("ldexp", torch.ldexp, [A, SMALL]),
        Case("hypot", lambda x, y: (torch.hypot(x, y), torch.copysign(x, y)), [A, B]),
        Case("atanh", torch.atanh, [INNER]),
        Case("heaviside", torch.heaviside, [line(-1, 0, 2).detach(), line(5, 6, 7).detach()]),
        Case("degrees", lambda x: (x.deg2rad(), x.rad2deg()), [A]),
        Case("isin", lambda x: torch.isin(x, torch.tensor([1, 3])), [WHOLE]),
        Case("cross", lambda x, y: torch.linalg.cross(x[:, :3], y[:, :3]), [A, B]),
        Case("atan2", torch.atan2, [A, B]),
        Case("prelu", fn.prelu, [PICTURE, line(0.1, 0.2, 0.3, 0.4)]),
        Case("threshold", lambda x: fn.threshold(x, 0.5, -1), [KINKS]),
        Case("hardswish", fn.hardswish, [line(-6, -2.9, 0, 2.9, 6)]),
        Case("gelu-tanh", lambda x: fn.gelu(x, approximate="tanh"), [A]),
        Case("softplus-beta", lambda x: fn.softplus(x, beta=2), [A]),
        Case("glu", fn.glu, [A]),
    ]
    return cases


def _comparisons() -> list[Case]:
    cases = [Case(name, getattr(torch, name), [WHOLE, SMALL]) for name in COMPARISONS]
    cases += [
        Case(f"{name}-number", getattr(torch, name), [TIED.detach(), torch.tensor(0)])
        for name in COMPARISONS
    ]
    return [
        *cases,
        Case("whole-against-float", lambda x: x < 1.5, [WHOLE]),
        Case("logic", lambda x, y: (torch.logical_and(x, y), x.logical_not()), [WHOLE, SMALL]),
        Case("bits", lambda x, y: (x & y, x | ~y, x ^ y), [MASK, ~MASK]),
        Case("is", lambda x: (x.isnan(), x.isinf(), x.isfinite()), [line(NAN, INF, 1).detach()]),
        Case("where-nan", lambda m, x: torch.where(m, x, x.sqrt()), [MASK, A.detach().abs()]),
        Case("where-untaken", lambda x: torch.where(x > 0, x.log(), 0.0), [line(1, 2, -1)]),
        Case("where-number", lambda m, x: torch.where(m, 1.0, x), [MASK, ROW]),
        Case("masked_fill", lambda x, m: x.masked_fill(m, -INF), [A, MASK]),
        Case("to", lambda x: (x.int(), x.half(), x.bool(), x.to(torch.float32)), [A]),
    ]


def _shapes() -> list[Case]:
    return [
        Case("view", lambda x: (x.view(6, 4), x.reshape(-1), x.flatten(1)), [CUBE]),
        Case("squeeze", lambda x: (x[:, None].squeeze(1), x.unsqueeze(-1).squeeze()), [CUBE]),
        Case("permute", lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x[0].t()), [CUBE]),
        Case("permute-of-1", lambda x: x[:, None].permute(0, 2, 1, 3), [CUBE]),
        Case("movedim", lambda x: (x.movedim(0, 2), x.movedim((0, 1), (1, 0))), [CUBE]),
        Case("expand", lambda x: (x.expand(3, 4), x[:, None].expand(-1, 2)), [ROW]),
        Case("select", lambda x: (x[1], x[:, -1], x.select(2, -2)), [CUBE]),
        Case("slice", lambda x: (x[:, 1:], x[..., ::2], x[:, -2:-1], x[5:]), [CUBE]),
        Case("narrow", lambda x: x.narrow(1, 1, 2), [CUBE]),
        Case("cat", lambda x, y: torch.cat([x, y, x], 1), [A, B]),
        Case("cat-promotes", lambda x, y: torch.cat([x, y]), [A, WHOLE]),
        Case("stack", lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)), [A, B]),
        Case("split", lambda x: (*x.split(3, 1), *x.chunk(2, 0), *x.split([1, 3], -1)), [A]),
        Case("unbind", lambda x: x.unbind(1), [A]),
        Case("heads-unbind", _heads, [drawn(2, 5, 24)]),
        Case("heads-select", _selected_heads, [drawn(5, 2, 24)]),
        Case("unbind-of-transposed", lambda x: x.transpose(0, 2).unbind(1), [CUBE]),
        Case(
            "select-of-view",
            lambda x: (x.view(6, 2, 2)[:, 1], x.view(2, 3, 2, 2)[:, :, -1]),
            [CUBE],
        ),
        Case("roll", lambda x: (x.roll(1), x.roll((1, -1), (0, 1))), [A]),
        Case("flip", lambda x: x.flip(0, 1), [A]),
        Case("repeat", lambda x: (x.repeat(2, 1, 3), x.tile(2)), [A]),
        Case("repeat_interleave", lambda x: x.repeat_interleave(3, dim=1), [A]),
        Case("pad", lambda x: fn.pad(x, (1, -1, 0, 2), value=3.0), [A]),
        Case("pad-reflect", lambda x: fn.pad(x, (1, 2, 2, 1), mode="reflect"), [PICTURE]),
        Case("pad-replicate", lambda x: fn.pad(x, (1, 2, 2, 1), mode="replicate"), [PICTURE]),
        Case("pad-circular", lambda x: fn.pad(x, (1, 2, 2, 1), mode="circular"), [PICTURE]),
        Case("pixel_shuffle", lambda x: fn.pixel_shuffle(x, 2), [PICTURE]),
        Case("pixel_unshuffle", lambda x: fn.pixel_unshuffle(x, 2), [PICTURE]),
        Case("channel_shuffle", lambda x: fn.channel_shuffle(x, 2), [PICTURE.detach()]),
        Case("diagonal", lambda x: (x.diagonal(), x.diagonal(-1), x.diagonal(1, 1, 2)), [CUBE]),
        Case("diag_embed", lambda x: (x.diag_embed(), x.diag_embed(-1, 0, 2)), [A]),
        Case("rot90", lambda x: [x.rot90(k, (1, 2)) for k in range(-1, 4)], [CUBE]),
        Case("empty", lambda x: x[:, :0].reshape(2, 0, 6), [CUBE]),
        Case("triangle", lambda x: (x.tril(), x.triu(1)), [A]),
        Case("triangle-bool", lambda x: x.tril(), [MASK]),
        Case("unfold", lambda x: (x.unfold(1, 2, 1), x.unfold(0, 2, 2)), [A]),
        Case("im2col", lambda x: fn.unfold(x, 2, padding=1, stride=2), [PICTURE]),
        Case("col2im", lambda x: fn.fold(x, (4, 5), (2, 3), 1, 1, 2), [drawn(2, 12, 9)]),
        Case("setting", _set_slices, [A, ROW]),
        Case("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="xy"), [ROW, NUMBER[None]]),
        Case("as_strided", lambda x: x.as_strided((2, 4), (4, 1), 4), [A.detach()]),
        Case("as_strided-overlapping", lambda x: (x * 2).as_strided((5, 3), (2, 1), 1), [A]),
        Case("as_strided-rows", lambda x: (x * 2).as_strided((2, 2, 4), (4, 4, 1)), [A]),
        Case("einsum", lambda x, y: torch.einsum("ij, kj -> ki", x, y), [A, B]),
    ]


def _heads(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)


def _selected_heads(x: torch.Tensor) -> list[torch.Tensor]:
    parts = x.unflatten(-1, (3, 8)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    return [parts[i].view(5, 4, 4).transpose(0, 1) for i in range(3)]


def _set_slices(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[1] = y
    out[:, 1:3] = 2 * x[:, 1:3]
    out[0, 0] = 7
    return out


def _reductions() -> list[Case]:
    by_name = {name: getattr(torch, name) for name in REDUCTIONS}
    cases = [Case(f"{n}-axis", lambda x, f=f: f(x, 1), [TIED]) for n, f in by_name.items()]
    cases += [
        Case(f"{n}-keepdim", lambda x, f=f: f(x, -2, keepdim=True), [CUBE])
        for n, f in by_name.items()
    ]
    cases += [Case(f"{n}-all", f, [A]) for n, f in by_name.items() if n != "logsumexp"]
    return [
        *cases,
        Case("sum-whole", lambda x, y: (x.sum(), y.sum(1)), [SMALL, MASK]),
        Case("sum-dtype", lambda x: x.sum(1, dtype=torch.float64), [WHOLE]),
        Case("max-dim", lambda x: (*x.max(1), *x.min(0, keepdim=True)), [TIED]),
        Case("max-all-ties", lambda x: (x.max(), x.min()), [TIED]),
        Case(
            "argmax",
            lambda x: (x.argmax(1), x.argmin(), x.argmax(0, keepdim=True)),
            [TIED.detach()],
        ),
        Case("aminmax", lambda x: x.aminmax(dim=1), [A]),
        Case("var_mean", lambda x: torch.var_mean(x, 1, correction=0), [A]),
        *(
            Case(f"norm-{p}", lambda x, p=p: torch.linalg.vector_norm(x, p, 1), [A])
            for p in (1, 2, 3, INF)
        ),
        Case("norm-at-0", lambda x: torch.linalg.vector_norm(x, 2, 1), [line(0, 0)[None]]),
        Case("normalize", fn.normalize, [A]),
        Case("any", lambda x: (x.any(), x.any(1), x.all(0)), [MASK]),
        Case("count_nonzero", lambda x: (x.count_nonzero(), x.count_nonzero(1)), [WHOLE]),
        Case("cumsum", lambda x: (x.cumsum(1), x.cumprod(0)), [A]),
        Case("cumsum-whole", lambda x, y: (x.cumsum(1), y.cumsum(0)), [SMALL, MASK]),
        Case("topk", lambda x: x.topk(2, 1), [A]),
        Case("sort", lambda x: (*x.sort(1), *x.sort(0, descending=True)), [A]),
        Case("median", lambda x: (*x.median(1), *x.median(0, keepdim=True)), [A]),
        Case("nanmedian", lambda x: x.nanmedian(0), [line(1, NAN, 3, 2)]),
        Case("running", lambda x: (*x.cummax(1), *x.cummin(0), x.logcumsumexp(1)), [TIED]),
        Case("median-all", torch.median, [A.detach()]),
        Case("nansum", torch.nansum, [line(1, NAN, 3)]),
        Case("trace", lambda x: x[:, :3].trace(), [A]),
        Case("kthvalue", lambda x: x.kthvalue(2, 1), [A]),
        Case("cdist", torch.cdist, [A, B]),
    ]


def _indexing() -> list[Case]:
    i, j = whole(2, 3, high=3), whole(3, high=3)
    return [
        Case("index-1", lambda x, i: (x[i], x[:, i], x[-i]), [CUBE, i % 2]),
        Case("index-2", lambda x, i, j: (x[i, j], x[i, :, j], x[:, i, j]), [CUBE, i % 2, j]),
        Case("index_put", _put, [CUBE, i % 2, j]),
        Case("index-mask", _masked, [A, MASK]),
        Case("gather", lambda x, i: x.gather(1, i), [A, i]),
        Case("scatter", lambda x, i, y: x.scatter(1, i, y), [A, whole(3, 1), drawn(3, 1)]),
        Case("scatter-value", lambda x, i: x.scatter(1, i, 2.0), [A, i % 3]),
        Case("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), [A, i, drawn(2, 3)]),
        *(
            Case(
                f"scatter_reduce-{kind}-{own}",
                lambda x, i, y, kind=kind, own=own: x.scatter_reduce(
                    1, i, y, kind, include_self=own
                ),
                [A, i, drawn(2, 3, seed=4)],
            )
            for kind in ("sum", "prod", "mean", "amax", "amin")
            for own in (True, False)
        ),
        Case("masked_scatter", lambda x, m, y: x.masked_scatter(m, y), [A, MASK, B]),
        Case("index_select", lambda x, j: x.index_select(1, j), [A, j]),
        Case("index_add", lambda x, j, y: x.index_add(1, j, y, alpha=2), [A, j, drawn(3, 3)]),
        Case("index_fill", lambda x, j: x.index_fill(1, j, 3.0), [A, j]),
        Case("take_along_dim", lambda x, i: x.take_along_dim(i, 1), [A, whole(3, 2, high=4)]),
        Case("embedding", lambda w, i: fn.embedding(i, w), [A, i]),
        Case("embedding-padding", lambda w, i: fn.embedding(i, w, padding_idx=1), [A, i]),
        Case(
            "searchsorted",
            lambda x, y, s: (
                torch.searchsorted(x.sort(-1).values, y, right=True, out_int32=True),
                torch.searchsorted(x, y, sorter=s),
            ),
            [A.detach(), B.detach(), A.detach().argsort(-1)],
        ),
        Case("histc", lambda x: torch.histc(x, 5, -1.5, 2), [A.detach()]),
        Case("histc-ids", lambda ids: torch.histc(ids.float(), 5, 0, 4), [whole(40)]),
        Case("bucketize", lambda x: torch.bucketize(x, torch.tensor([0.0, 1, 2])), [TIED.detach()]),
    ]


def _put(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = x.clone(), x.clone()
    first[i, j] = 2.0
    second.index_put_((i, j), x[0, 0], accumulate=True)
    return first, second


def _masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out = x * 2
    out[mask] = 0.0
    return out


def _creation() -> list[Case]:
    return [
        Case(
            "like", lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32)), [WHOLE]
        ),
        Case("new", lambda x: (x.new_zeros(2, 3), x.new_full((2,), 7), x.new_ones(())), [WHOLE]),
        Case("fill", lambda x, y: ((x + 1).fill_(2), torch.fill(x, y)), [A, NUMBER]),
        Case("arange", lambda x: x + torch.arange(4), [A]),
        Case("arange-float", lambda x: x + torch.arange(0.5, 2.5, 0.5, dtype=x.dtype), [A]),
        Case("linspace", lambda x: x + torch.linspace(0, 1, 4, dtype=x.dtype), [A]),
        Case("eye", lambda x: x + torch.eye(3, 4, dtype=x.dtype), [A]),
        Case("constant", lambda x: x + torch.tensor([1.0, 2, 3, 4], dtype=x.dtype), [A]),
        Case("tril_indices", lambda x: x[tuple(torch.tril_indices(3, 3))], [A]),
    ]


MATRICES = (drawn(2, 3, 3) + 3 * torch.eye(3, dtype=torch.float64)).detach().requires_grad_()


def _linear_algebra() -> list[Case]:
    return [
        Case("inv", torch.linalg.inv, [MATRICES]),
        Case("det", torch.linalg.det, [MATRICES]),
        Case("slogdet", torch.linalg.slogdet, [MATRICES]),
        Case("cholesky", lambda x: torch.linalg.cholesky(x @ x.mT), [MATRICES]),
        Case("solve", torch.linalg.solve, [MATRICES, drawn(2, 3, 2)]),
        Case(
            "solve_triangular",
            lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False),
            [MATRICES, drawn(2, 3, 2)],
        ),
    ]


CASES: Final = [
    *_linear_algebra(),
    *_complex(),
    *_pointwise(),
    *_comparisons(),
    *_shapes(),
    *_reductions(),
    *_indexing(),
    *_creation(),
]
