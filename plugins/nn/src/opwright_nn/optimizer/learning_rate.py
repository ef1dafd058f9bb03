"""The learning rate of an optimizer: an argument, then a variable of its program."""

from __future__ import annotations

from typing import Any, overload

import opwright as ow
from opwright.errors import ProgramError
from opwright.plugin import record_undo
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.parameters.parameter import make_state
from opwright_nn.schedule import Rate, Schedule


class LearningRate:
    """The learning rate of an optimizer, which becomes a variable of its program.

    Parameters
    ----------
    default : float, at least 0, optional
        The default of the argument; without it the argument is required.
    """

    def __init__(self, default: float | None = None) -> None:
        self._default = default

    @overload
    def __get__(self, optimizer: None, owner: type) -> Rate: ...
    @overload
    def __get__(self, optimizer: object, owner: type) -> ow.Variable: ...
    def __get__(self, optimizer: Any, owner: type) -> Rate | ow.Variable:
        if optimizer is None:
            if self._default is None:
                raise AttributeError("learning_rate")  # which means no default to dataclasses
            return self._default
        variable: ow.Variable | None = optimizer._learning_rate
        if variable is None:
            raise ProgramError(
                f"{type(optimizer).__name__}: the learning rate has no variable before minimize or "
                "apply_gradients, got neither call yet; call one first"
            )
        return variable

    def __set__(self, optimizer: Any, value: Rate) -> None:
        who = type(optimizer).__name__
        if "initial_learning_rate" in vars(optimizer):
            raise AttributeError(
                f"{who}: the learning rate is a variable of the program, got an assignment of "
                f"{value!r}; call set_learning_rate(scope, {value!r})"
            )
        schedule = value if isinstance(value, Schedule) else None
        first = value if schedule is None else schedule.rate(0)
        optimizer.schedule = schedule
        optimizer.initial_learning_rate = checks.check_rate(who, "learning_rate", first)
        optimizer._learning_rate = None


def make_learning_rate(optimizer: Any) -> ow.Variable:
    """Return the variable; the first call appends it and its schedule to the main program."""
    who, program = type(optimizer).__name__, ow.default_main_program()
    variable: ow.Variable | None = optimizer._learning_rate
    if variable is None:
        name = program.free_name("learning_rate")
        variable = make_state(who, name, lambda: (1,), Constant(optimizer.initial_learning_rate))
        record_undo(setattr, optimizer, "_learning_rate", None)
        optimizer._learning_rate = variable
        if optimizer.schedule is not None:
            _append_schedule(who, optimizer.schedule, variable)
    elif variable.block.program is not program:
        raise ProgramError(
            f"{who}: an optimizer belongs to one program, got a second program; create another "
            "optimizer for it"
        )
    return variable


def _append_schedule(who: str, schedule: Schedule, rate: ow.Variable) -> None:
    """Append the rate of this step, and the count of steps."""
    program = ow.default_main_program()
    name = program.free_name("schedule_step")
    count = make_state(who, name, lambda: (1,), Constant(0.0), "int64")
    block = program.global_block()
    step = operators.append(block, "cast", {"x": count}, {"dtype": "float32"}, prefix=name)
    # Both operators write to the variables themselves so that scopes and checkpoints contain the
    # values.
    block.append_op("assign", {"x": schedule.append(step)}, {"out": rate.name})
    block.append_op("increment", {"x": count}, {"out": count.name})
