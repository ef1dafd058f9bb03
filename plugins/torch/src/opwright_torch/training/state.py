"""States and options of a PyTorch optimizer as variables in a plan scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import torch

import opwright as ow
from opwright.errors import SettingError
from opwright_torch.dtypes import dtype_name
from opwright_torch.training.rules import Options, Rule

_STEP: Final = "step"
_REFUSED: Final = ("capturable", "differentiable")
Signature = tuple[Any, ...]


class State:
    """The tensors of an optimizer, borrowed by a scope, and its options as numbers.

    Plans read the learning rate at each step, and any other option once it has changed; until then,
    the option is a constant in plans.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    rule : Rule
        The rule of its class.

    Attributes
    ----------
    scope : Scope
    parameters : list of torch.Tensor
        All parameters, group by group.
    places : dict of int to int
        The index of a parameter, by its identity.
    n : int
        The number of parameters.
    step_dtype : str
        Dtype of step counts.
    signature : tuple
        The key of plans for these options.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, rule: Rule) -> None:
        self.optimizer, self.rule = optimizer, rule
        self.scope = ow.Scope()
        self.signature: Signature = ()
        self.varying = {"lr"}
        names = [name for name in rule.numbers if not name.startswith("beta")]
        names += ["betas"] * (len(names) < len(rule.numbers))
        refused = [name for name in _REFUSED if name in optimizer.defaults]
        self._get = itemgetter(*names, *rule.flags, *refused)
        self._values: list[Any] = []
        self._numbers: list[list[float]] = []
        self._has_tensors = False
        self.read()

    def read(self) -> None:
        """Read the current options of all groups."""
        values = list(map(self._get, self.optimizer.param_groups))
        if self._has_tensors or values != self._values:
            self._change(values)

    def number_name(self, group: int, name: str) -> str:
        """Return the name of the variable for an option of a parameter group."""
        return f"optimizer.{group}.{name}"

    def state_name(self, index: int, name: str) -> str:
        """Return the name of the variable for a parameter's optimizer state."""
        return f"optimizer.state.{index}.{name}"

    def fixed(self, group: int) -> dict[str, float]:
        """Return the options of a group that are constants in plans."""
        pairs = zip(self.rule.numbers, self._numbers[group], strict=True)
        return {name: value for name, value in pairs if name not in self.varying}

    def nonzero(self, group: int) -> frozenset[str]:
        """Return the names of a group's nonzero numeric options."""
        pairs = zip(self.rule.numbers, self._numbers[group], strict=True)
        return frozenset(name for name, value in pairs if value != 0)

    def tensors(self, wanted: Iterable[tuple[torch.Tensor, Any]]) -> tuple[torch.Tensor, ...]:
        """Return the optimizer states of parameters, given pairs of parameter and selector."""
        states = self.optimizer.state
        return tuple(chain.from_iterable([pick(states[p]) for p, pick in wanted]))

    def picker(self, index: int) -> Any:
        """Return a selector of the state tensors of a parameter, or None if it has no state."""
        names = [*self.names_of(index), *[_STEP] * self.rule.counts]
        if len(names) == 1:
            (name,) = names
            return lambda state: (state[name],)
        return itemgetter(*names) if names else None

    def adopt(self, indices: Sequence[int]) -> None:
        """Share the optimizer states with the scope, and create missing states."""
        for index in indices:
            if self.picker(index) is None:  # a lookup would add to this defaultdict
                continue
            parameter = self.parameters[index]
            state = self.optimizer.state[parameter]
            for name, first in self.names_of(index).items():
                state[name] = self._adopt(parameter, index, name, state.get(name), first)
            if self.rule.counts:
                own, given = self._steps[index], state.get(_STEP, 0.0)
                if given is not self._step_views[index]:
                    own.fill_(float(given))
                    state[_STEP] = self._step_views[index]

    def _adopt(
        self, parameter: torch.Tensor, index: int, name: str, given: Any, first: float
    ) -> torch.Tensor:
        tensor = given
        if given is None:
            tensor = torch.full_like(parameter, first, memory_format=torch.contiguous_format)
            self._fresh[index] = 1
        elif given.shape != parameter.shape or given.dtype != parameter.dtype:
            raise SettingError(
                f"train_step: the state {name!r} of parameter {index} must be {parameter.dtype} "
                f"{list(parameter.shape)}, got {given.dtype} {list(given.shape)}; load a "
                "state_dict of this model's optimizer"
            )
        tensor = tensor.contiguous()
        self.scope.var(self.state_name(index, name)).borrow(tensor)
        return tensor

    def group_of(self, index: int) -> int:
        """Return the index of the group that contains a parameter."""
        return self._homes[index]

    def names_of(self, index: int) -> dict[str, float]:
        """Return the names and initial values of the states that have the shape of a parameter."""
        return self.rule.states(self.optimizer.param_groups[self.group_of(index)])

    def _change(self, values: list[Any]) -> None:
        groups = self.optimizer.param_groups
        _check_options(groups)
        numbers = [[_number(group, name) for name in self.rule.numbers] for group in groups]
        if len(groups) != len(self._numbers):
            self._lay_out(groups)
        else:
            for old, new in zip(self._numbers, numbers, strict=True):
                changed = (n for n, a, b in zip(self.rule.numbers, old, new) if a != b)
                self.varying.update(changed)
        self._values, self._numbers = values, numbers
        options = chain.from_iterable((g["lr"], *g.get("betas", ())) for g in groups)
        self._has_tensors = any(isinstance(option, torch.Tensor) for option in options)
        self._memory[:] = list(chain.from_iterable(numbers))
        signature = tuple(
            (
                *sorted(self.fixed(i).items()),
                *sorted(self.nonzero(i) - {"lr"}),
                *(bool(group[name]) for name in self.rule.flags),
            )
            for i, group in enumerate(groups)
        )
        if signature != self.signature:
            self.signature = signature

    def _lay_out(self, groups: Sequence[Options]) -> None:
        """Create vectors of per-parameter numbers, and one number for each option of each group."""
        self.parameters = [p for group in groups for p in group["params"]]
        _check_parameters(self.parameters)
        self._homes = [g for g, group in enumerate(groups) for _ in group["params"]]
        self.places = {id(p): i for i, p in enumerate(self.parameters)}
        self.n = len(self.parameters)
        dtype = torch.get_default_dtype()  # as in torch.optim
        self._steps = torch.zeros(self.n, dtype=dtype if dtype == torch.float64 else torch.float32)
        self.step_dtype = dtype_name(self._steps.dtype)
        self._step_views = [self._steps[i] for i in range(self.n)]
        self._fresh = torch.zeros(self.n, dtype=torch.float64)
        self.scope.var("optimizer.steps").borrow(self._steps)
        self.scope.var("optimizer.fresh").borrow(self._fresh)
        options = torch.zeros(len(groups) * len(self.rule.numbers), dtype=torch.float64)
        self._memory = options.numpy()
        places = iter(range(len(options)))
        for group in range(len(groups)):
            for name in self.rule.numbers:
                i = next(places)
                self.scope.var(self.number_name(group, name)).borrow(options[i : i + 1])


def _check_options(groups: Iterable[Options]) -> None:
    """Raise SettingError for options that do not apply to a plan on the host."""
    for group in groups:
        for name in _REFUSED:
            if group.get(name):
                raise SettingError(
                    f"train_step: {name} must be False, got {name}={group[name]!r}; omit "
                    "it, since it does not apply to a plan on the host"
                )


def _check_parameters(parameters: Iterable[torch.Tensor]) -> None:
    """Raise SettingError for parameters that a plan on the host cannot update."""
    for parameter in parameters:
        if parameter.device.type != "cpu" or not parameter.is_floating_point():
            raise SettingError(
                f"train_step: parameters must be real floats on the host, got {parameter.dtype} on "
                f"{parameter.device}; call model.to('cpu').float()"
            )
        if not isinstance(parameter, torch.nn.Parameter):
            torch._dynamo.mark_static_address(parameter)


def _number(group: Mapping[str, Any], name: str) -> float:
    if name.startswith("beta"):
        return float(group["betas"][int(name[-1]) - 1])
    return float(group[name])
