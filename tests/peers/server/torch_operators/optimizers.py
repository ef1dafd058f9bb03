"""Optimizers, each of which takes one step of a ``torch.optim`` class from a given state."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def take_step(
    optimizer: type[Any], param: Tensor, grad: Tensor, state: dict[str, Any], **options: Any
) -> tuple[Tensor, dict[str, Any]]:
    """Return a parameter and its state after one step."""
    moved = torch.nn.Parameter(param.detach().clone())
    moved.grad = grad.detach().clone()
    stepper = optimizer([moved], foreach=False, **options)
    if state:
        stepper.state[moved] = {
            key: value.detach().clone() if isinstance(value, Tensor) else value
            for key, value in state.items()
        }
    stepper.step()
    return moved.detach(), stepper.state[moved]


def _sgd(param: Tensor, grad: Tensor, learning_rate: Tensor, weight_decay: float) -> Tensor:
    rate = float(learning_rate)
    require(rate >= 0 and weight_decay >= 0, "rates below 0")
    return take_step(torch.optim.SGD, param, grad, {}, lr=rate, weight_decay=weight_decay)[0]


def _momentum(
    param: Tensor, grad: Tensor, learning_rate: Tensor, velocity: Tensor, mu: float, nesterov: bool
) -> Any:
    rate = float(learning_rate)
    require(rate >= 0 and mu > 0, "rates below 0")
    out, state = take_step(
        torch.optim.SGD,
        param,
        grad,
        {"momentum_buffer": velocity},
        lr=rate,
        momentum=mu,
        nesterov=nesterov,
    )
    return out, state["momentum_buffer"]


def correct(power: Tensor, beta: float) -> float:
    """Return a bias correction divided by the correction for step 1, which PyTorch applies."""
    require(0 <= float(power) < 1 and 0 <= beta < 1, "a power that no step leads to")
    return (1 - float(power)) / (1 - beta)


def _adam(optimizer: type[Any]) -> Function:
    def step(
        param: Tensor,
        grad: Tensor,
        learning_rate: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_power: Tensor,
        beta2_power: Tensor,
        beta1: float,
        beta2: float,
        epsilon: float,
        **options: float,
    ) -> Any:
        state = {"step": torch.tensor(0.0), "exp_avg": moment1, "exp_avg_sq": moment2}
        root = math.sqrt(correct(beta2_power, beta2))
        factor = root / correct(beta1_power, beta1)
        if "weight_decay" in options:  # in PyTorch, relative to the rate
            options = {"weight_decay": options["weight_decay"] / factor}
        options |= {"lr": float(learning_rate) * factor, "eps": epsilon * root}
        out, after = take_step(optimizer, param, grad, state, betas=(beta1, beta2), **options)
        powers = beta1_power * beta1, beta2_power * beta2
        return out, after["exp_avg"], after["exp_avg_sq"], *powers

    return step


def _adagrad(
    param: Tensor, grad: Tensor, learning_rate: Tensor, squares: Tensor, epsilon: float
) -> Any:
    state = {"step": torch.tensor(0.0), "sum": squares}
    rate = float(learning_rate)
    out, after = take_step(torch.optim.Adagrad, param, grad, state, lr=rate, eps=epsilon)
    return out, after["sum"]


def _adadelta(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    mean_square: Tensor,
    mean_update: Tensor,
    rho: float,
    epsilon: float,
) -> Any:
    state = {"step": torch.tensor(0.0), "square_avg": mean_square, "acc_delta": mean_update}
    options = {"lr": float(learning_rate), "rho": rho, "eps": epsilon}
    out, after = take_step(torch.optim.Adadelta, param, grad, state, **options)
    return out, after["square_avg"], after["acc_delta"]


def _rmsprop(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    mean_square: Tensor,
    rho: float,
    epsilon: float,
    momentum: float,
    centered: bool,
    mean_grad: Tensor | None = None,
    velocity: Tensor | None = None,
) -> Any:
    # A negative variance is possible only through rounding. opwright replaces it with 0.
    require(mean_grad is None or bool((mean_grad**2 <= mean_square).all()), "a negative variance")
    state = {"step": torch.tensor(0.0), "square_avg": mean_square}
    state |= {} if velocity is None else {"momentum_buffer": velocity}
    state |= {} if mean_grad is None else {"grad_avg": mean_grad}
    options = {"lr": float(learning_rate), "alpha": rho, "eps": epsilon}
    options |= {"momentum": momentum, "centered": centered}
    out, after = take_step(torch.optim.RMSprop, param, grad, state, **options)
    return out, after["square_avg"], after.get("grad_avg"), after.get("momentum_buffer")


def _adamax(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment: Tensor,
    infinity_norm: Tensor,
    beta1_power: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> Any:
    state = {"step": torch.tensor(0.0), "exp_avg": moment, "exp_inf": infinity_norm}
    rate = float(learning_rate) / correct(beta1_power, beta1)
    options = {"lr": rate, "betas": (beta1, beta2), "eps": epsilon}
    out, after = take_step(torch.optim.Adamax, param, grad, state, **options)
    return out, after["exp_avg"], after["exp_inf"], beta1_power * beta1


def _counted(optimizer: type[Any]) -> Function:
    """Return a step of NAdam or RAdam, whose state includes the step number."""

    def run(
        param: Tensor,
        grad: Tensor,
        learning_rate: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        step: Tensor,
        beta1: float,
        beta2: float,
        epsilon: float,
        mu_product: Tensor | None = None,
        **options: float,
    ) -> Any:
        require(float(step) >= 1 and float(step).is_integer(), "a step without a number")
        require(max(beta1, beta2) <= 0.999, "the digits of 1 - beta**step for beta near 1")
        state = {"step": step.reshape(()) - 1, "exp_avg": moment1, "exp_avg_sq": moment2}
        state |= {} if mu_product is None else {"mu_product": mu_product.reshape(())}
        given = {"lr": float(learning_rate), "betas": (beta1, beta2), "eps": epsilon, **options}
        out, after = take_step(optimizer, param, grad, state, **given)
        return out, after["exp_avg"], after["exp_avg_sq"]

    return run


def _clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    return x * (max_norm / torch.clamp_min(torch.linalg.vector_norm(x), max_norm))


def _clip_by_global_norm(x: list[Tensor], max_norm: float) -> Any:
    norm = torch.nn.utils.get_total_norm(x)
    return [one * (max_norm / torch.clamp_min(norm, max_norm)) for one in x], norm


OPERATORS: dict[str, Function] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam(torch.optim.Adam),
    "adamw": _adam(torch.optim.AdamW),
    "adamax": _adamax,
    "nadam": _counted(torch.optim.NAdam),
    "radam": _counted(torch.optim.RAdam),
    "adagrad": _adagrad,
    "adadelta": _adadelta,
    "rmsprop": _rmsprop,
    "clip_by_norm": _clip_by_norm,
    "clip_by_global_norm": _clip_by_global_norm,
}
