"""Draw a process timeline of a data-parallel step, and write it as a Chrome trace.

    opwright-mpi run -n 2 examples/draw_a_timeline.py --folder /tmp/timeline

Open the trace in chrome://tracing or Perfetto.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import opwright as ow
import opwright_dist as dist
import opwright_kit as kit
import opwright_nn as nn
import opwright_simulation as simulation

ROWS = 64


def build() -> tuple[ow.Program, ow.Program, ow.Variable]:
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        image = nn.layers.data("image", [None, 1, 28, 28])
        label = nn.layers.data("label", [None, 1], "int64")
        hidden = nn.layers.max_pool2d(nn.layers.conv2d(image, 16, 5, activation="relu"), 2)
        hidden = nn.layers.max_pool2d(nn.layers.conv2d(hidden, 32, 5, activation="relu"), 2)
        hidden = nn.layers.fc(nn.layers.flatten(hidden), 1024, activation="relu")
        scores = nn.layers.fc(hidden, 10)
        loss = nn.layers.mean(nn.layers.softmax_with_cross_entropy(scores, label))
        nn.optimizer.Momentum(0.01).minimize(loss, data_parallel="world")
    return main, startup, loss


def measure() -> dict[str, Any]:
    """Return the timelines of one step on all processes."""
    main, startup, loss = build()
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(
        feed=["image", "label"], fetch=[loss], scope=scope
    )
    rng = np.random.default_rng(dist.rank())
    image = rng.random((ROWS, 1, 28, 28), np.float32)
    label = rng.integers(0, 10, (ROWS, 1))
    return simulation.collect_timelines(kit.profile(step, {"image": image, "label": label}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(), help="of the two files")
    folder = parser.parse_args().folder
    timelines = measure()
    if dist.rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        simulation.write_trace(folder / "timeline.json", timelines)
        simulation.draw_timelines(timelines, folder / "timeline.svg")
        print(f"timelines of {len(timelines)} processes are in {folder / 'timeline.json'}")


if __name__ == "__main__":
    main()
