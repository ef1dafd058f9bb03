"""Shares the tensors of a model with the scopes of plans, without copies."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import opwright as ow
from opwright.errors import SettingError
from opwright.runtime import Watch

VERSION: Final = "_version"
_version_of: Final = attrgetter(VERSION)


class OptimizerSteps:
    """Counts steps of all optimizers, since fused optimizers do not increment tensor versions."""

    def __init__(self) -> None:
        self.count = 0
        register_optimizer_step_post_hook(self._note)

    def _note(self, *_: Any) -> None:
        self.count += 1
        for kept in list(_SHARED):
            kept.refresh()


STEPS: Final = OptimizerSteps()
_ALL: Final[weakref.WeakSet[Kept]] = weakref.WeakSet()
_SHARED: Final[weakref.WeakSet[Kept]] = weakref.WeakSet()
"""Tensors in scopes owned by callers; calls do not check these tensors for changes."""


class Kept:
    """Tensors that a scope borrows as variables; changes to them are detected.

    Tensors are referenced weakly, and `forget` is called when one of them is deleted.
    Non-contiguous tensors are copied after each change.

    Parameters
    ----------
    names : sequence of str
        Variables.
    tensors : sequence of torch.Tensor
        One for each variable.
    written : collection of int
        Indices of tensors that plans write. Changes to them by other code are not detected, since
        the state of plans does not depend on them.
    forget : callable
        Drops the plans.
    scope : Scope, optional
        A scope of the caller that has the variables; by default a new scope.
    """

    def __init__(
        self,
        names: Sequence[str],
        tensors: Sequence[torch.Tensor],
        written: Collection[int],
        forget: Callable[[], object],
        scope: ow.Scope | None = None,
    ) -> None:
        self.scope = ow.Scope() if scope is None else scope
        self.ids = list(map(id, tensors))
        self.steps = STEPS.count
        self._variables = [self.scope.find_var(name) or self.scope.var(name) for name in names]
        self._copied: dict[int, torch.Tensor] = {}
        self._pointers = [-1] * len(tensors)
        self._watched = [i for i in range(len(tensors)) if i not in written]
        self.versions = self._read(tensors)
        self._weak = [weakref.ref(tensor, lambda _: forget()) for tensor in tensors]
        self._bind_moved()
        _ALL.add(self)
        if scope is not None:
            _SHARED.add(self)

    def scope_with(self, constants: Mapping[str, torch.Tensor]) -> ow.Scope:
        """Return a scope for one plan, with additional tensors of its graph."""
        if not constants:
            return self.scope
        scope = ow.Scope(self.scope)
        for name, tensor in constants.items():
            scope.var(name).borrow(tensor.detach().contiguous())
        return scope

    def watch(self, args: tuple[Any, ...], positions: Sequence[int]) -> Watch:
        """Return a function that checks whether these tensors of `args` are unchanged."""
        return Watch(args, [positions[i] for i in self._watched], VERSION)

    def notice(self, tensors: Sequence[torch.Tensor]) -> None:
        """Notify the plans of tensors that changed since the last notification."""
        versions = self._read(tensors)
        if self.steps != STEPS.count:
            self.refresh()
        elif versions != self.versions:
            pairs = zip(self._watched, self.versions, versions)
            self._touch([i for i, old, new in pairs if old != new])
        self.versions = versions

    def refresh(self) -> None:
        """Notify the plans that any tensor may have changed."""
        self.steps = STEPS.count
        self._bind_moved()
        self._touch(range(len(self._variables)))

    def check(
        self, tensors: Sequence[torch.Tensor], versions: Sequence[int], is_read: Sequence[bool]
    ) -> None:
        """Raise PyTorch's error if a tensor that the backward reads was modified.

        `versions` were recorded in the forward pass.
        """
        if versions is self.versions and self._read(tensors) == versions:
            return
        for i, old in zip(self._watched, versions, strict=True):
            tensor = tensors[i]
            if is_read[i] and not tensor.is_inference() and tensor._version != old:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: [{tensor.type()} {list(tensor.shape)}] is at version "
                    f"{tensor._version}; expected version {old} instead. Compute the gradient "
                    "before the change"
                )

    def _touch(self, indices: Sequence[int]) -> None:
        for i in indices:
            self._variables[i].touch()
        for i, alias in self._copied.items():
            self._variables[i].set(alias.contiguous())

    def _bind_moved(self) -> None:
        """Rebind variables to the memory of their tensors, since ``.data =`` can replace memory."""
        for i, weak in enumerate(self._weak):
            tensor = weak()
            if tensor is None or tensor.data_ptr() == self._pointers[i]:
                continue
            variable, alias = self._variables[i], tensor.detach()
            self._pointers[i] = alias.data_ptr()
            self._copied.pop(i, None)
            if not alias.is_contiguous():
                self._copied[i] = alias
                variable.set(alias.contiguous())
            elif not variable.is_set or variable.tensor().data_ptr != alias.data_ptr():
                variable.borrow(alias)

    def _read(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        watched = [tensors[i] for i in self._watched]
        try:
            return list(map(_version_of, watched))
        except RuntimeError:  # inference tensors have no version
            return [-1 if tensor.is_inference() else tensor._version for tensor in watched]


def refresh(model: torch.nn.Module) -> None:
    """Make compiled plans reread the parameters and buffers of a model.

    Plans detect every change that increments a tensor's version, and every optimizer step. Call
    this function after writes that PyTorch does not track (through ``.data``, through ``.numpy()``,
    or by another library) and after assignments to ``.data``.

    Parameters
    ----------
    model : torch.nn.Module
        The model whose tensors were written.

    Raises
    ------
    SettingError
        If `model` is not a module.
    """
    if not isinstance(model, torch.nn.Module):
        raise SettingError(
            f"refresh: model must be a torch.nn.Module, got {type(model).__name__}; pass the "
            f"model whose parameters were written"
        )
    ids = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for kept in list(_ALL):
        if not ids.isdisjoint(kept.ids):
            kept.refresh()
