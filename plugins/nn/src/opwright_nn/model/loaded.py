"""Makes a Model from a loaded program so that it trains like a model built layer by layer."""

from __future__ import annotations

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright_nn.model.model import Model
from opwright_nn.model.trained_parameters import TrainedParameters
from opwright_nn.optimizer import Optimizer


def make_model(
    who: str,
    loaded: ow.LoadedProgram,
    loss: ow.Variable | str | None,
    optimizer: Optimizer | str | None,
) -> Model:
    """Return a model that has the program and the scope of `loaded`.

    Parameters
    ----------
    who : str
        The caller, for messages.
    loaded : LoadedProgram
        The program, with its parameters.
    loss : Variable or str
        A scalar variable of its program.
    optimizer : Optimizer or str
        Appends gradients and updates; None for a program that was saved with them.

    Raises
    ------
    ProgramError
        The program has no parameters, or updates that `optimizer` would repeat, or neither updates
        nor an `optimizer`.
    """
    scope = loaded.scope  # raises if it has no parameters
    if loss is None:
        names = ", ".join(repr(fetch.name) for fetch in loaded.fetches)
        raise AttributeValueError(
            f"{who}: loss must name the loss of a loaded program, got none; its results are "
            f"{names or 'none'}"
        )
    if not isinstance(loss, ow.Variable | str):
        raise AttributeTypeError(
            f"{who}: loss must be a variable or a variable name, got {loss!r}; write "
            "loss='mean_0_out', for example"
        )
    name = loss if isinstance(loss, str) else loss.name
    name = loaded.program.global_block().get_var(name, f"{who}: loss").name
    model = Model(scope, loaded.device)
    model.program = loaded.program
    model._trained = TrainedParameters(model.program)
    model._begin(scope)
    has_updates = _has_updates(loaded.program)
    if has_updates is (optimizer is not None):
        got = "a second optimizer" if has_updates else "none"
        fix = "omit it" if has_updates else "pass optimizer=nn.optimizer.Adam(1e-3)"
        raise ProgramError(
            f"{who}: a loaded program must have the updates of one optimizer, got {got}; {fix}"
        )
    if optimizer is None:
        model._loss = name
    else:
        model.minimize(name, optimizer)
    return model


def _has_updates(program: ow.Program) -> bool:
    """Return whether an operator writes a parameter."""
    parameters = {parameter.name for parameter in program.parameters()}
    ops = program.global_block().ops
    return any(name in parameters for op in ops for name in op.output_names())
