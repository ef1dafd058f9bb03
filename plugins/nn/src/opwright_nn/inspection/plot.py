"""plot: a drawing of the layers of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn import arguments
from opwright_nn.model import Model
from opwright_nn.model.layer_plot import plot_program

if TYPE_CHECKING:
    from opwright_kit.drawing import LayerDrawing


@arguments.suggest
def plot(model: Model | ow.Program) -> LayerDrawing:
    """Draw the layers of the forward pass, with their operators, shapes and parameters.

    A notebook shows the result; ``nn.plot(model).save("net.svg")`` writes it to a file. Layers are
    the same as in `summary`. ``Network.graph_html`` draws every operator, including gradients.

    Parameters
    ----------
    model : Model or Program
        It is not changed. ``?`` marks sizes that the first batch determines.

    Returns
    -------
    LayerDrawing
        A drawing with ``svg`` and ``save(path)``.

    Raises
    ------
    AttributeTypeError
        `model` is neither a Model nor a Program.
    MissingRequirementError
        opwright-kit, which draws, is not installed.
    ProgramError
        There is no layer.
    """
    program = model.program if isinstance(model, Model) else model
    if not isinstance(program, ow.Program):
        raise AttributeTypeError(
            f"plot: model must be a Model or a Program, got {model!r} ({type(model).__name__}); "
            "pass network.block.program of a Network"
        )
    return plot_program(program)
