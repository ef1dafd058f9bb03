"""Measures partitioned layers: step time and memory per process, by number of processes.

Times are processor times of one process, which other work disturbs less than elapsed times.

One process has the complete layers; two and four processes partition them, each with one thread and
its part of the same batch. Rounds alternate; the fastest step is reported.

    python benchmarks/divided_layers.py
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

ROUNDS = 2
RANKS = (1, 2, 4)
STEPS = 20
ROWS, COLUMNS, IDS = 1_000_000, 64, 4096
WIDTH, HIDDEN, BATCH = 1024, 4096, 256


def table() -> tuple[list[ow.Variable], ow.Variable]:
    """Append a table with a million rows, and thousands of lookups per step for the whole batch."""
    ids = nn.layers.data("ids", [None], "int64")
    embedding = nn.layers.embedding if dist.size() == 1 else dist.layers.embedding
    vectors = embedding(ids, [ROWS, COLUMNS], sparse=True, name="e")
    loss = nn.layers.mean(nn.layers.fc(vectors, 1))
    parallel = "world" if dist.size() > 1 else None
    nn.optimizer.Adam(0.001).minimize(loss, data_parallel=parallel)
    return [ids], loss


def products() -> tuple[list[ow.Variable], ow.Variable]:
    """Append two layers, one split by columns and one by rows; all processes share a batch."""
    x = nn.layers.data("x", [None, WIDTH])
    if dist.size() == 1:
        out = nn.layers.fc(nn.layers.fc(x, HIDDEN, activation="relu"), WIDTH)
    else:
        hidden = dist.layers.fc(x, HIDDEN, split="columns", activation="relu")
        out = dist.layers.fc(hidden, WIDTH, split="rows", x_is_split=True)
    loss = nn.layers.mean(out * out)
    nn.optimizer.Adam(0.001).minimize(loss)
    return [x], loss


def draw(kind: str) -> dict[str, np.ndarray]:
    """Return the batch of this process, with ids distributed like word frequencies."""
    rng = np.random.default_rng(0)
    if kind == "products":
        return {"x": rng.normal(size=(BATCH, WIDTH)).astype(np.float32)}
    ids = np.minimum(rng.zipf(1.2, IDS), ROWS) - 1
    return {"ids": ids.reshape(dist.size(), -1)[dist.rank()]}


def measure(kind: str) -> dict[str, float]:
    """Return the median step time, and the resident and peak memory of the process."""
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        feeds, loss = {"table": table, "products": products}[kind]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(feed=feeds, fetch=[loss], scope=scope)
    data = draw(kind)
    times, own_times = [], []
    for _ in range(STEPS):
        begin, own_begin = time.perf_counter(), time.process_time()
        step(**data)
        times.append(time.perf_counter() - begin)
        own_times.append(time.process_time() - own_begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    values = (scope.find_var(v.name) for v in main.global_block().vars.values() if v.persistable)
    kept = sum(value.numpy().nbytes for value in values if value is not None and value.is_set)
    return {
        "step_ms": min(times) * 1e3,
        "cpu_ms": min(own_times) * 1e3,
        "kept_mb": kept / 2**20,
        "peak_mb": peak / 2**10,
    }


def run(kind: str, ranks: int) -> dict[str, float]:
    """Run some processes; return the times of the first process."""
    code = "import sys; from opwright_mpi.launcher import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "run", "-n", str(ranks), str(Path(__file__)), kind]
    environment = os.environ | {"OPWRIGHT_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    text = next(line for line in done.stdout.splitlines() if "{" in line)
    figures: dict[str, float] = json.loads(text[text.index("{") :])
    return figures


def report() -> None:
    """Print the smallest times of several rounds."""
    for kind in ("table", "products"):
        rounds = [{ranks: run(kind, ranks) for ranks in RANKS} for _ in range(ROUNDS)]
        for ranks in RANKS:
            least = {name: min(each[ranks][name] for each in rounds) for name in rounds[0][ranks]}
            print(kind, ranks, *(f"{name}={value:.1f}" for name, value in least.items()))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        report()
    else:
        figures = measure(sys.argv[1])
        if dist.rank() == 0:
            print(json.dumps(figures))
