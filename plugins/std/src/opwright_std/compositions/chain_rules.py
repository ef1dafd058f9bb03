"""Gradient rules from formulas: the gradient of an input from the gradient of ``out``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from opwright.op import GradientContext, Shape
from opwright_std.compositions.expression import Expression, read

Rule: TypeAlias = Callable[[GradientContext], None]

Formula: TypeAlias = Callable[[Expression, GradientContext], Expression]
"""Writes the gradient of an input from the gradient of ``out``."""


def chain_rule(formula: Formula) -> Rule:
    """Return the gradient rule of ``x -> out``."""

    def rule(g: GradientContext) -> None:
        g.set_input_grad("x", formula(Expression(g, g.output_grad("out")), g).name)

    return rule


RESTORE_SHAPE: Final = chain_rule(lambda grad, g: grad.like(read(g, "x")))
"""The gradient rule of all operators that keep elements in order."""


def broadcast_rule(**formulas: Formula) -> Rule:
    """Return the gradient rule of inputs that broadcast.

    Parameters
    ----------
    **formulas : callable
        For each input slot, the formula of its gradient from the gradient of out. `formulas` must
        name every input that determines the shape of out, because the rule does not sum a gradient
        if no other named input can be larger.

    Returns
    -------
    callable
    """

    def rule(g: GradientContext) -> None:
        grad = Expression(g, g.output_grad("out"))
        for slot, formula in formulas.items():
            if g.wants(slot):
                others = [other for other in formulas if other != slot]
                set_broadcast_grad(g, slot, formula(grad, g).name, others)

    return rule


def set_broadcast_grad(
    g: GradientContext, slot: str, grad: str | None, others: Sequence[str]
) -> None:
    """Set the gradient of a broadcast input: the sum of `grad`, which has the shape of out.

    Parameters
    ----------
    g : GradientContext
        The context of an operator that broadcasts `slot` against `others`.
    slot : str
        The input whose gradient is set.
    grad : str or None
        A variable of the shape of out; None for zero.
    others : sequence of str
        The other inputs that determine the shape of out.
    """
    if grad is not None and not _is_never_broadcast(g, slot, others):
        grad = g.emit("sum_like", {"x": grad, "like": g.input(slot)})
    g.set_input_grad(slot, grad)


def _is_never_broadcast(g: GradientContext, slot: str, others: Sequence[str]) -> bool:
    """Return whether out has the shape of `slot`, whatever values the unknown dimensions have."""
    mine = _find_shape(g, slot)
    return mine is not None and all(_keeps_shape(mine, _find_shape(g, other)) for other in others)


def _find_shape(g: GradientContext, slot: str) -> Shape | None:
    name = g.input(slot)
    meta = None if name is None else g.meta(name)
    return None if meta is None else meta.shape


def _keeps_shape(mine: Shape, other: Shape | None) -> bool:
    return (
        other is not None
        and len(other) <= len(mine)
        and all(
            b == 1 or a > 1 or a == 0 for a, b in zip(reversed(mine), reversed(other), strict=False)
        )
    )
