"""Tensors of a model that live in the scope of plans, without a copy."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import opwright as ow

_version_of: Final = attrgetter("_version")


class Updates:
    """Counts steps of all optimizers: PyTorch's fused ones raise no tensor's version."""

    def __init__(self) -> None:
        self.count = 0
        register_optimizer_step_post_hook(self._note)

    def _note(self, *_: Any) -> None:
        self.count += 1


_UPDATES: Final = Updates()
_ALL: Final[weakref.WeakSet[Kept]] = weakref.WeakSet()


class Kept:
    """Tensors by variable, in a scope that borrows their memory and notices when they change.

    The tensors themselves are not held: when the first of them is gone, `forget` is called.
    Those that are not contiguous are copied whenever they have changed.
    """

    def __init__(
        self, names: Sequence[str], tensors: Sequence[torch.Tensor], forget: Callable[[], object]
    ) -> None:
        self.scope = ow.Scope()
        self._ids = list(map(id, tensors))
        self._variables = [self.scope.var(name) for name in names]
        self._copied: list[tuple[Any, torch.Tensor]] = []
        for variable, tensor in zip(self._variables, tensors, strict=True):
            alias = tensor.detach()
            if alias.is_contiguous() and alias.device.type == "cpu":
                variable.borrow(alias)
            else:
                variable.set(alias.contiguous())
                self._copied.append((variable, alias))
        self._versions = _versions(tensors)
        self._updates = _UPDATES.count
        self._finalizers = [weakref.finalize(tensor, forget) for tensor in tensors[:1]]
        for finalizer in self._finalizers:
            finalizer.atexit = False
        _ALL.add(self)

    def add(self, constants: Mapping[str, torch.Tensor]) -> None:
        """Hold tensors of a graph that never change."""
        for name, tensor in constants.items():
            self.scope.var(name).borrow(tensor.detach().contiguous())

    def holds(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Whether these are the very tensors."""
        return list(map(id, tensors)) == self._ids

    def notice(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """Tell the plans which tensors have changed; return the versions of all."""
        versions = _versions(tensors)
        if versions != self._versions or _UPDATES.count != self._updates:
            self._update(versions)
        return versions

    def wrote(self, indices: Sequence[int], tensors: Sequence[torch.Tensor]) -> None:
        """Say that a plan has written these tensors, of which the plan itself knows."""
        torch.autograd.graph.increment_version([tensors[i] for i in indices])
        for i in indices:
            self._versions[i] += 1

    @staticmethod
    def check(tensors: Sequence[torch.Tensor], expected: Sequence[int]) -> None:
        """Raise PyTorch's error for a tensor that was changed since a forward read it."""
        for tensor, old in zip(tensors, expected, strict=True):
            if tensor._version != old:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: [{tensor.type()} {list(tensor.shape)}] is at version "
                    f"{tensor._version}; expected version {old} instead. Compute the gradient "
                    "before the change"
                )

    def refresh(self) -> None:
        """Tell the plans that every tensor may have changed."""
        self._update([-1] * len(self._versions))

    def _update(self, versions: list[int]) -> None:
        everything = _UPDATES.count != self._updates
        for variable, old, new in zip(self._variables, self._versions, versions):
            if everything or old != new:
                variable.touch()
        for variable, tensor in self._copied:
            variable.set(tensor.contiguous())
        self._versions, self._updates = versions, _UPDATES.count


def _versions(tensors: Iterable[torch.Tensor]) -> list[int]:
    try:
        return list(map(_version_of, tensors))
    except RuntimeError:  # made under inference_mode, such tensors have none
        return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def refresh(model: torch.nn.Module) -> None:
    """Have compiled plans read the parameters and buffers of a model anew.

    Plans notice every change that raises a tensor's version, and every step of an optimizer. Call
    this after writes that PyTorch does not count: through ``.data``, through ``.numpy()``, or by
    another library.

    Parameters
    ----------
    model : torch.nn.Module
        Whose tensors were written.
    """
    ids = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for kept in list(_ALL):
        if not ids.isdisjoint(kept._ids):
            kept.refresh()
