"""Shared state of all plans of one `train_step`: optimizer, loss scale, gradient sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import torch

from opwright.errors import SettingError
from opwright_torch.training.state import State
from opwright_torch.training.updating import Way, sum_name

_hooks_of: Final = attrgetter("_backward_hooks")
_late_hooks_of: Final = attrgetter("_post_accumulate_grad_hooks")


class Trainer:
    """The state of a training run.

    Parameters
    ----------
    state : State
        The optimizer state.
    way : Way
        Processing of gradients before an update.
    modules : sequence of torch.nn.Module
        The model, and the loss if it is a module.

    Attributes
    ----------
    builds : int
        Number of plans made.
    parts : list of torch.nn.Module
        All their submodules.
    """

    builds = 0

    def __init__(self, state: State, way: Way, modules: Sequence[torch.nn.Module]) -> None:
        self.state, self.way = state, way
        self._modules = modules
        self.parts = [part for module in modules for part in module.modules()]
        self._hooks = [
            state.optimizer._optimizer_step_pre_hooks,
            state.optimizer._optimizer_step_post_hooks,
            *(hooks for p in self.parts for hooks in (p._backward_hooks, p._backward_pre_hooks)),
        ]
        self._sums: dict[int, torch.Tensor] = {}
        self._done = 0

    @property
    def is_last(self) -> bool:
        """Whether the next step updates parameters."""
        return self._done + 1 == self.way.accumulate

    def count(self) -> None:
        """Count a step."""
        self._done = (self._done + 1) % self.way.accumulate

    def read(self) -> None:
        """Read changes of schedulers and scalers; refuse hooks, which plans do not call."""
        if any(self._hooks):
            self._refuse_hooks()
        self.state.read()
        if self.way.scaling is not None:
            self.way.scaling.read()

    def check(self, parameters: Sequence[torch.Tensor]) -> None:
        """Raise SettingError for hooks of parameters, whose gradients stay inside of a plan."""
        if any(map(_hooks_of, parameters)) or any(map(_late_hooks_of, parameters)):
            (first, *_) = (p for p in parameters if _hooks_of(p) or _late_hooks_of(p))
            raise SettingError(
                f"train_step: parameters must have no hooks, got one on {list(first.shape)}; "
                "gradients stay inside the plan: remove the hook"
            )

    def _refuse_hooks(self) -> None:
        for module in self._modules:
            for name, part in module.named_modules():
                if part._backward_hooks or part._backward_pre_hooks:
                    raise SettingError(
                        "train_step: modules must have no backward hooks, got one on "
                        f"{name or type(part).__name__!r}; gradients stay inside the plan: remove "
                        "the hook"
                    )
        raise SettingError(
            "train_step: the optimizer must have no hooks of its step, got one; nothing calls "
            "optimizer.step: do it after each step, and remove the hook"
        )

    def lend_sums(self, indices: Iterable[int]) -> None:
        """Add gradient sums to the scope, initially zeros."""
        if self.way.accumulate == 1:
            return
        for index in indices:
            if index not in self._sums:
                self._sums[index] = torch.zeros_like(self.state.parameters[index])
                self.state.scope.var(sum_name(index)).borrow(self._sums[index])
