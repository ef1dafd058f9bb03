"""Times lowering and calls with new shapes, alternating between two checkouts.

``python benchmarks/misses.py BEFORE AFTER`` compares the interpreters of two development
environments and prints the processor time of a cache miss, without the call itself, in
microseconds. Each process reports the first quartile of the times of its misses, because a busy
machine affects the first quartile less than the median. The result is the median over the
processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

BATCHES = 40
REPEATS = 7


def feed_mlp(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((batch, 32), np.float32), "y": np.zeros((batch, 1), np.int64)}


def feed_images(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((batch, 1, 28, 28), np.float32), "y": np.zeros((batch, 1), np.int64)}


def feed_characters(batch: int) -> dict[str, np.ndarray]:
    numbers = np.ones((batch, 8), np.int64)
    return {"x": numbers, "y": numbers}


def mlp(layers: Any) -> tuple[Any, Any]:
    h = layers.data("x", shape=[None, 32])
    for _ in range(6):
        h = layers.fc(h, 32, activation="relu")
    return layers.fc(h, 10), layers.data("y", shape=[None, 1], dtype="int64")


def lenet(layers: Any) -> tuple[Any, Any]:
    h = layers.data("x", shape=[None, 1, 28, 28])
    for channels in (6, 16):
        h = layers.max_pool2d(layers.relu(layers.conv2d(h, channels, 5)), 2)
    h = layers.fc(layers.flatten(h), 120, activation="relu")
    return layers.fc(h, 10), layers.data("y", shape=[None, 1], dtype="int64")


def transformer(layers: Any) -> tuple[Any, Any]:
    x = layers.data("x", shape=[None, None], dtype="int64")
    h = layers.transformer_encoder_block(layers.embedding(x, [10, 32]), heads=2, causal=True)
    scores = layers.fc(h, 10, num_flatten_dims=2)
    return scores, layers.data("y", shape=[None, None], dtype="int64")


def elementwise(layers: Any) -> tuple[Any, Any]:
    import opwright as ow

    x = h = layers.data("x", shape=[None, 32])
    for i in range(20):
        h = (ow.ops.sigmoid, partial(ow.ops.add, x), ow.ops.tanh, partial(ow.ops.multiply, x))[
            i % 4
        ](h)
    return h, layers.data("y", shape=[None, 1], dtype="int64")


Build = Callable[[Any], tuple[Any, Any]]
Feeds = Callable[[int], dict[str, np.ndarray]]


def times_of_misses(build: Build, feeds: Feeds, trains: bool) -> Iterator[int]:
    """Call a network with a new batch size each time; yield the duration of each miss in ns."""
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        fetch, labels = build(layers)
        if trains:
            fetch = layers.mean(layers.softmax_with_cross_entropy(fetch, labels))
            nn.optimizer.Adam(1e-3).minimize(fetch)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    names = ["x", "y"] if trains else ["x"]
    call = ow.Network(main.global_block()).compile(feed=names, fetch=[fetch], scope=scope)
    for batch in range(1, BATCHES + 1):
        given = {name: feeds(batch)[name] for name in names}
        yield time_first(partial(call, **given))


def times_of_lowering(length: int) -> Iterator[int]:
    """Yield the duration in ns of the first call of each new network; this call lowers a chain."""
    import opwright as ow

    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = h = block.create_var("x", shape=[8])
        for index in range(length):
            h = ow.ops.sigmoid(h) if index % 2 else ow.ops.add(h, x)
    feed = np.ones(8, np.float32)
    for _ in range(REPEATS):
        call = ow.Network(block).compile(feed=["x"], fetch=[h], scope=ow.Scope())
        yield time_first(partial(call, x=feed))


def times_of_eager_calls() -> Iterator[int]:
    """Yield the duration in ns of the first eager call for each of many lengths."""
    import opwright as ow

    for length in range(1, 5 * BATCHES):
        x = np.ones(length, np.float32)
        yield time_first(partial(ow.ops.add, x, x))


def time_first(call: Callable[[], Any]) -> int:
    """Return the processor time of a first call minus the time of the second call."""
    times = []
    for _ in range(3):
        began = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - began)
    return times[0] - min(times[1:])


CASES: dict[str, Callable[[], Iterator[int]]] = {
    "eager": times_of_eager_calls,
    "elementwise-20": partial(times_of_misses, elementwise, feed_mlp, False),
    "mlp": partial(times_of_misses, mlp, feed_mlp, False),
    "mlp-train": partial(times_of_misses, mlp, feed_mlp, True),
    "lenet": partial(times_of_misses, lenet, feed_images, False),
    "lenet-train": partial(times_of_misses, lenet, feed_images, True),
    "transformer": partial(times_of_misses, transformer, feed_characters, False),
    "transformer-train": partial(times_of_misses, transformer, feed_characters, True),
    "lowering-1000": partial(times_of_lowering, 1_000),
    "lowering-20000": partial(times_of_lowering, 20_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "python", nargs="*", help="two interpreters; with none, this one is measured"
    )
    parser.add_argument("--case", action="append", choices=CASES, help="by default all")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    cases = given.case or list(CASES)
    if not given.python:
        for case in cases:
            quarter, *_ = statistics.quantiles(list(CASES[case]())[1:], n=4)
            print(json.dumps([case, quarter]), flush=True)
        return
    figures: dict[tuple[str, str], list[float]] = {}
    options = [text for case in cases for text in ("--case", case)]
    for _ in range(given.rounds):
        for python in given.python:
            command = [python, __file__, *options]
            lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            for case, ns in map(json.loads, lines.splitlines()):
                figures.setdefault((case, python), []).append(ns / 1e3)
    print(f"{'µs':20}" + "".join(f"{name:>12}" for name in ("before", "after", "ratio")))
    for case in cases:
        before, after = (statistics.median(figures[case, python]) for python in given.python)
        print(f"{case:20}{before:12.0f}{after:12.0f}{after / before:12.2f}")


if __name__ == "__main__":
    main()
