"""Rules for PyTorch optimizers: the states per parameter, and the updates as operators.

Each formula follows the class in ``torch.optim``: first the sign of ``maximize``, then weight
decay. An opwright-std operator replaces a formula if both compute the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch

import opwright as ow
from opwright_torch.training.group import Group, Item, Number

Options = Mapping[str, Any]
"""An entry of ``param_groups``."""


class Rule(NamedTuple):
    """One class of optimizers.

    Attributes
    ----------
    numbers : tuple of str
        Numeric options; a plan reads options that change. ``beta1`` and ``beta2`` come from
        ``betas``.
    flags : tuple of str
        Options that determine the operators of a plan.
    states : callable
        Returns the optimizer states in the shape of a parameter, with initial values, for given
        options.
    counts : bool
        Whether the optimizer counts steps.
    append : callable
        Appends the updates of a group to a program.
    """

    numbers: tuple[str, ...]
    flags: tuple[str, ...]
    states: Callable[[Options], dict[str, float]]
    counts: bool
    append: Callable[[Group], None]


def find_rule(optimizer: torch.optim.Optimizer) -> Rule | None:
    """Return the rule of an optimizer class, or None for other classes, including subclasses."""
    return RULES.get(type(optimizer))


def _sgd(group: Group) -> None:
    rate, decay = group.number("lr"), group.number("weight_decay")
    if group.has("momentum"):
        _momentum(group)
    elif group.is_fixed(decay):
        for item in group.items:
            grad = group.gradient(item, decays=False)
            group.update("sgd", item, grad, {"weight_decay": decay})
    else:
        for item in group.items:
            group.write(item.param, item.param - group.gradient(item) * group.cast(rate, item))


def _momentum(group: Group) -> None:
    rate, mu, nesterov = group.number("lr"), group.number("momentum"), group.flags["nesterov"]
    is_damped = group.has("dampening")
    if group.is_fixed(mu) and not is_damped:
        for item in group.items:
            states = {"velocity": item.state["momentum_buffer"]}
            attrs = {"mu": mu, "nesterov": bool(nesterov)}
            group.update("momentum", item, group.gradient(item), attrs, states)
        return
    if is_damped:  # dampening does not apply to the first gradient
        shares = group.pieces(1 - group.number("dampening") * (1 - group.fresh))
    for item in group.items:
        grad = group.gradient(item)
        taken = grad * group.cast(shares[item.place], item) if is_damped else grad
        buffer = item.state["momentum_buffer"]
        moved = buffer * group.cast(mu, item) + taken
        group.write(buffer, moved)
        step = grad + moved * group.cast(mu, item) if nesterov else moved
        group.write(item.param, item.param - step * group.cast(rate, item))


def _adam(group: Group) -> None:
    betas = group.number("beta1"), group.number("beta2")
    is_decoupled = bool(group.flags["decoupled_weight_decay"])
    decay = [group.number("weight_decay")] if is_decoupled else []
    is_fixed = group.is_fixed(*betas, group.number("eps"), *decay)
    if group.flags["amsgrad"] or not is_fixed:
        _compose_adam(group, betas, is_decoupled)
        return
    powers = [group.pieces(beta**group.steps) for beta in betas]
    attrs = {"beta1": betas[0], "beta2": betas[1], "epsilon": group.number("eps")}
    if is_decoupled:
        attrs["weight_decay"] = group.number("weight_decay")
    for item in group.items:
        states = {
            "moment1": item.state["exp_avg"],
            "moment2": item.state["exp_avg_sq"],
            "beta1_power": powers[0][item.place],
            "beta2_power": powers[1][item.place],
        }
        grad = group.gradient(item, decays=not is_decoupled)
        group.update("adamw" if is_decoupled else "adam", item, grad, attrs, states)


def _compose_adam(group: Group, betas: tuple[Number, Number], is_decoupled: bool) -> None:
    rate = group.number("lr")
    powers = [beta**group.steps for beta in betas]
    correction = ow.ops.sqrt(1 - powers[1])
    rates = group.pieces(rate * correction / (1 - powers[0]))
    epsilons = group.pieces(group.number("eps") * correction)
    keep = 1 - rate * group.number("weight_decay")
    first, second = ((beta, 1 - beta) for beta in betas)
    for item in group.items:
        grad = group.gradient(item, decays=not is_decoupled)
        mean = _move(group, item, "exp_avg", first, grad)
        square = _move(group, item, "exp_avg_sq", second, grad * grad)
        if group.flags["amsgrad"]:
            square = ow.ops.maximum(item.state["max_exp_avg_sq"], square)
            group.write(item.state["max_exp_avg_sq"], square)
        is_kept = not (is_decoupled and group.has("weight_decay"))
        param = item.param if is_kept else item.param * group.cast(keep, item)
        root = ow.ops.sqrt(square) + group.cast(epsilons[item.place], item)
        group.write(item.param, param - mean / root * group.cast(rates[item.place], item))


def _move(group: Group, item: Item, name: str, shares: tuple[Number, Number], value: Any) -> Any:
    """Interpolate a state towards a value; return the new state."""
    state = item.state[name]
    moved = state * group.cast(shares[0], item) + value * group.cast(shares[1], item)
    group.write(state, moved)
    return moved


def _rmsprop(group: Group) -> None:
    alpha, epsilon, mu = (group.number(name) for name in ("alpha", "eps", "momentum"))
    is_centered, has_buffer = bool(group.flags["centered"]), group.has("momentum")
    if not group.is_fixed(alpha, epsilon, mu):
        _compose_rmsprop(group, (alpha, 1 - alpha))
        return
    attrs = {"rho": alpha, "epsilon": epsilon, "centered": is_centered, "momentum": mu}
    for item in group.items:
        states = {"mean_square": item.state["square_avg"]}
        if is_centered:
            states["mean_grad"] = item.state["grad_avg"]
        if has_buffer:
            states["velocity"] = item.state["momentum_buffer"]
        group.update("rmsprop", item, group.gradient(item), attrs, states)


def _compose_rmsprop(group: Group, shares: tuple[Number, Number]) -> None:
    for item in group.items:
        grad = group.gradient(item)
        square = _move(group, item, "square_avg", shares, grad * grad)
        if group.flags["centered"]:
            mean = _move(group, item, "grad_avg", shares, grad)
            square = square - mean * mean
        step = grad / (ow.ops.sqrt(square) + group.cast(group.number("eps"), item))
        if group.has("momentum"):
            buffer = item.state["momentum_buffer"]
            step = buffer * group.cast(group.number("momentum"), item) + step
            group.write(buffer, step)
        group.write(item.param, item.param - step * group.cast(group.number("lr"), item))


def _adagrad(group: Group) -> None:
    rate, epsilon = group.number("lr"), group.number("eps")
    rates: Any = None
    if group.has("lr_decay"):
        rates = group.pieces(rate / (1 + (group.steps - 1) * group.number("lr_decay")))
    for item in group.items:
        grad, own = group.gradient(item), rates[item.place] if rates else rate
        squares = item.state["sum"]
        if group.is_fixed(epsilon):
            group.update("adagrad", item, grad, {"epsilon": epsilon}, {"squares": squares}, own)
            continue
        total = squares + grad * grad
        group.write(squares, total)
        root = ow.ops.sqrt(total) + group.cast(epsilon, item)
        group.write(item.param, item.param - grad / root * group.cast(own, item))


def _states_of_sgd(options: Options) -> dict[str, float]:
    return {"momentum_buffer": 0.0} if options["momentum"] != 0 else {}


def _states_of_adam(options: Options) -> dict[str, float]:
    names = ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * bool(options["amsgrad"])]
    return dict.fromkeys(names, 0.0)


def _states_of_rmsprop(options: Options) -> dict[str, float]:
    names = ["square_avg"]
    names += ["momentum_buffer"] * bool(options["momentum"] > 0)
    names += ["grad_avg"] * bool(options["centered"])
    return dict.fromkeys(names, 0.0)


def _states_of_adagrad(options: Options) -> dict[str, float]:
    return {"sum": float(options["initial_accumulator_value"])}


_ADAM: Final = Rule(
    ("lr", "beta1", "beta2", "eps", "weight_decay"),
    ("amsgrad", "maximize", "decoupled_weight_decay"),
    _states_of_adam,
    True,
    _adam,
)
RULES: Final[Mapping[type[torch.optim.Optimizer], Rule]] = {
    torch.optim.SGD: Rule(
        ("lr", "momentum", "dampening", "weight_decay"),
        ("nesterov", "maximize"),
        _states_of_sgd,
        False,
        _sgd,
    ),
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
    torch.optim.RMSprop: Rule(
        ("lr", "alpha", "eps", "weight_decay", "momentum"),
        ("centered", "maximize"),
        _states_of_rmsprop,
        True,
        _rmsprop,
    ),
    torch.optim.Adagrad: Rule(
        ("lr", "lr_decay", "weight_decay", "eps"),
        ("maximize",),
        _states_of_adagrad,
        True,
        _adagrad,
    ),
}
