"""Callbacks that act when a number does not improve: EarlyStopping and Plateau."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright.errors import ProgramError
from opwright_nn import arguments, checks
from opwright_nn.optimizer import Optimizer
from opwright_nn.training.best_parameters import BestParameters
from opwright_nn.training.callback import Callback
from opwright_nn.training.monitor import Monitor

if TYPE_CHECKING:
    from opwright_nn.training.training import Training


class _Watching(Callback):
    """A callback with a monitor; checkpoints keep its state."""

    _monitor: Monitor

    def begin(self, training: Training) -> None:
        """Check that the history will have the column."""
        self._monitor.begin(training.columns)

    def state(self) -> dict[str, Any]:
        """Return the best value, and the number of epochs without improvement."""
        return self._monitor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        self._monitor.restore(state)


class EarlyStopping(_Watching):
    """Stop after a number of epochs without improvement.

    Parameters
    ----------
    monitor : str, optional
        A column of the history: "loss", "validation_loss", or the name of a metric. By default
        "validation_loss", and "loss" without validation.
    patience : int, at least 0
        Training stops after this number of consecutive epochs without improvement; 0 acts
        like 1.
    mode : str, optional
        "min" or "max"; by default "min" for names that end with "loss" or "error", otherwise "max".
    min_delta : float, at least 0
        The required improvement of an epoch.
    restore_best : bool
        Whether training ends with the parameters of the epoch with the best value. They include
        statistics of `batch_norm`, but not optimizer states. After Ctrl-C nothing is restored.
        Together with `Checkpoint` it requires ``best=`` with the same column, since resumed
        training takes the best epoch from there.
    """

    @arguments.suggest
    def __init__(
        self,
        monitor: str | None = None,
        *,
        patience: int = 0,
        mode: str | None = None,
        min_delta: float = 0.0,
        restore_best: bool = False,
    ) -> None:
        who = "EarlyStopping"
        self._monitor = Monitor(who, monitor, mode, min_delta)
        self._patience = checks.check_int(who, "patience", patience, at_least=0)
        is_wanted = checks.check_bool(who, "restore_best", restore_best)
        self._best = BestParameters(Monitor(who, monitor, mode, 0.0)) if is_wanted else None

    def begin(self, training: Training) -> None:
        """Check that the history will have the column, and that the best epoch can be kept."""
        super().begin(training)
        if self._best is not None:
            self._best.begin(training)

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Stop the training if the patience is exhausted."""
        if self._best is not None:
            self._best.update(training, record)
        self._monitor.update(record)
        if self._monitor.n_worse >= max(self._patience, 1):
            training.stop(
                f"{self._monitor.name} has not improved for {self._monitor.n_worse} epochs"
            )

    def finish(self, training: Training) -> None:
        """Restore the parameters of the best epoch, if that was requested."""
        if self._best is not None:
            self._best.set_values(training)

    def state(self) -> dict[str, Any]:
        """Return the best value, and the number of epochs without improvement."""
        best = {} if self._best is None else {"best_epoch": self._best.monitor.state()}
        return {**super().state(), **best}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        kept = dict(state)
        best_epoch = kept.pop("best_epoch", None)
        super().restore(kept)
        if self._best is not None and best_epoch is not None:
            self._best.monitor.restore(best_epoch)


class Plateau(_Watching):
    """Multiply the learning rate by `factor` when a number has not improved for some epochs.

    The rate is the variable of the optimizer, which later steps read, so plans are not rebuilt.

    Parameters
    ----------
    monitor : str, optional
        As in `EarlyStopping`.
    factor : float in (0, 1)
        The factor of the rate.
    patience : int, at least 0
        The rate is lowered after this number of epochs in a row without improvement; 0 acts like 1.
    min_rate : float, at least 0
        The rate is never lowered below this.
    mode, min_delta
        As in `EarlyStopping`.
    optimizer : Optimizer, optional
        If a step instead of a Model is trained: the optimizer that appended the updates.
    """

    @arguments.suggest
    def __init__(
        self,
        monitor: str | None = None,
        *,
        factor: float = 0.1,
        patience: int = 5,
        min_rate: float = 0.0,
        mode: str | None = None,
        min_delta: float = 0.0,
        optimizer: Optimizer | None = None,
    ) -> None:
        self._monitor = Monitor("Plateau", monitor, mode, min_delta)
        self._factor = checks.check_float("Plateau", "factor", factor, above=0.0, below=1.0)
        self._patience = checks.check_int("Plateau", "patience", patience, at_least=0)
        self._min_rate = checks.check_float("Plateau", "min_rate", min_rate, at_least=0.0)
        checks.check_instance("Plateau", "optimizer", optimizer, Optimizer)
        self._optimizer = optimizer

    def begin(self, training: Training) -> None:
        """Check that there is a rate to lower."""
        super().begin(training)
        self._optimizer = self._optimizer or training.optimizer
        if self._optimizer is None:
            raise ProgramError(
                "Plateau: the training must have an optimizer, got a step without one; pass "
                "optimizer="
            )
        if self._optimizer.schedule is not None:
            raise ProgramError(
                "Plateau: the learning rate must be a number, got a schedule, which computes it in "
                "each step; omit one of them"
            )

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Lower the rate if the patience is exhausted."""
        self._monitor.update(record)
        if self._monitor.n_worse < max(self._patience, 1) or self._optimizer is None:
            return
        self._monitor.n_worse = 0
        rate = training.read_learning_rate(self._optimizer)
        if rate > self._min_rate:
            new_rate = max(rate * self._factor, self._min_rate)
            self._optimizer.set_learning_rate(training.scope, new_rate)
