"""Loads and applies a changed lock file."""

from __future__ import annotations

import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from descriptions import change_bytes
from mutations import FAR, SMALL

import opwright as ow

_X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
_WORDS = ("", "*", "cpu", "cuda", "softmax", "no.such", "0.1.0", "--x", "a b", "\u202e", "a" * 500)


@cache
def _path() -> Path:
    """Return the file of this process; its parent chooses the path and removes the file."""
    return Path(tempfile.mkdtemp(prefix="locks-")) / "program.lock"


def _network() -> ow.Network:
    return ow.Network(
        [ow.Operator("softmax", x="x", out="h"), ow.Operator("tanh", x="h", out="out")]
    )


@cache
def _saved() -> bytes:
    """Return the lock of a small network."""
    network = _network()
    network.compile(feed=["x"], fetch=["out"])(x=_X)
    network.lock().save(_path())
    return _path().read_bytes()


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the bytes of a lock with a row, a field or some bytes changed."""
    data = _saved()
    kind = rng.random()
    if kind < 0.2:
        return {"data": change_bytes(rng, data)}
    if kind < 0.3:
        return {"data": data[: rng.randrange(len(data) + 1)]}
    content = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, content)
    return {"data": json.dumps(content).encode()}


def _change(rng: random.Random, content: dict[str, Any]) -> None:
    value = rng.choice((*_WORDS, *SMALL, *FAR, None, True, [], {}, 0.5))
    rows = content.get(rng.choice(("kernels", "passes")))
    if not isinstance(rows, list) or not rows or rng.random() < 0.2:
        content[rng.choice((*content, "other"))] = value
        return
    row = rng.choice(rows)
    kind = rng.random()
    if kind < 0.2:
        rows.remove(row)
    elif kind < 0.3:
        rows.append(rng.choice((row, value)))
    elif isinstance(row, dict):
        row[rng.choice((*row, "other"))] = value


def run(case: dict[str, Any]) -> None:
    """Load the lock, compile a network with it, and run the network."""
    _path().write_bytes(case["data"])
    lock = ow.Lock.load(_path())
    _network().compile(feed=["x"], fetch=["out"], lock=lock)(x=_X)
