"""`OpwrightTrainer`, which runs a training function in the workers of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_dist import get_engine
from opwright_ray.requirement import load_ray

_WHO = "OpwrightTrainer"
Workers = int | tuple[int, int]


class OpwrightTrainer:
    """Runs a training function in the workers of a Ray cluster; an engine connects the workers.

    If a worker exits or fails, Ray restarts all workers, and `opwright_ray.resume` reads the last
    checkpoint written by `opwright_ray.report`.

    Parameters
    ----------
    train_fn : callable
        Called on every worker as ``train_fn()``, or as ``train_fn(config)`` if `config` is given.
        It is like a script for one process, with gradients averaged by
        `opwright_dist.data_parallel`.
    num_workers : int or (int, int), at least 1
        The number of workers, or the minimum and maximum between which Ray chooses at each start,
        depending on the resources of the cluster.
    engine : str
        The engine that connects the workers: ``"mpi"`` (opwright-mpi), ``"nccl"`` (opwright-nccl),
        or another engine for opwright-dist.
    max_failures : int, at least -1
        The maximum number of restarts; -1 for unlimited.
    config : mapping, optional
        The argument of `train_fn`.
    resources_per_worker : mapping of str to number, optional
        The resources of each worker, such as ``{"CPU": 4, "GPU": 1}``; by default one CPU. Kernels
        use as many threads as the worker has CPUs.
    placement : str
        Ray's strategy: ``"PACK"`` fills one machine after the other, ``"SPREAD"`` uses many
        machines.
    datasets : mapping of str to ray.data.Dataset, optional
        Data sets to split among the workers; ``ray.train.get_dataset_shard(name)`` returns the part
        of a worker.
    storage_path : str or PathLike, optional
        Ray's storage for checkpoints: a folder shared by all machines, or an address, for example
        of a bucket. By default ``~/ray_results``.
    name : str, optional
        The name of the run and of its folder in `storage_path`. A run with the same name continues
        from the last checkpoint, even with a different number of workers.
    keep : int, at least 1, optional
        The number of checkpoints to keep; by default, all are kept.
    deadline_s : float, optional
        The maximum seconds that a collective waits for another worker; by default 60.

    Raises
    ------
    MissingRequirementError
        If Ray is not installed or does not have release 2.60.
    DistError
        If no installed package provides the engine.
    AttributeTypeError, AttributeValueError
        If an argument is invalid.

    See Also
    --------
    opwright_ray.report, opwright_ray.resume
    """

    def __init__(
        self,
        train_fn: Callable[..., Any],
        *,
        num_workers: Workers,
        engine: str = "mpi",
        max_failures: int = 0,
        config: Mapping[str, Any] | None = None,
        resources_per_worker: Mapping[str, float] | None = None,
        placement: str = "PACK",
        datasets: Mapping[str, Any] | None = None,
        storage_path: str | os.PathLike[str] | None = None,
        name: str | None = None,
        keep: int | None = None,
        deadline_s: float | None = None,
    ) -> None:
        if not callable(train_fn):
            raise AttributeTypeError(
                f"{_WHO}: train_fn must be a function, got {type(train_fn).__name__}; pass "
                "the function itself, not its result"
            )
        _check_workers(num_workers)
        _check_int("max_failures", max_failures, -1)
        if keep is not None:
            _check_int("keep", keep, 1)
        _check_deadline(deadline_s)
        get_engine(engine, f"{_WHO}: engine")
        train = load_ray(_WHO).train
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        from opwright_ray.backend import EngineConfig

        self._trainer = DataParallelTrainer(
            train_fn,
            train_loop_config=None if config is None else dict(config),
            backend_config=EngineConfig(engine, deadline_s),
            scaling_config=_make_scaling(train, num_workers, resources_per_worker, placement),
            run_config=train.RunConfig(
                name=name,
                storage_path=None if storage_path is None else os.fspath(storage_path),
                failure_config=train.FailureConfig(max_failures=max_failures),
                checkpoint_config=train.CheckpointConfig(num_to_keep=keep),
            ),
            datasets=None if datasets is None else dict(datasets),
        )

    def fit(self) -> Any:
        """Train and return Ray's `Result`.

        The result has the last ``checkpoint``, the ``metrics`` of this checkpoint, and the
        ``return_value`` of rank 0.

        Raises
        ------
        ray.train.TrainingFailedError
            If workers failed more than `max_failures` times; the message lists the errors by rank.
        """
        return self._trainer.fit()


def _make_scaling(
    train: Any,
    num_workers: Workers,
    resources_per_worker: Mapping[str, float] | None,
    placement: str,
) -> Any:
    """Return Ray's `ScalingConfig`."""
    resources = None if resources_per_worker is None else dict(resources_per_worker)
    return train.ScalingConfig(
        num_workers=num_workers,
        use_gpu=bool(resources and resources.get("GPU")),
        resources_per_worker=resources,
        placement_strategy=placement,
    )


def _check_workers(num_workers: Any) -> None:
    pair = num_workers if isinstance(num_workers, tuple) else (num_workers, num_workers)
    if len(pair) != 2:
        raise AttributeValueError(
            f"{_WHO}: num_workers must be a number, or a minimum and a maximum, got {num_workers!r}"
        )
    for number in pair:
        _check_int("num_workers", number, 1)
    if pair[0] > pair[1]:
        raise AttributeValueError(
            f"{_WHO}: the minimum number of workers must not be above the maximum, got "
            f"num_workers={num_workers!r}; pass {pair[::-1]!r}"
        )


def _check_int(name: str, value: Any, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise AttributeTypeError(f"{_WHO}: {name} must be an int, got {value!r}")
    if value < at_least:
        raise AttributeValueError(f"{_WHO}: {name} must be at least {at_least}, got {value}")


def _check_deadline(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise AttributeValueError(
            f"{_WHO}: deadline_s must be a finite number of seconds above 0, got {seconds!r}"
        )
