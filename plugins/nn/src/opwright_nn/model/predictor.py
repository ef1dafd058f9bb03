"""Predictor: computes variables of a Model, without loss, update or dropout; its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import FeedError
from opwright.plugin import hint
from opwright.vocabulary import STEP
from opwright_nn import checks
from opwright_nn.model.feeds import convert_named
from opwright_nn.model.inference import inference_program, input_names, persistable_names


class RunOptions(NamedTuple):
    """Arguments of ``Network.compile`` and ``Network.run``; the fields have the same names.

    Attributes
    ----------
    device : str
    fallback : str or None
    deterministic : bool or None
    """

    device: str
    fallback: str | None
    deterministic: bool | None


def check_options(who: str, device: object, fallback: object, deterministic: object) -> RunOptions:
    """Return the options; raise if an option has an invalid type or value."""
    return RunOptions(
        checks.check_str(who, "device", device),
        None if fallback is None else checks.check_choice(who, "fallback", fallback, ("cpu",)),
        None if deterministic is None else checks.check_bool(who, "deterministic", deterministic),
    )


class Predictor:
    """A compiled network that computes variables of a training program.

    Parameters
    ----------
    program : Program
        The training program, in its current state.
    names : tuple of str
        The variables to compute.
    scope : Scope
        The scope of the parameters.
    options : RunOptions
        The options of compilation.
    given : iterable of str
        Variables of the network that are fed instead of being computed.
    cast : bool
        As for `Model`.
    """

    def __init__(
        self,
        program: ow.Program,
        names: tuple[str, ...],
        scope: ow.Scope,
        options: RunOptions,
        given: Iterable[str] = (),
        cast: bool = False,
    ) -> None:
        self.names = names
        self.generation = program.generation
        self.program = inference_program(program, names, given)
        self.inputs = input_names(self.program)
        self._cast = cast
        self._scope = scope
        # A plan would increment the count of runs in the scope, but not a count that is fed.
        self._draws = STEP in persistable_names(self.program)
        network = ow.Network(self.program.global_block())
        self._call = network.compile(
            feed=[*self.inputs, STEP] if self._draws else self.inputs,
            fetch=names,
            scope=scope,
            **options._asdict(),
        )

    def check_feeds(self, feeds: Mapping[str, Any]) -> None:
        """Raise FeedError unless each input that the variable depends on has a feed."""
        for name in feeds:
            if name not in self.inputs:
                raise FeedError(
                    f"Model.predict: feeds must be inputs that {self._what} depends on, "
                    f"got {name!r}{hint(name, self.inputs, 'inputs')}"
                )
        for name in self.inputs:
            if name not in feeds:
                raise FeedError(
                    f"Model.predict: {self._what} depends on the input {name!r}, got no value; "
                    f"pass {name}=array"
                )

    def __call__(self, feeds: Mapping[str, Any]) -> list[npt.NDArray[np.generic]]:
        """Return the values of the variables; the scope does not change."""
        if self._draws:
            feeds = {**feeds, STEP: self._step()}
        try:
            return self._call(**feeds)
        except FeedError:  # mostly to change the dtype; free if it is right already
            convert = partial(convert_named, self.program, self._cast, "Model.predict")
            converted = {name: convert(name, value) for name, value in feeds.items()}
            if all(converted[name] is value for name, value in feeds.items()):
                raise
            return self._call(**converted)

    @property
    def _what(self) -> str:
        return " and ".join(map(repr, self.names))

    def _step(self) -> npt.NDArray[np.generic]:
        """Return the count of runs, so that random numbers are drawn as in the next step."""
        step = self._scope.find_var(STEP)
        return step.numpy() if step is not None and step.is_set else np.zeros(1, np.int64)
