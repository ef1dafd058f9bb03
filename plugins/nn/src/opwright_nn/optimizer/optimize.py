"""optimize: appends the updates of an optimizer that is chosen by its operator type."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, VariableNotFoundError
from opwright.plugin import hint
from opwright_nn import arguments, checks
from opwright_nn.optimizer.adam import Adam, Adamax, AdamW, Lamb, Lion, NAdam, RAdam
from opwright_nn.optimizer.base import Optimizer, Pair
from opwright_nn.optimizer.sgd import (
    SGD,
    Adadelta,
    Adagrad,
    Ftrl,
    Momentum,
    ProximalAdagrad,
    ProximalGD,
    RMSprop,
)

OPTIMIZERS: Mapping[str, type[Optimizer]] = {
    optimizer.op_type: optimizer
    for optimizer in (
        *(SGD, Momentum, Lion, Adam, AdamW, Adamax, NAdam, RAdam, Lamb),
        *(Adagrad, Adadelta, RMSprop, ProximalGD, ProximalAdagrad, Ftrl),
    )
}
"""Maps operator types to classes."""


@arguments.suggest
def make_optimizer(type: str, attrs: Mapping[str, Any] | None = None) -> Optimizer:
    """Return the optimizer of an operator type.

    Parameters
    ----------
    type : str
        One of `OPTIMIZERS`.
    attrs : mapping, optional
        Arguments of its class: ``{"learning_rate": 0.1}``.
    """
    optimizer = OPTIMIZERS[checks.check_choice("optimize", "type", type, OPTIMIZERS)]
    if not isinstance(attrs if attrs is not None else {}, Mapping):
        raise AttributeTypeError(
            f"optimize: attrs must be a mapping, got {attrs!r}; write {{'learning_rate': 0.1}}"
        )
    known = list(inspect.signature(optimizer).parameters)
    for name in attrs or {}:
        if name not in known:
            raise AttributeValueError(
                f"optimize: attrs must be attributes of {type}, "
                f"got {name!r}{hint(str(name), known, 'attributes')}"
            )
    return optimizer(**(attrs or {}))


@arguments.suggest
def optimize(
    network: ow.Network | ow.Program | ow.Block,
    type: str,
    attrs: Mapping[str, Any] | None,
    param_grad: Mapping[str, str],
) -> int:
    """Append one optimizer operator for each pair of parameter and gradient.

    Parameters
    ----------
    network : Network, Program or Block
        The target of the operators; a network must follow a block. Its program is the default main
        program during the call; the default startup program gets the initializers of learning rate
        and states.
    type : str
        One of `OPTIMIZERS`, such as "sgd" or "adam".
    attrs : mapping, optional
        Arguments of the optimizer's class, such as ``{"learning_rate": 0.1}``.
    param_grad : mapping of str to str
        Parameter names to the names of their gradients.

    Returns
    -------
    int
        The index of the last operator.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        An argument has the wrong type, or the optimizer or an attribute is unknown.
    VariableNotFoundError
        A name is not a variable of the program.
    """
    block = _block_of(network)
    optimizer = make_optimizer(type, attrs)
    if not isinstance(param_grad, Mapping):
        raise AttributeTypeError(
            f"optimize: param_grad must be a mapping of names, got {param_grad!r}; write "
            "{'fc_0_w_param': 'fc_0_w_param_grad'}"
        )
    pairs: list[Pair] = [
        (_find(block, parameter), _find(block, gradient))
        for parameter, gradient in param_grad.items()
    ]
    with ow.program_guard(block.program, ow.default_startup_program()):
        optimizer.apply_gradients(pairs)
    return len(block.ops) - 1


def _block_of(network: object) -> ow.Block:
    block = network.block if isinstance(network, ow.Network) else network
    block = block.global_block() if isinstance(block, ow.Program) else block
    if not isinstance(block, ow.Block):
        raise AttributeTypeError(
            "optimize: network must be a Program, a Block or a Network that follows a block, "
            f"got {network!r}; write ow.Network(program.global_block())"
        )
    return block


def _find(block: ow.Block, name: str | ow.Variable) -> ow.Variable:
    name = name.name if isinstance(name, ow.Variable) else name
    variable = block.find_var(name)
    if variable is None:
        raise VariableNotFoundError(
            f"optimize: each name must be a variable of the program, "
            f"got {name!r}{hint(str(name), block.vars, 'variables')}"
        )
    return variable
