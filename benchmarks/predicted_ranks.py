"""Compare predictions of `opwright_simulation` with measurements for processes on this machine.

    python benchmarks/predicted_ranks.py

The parameters of a link are fitted to all-reduces between two processes. The step of one process is
measured while another process runs. From the link and this step time, the step times for 2, 4 and 8
processes are predicted, and then measured. Each process has one thread; if there are more processes
than cores, they share cores. opwright-mpi and opwright-kit must be installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
import opwright_simulation as simulation
from opwright.commands import format_seconds
from opwright_nn import layers

RANKS = (2, 4, 8)
SIZES = (4_096, 65_536, 1_048_576, 8_388_608)
WIDTH, BATCH = 512, 64
ROUNDS = 5
STEPS = 60


def build_step():
    """Return the program, startup program and loss of a training step."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 784])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        h = layers.fc(x, size=WIDTH, activation="relu")
        h = layers.fc(h, size=WIDTH, activation="relu")
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, size=10), y))
        pairs = dist.data_parallel(ow.append_backward([loss]))
        nn.optimizer.SGD(0.01).apply_gradients(pairs)
    return main, startup, loss


def make_batch():
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, 784)).astype("float32")
    return {"x": x, "y": random.integers(0, 10, (BATCH, 1))}


def time_calls(call, n):
    """Return the median over rounds of the mean time of a call."""
    call()
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(n):
            call()
        rounds.append((time.perf_counter() - begin) / n)
    return median(rounds)


def measure_step():
    main, startup, loss = build_step()
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(feed=["x", "y"], fetch=[loss], scope=scope)
    batch = make_batch()
    return time_calls(lambda: step(**batch), STEPS)


def measure_all_reduce(size_bytes):
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = layers.data("x", shape=[size_bytes // 4])
        out = ow.ops.dist.all_reduce(x)
    call = ow.Network(main.global_block()).compile(feed=["x"], fetch=[out])
    values = np.ones(size_bytes // 4, "float32")
    return time_calls(lambda: call(x=values), max(5, min(300, 20_000_000 // size_bytes)))


def run_rank(target):
    """Run the measurements in each process; the first process writes the times."""
    results = {"step_s": measure_step()}
    if dist.size() == 2:
        results["all_reduce_s"] = [measure_all_reduce(size) for size in SIZES]
        results["compute_s"] = rehearse_step().compute_s  # both at once: they share caches
    if dist.rank() == 0:
        Path(target).write_text(json.dumps(results))


def launch(ranks, folder):
    target = Path(folder) / f"{ranks}.json"
    launcher = Path(sys.executable).with_name("opwright-mpi")
    command = [str(launcher), "run", "-n", str(ranks), __file__, "--rank", str(target)]
    environment = {**os.environ, "OPWRIGHT_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return json.loads(target.read_text())


def rehearse_step():
    main, startup, loss = build_step()
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    return simulation.rehearse(main, make_batch(), [loss], scope=scope, runs=100)(2)


def slow_down(step, factor):
    events = [
        event._replace(seconds=factor * event.seconds)
        if isinstance(event, simulation.Compute)
        else event
        for event in step.events
    ]
    return step._replace(events=tuple(events))


def main():
    os.environ["OPWRIGHT_NUM_THREADS"] = "1"
    step = rehearse_step()
    with TemporaryDirectory() as folder:
        measured = {ranks: launch(ranks, folder) for ranks in RANKS}
    link = simulation.fit_link(list(SIZES), measured[2]["all_reduce_s"], 2)
    cores = len(os.sched_getaffinity(0))
    network = simulation.Network(
        "this machine", max(RANKS), link, link, overlap=0.0, cores_per_node=cores
    )
    print(f"link: {1e6 * link.latency_s:.1f} us, {link.bytes_per_s / 1e9:.1f} GB/s; {cores} cores")
    print(f"one process alone: {format_seconds(step.compute_s)}")
    step = slow_down(step, measured[2]["compute_s"] / step.compute_s)
    print(f"while another process runs: {format_seconds(step.compute_s)}")
    for forecast in simulation.simulate(step, RANKS, [network]).forecasts:
        real_s = measured[forecast.ranks]["step_s"]
        predicted, real = map(format_seconds, (forecast.step_s, real_s))
        ratio = forecast.step_s / real_s
        print(f"{forecast.ranks} processes: predicted {predicted}, measured {real}, {ratio:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_rank(sys.argv[2])
    else:
        main()
