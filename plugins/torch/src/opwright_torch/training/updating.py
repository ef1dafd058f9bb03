"""Appends gradients and optimizer updates to a program with a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import MissingRequirementError
from opwright.plugin import import_object, scan
from opwright_torch.training.group import Group, Item, write
from opwright_torch.training.scaling import Scaling
from opwright_torch.training.state import State

PROCESSES: Final = "opwright_nn.processes"
"""The entry-point group of packages that connect processes."""


class Way(NamedTuple):
    """How gradients are processed before an update.

    Attributes
    ----------
    accumulate : int
        The number of steps to average.
    clip_norm, clip_value : float or None
        The bounds of the total norm and of each element.
    scaling : Scaling or None
        The loss scaling.
    group : str
        The processes over which gradients are averaged; "" for this process only.
    """

    accumulate: int
    clip_norm: float | None
    clip_value: float | None
    scaling: Scaling | None
    group: str


def find_processes() -> Any:
    """Return the package that connects processes.

    Raises
    ------
    MissingRequirementError
        If no installed package connects processes.
    """
    found = sorted(scan(group=PROCESSES), key=lambda point: point.name)
    if not found:
        raise MissingRequirementError(
            "train_step: data_parallel needs a package that connects processes, got none; run: "
            "pip install opwright-dist opwright-mpi"
        )
    return import_object(found[0].target)


def sum_name(index: int) -> str:
    """Return the name of the variable that accumulates the gradient of a parameter."""
    return f"optimizer.sum.{index}"


class Updates:
    """Appends the rest of a training step after the loss.

    Parameters
    ----------
    loss : Variable
    parameters : mapping of int to Variable
        The updated parameters, by their index in the optimizer.
    state : State
    way : Way
    rows : Variable, optional
        A tensor whose first dimension is the number of examples, which must be equal in all
        processes.
    """

    def __init__(
        self,
        loss: ow.Variable,
        parameters: Mapping[int, ow.Variable],
        state: State,
        way: Way,
        rows: ow.Variable | None,
    ) -> None:
        self._loss, self._parameters, self._state = loss, parameters, state
        self._way, self._rows = way, rows
        self._block = loss.block
        self._declared: list[str] = []

    def append(self, is_last: bool) -> None:
        """Append all operators, or only the gradient sums for a step without an update."""
        way = self._way
        if way.scaling is not None:
            way.scaling.declare(self._block)
            self._declared += way.scaling.names
        with ow.program_guard(self._block.program, ow.Program()):
            grads = self._gradients()
            if way.accumulate > 1:
                grads = self._accumulate(grads, is_last)
            if is_last:
                self._update(grads)

    @property
    def varying(self) -> list[str]:
        """The variables in the scope, other than parameters, that the program reads."""
        read = {name for op in self._block.ops for name in op.input_names()}
        return [name for name in self._declared if name in read]

    def _gradients(self) -> list[ow.Variable]:
        way, loss = self._way, self._loss
        if way.accumulate > 1:
            loss = loss * (1 / way.accumulate)
        if way.scaling is not None:
            loss = way.scaling.scale(loss)
        names = [parameter.name for parameter in self._parameters.values()]
        pairs = ow.append_backward([loss], names)
        if way.group:
            pairs = find_processes().data_parallel(
                pairs, way.group, rows=self._rows, unequal_rows="refuse"
            )
        found = {parameter.name: grad for parameter, grad in pairs}
        return [found[name] for name in names]

    def _accumulate(self, grads: list[ow.Variable], is_last: bool) -> list[ow.Variable]:
        totals = []
        for (index, parameter), grad in zip(self._parameters.items(), grads, strict=True):
            held = self._declare(sum_name(index), parameter.shape, parameter.dtype)
            total = held + grad
            totals.append(total)
            write(held, ow.ops.fill_like(held, value=0.0) if is_last else total)
        return totals

    def _update(self, grads: list[ow.Variable]) -> None:
        way, is_finite = self._way, None
        if way.scaling is not None:
            grads, is_finite = way.scaling.unscale(grads)
        if way.clip_value is not None:
            grads = [ow.ops.clip(g, min=-way.clip_value, max=way.clip_value) for g in grads]
        if way.clip_norm is not None:
            grads = _clip_norm(grads, way.clip_norm)
        self._append_groups(grads, is_finite)
        if way.scaling is not None and is_finite is not None:
            way.scaling.append_change(is_finite)

    def _append_groups(self, grads: list[ow.Variable], is_finite: ow.Variable | None) -> None:
        state = self._state
        steps, fresh = self._count_steps(is_finite)
        members: dict[int, list[Item]] = {}
        for (index, parameter), grad in zip(self._parameters.items(), grads, strict=True):
            group = state.group_of(index)
            shape, dtype = parameter.shape, parameter.dtype
            kept = {
                name: self._declare(state.state_name(index, name), shape, dtype)
                for name in state.names_of(index)
            }
            members.setdefault(group, []).append(Item(parameter, grad, kept, index))
        for number, items in members.items():
            numbers: dict[str, Any] = dict(state.fixed(number))
            for name in state.rule.numbers:
                if name not in numbers:
                    variable = state.number_name(number, name)
                    numbers[name] = self._declare(variable, [1], "float64")
            options = state.optimizer.param_groups[number]
            flags = {name: options[name] for name in state.rule.flags}
            nonzero = state.nonzero(number)
            state.rule.append(Group(items, numbers, nonzero, flags, steps, fresh, is_finite))

    def _count_steps(self, is_finite: ow.Variable | None) -> tuple[Any, Any]:
        """Append the step count; return it, and a vector that marks parameters without a state."""
        state = self._state
        groups = {state.group_of(index) for index in self._parameters}
        is_damped = any("dampening" in state.nonzero(group) for group in groups)
        if not (state.rule.counts or is_damped):
            return None, None
        updated = [float(i in self._parameters) for i in range(state.n)]
        taken = ow.ops.constant(values=updated, shape=[state.n], dtype="float64")
        if not state.rule.counts:
            fresh = self._declare("optimizer.fresh", [state.n], "float64")
            before = ow.ops.assign(fresh)
            write(fresh, fresh * (1 - taken), is_finite)
            return None, before
        held = self._declare("optimizer.steps", [state.n], state.step_dtype)
        steps = ow.ops.cast(held, dtype="float64") + taken
        write(held, ow.ops.cast(steps, dtype=state.step_dtype), is_finite)
        return steps, None

    def _declare(self, name: str, shape: Sequence[int] | None, dtype: str) -> ow.Variable:
        self._declared.append(name)
        return self._block.create_var(
            name, list(shape or ()), dtype, persistable=True, stop_gradient=True
        )


def _clip_norm(grads: list[ow.Variable], bound: float) -> list[ow.Variable]:
    """Append the gradients times ``min(1, bound / (norm + 1e-6))``; norm is the total norm."""
    dtypes = {grad.dtype for grad in grads}
    norms = [ow.ops.norm(grad) for grad in grads]
    if len(dtypes) > 1:
        wide = "float64" if "float64" in dtypes else "float32"
        norms = [ow.ops.cast(norm, dtype=wide) for norm in norms]
    total = ow.ops.norm(ow.ops.stack(norms)) if len(norms) > 1 else norms[0]
    factor = ow.ops.clip(bound / (total + 1e-6), max=1.0, min=0.0)
    return [grad * ow.ops.cast(factor, dtype=grad.dtype) for grad in grads]
