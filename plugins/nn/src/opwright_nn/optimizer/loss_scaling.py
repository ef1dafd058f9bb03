"""Loss scaling: keeps gradients in the range of float16, and skips steps on overflow.

The loss is multiplied by a factor, and its gradients are divided by it. If a gradient is not
finite, the updates keep the old values and the factor is halved; after many steps without such an
overflow it is doubled. Loss scaling consists of operators and variables of the program, so
checkpoints contain its state. Micikevicius et al., Mixed Precision Training, 2018.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn import operators
from opwright_nn.initializer import Constant
from opwright_nn.optimizer.sparse_rows import find_sparse_rows
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.parameter import make_state
from opwright_nn.precision import MixedPrecision, cast_to, find_policy

Pair = tuple[ow.Variable, ow.Variable]

_WHO: Final = "mixed_precision"
_GOOD_STEPS: Final = "_good_steps"
_GROWTH_STEPS: Final = "_growth_steps"
_LEAST, _MOST = 1.0, 2.0**32
"""Bounds of the factor so that it does not vanish for a broken network and does not overflow."""


class LossScale(NamedTuple):
    """The factor of a loss, the steps since an overflow, and the steps until the factor grows."""

    factor: ow.Variable
    good_steps: ow.Variable
    growth_steps: ow.Variable


def append_gradients(
    who: str, loss: ow.Variable, parameters: Iterable[ow.Variable | str] | None = None
) -> list[Pair]:
    """Append the gradients of a loss, with loss scaling if the policy uses it.

    Parameters
    ----------
    who : str
        The caller, for messages.
    loss : Variable
        A variable of the default main program.
    parameters : iterable of Variable or str, optional
        As for `append_backward`.

    Returns
    -------
    list of (Variable, Variable)
        Parameters, and gradients of the loss without the factor.
    """
    policy = find_policy()
    if policy is None or policy.loss_scale is None:
        _check_needs_no_scale(who, policy, loss)
        return ow.append_backward(loss, parameters=parameters)
    scale = _make_loss_scale(policy, policy.loss_scale)
    block = loss.block
    inputs = {"x": cast_to(loss, "float32"), "y": scale.factor}
    scaled = operators.append(block, "multiply", inputs, prefix=f"{loss.name}_scaled")
    pairs = ow.append_backward(scaled, parameters=parameters)
    sparse = find_sparse_rows(gradient for _, gradient in pairs)
    for parameter, gradient in pairs:
        if gradient.name in sparse:
            raise ProgramError(
                f"{who}: the gradient of {parameter.name!r} must be dense for a scaled loss, got "
                "the rows of embedding(sparse=True); pass sparse=False to embedding, or train in "
                '"bfloat16"'
            )
    inverse = operators.append(block, "reciprocal", {"x": scale.factor}, prefix="inverse_scale")
    return [(parameter, _multiply(gradient, inverse)) for parameter, gradient in pairs]


def _multiply(gradient: ow.Variable, inverse: ow.Variable) -> ow.Variable:
    inputs = {"x": gradient, "y": inverse}
    prefix = f"{gradient.name}_unscaled"
    return operators.append(gradient.block, "multiply", inputs, prefix=prefix)


def _check_needs_no_scale(who: str, policy: MixedPrecision | None, loss: ow.Variable) -> None:
    if policy is not None and policy.dtype == "float16":
        return
    for name in loss.block.vars:
        if name.endswith("/float16"):
            raise ProgramError(
                f"{who}: gradients in float16 need a scaled loss, got layers of "
                'mixed_precision("float16") and a call outside of it; call it within the same '
                "`with` block"
            )


def _make_loss_scale(policy: MixedPrecision, first: float) -> LossScale:
    program = ow.default_main_program()
    name = program.free_name("loss_scale")
    factor = make_state(_WHO, name, _one, Constant(first))
    good_steps = make_state(_WHO, f"{name}{_GOOD_STEPS}", _one, Constant(0.0), "int64")
    growth = f"{name}{_GROWTH_STEPS}"  # here so that updates of a copied program find it
    value = {"value": float(policy.growth_steps)}
    factor.block.append_op("fill_like", {"x": good_steps}, {"out": growth}, value)
    return LossScale(factor, good_steps, factor.block.var(growth))


def _one() -> Shape:
    return (1,)


class Updates:
    """Appends parameter updates that a step skips if a gradient of a scaled loss has overflowed.

    Parameters
    ----------
    pairs : sequence of (Variable, Variable)
        All parameters and gradients. If no loss is scaled, nothing is appended for them.
    group : str
        The processes over which every gradient is sharded; "" if gradients are not sharded.
    """

    def __init__(self, pairs: Sequence[Pair], group: str = "") -> None:
        self._is_finite: ow.Variable | None = None
        gradients = [gradient for _, gradient in pairs]
        scales = _find_loss_scales(gradients)
        if scales:
            self._is_finite = is_finite = _append_is_finite(gradients, group)
            for scale in scales:
                _append_change(scale, is_finite)

    def append(
        self, block: ow.Block, op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> None:
        """Append the operator of an update; its outputs overwrite the variables of its inputs."""
        states = self._find_states(op_type, inputs)
        old = [operators.append(block, "assign", {"x": x}, prefix=f"{x.name}_old") for x in states]
        block.append_op(op_type, inputs=inputs, attrs=attrs)
        for state, before in zip(states, old, strict=True):
            chosen = {"condition": self._is_finite, "x": state, "y": before}
            block.append_op("where", chosen, {"out": state.name})

    def _find_states(self, op_type: str, inputs: Mapping[str, Any]) -> list[ow.Variable]:
        if self._is_finite is None:
            return []
        slots = [slot.aliases for slot in ow.op_proto(op_type).outputs]
        return [inputs[slot] for slot in slots if slot is not None and slot in inputs]


def has_loss_scale(gradients: Iterable[ow.Variable]) -> bool:
    """Return whether gradients belong to a scaled loss."""
    return bool(_find_loss_scales(list(gradients)))


def _find_loss_scales(gradients: Sequence[ow.Variable]) -> list[LossScale]:
    """Return the operators that scale the losses from which gradients are computed."""
    if not gradients:
        return []
    block = gradients[0].block
    names = [name.removesuffix(_GOOD_STEPS) for name in block.vars if name.endswith(_GOOD_STEPS)]
    scales = []
    for name in names:
        if name + _GROWTH_STEPS in block.vars and _depends(block, gradients, name):
            parts = (name, name + _GOOD_STEPS, name + _GROWTH_STEPS)
            scales.append(LossScale(*map(block.var, parts)))
    return scales


def _depends(block: ow.Block, variables: Sequence[ow.Variable], source: str) -> bool:
    dependent = {source}
    for op in block.ops:
        if not dependent.isdisjoint(op.input_names()):
            dependent.update(op.output_names())
    return any(variable.name in dependent for variable in variables)


def _append_is_finite(gradients: Sequence[ow.Variable], group: str) -> ow.Variable:
    """Append a bool that states whether all gradients are finite in all processes of the group."""
    block = gradients[0].block
    parts = []
    for gradient in gradients:
        prefix = f"{gradient.name}_is_finite"
        each = operators.append(block, "isfinite", {"x": gradient}, prefix=f"{prefix}/elements")
        parts.append(operators.append(block, "all", {"x": each}, prefix=prefix))
    every = operators.append(block, "stack", {"x": parts}, prefix="is_finite/gradients")
    if not group:
        return operators.append(block, "all", {"x": every}, prefix="is_finite")
    own = operators.append(block, "all", {"x": every}, prefix="is_finite/own")
    return operators.append(block, "dist.every", {"x": own}, {"group": group}, prefix="is_finite")


def _append_change(scale: LossScale, is_finite: ow.Variable) -> None:
    """Append the factor and the count for the next step, unless an earlier update already did."""
    block, factor = scale.factor.block, scale.factor
    if any(factor.name in op.output_names() for op in block.ops):
        return
    ops, steps = ow.ops, scale.good_steps
    counted = steps + 1
    is_long = ops.greater_equal(counted, scale.growth_steps)
    grown = ops.where(is_long, factor * 2.0, factor)
    changed = ops.clip(ops.where(is_finite, grown, factor * 0.5), min=_LEAST, max=_MOST)
    begins_anew = ops.logical_or(is_long, ops.logical_not(is_finite))
    new_steps = ops.where(begins_anew, steps * 0, counted)
    block.append_op("assign", {"x": changed}, {"out": factor.name})
    block.append_op("assign", {"x": new_steps}, {"out": steps.name})
