"""OpwrightTrainer: a training function in the workers of a Ray cluster."""

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
    """Run a training function in workers of a Ray cluster, connected by an engine.

    If a worker ends or fails, Ray restarts all of them, and `opwright_ray.resume` reads the last
    checkpoint of `opwright_ray.report`.

    Parameters
    ----------
    train_fn : callable
        ``train_fn()``, or ``train_fn(config)`` if `config` is given. Runs on every worker; a script
        for one process, with the gradients averaged by `opwright_dist.data_parallel`.
    num_workers : int or (int, int), at least 1
        Number of workers; or minimum and maximum, between which Ray chooses by the resources of the
        cluster, at each restart.
    engine : str
        The engine that connects them: ``"mpi"``, of opwright-mpi, ``"nccl"``, of opwright-nccl, or
        another of opwright-dist's engines.
    max_failures : int, at least -1
        Maximum number of restarts; -1 for unlimited.
    config : mapping, optional
        The argument of `train_fn`.
    resources_per_worker : mapping of str to number, optional
        The resources of each worker, one CPU by default: ``{"CPU": 4, "GPU": 1}``. Kernels use as
        many threads as it has CPUs.
    placement : str
        Ray's strategy: ``"PACK"`` fills one machine after the other, ``"SPREAD"`` uses many.
    datasets : mapping of str to ray.data.Dataset, optional
        Divided among the workers; ``ray.train.get_dataset_shard(name)`` returns a worker's part.
    storage_path : str or PathLike, optional
        Ray's storage of checkpoints: a folder shared by all machines, or an address such as a
        bucket's. Without it ``~/ray_results``.
    name : str, optional
        Name of the run, a folder in `storage_path`. A run of the same name continues from the last
        checkpoint, even with another number of workers.
    keep : int, at least 1, optional
        Number of checkpoints to keep; by default all.
    deadline_s : float, optional
        Time that a collective waits for another worker; 60 s by default.

    Raises
    ------
    MissingRequirementError
        If Ray is not installed, or is not release 2.60.
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
                f"{_WHO}: train_fn must be a function, got {type(train_fn).__name__}; give the "
                "function itself, not its result"
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
        """Train; return Ray's `Result`: ``checkpoint``, its ``metrics``, rank 0's ``return_value``.

        Raises
        ------
        ray.train.TrainingFailedError
            If workers failed more often than `max_failures`; it names the errors by rank.
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
            f"{_WHO}: num_workers must be a number or the least and the most, got {num_workers!r}"
        )
    for number in pair:
        _check_int("num_workers", number, 1)
    if pair[0] > pair[1]:
        raise AttributeValueError(
            f"{_WHO}: the least number of workers must not be above the most, got "
            f"num_workers={num_workers!r}; give {pair[::-1]!r}"
        )


def _check_int(name: str, value: Any, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise AttributeTypeError(f"{_WHO}: {name} must be an int, got {value!r}")
    if value < at_least:
        raise AttributeValueError(f"{_WHO}: {name} must be at least {at_least}, got {value}")


def _check_deadline(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise AttributeValueError(
            f"{_WHO}: deadline_s must be a finite time of more than 0 seconds, got {seconds!r}"
        )
