"""BestParameters: keeps the parameters of the epoch with the best value of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import opwright as ow
from opwright.errors import AttributeValueError, ProgramError
from opwright.vocabulary import STEP
from opwright_nn.model.inference import inference_program, persistable_names
from opwright_nn.training.checkpointing import Checkpoint
from opwright_nn.training.monitor import Monitor

if TYPE_CHECKING:
    from opwright_nn.training.training import Training


class BestParameters:
    """The parameters after the best epoch so far, for `EarlyStopping`.

    Parameters
    ----------
    monitor : Monitor
        Determines which epoch is the best; as in `Checkpoint`, any improvement counts.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._values: dict[str, Any] = {}
        self._names: list[str] = []
        self._saver: Checkpoint | None = None

    def begin(self, training: Training) -> None:
        """Check that the parameters are known, and that checkpoints also keep the best epoch."""
        if training.program is None:
            raise ProgramError(
                "EarlyStopping: restore_best needs the parameters of a Model, got a step; pass the "
                "Model to train, or restore them in a callback"
            )
        self._values, self._saver = {}, None
        self._names = _list_names(training.program, training.fetches)
        self.monitor.begin(training.columns)
        savers = [item for item in training.callbacks if isinstance(item, Checkpoint)]
        for saver in savers:
            if saver.keeps_best_of(self.monitor, training.columns):
                self._saver = saver
        if savers and self._saver is None:
            raise AttributeValueError(
                "EarlyStopping: with restore_best, a Checkpoint must also keep the best epoch, for "
                f"resumed training, got one without best={self.monitor.name!r} or with another "
                f"mode; write Checkpoint(folder, best={self.monitor.name!r})"
            )

    def update(self, training: Training, record: Mapping[str, float]) -> None:
        """Keep the parameters if the epoch was better than all previous epochs."""
        if self.monitor.update(record):
            self._values = {name: training.scope.var(name).numpy() for name in self._names}

    def set_values(self, training: Training) -> None:
        """Set the parameters of the best epoch, if any."""
        program, is_known = training.program, self.monitor.best is not None
        if not self._values and self._saver is not None and is_known and program is not None:
            self._values = self._saver.read_best(self._names, program)
        training.scope.set_all(self._values)


def _list_names(program: ow.Program, fetches: Iterable[str]) -> list[str]:
    """Return the parameters and other state that predictions read: batch_norm statistics."""
    read = persistable_names(inference_program(program, fetches))
    parameters = [parameter.name for parameter in program.parameters()]
    return [name for name in dict.fromkeys([*parameters, *read]) if name != STEP]
