"""A power loss at any moment of a save leaves one complete generation."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

import pytest

from opwright import load, save

DRAWS = int(os.environ.get("OPWRIGHT_POWER_DRAWS", "2"))
"""The number of random subsets of lost changes per moment, in addition to all and none."""

EXTREMES = [(0.0, "lost"), (1.0, "lost"), (1.0, "cut"), (1.0, "zeros")]
NUMBERED = re.compile(r"model/generations/\d+")


def copied_pair(folder, model):
    model.save_pair(folder, model.build(), model.filled(1))


def generations(folder, model):
    save(folder, model.build(), model.filled(0))
    save(folder, model.build(), model.filled(1))


@pytest.mark.grid(4)
@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("width", [5, 3], ids=["other_program", "same_program"])
@pytest.mark.parametrize("prepare", [copied_pair, generations])
def test_a_power_loss_leaves_one_complete_generation(tmp_path, model, disks, prepare, width, keep):
    folder = tmp_path / "model"
    folder.mkdir()
    prepare(folder, model)
    disk = disks.Disk(tmp_path)
    with disks.recording(tmp_path) as operations:
        save(folder, model.build(width), model.filled(2, width), keep=keep)
    assert len(operations) > 20
    draws = random.Random(5)
    saved_at = max(i for i, op in enumerate(operations) if NUMBERED.fullmatch(op.target))
    safe_at = operations.index(("fsync", "model/generations", "", b""), saved_at)
    for number in range(len(operations) + 1):
        drawn = [(draws.random(), draws.choice(["lost", "whole", "cut"])) for _ in range(DRAWS)]
        for share, tear in EXTREMES + drawn:
            left = tmp_path / "left"
            left.mkdir()
            disk.write_after_loss(left, draws, share, tear)
            value = model.load_value(left / "model")
            # A generation is durable after the fsync that follows its rename.
            assert value == (width, 2) or (value == (3, 1) and number <= safe_at), number
            shutil.rmtree(left)
        if number < len(operations):
            disk.apply(operations[number])


def test_the_simulator_detects_a_missing_fsync(tmp_path, model, disks):
    """If the fsync operations of files are removed, the replay detects data loss."""
    folder = tmp_path / "model"
    generations(folder, model)
    disk = disks.Disk(tmp_path)
    with disks.recording(tmp_path) as operations:
        save(folder, model.build(), model.filled(2))
    for operation in operations:
        if operation.kind != "fsync" or "." not in Path(operation.path).name.removeprefix("."):
            disk.apply(operation)
    left = tmp_path / "left"
    left.mkdir()
    disk.write_after_loss(left, random.Random(0), 1.0, "lost")
    with pytest.raises(ValueError, match=r"generation\.json"):
        load(left / "model", model.ArrayScope())
