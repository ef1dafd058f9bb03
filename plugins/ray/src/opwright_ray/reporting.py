"""Functions with which workers report metrics and resume from checkpoints."""

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
    """Report metrics to Ray, with a checkpoint if a program is given.

    Every worker must call this function. Rank 0 writes the checkpoint, and Ray keeps the metrics of
    rank 0. Ray accepts a checkpoint once all workers have called this function, and copies it to
    its storage. If a worker exits before that, the previous checkpoint remains.

    Parameters
    ----------
    metrics : mapping of str to number
        The metrics of the last checkpoint become `Result.metrics`; other metrics appear only in
        Ray's logs.
    program : Program, optional
        The training step; its persistable variables are saved as by `nn.checkpoint.save`.
    scope : Scope, optional
        The scope of the variables; by default the default scope.
    state : mapping, optional
        Additional JSON data: ``{"epoch": epoch}``.

    Raises
    ------
    MissingRequirementError
        If Ray is not installed.
    """
    train = load_ray("report").train
    if program is None:
        train.report(dict(metrics))
        return
    with tempfile.TemporaryDirectory(prefix="opwright-ray-") as folder:
        # All workers call this function: the first worker writes, and the other workers wait.
        nn.checkpoint.save(folder, program, scope, state=state, keep=1)
        is_first = dist.rank() == 0
        checkpoint = train.Checkpoint.from_directory(folder) if is_first else None
        train.report(dict(metrics), checkpoint=checkpoint)


def resume(program: ow.Program, scope: ow.Scope | None = None) -> dict[str, Any] | None:
    """Restore the variables of the last checkpoint and return its `state`, or None without one.

    Every worker must call this function after the startup program. All workers read the same files.
    The number of workers can differ from the run that wrote the files.

    Parameters
    ----------
    program : Program
        A program built like the saved program. Its seed is restored.
    scope : Scope, optional
        The scope that receives the variables; by default the default scope.

    Returns
    -------
    dict or None
        The `state` passed to `report`.

    Raises
    ------
    ProgramError
        If the checkpoint belongs to a different program.
    MissingRequirementError
        If Ray is not installed.
    """
    checkpoint = load_ray("resume").train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return nn.checkpoint.resume(folder, program, scope)
