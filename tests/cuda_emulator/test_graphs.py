"""Several streams record one graph; the emulated driver refuses the same calls as CUDA."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opwright_cuda_emulator import HostCompiler

UNJOINED = 904
ISOLATION = 905
CAPTURED_EVENT = 907


class Driver:
    """Calls driver functions, each of which must return the expected status."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.streams: list[ctypes.c_void_p] = []

    def __call__(self, name: str, *arguments: Any, returns: int = 0) -> None:
        assert getattr(self._library, name)(*arguments) == returns, name

    def make(self, name: str) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self(name, ctypes.byref(made), 0)
        if name == "cuStreamCreate":
            self.streams.append(made)
        return made

    def write(self, stream: ctypes.c_void_p, memory: ctypes.c_void_p, value: int) -> None:
        self("cuMemsetD8Async", memory, ctypes.c_ubyte(value), ctypes.c_size_t(1), stream)


@pytest.fixture
def driver(emulator_folder: Path) -> Iterator[Driver]:
    opened = Driver(HostCompiler(emulator_folder).build_driver())
    yield opened
    for stream in opened.streams:
        opened("cuStreamDestroy_v2", stream)


def end(driver: Driver, stream: ctypes.c_void_p, returns: int = 0) -> ctypes.c_void_p:
    graph = ctypes.c_void_p()
    driver("cuStreamEndCapture", stream, ctypes.byref(graph), returns=returns)
    assert bool(graph.value) == (returns == 0)
    return graph


def test_a_graph_contains_the_work_of_joined_streams(driver: Driver) -> None:
    main, other = driver.make("cuStreamCreate"), driver.make("cuStreamCreate")
    ready, done = driver.make("cuEventCreate"), driver.make("cuEventCreate")
    byte = ctypes.c_ubyte(0)
    memory = ctypes.c_void_p(ctypes.addressof(byte))
    driver("cuStreamBeginCapture_v2", main, 1)
    driver("cuEventRecord", ready, main)
    driver("cuStreamWaitEvent", other, ready, 0)
    driver.write(other, memory, 7)
    driver("cuEventRecord", done, other)
    driver("cuStreamWaitEvent", main, done, 0)
    graph, made = end(driver, main), ctypes.c_void_p()
    driver("cuStreamSynchronize", other)
    assert byte.value == 0  # the write was recorded, not executed
    driver("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
    driver("cuGraphLaunch", made, main)
    driver("cuStreamSynchronize", main)
    assert byte.value == 7
    driver.write(other, memory, 8)  # the stream is no longer captured
    driver("cuStreamSynchronize", other)
    assert byte.value == 8
    driver("cuGraphExecDestroy", made)
    driver("cuGraphDestroy", graph)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_stream_that_is_not_joined_invalidates_the_graph(driver: Driver, goes_on: bool) -> None:
    main, other = driver.make("cuStreamCreate"), driver.make("cuStreamCreate")
    ready, done = driver.make("cuEventCreate"), driver.make("cuEventCreate")
    byte = ctypes.c_ubyte(0)
    memory = ctypes.c_void_p(ctypes.addressof(byte))
    driver("cuStreamBeginCapture_v2", main, 1)
    driver("cuEventRecord", ready, main)
    driver("cuStreamWaitEvent", other, ready, 0)
    if goes_on:
        driver("cuEventRecord", done, other)
        driver.write(other, memory, 7)  # after the event
        driver("cuStreamWaitEvent", main, done, 0)
    end(driver, main, returns=UNJOINED)


def test_a_graph_and_a_stream_cannot_wait_for_each_others_events(driver: Driver) -> None:
    main = driver.make("cuStreamCreate")
    before, within = driver.make("cuEventCreate"), driver.make("cuEventCreate")
    driver("cuEventRecord", before, main)
    driver("cuStreamBeginCapture_v2", main, 1)
    driver("cuEventRecord", within, main)
    driver("cuStreamWaitEvent", main, before, 0, returns=ISOLATION)
    end(driver, main, returns=901)
    driver("cuEventSynchronize", within, returns=CAPTURED_EVENT)
    driver("cuStreamWaitEvent", main, within, 0, returns=CAPTURED_EVENT)
