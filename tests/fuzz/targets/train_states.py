"""Resumes training from checkpoints whose states were changed but have valid checksums."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mutations import FAR, SMALL

import opwright_nn as nn
from opwright_nn.checkpoint.state import pack_state, unpack_state

_EPOCHS = 2
_PER_EPOCH = 3
_WORDS = (
    "",
    "x",
    "nan",
    "inf",
    "0x1p+5000",
    "0x1.8p+1",
    "AAAA",
    "\ud800",
    "\u202e",
    "Checkpoint.0",
)
_VALUES = (*_WORDS, *SMALL, *FAR, None, True, False, [], {}, [0], {"a": 1}, [[[]]], 0.5, -1.0)
_STRANGE = (math.nan, math.inf, -math.inf, 1e308, 10**30, 10**400, "9" * 5000)


@cache
def _folder() -> Path:
    """Return the folder of this process; its parent chooses the path and removes the folder."""
    return Path(tempfile.mkdtemp(prefix="train-states-"))


def _train(epochs: int, every_steps: int | None = None) -> nn.History:
    model = nn.Model()
    scores = model.fc_layer(input="x", size=3)
    model.minimize(model.mean(model.softmax_with_cross_entropy(scores, "y")), nn.optimizer.SGD(0.1))
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((9, 5)).astype("float32"), "y": rng.integers(0, 3, (9, 1))}
    callbacks = [
        nn.EarlyStopping("loss", patience=9, restore_best=True),
        nn.Plateau("loss", patience=1),
        nn.GradientNorms(),
        nn.Checkpoint(_folder() / "run", best="loss", every_steps=every_steps, keep=9),
    ]
    return nn.train(
        model, data, epochs, batch_size=3, callbacks=callbacks, resume="latest", progress=False
    )


@cache
def _states() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the generations of a training run and their states, some saved within an epoch."""
    _train(_EPOCHS, every_steps=2)
    (_folder() / "run").rename(_folder() / "whole")
    found = []
    for path in sorted((_folder() / "whole" / "generations").iterdir()):
        notes = json.loads((path / "generation.json").read_text())["notes"]
        found.append((path.name, unpack_state(notes)))
    return tuple(found)


def draw(rng: random.Random) -> dict[str, Any]:
    """Return a generation, and the text of its state with some fields changed."""
    generation, state = rng.choice(_states())
    state = json.loads(json.dumps(state))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _change(rng, state)
    return {"generation": generation, "state": json.dumps(state)}


def _change(rng: random.Random, value: Any) -> None:
    """Change a field at any nesting depth."""
    if not value:
        return
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    inner = value[key]
    if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
        _change(rng, inner)
        return
    kind = rng.random()
    if kind < 0.15:
        del value[key]
    elif kind < 0.25 and isinstance(value, dict):
        value[rng.choice(_WORDS)] = deepcopy(rng.choice(_VALUES))
    elif kind < 0.35 and isinstance(value, list):
        value.append(deepcopy(rng.choice((inner, *_VALUES))))
    elif kind < 0.5 and type(inner) is int:
        value[key] = inner + rng.choice((-1, 1, _PER_EPOCH, -_PER_EPOCH, 2**31, 2**53, 2**63))
    elif kind < 0.6 and isinstance(inner, str):
        value[key] = inner[: rng.randrange(len(inner) + 1)]
    else:
        value[key] = deepcopy(rng.choice((*_VALUES, *_STRANGE)))


def run(case: dict[str, Any]) -> None:
    """Resume from the state; if it is accepted, training must end like an uninterrupted run."""
    _states()
    path = _folder() / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(_folder() / "whole" / "generations", path / "generations")
    shutil.copytree(_folder() / "whole" / "best", path / "best", symlinks=True)
    for generation in (path / "generations").iterdir():
        if generation.name > case["generation"]:
            shutil.rmtree(generation)
    manifest = path / "generations" / case["generation"] / "generation.json"
    content = json.loads(manifest.read_text())
    content["notes"] |= pack_state(json.loads(case["state"]))
    manifest.write_text(json.dumps(content))
    history = _train(_EPOCHS + 1)
    steps = [record["steps"] for record in history]
    if history.stop_reason == "finished" and len(steps) != _EPOCHS + 1:
        raise RuntimeError(f"{len(steps)} rows instead of {_EPOCHS + 1}")
    if steps != [_PER_EPOCH * (number + 1) for number in range(len(steps))]:
        raise RuntimeError(f"steps {steps}")
