"""A training run that saves a checkpoint after each step, until it is killed or finished."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import opwright_torch

CHECKPOINT = "checkpoint.pt"


def train(folder: Path, last: float = float("inf")) -> list[torch.Tensor]:
    """Train, from the checkpoint in a folder if it exists; return parameters and states."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    parts: Any = model, optimizer, scheduler
    step = opwright_torch.train_step(model, functional.cross_entropy, optimizer, clip_norm=1.0)
    done, path = 0, folder / CHECKPOINT
    if path.exists():
        done, noise, states = torch.load(path)
        torch.set_rng_state(noise)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    while done < last:
        step(torch.randn(5, 6), torch.arange(5) % 4)
        scheduler.step()
        done += 1
        states = [part.state_dict() for part in parts]
        torch.save((done, torch.get_rng_state(), states), path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        print(done, flush=True)
    kept = [value for state in optimizer.state.values() for value in state.values()]
    return [*model.state_dict().values(), *kept]


if __name__ == "__main__":
    train(Path(sys.argv[1]))
