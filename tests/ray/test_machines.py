"""Workers on two machines of a cluster, which do not share memory, can connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opwright_ray import OpwrightTrainer

pytestmark = pytest.mark.filterwarnings("default")  # Ray emits its own warnings


@pytest.fixture
def two_machines(ray: Any, folder: Path) -> Iterator[Any]:
    """Provide a cluster of two nodes with one CPU each, both on this machine."""
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(
        initialize_head=True, head_node_args={**options, "temp_dir": str(folder / "two")}
    )
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, logging_level="error")
    yield ray
    ray.shutdown()
    cluster.shutdown()


def test_workers_on_two_machines_connect(two_machines, train, tmp_path: Path) -> None:
    options: Any = {"num_workers": 2, "placement": "SPREAD", "config": {"epochs": 2}}
    result = OpwrightTrainer(train, storage_path=tmp_path, **options).fit()
    assert result.metrics["size"] == 2


def test_machines_are_numbered_by_first_occurrence(ray: Any) -> None:
    from opwright_ray.backend import number_nodes

    assert number_nodes(["b", "b", "a", "b"]) == [0, 0, 1, 0]
