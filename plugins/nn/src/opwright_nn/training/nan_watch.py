"""NanWatch: stops training at the first NaN, and names the operator that produced it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import opwright as ow
from opwright.errors import OpwrightError, ProgramError
from opwright_nn import arguments, checks
from opwright_nn.inspection import NonFinite, find_nan
from opwright_nn.model.inference import input_names
from opwright_nn.training.callback import Callback, Step

if TYPE_CHECKING:
    from opwright_nn.training.training import Training

Values = dict[str, Any]


class NonFiniteError(OpwrightError, FloatingPointError):
    """A loss or a parameter became NaN or infinite during training.

    Attributes
    ----------
    step : int
        The number of the step, from 1.
    found : NonFinite or None
        Where it originated; None if repeating the step did not reproduce it.
    """

    @arguments.suggest
    def __init__(self, message: str, step: int, found: NonFinite | None) -> None:
        super().__init__(message)
        self.step = step
        self.found = found


class NanWatch(Callback):
    """Stop training at the first NaN or infinity, with the operator that produced it.

    After every `every_steps` steps the callback checks the losses of these steps, and the
    parameters. If a value is not finite, the callback repeats these steps on copies, and runs the
    first bad step operator by operator, as `find_nan` does. The callback does not change training
    results, not even by a bit.

    Parameters
    ----------
    every_steps : int, at least 1
        The batches and one copy of all variables are kept for `every_steps` steps. A `Checkpoint`
        with the same number never saves values that are not finite.

    Raises
    ------
    NonFiniteError
        During training; it names the step, the operator and its inputs.
    """

    @arguments.suggest
    def __init__(self, every_steps: int = 50) -> None:
        self.every_steps = checks.check_int("NanWatch", "every_steps", every_steps, at_least=1)
        self._before: Values = {}
        self._recent: list[tuple[Mapping[str, Any], Any]] = []

    def begin(self, training: Training) -> None:
        """Check that the steps can be repeated."""
        _program_of(training)

    def wrap_step(self, training: Training, step: Step) -> Step:
        """Return a step that also records its feeds and its loss."""
        self._before, self._recent = _copy(training), []
        recent = self._recent

        def watched(**feeds: Any) -> Sequence[Any]:
            values = step(**feeds)
            recent.append((feeds, values[0]))
            return values

        return watched

    def after_steps(self, training: Training) -> None:
        """Check the steps since the last call."""
        now = _copy(training)
        if not all(_is_finite(loss) for _, loss in self._recent) or not _is_sound(training, now):
            self._raise(training)
        self._before = now
        self._recent.clear()

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Check the last steps of the epoch."""
        self.after_steps(training)

    def _raise(self, training: Training) -> None:
        number, found = _Replay(training, self._before).run([feeds for feeds, _ in self._recent])
        step = training.n_steps - len(self._recent) + number
        where = "a repetition of the step shows none" if found is None else str(found)
        raise NonFiniteError(
            f"train: the loss and all parameters must be finite, got non-finite values in step "
            f"{step}: {where}; decrease the learning rate, clip gradients, or change that operator",
            step,
            found,
        )


class _Replay:
    """Repeats steps on copies of the variables."""

    def __init__(self, training: Training, before: Values) -> None:
        self._training = training
        self._program = _program_of(training)
        self._inputs = input_names(self._program)
        self._scope = ow.Scope()
        self._scope.set_all(before)
        self._step = ow.Network(self._program.global_block()).compile(
            feed=self._inputs,
            fetch=[training.fetches[0]],
            scope=self._scope,
            **training.run_options,
        )

    def run(self, batches: Sequence[Mapping[str, Any]]) -> tuple[int, NonFinite | None]:
        """Return the 1-based number of the first non-finite step, and the result of `find_nan`."""
        for number, batch in enumerate(batches, start=1):
            feeds = {name: batch[name] for name in self._inputs}
            before = _copy(self._training, self._scope)
            (loss,) = self._step(**feeds)
            after = _copy(self._training, self._scope)
            if not _is_finite(loss) or not _is_sound(self._training, after):
                self._scope.set_all(before)
                device = self._training.run_options.get("device")
                return number, find_nan(self._program, feeds, scope=self._scope, device=device)
        return len(batches), None


def _program_of(training: Training) -> ow.Program:
    """Return the program of a training run; ProgramError if its steps cannot be repeated."""
    program = training.program
    if program is None or training.is_shared:
        got = "a step" if program is None else "one of several processes"
        raise ProgramError(
            f"NanWatch: steps must be repeatable, which requires a Model in a single process, got "
            f"{got}; call nn.find_nan with the batch"
        )
    return program


def _copy(training: Training, scope: ow.Scope | None = None) -> Values:
    """Return all variables that outlast a step, as separate arrays."""
    values: Values = {}
    for name, variable in _program_of(training).global_block().vars.items():
        held = (scope or training.scope).find_var(name) if variable.persistable else None
        if held is not None and held.is_set:
            values[name] = held.numpy()
    return values


def _is_sound(training: Training, values: Values) -> bool:
    """Return whether all parameters are finite."""
    parameters = _program_of(training).parameters()
    return all(_is_finite(values[p.name]) for p in parameters if p.name in values)


def _is_finite(array: Any) -> bool:
    return bool(np.isfinite(np.asarray(array, np.float64)).all())
