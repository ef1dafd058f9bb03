"""What a training function calls on its workers: a checkpoint is read, and one is reported."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
from opwright_ray.requirement import load_ray


def report(
    metrics: Mapping[str, Any],
    program: ow.Program | None = None,
    scope: ow.Scope | None = None,
    *,
    state: Mapping[str, Any] | None = None,
) -> None:
    """Report metrics to Ray, with a checkpoint of a training where a program is given.

    Every worker calls it; that of rank 0 writes the checkpoint, and its metrics are kept. Ray takes
    it up once all have come, and copies it to its storage: a worker that ends in between leaves the
    checkpoint before.

    Parameters
    ----------
    metrics : mapping of str to number
        Those of the last checkpoint are `Result.metrics`; the others are in Ray's logs alone.
    program : Program, optional
        The training step, whose persistable variables are saved, as by `nn.checkpoint.save`.
    scope : Scope, optional
        Holds them; the default scope by default.
    state : mapping, optional
        What else the function has to know, as JSON can write it: ``{"epoch": epoch}``.

    Raises
    ------
    MissingRequirementError
        Ray is not installed.
    """
    train = load_ray("report").train
    if program is None:
        train.report(dict(metrics))
        return
    with tempfile.TemporaryDirectory(prefix="opwright-ray-") as folder:
        # Called by all: of workers that train together the first one writes, the others wait.
        nn.checkpoint.save(folder, program, scope, state=state, keep=1)
        is_first = dist.rank() == 0
        checkpoint = train.Checkpoint.from_directory(folder) if is_first else None
        train.report(dict(metrics), checkpoint=checkpoint)


def resume(program: ow.Program, scope: ow.Scope | None = None) -> dict[str, Any] | None:
    """Set the variables of the last checkpoint, and return its `state`; None where there is none.

    Every worker calls it, after the startup program: each reads the same files, whatever the number
    of workers that wrote them.

    Parameters
    ----------
    program : Program
        Built as the saved one. It gets the saved seed.
    scope : Scope, optional
        Gets the variables; the default scope by default.

    Returns
    -------
    dict or None
        What `report` was given as `state`.

    Raises
    ------
    ProgramError
        The checkpoint is of another program.
    MissingRequirementError
        Ray is not installed.
    """
    checkpoint = load_ray("resume").train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return nn.checkpoint.resume(folder, program, scope)
