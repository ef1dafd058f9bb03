"""Workloads with fake peers: one works, others are missing, fail, crash or return wrong results."""

from __future__ import annotations

import atexit
import os
import sys

from peers import find_peers
from workload import Goal, NotAvailableError, Timed, Workload

REACHED, MISSED = Goal(ratio=100.0), Goal(figure=0.0)


def count(limit: int) -> Timed:
    return Timed(lambda: sum(range(limit)), per=10, values=[float(sum(range(10))), 1.0])


def absent() -> Timed:
    raise NotAvailableError("nobody sells it")


def uninstalled() -> Timed:
    import a_module_that_nobody_has  # noqa: F401

    return count(10)


def failing() -> Timed:
    raise ValueError("it broke\nin two lines")


def dying() -> Timed:
    os._exit(3)


def dying_later() -> Timed:
    return Timed(measure=lambda: os._exit(4))


def dying_last() -> Timed:
    atexit.register(os._exit, 5)
    return count(10)


def wrong() -> Timed:
    return Timed(lambda: None, values=[45.0, 2.0])


def not_a_number() -> Timed:
    return Timed(lambda: None, values=[45.0, float("nan")])


def noisy() -> Timed:
    print("printed by a library")
    return count(100)


def on_arrays_of_a_peer() -> Timed:
    before = len(sys.path)
    find_peers()
    if len(sys.path) == before:
        raise ValueError("the packages of the peers are not there")
    return count(10)


PEERS = {"peer": lambda: count(100), "noisy": noisy, "absent": absent, "uninstalled": uninstalled}
BAD = {"failing": failing, "dying": dying, "dying later": dying_later, "dying last": dying_last}
WRONG = {"wrong": wrong, "nan": not_a_number}
OURS = {"opwright": lambda: count(10)}

WORKLOADS = [
    Workload("good", "all is well", "ns", {**PEERS, **OURS}, {"opwright": [REACHED, MISSED]}),
    Workload("bad", "peers that fail", "ns", {**OURS, "peer": lambda: count(9), **BAD}),
    Workload("lent", "arrays of a peer", "ns", {"opwright": on_arrays_of_a_peer}),
    Workload("wrong", "peers that lie", "GB/s", {**OURS, "peer": lambda: count(9), **WRONG}),
]
