"""Inputs of operators that inspect values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def print_(draw: Draw) -> Drawn:
    """Propose inputs; attributes affect only the printed text."""
    for name in ("message", "limit"):
        draw.without_effect[name] = "it changes the printed text"
    return {"x": draw.floats((draw.length,))}, {"limit": 3}


def assert_true(draw: Draw) -> Drawn:
    """Draw elements that are all true."""
    draw.without_effect["message"] = "it changes the text of an error"
    return {"condition": np.ones((2, draw.length), np.bool_)}, {}


SAMPLES = {"print": print_, "assert_true": assert_true}
