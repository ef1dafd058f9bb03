"""Predictor: one variable of a model, computed for inference by a compiled network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import FeedError
from opwright.plugin import hint
from opwright.vocabulary import STEP

from .inference import inference_program, input_names, persistable_names
from .running import Running


class Predictor:
    """Computes a variable of `program` as it was when this was made.

    Parameters
    ----------
    program : Program
        The training program.
    name : str
        What to compute.
    scope : Scope
        Holds the parameters.
    running : Running
        Where it runs and how.
    """

    def __init__(self, program: ow.Program, name: str, scope: ow.Scope, running: Running) -> None:
        self.name = name
        self.generation = program.generation
        self.program = inference_program(program, name)
        self.inputs = input_names(self.program)
        self._scope = scope
        # A plan counts a run in the scope where it reads the count there, but not one that is fed.
        self._draws = STEP in persistable_names(self.program)
        network = ow.Network(self.program.global_block())
        self._call = network.compile(
            feed=[*self.inputs, STEP] if self._draws else self.inputs,
            fetch=[name],
            scope=scope,
            **running._asdict(),
        )

    def check_feeds(self, feeds: Mapping[str, Any]) -> None:
        """Raise FeedError unless there is one feed for each input that the variable hangs on."""
        for name in feeds:
            if name not in self.inputs:
                raise FeedError(
                    f"Model.predict: feeds must be inputs that {self.name!r} depends on, "
                    f"got {name!r}{hint(name, self.inputs, 'inputs')}"
                )
        for name in self.inputs:
            if name not in feeds:
                raise FeedError(
                    f"Model.predict: {self.name!r} depends on the input {name!r}, got no value; "
                    f"give {name}=array"
                )

    def __call__(self, feeds: Mapping[str, Any]) -> npt.NDArray[np.generic]:
        """Return the value of the variable; the scope stays as it is."""
        if self._draws:
            feeds = {**feeds, STEP: self._step()}
        (value,) = self._call(**feeds)
        return value  # type: ignore[no-any-return]

    def _step(self) -> npt.NDArray[np.generic]:
        """The count of runs: random numbers are those that the next step would draw."""
        held = self._scope.find_var(STEP)
        return held.numpy() if held is not None and held.is_set else np.zeros(1, np.int64)
