"""Calls of `opwright_torch.ops`: eager, recorded by autograd, or dispatched; and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import grad, jacrev, jvp

import opwright as ow
from opwright.errors import (
    AttributeValueError,
    DtypeError,
    GradientError,
    KernelError,
    OperatorNotFoundError,
    ShapeError,
    SlotError,
)
from opwright_torch import define_operators, ops

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def recorded(x: torch.Tensor = X) -> torch.Tensor:
    return x.clone().requires_grad_()


def test_a_call_is_recorded_if_an_input_requires_a_gradient():
    assert ops.add(recorded(), X).requires_grad
    assert not ops.add(X, X).requires_grad
    with torch.no_grad():
        assert not ops.add(recorded(), X).requires_grad
    with torch.inference_mode():
        assert not ops.add(recorded(), 1.0).requires_grad


def test_parameters_are_accepted_like_tensors():
    layer = torch.nn.Linear(4, 2)
    out = ops.fc(X, ops.transpose(layer.weight), layer.bias)
    torch.testing.assert_close(out, layer(X))
    out.sum().backward()
    assert layer.weight.grad is not None


def test_strided_and_negated_inputs_are_read_correctly():
    x = torch.randn(4, 3).T
    torch.testing.assert_close(ops.exp(recorded(x)), torch.exp(x))
    torch.testing.assert_close(ops.exp(x.T[:, 1:]), torch.exp(x.T[:, 1:]))


def test_tangents_can_be_strided():
    x = recorded()
    ops.tanh(x).sum().backward()  # an expanded scalar
    y = recorded()
    torch.tanh(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_numbers_take_the_dtype_of_the_tensor():
    x = recorded(X.double())
    out = ops.multiply(x, 2.5)
    assert out.dtype == torch.float64
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(X, 2.5).double())
    with pytest.raises(DtypeError, match="must be an integer to become int64"):
        ops.add(torch.arange(3), 0.5)


def test_operators_without_inputs_return_tensors():
    assert torch.equal(ops.arange(start=0, stop=3, dtype="int64"), torch.arange(3))


def test_outputs_are_chosen_by_name():
    x = recorded()
    out, mask = ops.dropout(x, probability=0.5, training=True, returns=["out", "mask"])
    assert mask.dtype == torch.bool
    assert torch.equal(out != 0, mask)
    out.sum().backward()
    assert torch.equal(x.grad != 0, mask)
    assert ops.dropout(X, returns="mask").dtype == torch.bool


def test_state_is_returned_and_not_overwritten():
    mean, variance = torch.zeros(4), torch.ones(4)
    x = recorded()
    out, new_mean, _ = ops.batch_norm(
        x, torch.ones(4), torch.zeros(4), mean, variance, training=True
    )
    assert torch.equal(mean, torch.zeros(4))
    assert not new_mean.requires_grad
    truth = torch.nn.functional.batch_norm(X, None, None, training=True)
    torch.testing.assert_close(out, truth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("draw", ["dropout", "uniform"])
def test_random_operators_are_reproducible_with_manual_seed(draw: str):
    def run() -> torch.Tensor:
        if draw == "uniform":
            return ops.uniform(shape=[8])
        return ops.dropout(X, training=True)

    torch.manual_seed(7)
    first = [run(), run()]
    torch.manual_seed(7)
    again = [run(), run()]
    assert all(map(torch.equal, first, again))
    assert not torch.equal(*first)


def test_dropout_does_not_draw_random_numbers_outside_training():
    torch.manual_seed(7)
    state = torch.get_rng_state()
    assert torch.equal(ops.dropout(X), X)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_tensor_needed_only_for_its_shape_is_not_kept_alive():
    x = recorded()
    middle = x * 2
    out = ops.add(middle, 1.0)
    assert not any(t is middle for t in out.grad_fn.saved_tensors)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(X, 2.0))


def test_an_input_changed_before_the_backward_pass_is_detected():
    x = recorded()
    middle = x + 1
    out = ops.square(middle)
    middle.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_second_backward_pass_requires_retain_graph():
    x = recorded()
    loss = ops.sum(ops.square(x))
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(x.grad, 4 * X)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "dtype": (lambda x: ops.add(x, X.double()), DtypeError, "must have the dtype of x"),
    "shape": (lambda x: ops.add(x, torch.ones(5)), ShapeError, "add: shapes must broadcast"),
    "axis": (lambda x: ops.softmax(x, axis=2), ShapeError, r"axis must be in \[-2, 2\)"),
    "attribute": (lambda x: ops.softmax(x, axes=1), AttributeValueError, "did you mean 'axis'"),
    "missing": (ops.add, SlotError, "add: input 'y' is required, got none"),
    "list": (ops.concat, SlotError, r"takes a list, got Tensor; pass \[x\]"),
}


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_match_opwright_ops(name: str, is_recorded: bool):
    call, error, text = ERRORS[name]
    with pytest.raises(error, match=text):
        call(recorded() if is_recorded else X)


def test_an_operator_without_a_gradient_is_reported_in_the_backward_pass():
    out = ops.floor(recorded())
    with pytest.raises(GradientError, match=r"floor.*no gradient"):
        out.sum().backward()


def test_operators_with_blocks_can_be_used_only_in_programs():
    with pytest.raises(OperatorNotFoundError, match="write an if or a loop in Python"):
        ops.cond  # noqa: B018
    assert not hasattr(ops, "while_loop")


def test_an_unknown_operator_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        ops.sofmax  # noqa: B018


def test_a_broken_kernel_leaves_pytorch_usable():
    x = recorded(torch.ones(2, 2) * -1)
    with pytest.raises(KernelError, match="cholesky"):
        ops.cholesky(x)
    out = ops.exp(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.exp(x.detach()))


def test_functions_have_the_names_and_docstrings_of_opwright_ops():
    assert ops.softmax.__doc__ == ow.ops.softmax.__doc__
    assert ops.softmax.__module__ == "opwright_torch.ops"
    assert "softmax" in dir(ops)


def test_a_gradient_is_computed_in_the_context_of_its_call():
    context = ow.current_context()
    x = recorded()
    with ow.context_guard(context.with_pins({"square": "numpy"})):
        out = ops.square(x)
    with ow.context_guard(ow.Context()):  # without any operators
        out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * X)


def test_a_number_as_an_input_has_no_gradient():
    x = recorded()
    out = ops.where(x > 0, x, 0.5)
    out.sum().backward()
    assert torch.equal(x.grad, (X > 0).float())


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_nested_transforms_record_the_operators_of_each_transform(is_dispatched: bool):
    define_operators()
    square = torch.ops.opwright.square if is_dispatched else ops.square
    x = torch.tensor([1.0, 2.0])

    def fourth(x: torch.Tensor) -> torch.Tensor:
        return square(square(x)).sum()

    torch.testing.assert_close(jacrev(grad(fourth))(x), torch.diag(12 * x**2))
    value, tangent = jvp(fourth, (x,), (x,))
    assert (value.item(), tangent.item()) == (17.0, 68.0)
