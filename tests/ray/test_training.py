"""Training on cluster workers survives failures, restarts and a changed number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opwright_ray import OpwrightTrainer

pytestmark = pytest.mark.filterwarnings("default")  # Ray emits its own warnings


@pytest.fixture(scope="module")
def fit(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that trains, by default in a new storage folder."""

    def run(train: Any, storage: Path | None = None, **options: Any) -> Any:
        where = storage or tmp_path_factory.mktemp("storage")
        return OpwrightTrainer(train, storage_path=where, name="run", **options).fit()

    return run


def test_a_killed_worker_is_restarted_and_the_result_is_bitwise_identical(fit, train) -> None:
    whole = fit(train, num_workers=2, config={"epochs": 8})
    config = {"epochs": 8, "fault": "os.kill(os.getpid(), 9)"}
    parts = fit(train, num_workers=2, max_failures=1, keep=2, config=config)
    assert whole.metrics["first"] == 0 < parts.metrics["first"]
    assert parts.metrics["bits"] == whole.metrics["bits"]


def test_a_run_with_the_same_name_continues_with_a_different_number_of_workers(
    fit, train, tmp_path: Path
) -> None:
    whole = fit(train, num_workers=1, config={"epochs": 8})
    fit(train, tmp_path, num_workers=2, config={"epochs": 5})
    parts = fit(train, tmp_path, num_workers=1, config={"epochs": 8})
    assert (parts.metrics["first"], parts.metrics["size"]) == (5, 1)
    np.testing.assert_allclose(parts.metrics["sum"], whole.metrics["sum"], rtol=1e-4)


def test_fit_raises_a_worker_exception_with_the_rank_of_the_worker(cluster, fit, train) -> None:
    config = {"epochs": 8, "fault": "raise ValueError('a fault of the user')"}
    with pytest.raises(cluster.train.TrainingFailedError) as caught:
        fit(train, num_workers=2, config=config)
    errors = caught.value.worker_failures
    assert "a fault of the user" in str(errors[1])


def test_the_error_names_an_absent_worker_after_the_deadline(cluster, fit, train) -> None:
    config = {"epochs": 8, "fault": "import time; time.sleep(1000)"}
    with pytest.raises(cluster.train.TrainingFailedError) as caught:
        fit(train, num_workers=2, config=config, deadline_s=1)
    assert "group 'world': rank 1 did not arrive within 1 s" in str(caught.value.worker_failures[0])


def test_ray_datasets_are_divided_among_the_workers(cluster, fit) -> None:
    data = {"train": pytest.importorskip("ray.data").range(32)}

    def count() -> list[str]:
        import ray.train

        import opwright_dist as dist

        part = ray.train.get_dataset_shard("train")
        rows = [row for b in part.iter_batches(batch_size=8) for row in b["id"].tolist()]
        return [each.decode() for each in dist.gather(f"{len(rows)} {sum(rows)}".encode())]

    answers = [each.split() for each in fit(count, num_workers=2, datasets=data).return_value]
    assert [int(n) for n, _ in answers] == [16, 16]
    assert sum(int(total) for _, total in answers) == sum(range(32))
