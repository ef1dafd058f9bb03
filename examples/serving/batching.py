"""Computes the rows of concurrent requests in batches, with limits on waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from model import RequestError, Version

Array = npt.NDArray[Any]


class Limits(NamedTuple):
    """The limits of the server.

    Attributes
    ----------
    max_batch : int
        The maximum number of rows per call of the model. A request with more rows is refused.
    max_wait_s : float
        The maximum seconds that a request waits for other requests to share its call.
    max_queue : int
        The maximum number of waiting requests; further requests are refused immediately.
    timeout_s : float
        The seconds after which a request is dropped.
    max_body_bytes : int
        The maximum size of a request body.
    """

    max_batch: int = 64
    max_wait_s: float = 0.002
    max_queue: int = 1024
    timeout_s: float = 10.0
    max_body_bytes: int = 1 << 20


class _Job(NamedTuple):
    """A request: its arrays, the version that checked them, and the future of its results."""

    arrays: dict[str, Array]
    version: Version
    answer: asyncio.Future[list[Array]]

    @property
    def rows(self) -> int:
        return len(next(iter(self.arrays.values()))) if self.version.is_batched else 1

    @property
    def signature(self) -> tuple[Any, ...]:
        """A key; jobs with the same key can be computed in one call."""
        if not self.version.is_batched:
            return (id(self),)
        shapes = [(name, array.shape[1:]) for name, array in self.arrays.items()]
        return (self.version.number, *sorted(shapes))


class Batcher:
    """Computes jobs in batches, one batch at a time, in a thread separate from the event loop.

    While a batch is computed, the next batch is collected. Call `start` and `close` in the event
    loop.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.batches = 0
        self._queue: asyncio.Queue[_Job] = asyncio.Queue(limits.max_queue)
        self._thread = ThreadPoolExecutor(1, "model")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start processing jobs."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Finish waiting requests, then stop."""
        await self._queue.join()
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown()

    async def compute(self, arrays: dict[str, Array], version: Version) -> list[Array]:
        """Return the results for the arrays of one request.

        Raises
        ------
        RequestError
            If too many requests are already waiting, or the results are late; the request is then
            dropped.
        """
        job = _Job(arrays, version, asyncio.get_running_loop().create_future())
        try:
            self._queue.put_nowait(job)
        except asyncio.QueueFull:
            reason = f"{self.limits.max_queue} requests are already waiting"
            raise RequestError(503, reason) from None
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await job.answer
        except TimeoutError:
            raise RequestError(504, f"no result within {self.limits.timeout_s:g} s") from None

    async def _run(self) -> None:
        first: _Job | None = None
        while True:
            first = first or await self._queue.get()
            batch, first = await self._gather(first)
            await self._compute(batch)
            for _ in batch:
                self._queue.task_done()

    async def _gather(self, first: _Job) -> tuple[list[_Job], _Job | None]:
        """Return the jobs of the next call, and the first job of the call after it."""
        batch, rows = [first], first.rows
        deadline = asyncio.get_running_loop().time() + self.limits.max_wait_s
        while rows < self.limits.max_batch:
            try:
                if self._queue.empty():
                    async with asyncio.timeout_at(deadline):
                        job = await self._queue.get()
                else:
                    job = self._queue.get_nowait()
            except TimeoutError:
                break
            is_alike = job.signature == first.signature
            if not is_alike or rows + job.rows > self.limits.max_batch:
                return batch, job
            batch.append(job)
            rows += job.rows
        return batch, None

    async def _compute(self, batch: list[_Job]) -> None:
        waiting = [job for job in batch if not job.answer.done()]  # others timed out or ended
        if not waiting:
            return
        loop = asyncio.get_running_loop()
        self.batches += 1
        try:
            results = await loop.run_in_executor(self._thread, _compute_together, waiting)
        except Exception as error:  # noqa: BLE001 - becomes the response of these requests
            if len(waiting) > 1:  # retried separately, since one request can be at fault
                for job in waiting:
                    await self._compute([job])
            elif not waiting[0].answer.done():
                waiting[0].answer.set_exception(error)
            return
        for job, result in zip(waiting, results, strict=True):
            if not job.answer.done():
                job.answer.set_result(result)


def _compute_together(jobs: list[_Job]) -> list[list[Array]]:
    """Return the results of each job, computed in one call of the model."""
    version = jobs[0].version
    if len(jobs) == 1:
        return [version.compute(jobs[0].arrays)]
    whole = {name: np.concatenate([job.arrays[name] for job in jobs]) for name in jobs[0].arrays}
    ends = np.cumsum([job.rows for job in jobs])[:-1]
    parts = [np.split(result, ends) for result in version.compute(whole)]
    return [list(part) for part in zip(*parts, strict=True)]
