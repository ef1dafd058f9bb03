"""Declared optimizers: a field or a default of a class is never ignored silently."""

from __future__ import annotations

import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import optimizer
from opwright_nn.optimizer.declaration import declare

RATE = 0.1


def test_a_field_that_nothing_reads_is_refused():
    @declare
    class Misspelt(optimizer.Optimizer):
        op_type = "adam"
        beta_1: float = 0.5

    rule = r"Misspelt: .* operator adam .*, got 'beta_1'; its attributes are 'beta1', 'beta2', 'eps"
    with pytest.raises(AttributeValueError, match=rule):
        Misspelt(RATE)


def test_a_new_default_that_the_constructor_ignores_is_refused():
    class Plain(optimizer.Adam):
        beta1: float = 0.3

    @declare
    class Unannotated(optimizer.Adam):
        beta1 = 0.3

    class Passing(optimizer.Adam):
        beta1: float = 0.3

        def __init__(self, learning_rate):
            super().__init__(learning_rate, beta1=self.beta1)

    for kind in (Plain, Unannotated):
        rule = rf"{kind.__name__}: a new default of beta1 must .*, got 0.3; write @declare above"
        with pytest.raises(AttributeValueError, match=rule):
            kind(RATE)
    assert declare(Plain)(RATE).attrs()["beta1"] == 0.3
    assert Passing(RATE).attrs()["beta1"] == 0.3


def test_base_class_options_are_keyword_only():
    with pytest.raises(AttributeTypeError, match=r"Optimizer: .*arguments"):
        optimizer.Optimizer(RATE, nn.regularizer.L2(0.1))
