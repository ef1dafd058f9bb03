"""A captured graph matches its model in values, gradients, buffers and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    """A function of tensors and two layers."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers or [nn.Linear(4, 4)])
        self.register_buffer("cache", torch.zeros(2, 6, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, self.layers[0], *inputs)


class Doubled(torch.autograd.Function):
    """Clamps its input; its backward is not the true gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 + x.sign()


def batch_norm(m: Any, f: Any, x: Any) -> Any:
    return m.layers[1](f(x))


def in_place_on_a_view(m: Any, f: Any, x: Any) -> Any:
    h = f(x)
    F.relu_(h[:, :2])
    return h * h


def view_changed_before_no_grad(m: Any, f: Any, x: Any) -> Any:
    h = f(x)
    h[:, :2].mul_(3)
    with torch.no_grad():
        scale = h.mean()
    return h * scale


def no_grad(m: Any, f: Any, x: Any) -> Any:
    y = f(x)
    with torch.no_grad():
        z = y * 2
    return y * z, z


def enable_grad_inside_no_grad(m: Any, f: Any, x: Any) -> Any:
    with torch.no_grad():
        y = f(x)
        with torch.enable_grad():
            z = f(x) * y
    return z


def detach(m: Any, f: Any, x: Any) -> Any:
    y = f(x)
    return y * y.detach().exp()


def autocast(m: Any, f: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.layer_norm(f(x), (4,))
        z = torch.einsum("ij,kj->ik", y, x)
        with torch.autocast("cpu", enabled=False):
            w = f(x)
    return y, z, w, F.softmax(z, -1).float() @ w


def checkpointed(m: Any, f: Any, x: Any) -> Any:
    return checkpoint(lambda x: F.gelu(f(x)).sin(), x, use_reentrant=False) * 2


def own_function(m: Any, f: Any, x: Any) -> Any:
    return Doubled.apply(f(x)) * 2


def cond(m: Any, f: Any, x: Any) -> Any:
    y = f(x)
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y - 1, (y,))


def flex(m: Any, f: Any, x: Any) -> Any:
    y = f(x)[None, None].detach()
    return flex_attention(y, y, y, score_mod=lambda s, b, h, q, k: s + (q - k))


def vmap(m: Any, f: Any, x: Any) -> Any:
    i = torch.arange(x.shape[0])
    mask = torch.vmap(lambda i: torch.vmap(lambda j: i >= j)(torch.arange(x.shape[0])))(i)
    return torch.vmap(f)(x) @ x.T * mask


def inner_gradient(m: Any, f: Any, x: Any) -> Any:
    return torch.func.grad(lambda x: (f(x) ** 2).sum())(x)


def static_cache(m: Any, f: Any, x: Any) -> Any:
    y = f(x).detach()
    m.cache[:, 2:4] = y[:2]
    m.cache[:, 1].copy_(y[0])
    m.cache.index_copy_(1, torch.tensor([5, 0]), y[None, :2].expand(2, 2, 4))
    m.count.add_(1)
    return (m.cache.sum(1) * f(x)[:2]).tanh(), m.count * 2


def slices_of_a_constant(m: Any, f: Any, x: Any) -> Any:
    mask = x.new_zeros(4, 4)
    for count, rows in enumerate((slice(0, 2), slice(2, -1), slice(-1, None))):
        mask[rows, :] = count
    return f(x)[:, None] + mask[None]


def constants(m: Any, f: Any, x: Any) -> Any:
    return f(x) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4).flip(0)


def index_put(m: Any, f: Any, x: Any) -> Any:
    y = f(x).clone()
    y[torch.tensor([0, 0]), torch.tensor([1, 1])] += 5
    y[y > 1] = 0
    return y * x


def inputs_changed(m: Any, f: Any, x: Any) -> Any:
    y = f(x * 1)
    x.add_(1)
    x[0].mul_(2)
    return y * x


def attention(m: Any, f: Any, x: Any) -> Any:
    q = f(x).view(1, x.shape[0], 2, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).flatten(2)


def attention_with_a_bias_that_records(m: Any, f: Any, x: Any) -> Any:
    q = f(x).view(1, x.shape[0], 2, 2).transpose(1, 2)
    bias = f.weight[None, None, :1, :1]
    attended = F.scaled_dot_product_attention(
        q, q, q, attn_mask=bias.expand(1, 2, *x.shape[:1] * 2)
    )
    return attended.transpose(1, 2).reshape(1, x.shape[0], 4)


def losses(m: Any, f: Any, x: Any) -> Any:
    return F.cross_entropy(f(x), torch.ones(x.shape[0], dtype=torch.int64), label_smoothing=0.1)


def dropout(m: Any, f: Any, x: Any) -> Any:
    return F.dropout(f(x), 0.5)


def sizes(m: Any, f: Any, x: Any) -> Any:
    return f(x) / x.shape[0] + x.numel(), x.shape[0] * 2, None, 3


def casts(m: Any, f: Any, x: Any) -> Any:
    return f(x).to(torch.float64).to(x.dtype).to(x.dtype), x.to(x.dtype)


FUNCTIONS = (
    *(in_place_on_a_view, view_changed_before_no_grad, no_grad, enable_grad_inside_no_grad),
    *(detach, autocast, checkpointed, own_function, cond, flex, vmap, inner_gradient),
    *(static_cache, slices_of_a_constant, constants, index_put, inputs_changed, attention),
    *(attention_with_a_bias_that_records, losses, dropout, sizes, casts),
)


@pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning:torch")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_captured_graph_matches_its_model(function: Any, dynamic: bool, check: Any) -> None:
    check(Model(function), torch.randn(3, 4), dynamic=dynamic)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.BatchNorm1d(4),
        lambda: nn.BatchNorm1d(4, affine=False),
        lambda: nn.BatchNorm1d(4, track_running_stats=False),
    ],
    ids=["usual", "not affine", "no statistics"],
)
def test_running_statistics_of_batch_norm_are_mutated_buffers(
    norm: Any, mode: str, check: Any
) -> None:
    model = Model(batch_norm, nn.Linear(4, 4), norm())
    getattr(model, mode)()
    (captured,) = check(model, torch.randn(3, 4), steps=2)
    tracked = norm().running_mean is not None and mode == "train"
    assert len(captured.mutations) == 3 * tracked


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_inference_graph_matches_its_model(dynamic: bool, check: Any) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True)).eval()
    with torch.inference_mode():
        check(model, torch.randn(2, 3, 8, 8), dynamic=dynamic)


def test_autocast_around_the_model_becomes_casts(check: Any) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (captured,) = check(nn.Sequential(nn.Linear(4, 4), nn.GELU()), torch.randn(3, 4))
    targets = [node.target for node in captured.module.graph.nodes]
    assert targets.count(torch.ops.aten._to_copy.default) == 3
    assert not torch.is_autocast_enabled("cpu")
