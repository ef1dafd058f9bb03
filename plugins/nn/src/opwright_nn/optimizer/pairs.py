"""Checks the parameters and gradients passed to optimizers."""

from __future__ import annotations

from collections.abc import Sequence

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn import checks
from opwright_nn.clip import ClipByValue, GradientClip
from opwright_nn.optimizer.loss_scaling import has_loss_scale
from opwright_nn.optimizer.sparse_rows import SparseRows, find_sparse_rows
from opwright_nn.parallel import find_divided
from opwright_nn.regularizer import Regularizer

Pair = tuple[ow.Variable, ow.Variable]


def check_pairs(who: str, pairs: Sequence[Pair]) -> None:
    """Raise ProgramError without pairs, or for parameters that this program does not train."""
    program = ow.default_main_program()
    for _, gradient in pairs:
        if gradient.block.program is not program:
            raise ProgramError(
                f"{who}: gradients must belong to the default main program, got {gradient!r} of "
                "another program; call it within `with model:`, or within "
                "opwright.program_guard(main, startup)"
            )
    for parameter, _ in pairs:
        if not getattr(parameter, "trainable", True):
            raise ProgramError(
                f"{who}: parameters must be trainable, got {parameter.name!r} with "
                "trainable=False; set it True, or do not list the parameter"
            )
    if not pairs:
        raise ProgramError(
            f"{who}: there must be a parameter to train, got none; the loss must depend on a "
            "parameter with trainable=True"
        )


def find_regularizer(
    who: str, parameter: ow.Variable, default: Regularizer | None
) -> Regularizer | None:
    """Return the regularizer of a parameter, or `default` if the parameter has no regularizer."""
    own = getattr(parameter, "regularizer", None)
    checks.check_instance(who, f"regularizer of {parameter.name!r}", own, Regularizer)
    return own or default


def check_sparse(
    who: str,
    pairs: Sequence[Pair],
    *,
    is_read: bool,
    clip: GradientClip | None,
    regularizer: Regularizer | None,
) -> dict[str, SparseRows]:
    """Return the sparse gradients by name; raise if one of them must be dense.

    Parameters
    ----------
    who : str
        The optimizer, for messages.
    pairs : sequence of (Variable, Variable)
        Parameters and gradients.
    is_read : bool
        Whether the optimizer has an operator for rows of a table.
    clip : GradientClip, optional
        The optimizer's clip.
    regularizer : Regularizer, optional
        The optimizer's regularizer.
    """
    sparse = find_sparse_rows(gradient for _, gradient in pairs)
    for parameter, gradient in pairs:
        if gradient.name not in sparse:
            continue
        if not is_read:
            reader, way_out = "this optimizer", "train with SGD, Momentum, Adagrad or Adam"
        elif clip is not None:
            reader, way_out = f"clip={type(clip).__name__}", "train without a clip"
        elif (own := find_regularizer(who, parameter, regularizer)) is not None:
            reader, way_out = f"regularizer={own!r}", "train without a regularizer"
        else:
            continue
        raise ProgramError(
            f"{who}: the gradient of {parameter.name!r} must be dense for {reader}, got the rows "
            f"of embedding(sparse=True); pass sparse=False to embedding, or {way_out}"
        )
    return sparse


def check_dense(who: str, pairs: Sequence[Pair], group: str) -> None:
    """Raise ProgramError if a gradient is sparse, as sparse gradients are not averaged.

    A table that is sharded over the processes of the group is not averaged.
    """
    sparse = find_sparse_rows(gradient for _, gradient in pairs)
    divided = find_divided(pairs[0][0].block.program) if sparse else {}
    for parameter, gradient in pairs:
        if gradient.name in sparse and divided.get(parameter.name) != group:
            raise ProgramError(
                f"{who}: the gradient of {parameter.name!r} must be dense to be averaged over "
                "processes, got the rows of embedding(sparse=True); pass sparse=False to embedding"
            )


def check_divided(
    who: str, pairs: Sequence[Pair], *, elementwise: bool, clip: GradientClip | None
) -> None:
    """Raise if this process has only a shard of a gradient that must be complete.

    Parameters
    ----------
    who : str
        The optimizer, for messages.
    pairs : sequence of (Variable, Variable)
        Parameters and gradients; at least one.
    elementwise : bool
        Whether the optimizer updates each element separately.
    clip : GradientClip, optional
        The optimizer's clip.

    Raises
    ------
    ProgramError
        The optimizer, its clip or the loss scale needs the complete gradient.
    """
    divided = find_divided(pairs[0][0].block.program)
    name = next((parameter.name for parameter, _ in pairs if parameter.name in divided), None)
    if name is None:
        return
    if not elementwise:
        reader, way_out = "this optimizer", "train with Adam, for example"
    elif clip is not None and not isinstance(clip, ClipByValue):
        reader, way_out = f"clip={type(clip).__name__}", "clip with ClipByValue"
    elif has_loss_scale(gradient for _, gradient in pairs):
        reader, way_out = "a scaled loss", "train in bfloat16"
    else:
        return
    raise ProgramError(
        f"{who}: the gradient of {name!r} must be complete for {reader}, got the shard of one "
        f"process of group {divided[name]!r}; {way_out}"
    )
