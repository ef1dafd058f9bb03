"""Fixtures for the tests of opwright-nn: new programs, and a small classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn

Programs = tuple[ow.Program, ow.Program]


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Create new default programs, main and startup, for one test."""
    with ow.program_guard(ow.Program(), ow.Program()) as pair:
        yield pair


@pytest.fixture
def snapshot(programs: Programs, everything: Callable[[ow.Program], Any]) -> Callable[[], Any]:
    """Return a function that describes both programs, for comparison."""
    return lambda: [everything(program) for program in programs]


@pytest.fixture
def everything() -> Callable[[ow.Program], Any]:
    """Return a function that describes a program, its next generated names and random stream."""

    def describe(program: ow.Program) -> Any:
        twin = program.clone()
        contents = [(list(block.vars), [repr(op) for op in block.ops]) for block in twin.blocks]
        names = [twin.unique_name(layer) for layer in nn.layers.__all__]
        return contents, names, twin.free_name("learning_rate"), twin.next_stream()

    return describe


class Tiny:
    """A classifier with 8 features and 3 classes, and 6 samples."""

    images = np.random.default_rng(0).random((6, 8), np.float32)
    labels = np.array([[0], [2], [1], [1], [0], [2]])

    @staticmethod
    def make(width: int = 5, optimize: bool = True, **options: Any) -> tuple[nn.Model, ow.Variable]:
        """Return a model and its probabilities."""
        model = nn.Model(**options)
        hidden = model.fc_layer(input="img", size=width, activation="sigmoid")
        prob = model.fc_layer(input=hidden, size=3, activation="softmax")
        loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
        if optimize:
            model.backward(loss)
            model.sgd(learning_rate=0.5)
        return model, prob

    def fill(self, model: nn.Model) -> None:
        """Fill both inputs with the samples."""
        model.fill("img", self.images)
        model.fill("label", self.labels)

    @staticmethod
    def parameters(model: nn.Model) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of all parameters."""
        return {p.name: model.scope.var(p.name).numpy() for p in model.parameters}


@pytest.fixture
def tiny() -> Tiny:
    """A small classifier."""
    return Tiny()
