"""The example server forms batches, enforces limits, and does not lose requests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn

FOLDER = Path(__file__).resolve().parents[2] / "examples/serving"

pytestmark = pytest.mark.skipif(
    find_spec("starlette") is None or find_spec("uvicorn") is None or find_spec("httpx") is None,
    reason="starlette, uvicorn or httpx is not installed; make test-examples installs them",
)

X = np.random.default_rng(0).random((5, 8), np.float32)


@pytest.fixture
def modules(monkeypatch):
    """Make the modules of the example importable."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("app", "batching", "model", "serve", "load_test"):
        sys.modules.pop(name, None)


def export(folder, seed=1):
    model = nn.Model()
    scores = model.fc_layer("x", 3, name="scores")
    model.initialize_parameters(seed=seed, x=X)
    model.export(folder, scores)
    return ow.load(folder)


def ask(path, questions, **limits):
    """Post several bodies at the same time; return the responses and the service."""
    from app import Service
    from batching import Limits

    service = Service(str(path), Limits(**limits))
    return asyncio.run(_ask(service, questions)), service


async def _ask(service, questions):
    from httpx import ASGITransport, AsyncClient

    app = service.app()
    transport = ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        return await asyncio.gather(
            *(client.post("/predict", content=body) for body in questions), return_exceptions=True
        )


def body(x):
    return json.dumps({"x": np.asarray(x).tolist()}).encode()


def test_requests_that_arrive_together_share_a_call(modules, tmp_path):
    loaded = export(tmp_path)
    answers, service = ask(
        tmp_path, [body(X[: i + 1]) for i in range(5)], max_wait_s=5.0, max_batch=15
    )
    for i, answer in enumerate(answers):
        got, expected = answer.json()["results"]["scores_out"], loaded(X[: i + 1])[0]
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert service.batcher.batches == 1


def test_a_call_has_a_limited_number_of_rows(modules, tmp_path):
    export(tmp_path)
    answers, service = ask(tmp_path, [body(X[:2])] * 5, max_batch=4, max_wait_s=0.5)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert service.batcher.batches == 3


def test_requests_to_a_bundle_are_limited_to_its_batch_sizes(modules, tmp_path):
    loaded = export(tmp_path / "folder")
    loaded.bundle(tmp_path / "model.owb", batch=(1, 4))
    answers, _ = ask(tmp_path / "model.owb", [body(X[:2])] * 4 + [body(X)])
    assert [answer.status_code for answer in answers] == [200] * 4 + [422]
    assert "at most 4 rows, got 5" in answers[-1].json()["error"]


@pytest.mark.parametrize(
    ("question", "status", "reason"),
    [
        (b"{", 400, "the body must be JSON"),
        (b"[" * 100_000, 400, "the body must be JSON"),
        (b'{"x": ' + b"9" * 5000 + b"}", 400, "the body must be JSON"),
        (b"3", 422, "the fields ['x'], got int"),
        (b'{"y": [[1]]}', 422, "the fields ['x'], got ['y']"),
        (b'{"x": [[1, 2]]}', 422, "x: must have the shape ['n', 8], got [1, 2]"),
        (b'{"x": [[1, 2], [3]]}', 422, "x: must be an array of float32"),
        (b'{"x": [["a"]]}', 422, "x: must be an array of float32"),
        (b'{"x": []}', 422, "x: must have the shape"),
        (b'{"x": [[1e39, 1, 1, 1, 1, 1, 1, 1]]}', 500, "must be finite"),
        (b" " * 2000, 413, "at most 1000 bytes"),
    ],
)
def test_the_response_to_an_invalid_request_gives_the_reason(
    modules, tmp_path, question, status, reason
):
    export(tmp_path)
    limit = 1000 if status == 413 else 1 << 20
    with np.errstate(over="ignore"):
        (answer, other), _ = ask(tmp_path, [question, body(X)], max_body_bytes=limit)
    assert (answer.status_code, other.status_code) == (status, 200)
    assert reason in answer.json()["error"]


def test_requests_beyond_the_queue_limit_are_refused_immediately(modules, tmp_path):
    export(tmp_path)
    answers, service = ask(tmp_path, [body(X)] * 20, max_queue=4, max_batch=5)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 503}
    assert all(a.headers["retry-after"] == "1" for a in answers if a.status_code == 503)
    assert service.counts == {200: statuses.count(200), 503: statuses.count(503)}


def test_a_request_times_out_without_a_result(modules, tmp_path):
    export(tmp_path)
    (answer,), _ = ask(tmp_path, [body(X)], timeout_s=0.01, max_wait_s=0.2, max_batch=64)
    assert (answer.status_code, answer.json()["error"]) == (504, "no result within 0.01 s")


def test_a_server_keeps_its_model_if_reloading_fails(modules, tmp_path):
    from app import Service

    export(tmp_path / "model")
    service = Service(str(tmp_path / "model"))
    asyncio.run(service.reload())
    assert service.number == 2
    for path in (tmp_path / "model").rglob("program.pb"):
        path.write_bytes(b"damaged")
    asyncio.run(service.reload())
    assert service.number == 2
    (answer,) = asyncio.run(_ask(service, [body(X)]))
    assert answer.status_code == 200


def test_a_server_without_a_model_exits_with_the_reason(modules, monkeypatch, tmp_path):
    from serve import main

    monkeypatch.setattr(sys, "argv", ["serve.py", str(tmp_path / "missing")])
    with pytest.raises(SystemExit, match="serve: the model cannot be loaded: .* no such folder"):
        main()


def test_responses_close_their_connections_during_shutdown(modules, tmp_path):
    from app import Service

    export(tmp_path)
    service = Service(str(tmp_path))
    service.is_draining = True
    (answer,) = asyncio.run(_ask(service, [body(X)]))
    assert answer.headers["connection"] == "close"


def test_no_request_is_lost_on_reload_or_shutdown():
    words = [sys.executable, str(FOLDER / "load_test.py"), "--requests", "1500", "--reloads", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1500 requests" in done.stdout
    assert "versions 1 to 3" in done.stdout
    assert done.stdout.rstrip().endswith("lost 0")
