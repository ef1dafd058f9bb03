"""State shared by all plans of one `train_step`: optimizer, loss scale, gradient sums."""

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
        How gradients are processed before an update.
    modules : sequence of torch.nn.Module
        The model, and the loss if it is a module.

    Attributes
    ----------
    builds : int
        The number of plans that were built.
    parts : list of torch.nn.Module
        The modules and all their submodules.
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
        """Return whether the next step updates parameters."""
        return self._done + 1 == self.way.accumulate

    def count(self) -> None:
        """Count a step."""
        self._done = (self._done + 1) % self.way.accumulate

    def read(self) -> None:
        """Read changes by schedulers and scalers; refuse hooks, since plans do not call hooks."""
        if any(self._hooks):
            self._refuse_hooks()
        self.state.read()
        if self.way.scaling is not None:
            self.way.scaling.read()

    def check(self, parameters: Sequence[torch.Tensor]) -> None:
        """Raise SettingError for parameter hooks, since gradients exist only inside a plan."""
        if any(map(_hooks_of, parameters)) or any(map(_late_hooks_of, parameters)):
            (first, *_) = (p for p in parameters if _hooks_of(p) or _late_hooks_of(p))
            raise SettingError(
                "train_step: parameters must not have hooks, got a hook on "
                f"{list(first.shape)}; remove it, since gradients exist only inside the "
                "plan"
            )

    def _refuse_hooks(self) -> None:
        for module in self._modules:
            for name, part in module.named_modules():
                if part._backward_hooks or part._backward_pre_hooks:
                    raise SettingError(
                        "train_step: modules must not have backward hooks, got a hook on "
                        f"{name or type(part).__name__!r}; remove it, since gradients "
                        "exist only inside the plan"
                    )
        raise SettingError(
            "train_step: the optimizer must not have step hooks, got one; optimizer.step "
            "is never called, so remove the hook and call its code after each step"
        )

    def lend_sums(self, indices: Iterable[int]) -> None:
        """Add gradient sums, initialized to zeros, to the scope."""
        if self.way.accumulate == 1:
            return
        for index in indices:
            if index not in self._sums:
                self._sums[index] = torch.zeros_like(self.state.parameters[index])
                self.state.scope.var(sum_name(index)).borrow(self._sums[index])
