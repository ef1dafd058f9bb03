"""Checkpoint: the callback that saves and resumes training."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opwright as ow
from opwright.errors import AttributeValueError, ProgramError
from opwright.plugin import path_of
from opwright_nn import arguments, checks
from opwright_nn.checkpoint.comparing import list_some, shared_values
from opwright_nn.checkpoint.reading import read_saved
from opwright_nn.checkpoint.saving import Checkpoint as Saved
from opwright_nn.checkpoint.saving import read_matching, save
from opwright_nn.model.files import POSITION
from opwright_nn.parallel import own_values, whole_program
from opwright_nn.training.callback import Callback
from opwright_nn.training.monitor import Monitor

if TYPE_CHECKING:
    from opwright_nn.training.training import Training

_STATE = "training"
BEST = "best"
"""The folder within the checkpoints' folder with the parameters of the best epoch."""


class Checkpoint(Callback):
    """Save training after each epoch, at its end, and after Ctrl-C, for ``resume="latest"``.

    A checkpoint contains everything that later steps depend on: see `checkpoint.save`.

    Parameters
    ----------
    folder : str or PathLike
        The folder of the checkpoints, as `opwright.save` lays it out; `Model.load_parameter` also
        accepts it.
    keep : int, at least 1
        The number of checkpoints that the folder keeps.
    every_epochs : int, at least 1
        The number of epochs between saves.
    every_steps : int, at least 1, optional
        The number of steps between additional saves.
    best : str, optional
        A column of the history: the epoch with its best value is also saved, to ``folder/best``.
    mode : str, optional
        "min" or "max" for `best`, as in `EarlyStopping`.
    program : Program, optional
        The program of the step, if a step instead of a Model is trained.
    """

    is_last = True

    @arguments.suggest
    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 3,
        every_epochs: int = 1,
        every_steps: int | None = None,
        best: str | None = None,
        mode: str | None = None,
        program: ow.Program | None = None,
    ) -> None:
        who = "Checkpoint"
        self.folder = Path(path_of(who, folder, name="folder"))
        self._keep = checks.check_int(who, "keep", keep, at_least=1)
        self._every_epochs = checks.check_int(who, "every_epochs", every_epochs, at_least=1)
        if every_steps is not None:
            self.every_steps = checks.check_int(who, "every_steps", every_steps, at_least=1)
        if best is None and mode is not None:
            raise AttributeValueError(
                f"{who}: mode belongs to best, got mode={mode!r} alone; write "
                "best='validation_loss'"
            )
        self._best = None if best is None else Monitor(who, best, mode, 0.0)
        checks.check_instance(who, "program", program, ow.Program)
        self._program = program
        self._saved_at: tuple[int, int] | None = None

    def begin(self, training: Training) -> None:
        """Check that there is something to save."""
        self.get_program(training.program)
        if self._best is not None:
            self._best.begin(training.columns)

    def after_steps(self, training: Training) -> None:
        """Save."""
        self._save(training)

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Save if it is due; save the best epoch if this is the best."""
        if self._best is not None and self._best.update(record):
            program, scope = self.get_program(training.program), training.scope
            save(self.folder / BEST, program, scope, training.fetches, keep=1)
        if training.epoch % self._every_epochs == 0 or training.stop_reason is not None:
            self._save(training)

    def end(self, training: Training) -> None:
        """Save, unless the last step has already been saved."""
        if self._saved_at != (training.epoch, training.n_steps):
            self._save(training)

    def state(self) -> dict[str, float | None]:
        """Return the best value so far."""
        return {} if self._best is None else self._best.state()

    def restore(self, state: Mapping[str, float | None]) -> None:
        """Restore a state that `state` returned."""
        if self._best is not None and state:
            self._best.restore(state)

    def read(self, program: ow.Program) -> Saved | None:
        """Return the newest complete checkpoint, or None if there is none."""
        saved = read_matching("train", self.folder, program)
        if saved is not None and _STATE not in saved.state:
            raise ProgramError(
                f"train: {self.folder} must hold checkpoints of nn.train, got one without the "
                "state of a training run; resume it with the code that saved it"
            )
        return saved

    def keeps_best_of(self, monitor: Monitor, columns: Collection[str]) -> bool:
        """Return whether ``folder/best`` contains the best epoch for another monitor."""
        if self._best is None:
            return False
        self._best.begin(columns)
        return self._best.rule == monitor.rule

    def read_best(self, names: Iterable[str], program: ow.Program) -> dict[str, Any]:
        """Return variables of the best epoch by name, in the form of this process's program."""
        who, folder = "Checkpoint", self.folder / BEST
        values, problems = shared_values(whole_program(who, program), read_saved(folder), names)
        if problems:
            raise ProgramError(
                f"{who}: {folder} must hold the parameters of the best epoch, got "
                f"{list_some(problems)}; remove it, and restart training"
            )
        return own_values(who, program, values)

    def find_program(self) -> ow.Program | None:
        """Return the given program, or None."""
        return self._program

    def get_program(self, program: ow.Program | None) -> ow.Program:
        """Return the program that is saved: the given program, or the callback's program."""
        chosen = self._program or program
        if chosen is None:
            raise ProgramError(
                "Checkpoint: the program of the step must be known to save its variables, got a "
                "step alone; write Checkpoint(folder, program=main)"
            )
        return chosen

    def _save(self, training: Training) -> None:
        state = training.state()
        position = state["position"]
        save(
            self.folder,
            self.get_program(training.program),
            training.scope,
            training.fetches,
            state={_STATE: state},
            notes={} if position is None else {POSITION: position},
            keep=self._keep,
        )
        self._saved_at = (training.epoch, training.n_steps)
