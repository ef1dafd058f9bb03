"""Runs a training step for given sizes, with loss, gradients and update in one plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch

import opwright as ow
from opwright.errors import SettingError
from opwright.runtime import Watch
from opwright_torch.plans.building import Job, draft
from opwright_torch.plans.forward import Forward, Options, Results, pick
from opwright_torch.plans.gradients import reached
from opwright_torch.plans.kept import VERSION, Kept
from opwright_torch.training.state import Signature
from opwright_torch.training.trainer import Trainer
from opwright_torch.training.updating import Updates

_pointer_of: Final = torch.Tensor.data_ptr


class StepPlan(Forward):
    """Computes a loss, its gradients, and the optimizer updates.

    With gradient accumulation, a second plan runs the steps without an update.
    """

    kind = "training step"

    def __init__(
        self, job: Job, sizes: Sequence[int], kept: Kept, options: Options, *, trainer: Trainer
    ) -> None:
        self._trainer = trainer
        self._symbols = dict(zip((symbol for _, symbol in job.symbols), sizes, strict=True))
        super().__init__(job, sizes, kept, options)

    def _prepare(self) -> None:
        self._whole: Any = None
        self._part: Any = None
        self._pointers: list[int] = []
        self._signature: Signature | None = None
        self._states: Watch | None = None
        self._held: tuple[torch.Tensor, ...] = ()
        self._inputs = self._updated()
        self._pick_updated = pick(list(self._inputs.values()))

    def _updated(self) -> dict[int, int]:
        """Return the updated graph inputs, by their index in the optimizer."""
        loss = self.draft.program.global_block().var(self.draft.results[self.job.loss])
        names = reached(self.draft, [loss])
        places = self._trainer.state.places
        updated = {
            places[identity]: index
            for index, identity in zip(self.job.kept, self.kept.ids, strict=True)
            if index in self.job.trained and identity in places and self.draft.name(index) in names
        }
        _check_layout(self._trainer.state.parameters[place] for place in updated)
        if not updated:
            raise SettingError(
                "train_step: the loss must depend on a parameter of the optimizer that "
                "requires gradients, got none; pass model.parameters() to the optimizer, and "
                "unfreeze some of them"
            )
        return dict(sorted(updated.items()))

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the loss."""
        trainer = self._trainer
        trainer.check(self._pick_updated(args))
        pointers = list(map(_pointer_of, self._pick_written(args)))
        if pointers != self._pointers:  # ``parameter.data = x`` is only detected here
            self.kept.refresh()
            self._pointers = pointers
        if not self._is_current():
            self._renew()
        is_last = trainer.is_last
        if is_last and self._whole is None:
            self._whole = self._build(True)
        elif not is_last and self._part is None:
            self._part = self._build(False)
        values, _ = self.run(self._whole if is_last else self._part, args)
        trainer.count()
        return values

    def _is_current(self) -> bool:
        """Return whether this plan still fits the optimizer's current options and state tensors."""
        state = self._trainer.state
        if self._signature is not state.signature or self._states is None:
            return False
        try:
            return self._states.is_same(state.tensors(self._picks))
        except KeyError:
            return False

    def _renew(self) -> None:
        state = self._trainer.state
        state.adopt(list(self._inputs))
        pairs = ((state.parameters[i], state.picker(i)) for i in self._inputs)
        self._picks = [(parameter, pick) for parameter, pick in pairs if pick is not None]
        self._held = state.tensors(self._picks)
        self._states = Watch(self._held, range(len(self._held)), VERSION)
        self._trainer.lend_sums(self._inputs)
        if self._signature is not state.signature:
            self._whole = self._part = None
        self._signature = state.signature

    def _build(self, is_last: bool) -> Any:
        trainer, job = self._trainer, self.job
        trainer.builds += 1
        self.draft = draft(job, self._symbols)
        block = self.draft.program.global_block()
        parameters = {i: block.var(self.draft.name(at)) for i, at in self._inputs.items()}
        loss = block.var(self.draft.results[job.loss])
        updates = Updates(loss, parameters, trainer.state, trainer.way, self._rows(block))
        updates.append(is_last)
        return self._compile(self.draft.results, updates.varying)

    def _rows(self, block: ow.Block) -> ow.Variable | None:
        """Return the first tensor in the batch that is not a scalar."""
        fed = [block.var(name) for name in self.draft.feeds[: len(self.job.fed)]]
        return next((variable for variable in fed if variable.shape), None)

    def _samples(self, feeds: Sequence[Any]) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        for compiled in self.callables():
            yield compiled, dict(zip(self.draft.feeds, feeds))

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [compiled for compiled in (self._whole, self._part) if compiled is not None]


def _check_layout(parameters: Iterable[torch.Tensor]) -> None:
    for parameter in parameters:
        if not parameter.is_contiguous():
            raise SettingError(
                f"train_step: parameters must be contiguous, got {list(parameter.shape)} with "
                f"strides {parameter.stride()}; plans choose layouts themselves: write "
                "parameter.data = parameter.data.contiguous()"
            )
