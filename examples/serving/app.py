"""The ASGI application, with predictions, health checks, and draining before the process exits."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator

import numpy as np
from batching import Batcher, Limits
from model import Model, RequestError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opwright.errors import FeedError

log = logging.getLogger("serving")


class Service:
    """The state that the routes share.

    Attributes
    ----------
    model : Model
    batcher : Batcher
    is_draining : bool
        Set when the process will exit. `/ready` then reports it, and every response closes its
        connection.
    counts : Counter
        The number of responses by status.
    """

    def __init__(self, path: str, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.model = Model(path)
        self.batcher = Batcher(self._fit_limits())
        self.is_draining = False
        self.counts: Counter[int] = Counter()

    def _fit_limits(self) -> Limits:
        """Fit the limits to a bundle, which has plans for a range of batch sizes."""
        least, most = getattr(self.model.version.loaded, "batch", None) or (1, None)
        if least > 1:
            raise ValueError(f"the bundle must support batches of 1, got a minimum of {least}")
        if most is None:
            return self.limits
        return self.limits._replace(max_batch=min(self.limits.max_batch, most))

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/predict", self.predict, methods=["POST"]),
            Route("/model", self.describe),
            Route("/live", self.live),
            Route("/ready", self.ready),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.batcher.start()
        yield
        await self.batcher.close()

    async def reload(self) -> None:
        """Replace the model; if that fails, log the error and keep serving the current model."""
        try:
            version = await run_in_threadpool(self.model.reload)
        except Exception:
            log.exception("the model cannot be reloaded; version %d stays in use", self.number)
        else:
            log.info("version %d is now in use", version.number)

    @property
    def number(self) -> int:
        """The version of the model in use."""
        return self.model.version.number

    async def predict(self, request: Request) -> Response:
        """Compute the rows of a request: ``{"x": [[...], ...]}``."""
        status, content = 200, {}
        try:
            content = await self._compute(request)
        except RequestError as error:
            status, content = error.status, {"error": str(error)}
        except ClientDisconnect:
            status = 499  # the client has disconnected
        except Exception:
            log.exception("a prediction failed")
            status, content = 500, {"error": "the prediction failed; see the log of the server"}
        self.counts[status] += 1
        headers = {"retry-after": "1"} if status == 503 else {}
        if self.is_draining:
            headers["connection"] = "close"
        return JSONResponse(content, status, headers)

    async def _compute(self, request: Request) -> dict[str, object]:
        version = self.model.version
        arrays = version.read(_parse(await _read_body(request, self.limits.max_body_bytes)))
        rows, most = len(next(iter(arrays.values()))), self.batcher.limits.max_batch
        if version.is_batched and rows > most:
            raise RequestError(422, f"a request must have at most {most} rows, got {rows}")
        try:
            results = await self.batcher.compute(arrays, version)
        except FeedError as error:
            raise RequestError(422, str(error)) from error
        if not all(np.isfinite(array).all() for array in results):
            raise RequestError(500, "the results must be finite, got NaN or infinity")
        names = [spec.name for spec in version.loaded.fetches]
        values = {name: array.tolist() for name, array in zip(names, results, strict=True)}
        return {"version": version.number, "results": values}

    async def describe(self, _: Request) -> Response:
        """Return the inputs and outputs of the model, and the counts of responses so far."""
        version = self.model.version
        content = {
            "path": self.model.path,
            "version": version.number,
            "feeds": [str(spec) for spec in version.loaded.feeds],
            "results": [str(spec) for spec in version.loaded.fetches],
            "answers": {str(status): n for status, n in sorted(self.counts.items())},
            "batches": self.batcher.batches,
        }
        return JSONResponse(content)

    async def live(self, _: Request) -> Response:
        """Return whether the process accepts requests."""
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        """Return whether a load balancer should send requests."""
        return JSONResponse({"ready": not self.is_draining}, 503 if self.is_draining else 200)


async def _read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; stop reading as soon as it is too long."""
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > most:
            raise RequestError(413, f"a body must have at most {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body must be JSON: {error}") from error
