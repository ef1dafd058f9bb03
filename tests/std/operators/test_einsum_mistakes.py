"""Equations that are invalid or do not match their operands."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import ShapeError

MISTAKES = {
    "ij,jk,kl->il": ([(2, 3), (3, 4)], "a term for each of 2 operands, got 3"),
    "ijk->i": ([(2, 3)], "operand 0 must have 3 axes, one for each label of 'ijk'"),
    "i...->i": ([()], "operand 0 must have 1 or more axes"),
    "i1->i": ([(2, 3)], "letters, '...', ',' and one '->', got '1'"),
    "i->j": ([(2,)], "occur in an operand, got 'j'"),
    "i->ii": ([(2,)], "must occur once in the output, got 'i' twice"),
    "ij,jk->ik": (
        [(2, 3), (4, 5)],
        "label 'j' must have the same length everywhere, got 3 and 4 in operand 1",
    ),
    "...i,...i->...": (
        [(2, 4), (3, 4)],
        "of the ellipsis must have the same length everywhere, got 2 and 3",
    ),
}


@pytest.mark.parametrize("equation", MISTAKES)
def test_the_error_for_an_invalid_equation_gives_the_expected_form(equation: str) -> None:
    shapes, message = MISTAKES[equation]
    operands = [np.ones(shape) for shape in shapes]
    with pytest.raises(ShapeError, match=message.replace("...", r"\.\.\.")):
        ow.ops.einsum(operands, equation=equation)
