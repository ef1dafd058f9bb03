"""The programs of a Model while it is built: layers append to them, inputs are found by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Self

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright.plugin import record_undo
from opwright_nn import arguments, checks, layers
from opwright_nn.parameters.deferred import Deferred, deferred_guard
from opwright_nn.precision import MixedPrecision


class ModelPrograms:
    """The part of a `Model` to which layers append; see `Model`.

    Attributes
    ----------
    program, startup_program : Program
        The programs of a step, and of the initialization before the first one.
    """

    _guards: list[contextlib.AbstractContextManager[None]]

    def __init__(self, mixed_precision: MixedPrecision | None = None) -> None:
        self._policy = mixed_precision
        self.program = ow.Program()
        self.startup_program = ow.Program()
        self._deferred = Deferred()
        self._loss: str | None = None
        self._metrics: list[str] = []

    def __enter__(self) -> Self:
        """Make layer functions append to this model: ``with model: layers.relu("img")``."""
        guard = self.guard()
        guard.__enter__()
        self._guards.append(guard)
        return self

    def __exit__(self, *error: Any) -> None:
        self._guards.pop().__exit__(*error)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Make layer functions append to this model, as ``with model:`` does."""
        programs = ow.program_guard(self.program, self.startup_program)
        policy = contextlib.nullcontext() if self._policy is None else self._policy.building()
        with programs, deferred_guard(self._deferred), policy:
            yield

    @arguments.suggest
    def input(
        self, name: str, shape: Iterable[int | None] | None = None, dtype: object = "float32"
    ) -> ow.Variable:
        """Return the input of that name; declare it if the name is new.

        Parameters
        ----------
        name : str
            The name for `fill` and `predict`.
        shape : iterable of int or None, optional
            None for the batch, and for every other variable dimension on which no parameter
            depends. Without a shape, the first batch provides it.
        dtype : str or NumPy dtype
            The dtype of the arrays that are passed to `fill`.
        """
        with self._building():
            return layers.data(name, shape, dtype)

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        """Make layer functions append to this model; undo all changes if one of them fails."""
        with self.guard(), ow.transaction():
            yield

    def _add_metric(self, variable: ow.Variable) -> None:
        """Make `run` return a variable, after the loss and earlier metrics."""
        self._metrics.append(variable.name)
        record_undo(self._metrics.pop)

    def _fetches(self) -> list[str]:
        return [*([] if self._loss is None else [self._loss]), *self._metrics]

    def _get_names(self, who: str, argument: str, variables: object) -> tuple[str, ...]:
        if isinstance(variables, ow.Variable | str) or not isinstance(variables, Iterable):
            raise AttributeTypeError(
                f"{who}: {argument} must be a list of variables or names, got {variables!r} "
                f"({type(variables).__name__}); write [prob, 'loss'], for example"
            )
        return tuple([self._get_variable(who, item).name for item in variables])

    def _get_variable(self, who: str, variable: object) -> ow.Variable:
        if isinstance(variable, str):
            return self.program.global_block().get_var(variable, who)
        return checks.check_variable(who, "variable", variable)
