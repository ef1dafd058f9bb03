"""The Ray Train backend that connects workers with an engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from opwright_dist import Rendezvous, get_engine, rank


@dataclass
class EngineConfig(BackendConfig):  # type: ignore[misc]
    """The engine configuration.

    Attributes
    ----------
    engine : str
    deadline_s : float or None
        The maximum seconds that a collective waits for another worker.
    """

    engine: str = "mpi"
    deadline_s: float | None = None

    @property
    def backend_cls(self) -> type[EngineBackend]:
        """Return the backend class."""
        return EngineBackend

    def to_dict(self) -> dict[str, Any]:
        """Return the description for Ray."""
        return {"engine": self.engine, "deadline_s": self.deadline_s}


class EngineBackend(Backend):  # type: ignore[misc]
    """Opens a rendezvous for each group of workers, in the controller process."""

    def __init__(self) -> None:
        self._rendezvous: Rendezvous | None = None

    def on_start(self, worker_group: Any, backend_config: EngineConfig) -> None:
        """Connect newly started workers."""
        self._close()
        workers = worker_group.get_workers()
        engine = get_engine(backend_config.engine, "OpwrightTrainer: engine")
        nodes = number_nodes([worker.metadata.node_id for worker in workers])
        self._rendezvous = engine.open_rendezvous(nodes, ray.util.get_node_ip_address())
        started = []
        for number, worker in enumerate(workers):
            variables = {
                **self._rendezvous.environment(number),
                "OPWRIGHT_DIST_ENGINE": backend_config.engine,
            }
            if backend_config.deadline_s is not None:
                variables["OPWRIGHT_DIST_DEADLINE"] = str(backend_config.deadline_s)
            n_threads = max(1, int(worker.resources.get("CPU", 1)))
            started.append(worker_group.execute_single_async(number, connect, variables, n_threads))
        ray.get(started)

    def on_shutdown(self, worker_group: Any, backend_config: EngineConfig) -> None:
        """Close the rendezvous, since Ray terminates the workers."""
        self._close()

    def _close(self) -> None:
        if self._rendezvous is not None:
            self._rendezvous.close()
            self._rendezvous = None


def number_nodes(identities: list[str]) -> list[int]:
    """Return the machine index of each worker; machines are numbered in order of occurrence."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(identity, len(numbers)) for identity in identities]


def connect(variables: Mapping[str, str], n_threads: int) -> None:
    """Connect this worker to the other workers; called on every worker."""
    os.environ.update(variables)
    os.environ.setdefault("OPWRIGHT_NUM_THREADS", str(n_threads))
    rank()
