"""Functions for training workers: report and resume checkpoints."""

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

    Every worker calls it; rank 0 writes the checkpoint, and its metrics are kept. Ray accepts it
    once all have called, and copies it to its storage: if a worker ends in between, the previous
    checkpoint remains.

    Parameters
    ----------
    metrics : mapping of str to number
        Metrics of the last checkpoint become `Result.metrics`; others are only in Ray's logs.
    program : Program, optional
        The training step, whose persistable variables are saved, as by `nn.checkpoint.save`.
    scope : Scope, optional
        Contains them; the default scope by default.
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
        # Called by all: the first worker writes, other workers wait.
        nn.checkpoint.save(folder, program, scope, state=state, keep=1)
        is_first = dist.rank() == 0
        checkpoint = train.Checkpoint.from_directory(folder) if is_first else None
        train.report(dict(metrics), checkpoint=checkpoint)


def resume(program: ow.Program, scope: ow.Scope | None = None) -> dict[str, Any] | None:
    """Restore the variables of the last checkpoint, and return its `state`; None without one.

    Every worker calls it, after the startup program: each reads the same files, for any number of
    workers that wrote them.

    Parameters
    ----------
    program : Program
        Built as the saved one. Its seed is restored.
    scope : Scope, optional
        Receives the variables; the default scope by default.

    Returns
    -------
    dict or None
        The `state` passed to `report`.

    Raises
    ------
    ProgramError
        If the checkpoint belongs to another program.
    MissingRequirementError
        If Ray is not installed.
    """
    checkpoint = load_ray("resume").train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return nn.checkpoint.resume(folder, program, scope)
