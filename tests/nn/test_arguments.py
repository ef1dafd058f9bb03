"""Laws of arguments that a layer does not have: the error names those that it has."""

from __future__ import annotations

import inspect

import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError
from opwright_nn import layers
from opwright_nn.arguments import suggest


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda x: layers.conv2d(x, 8, kernel_size=3), "'kernel_size'; did you mean 'kernel'"),
        (lambda x: layers.conv2d(x, 8, 3, stride=2), "'stride'; did you mean 'strides'"),
        (lambda x: layers.conv2d(x, out_channels=8), "'out_channels'; did you mean 'filters'"),
        (lambda x: layers.dropout(x, p=0.5), "'p'; did you mean 'probability'"),
        (lambda x: layers.fc(x, units=3), "'units'; did you mean 'size'"),
        (lambda x: layers.lstm(x, hidden_size=3), "'hidden_size'; did you mean 'size'"),
        (lambda x: layers.softmax(x, dim=1), "'dim'; did you mean 'axis'"),
        (lambda x: layers.batch_norm(x, eps=0.1), "'eps'; did you mean 'epsilon'"),
        (lambda x: layers.attention(x, num_heads=2), "'num_heads'; did you mean 'heads'"),
        (lambda x: layers.relu(x, inplace=True), "'inplace'; arguments are 'x', 'name'"),
        (lambda x: nn.optimizer.SGD(lr=0.1), "'lr'; did you mean 'learning_rate'"),
        (lambda x: nn.batches((x, x), batch_size=3), "'batch_size'; did you mean 'size'"),
    ],
)
def test_the_name_of_another_framework_is_answered_with_ours(programs, call, rule):
    with pytest.raises(
        AttributeTypeError, match=rf"^\w+: arguments must be those that it has, got {rule}"
    ):
        call(layers.data("x", [None, 3]))


def test_a_missing_argument_is_answered_with_all_of_them(programs):
    with pytest.raises(AttributeTypeError, match="^max_pool1d: missing .*'kernel'; .* are x, ker"):
        layers.max_pool1d(layers.data("x", [None, 3, 3]))


def test_a_method_names_its_own_arguments():
    with pytest.raises(AttributeTypeError, match="^Model.dropout: .*'p'; did you mean 'probab"):
        nn.Model().dropout("x", p=0.5)


def test_each_layer_keeps_its_signature_and_documentation():
    for name in layers.__all__:
        layer = getattr(layers, name)
        assert "args" not in inspect.signature(layer).parameters, name
        assert inspect.getdoc(layer), name


def test_an_error_from_within_is_not_one_of_the_arguments():
    @suggest
    def broken(x):
        return x + "1"

    with pytest.raises(TypeError, match="unsupported operand"):
        broken(1)
