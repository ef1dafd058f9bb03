"""Predicts the time of collectives on networks with given latencies and bandwidths."""

from __future__ import annotations

import pytest

from opwright_dist import DistError
from opwright_simulation import NETWORKS, Link, Network, fit_link, get_network

ONE_MACHINE = Network("one", 8, Link(1e-6, 1e9), Link(1e-6, 1e9))


def test_a_single_process_does_not_communicate():
    assert ONE_MACHINE.cost("all_reduce", 1000, 1).seconds == 0


@pytest.mark.parametrize(
    ("collective", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)]
)
def test_a_large_tensor_uses_the_ring_with_a_known_formula(collective, passes):
    cost = ONE_MACHINE.cost(collective, 8_000_000, 8)
    assert cost.algorithm == "ring"
    assert cost.transfer_s == pytest.approx(passes * 7 / 8 * 8e6 / 1e9)
    assert cost.latency_s == pytest.approx(passes * 7 * 1e-6)


def test_a_small_tensor_uses_the_tree_with_logarithmic_latency():
    cost = ONE_MACHINE.cost("all_reduce", 4, 8)
    assert cost.algorithm == "tree"
    assert cost.latency_s == pytest.approx(2 * 3 * 1e-6)


def test_many_machines_use_hierarchical_collectives():
    cost = get_network("infiniband").cost("all_reduce", 4_000_000, 4096)
    assert cost.algorithm == "hierarchical"


@pytest.mark.parametrize("name", NETWORKS)
def test_time_does_not_decrease_with_more_bytes_or_machines(name):
    network = NETWORKS[name]
    times = [network.cost("all_reduce", size, 64).seconds for size in (0, 1000, 10**6, 10**9)]
    assert times == sorted(times)
    times = [network.cost("all_reduce", 10**6, ranks).seconds for ranks in (8, 16, 64, 512, 4096)]
    assert times == sorted(times)


def test_a_barrier_does_not_transfer_data():
    assert ONE_MACHINE.cost("barrier", 10**9, 8).transfer_s == 0


def test_processes_that_share_cores_run_alternately():
    crowded = Network("crowded", 8, Link(1e-6, 1e9), Link(1e-6, 1e9), cores_per_node=2)
    assert crowded.crowding(2) == 1
    assert crowded.crowding(8) == 4
    alone, shared = (n.cost("all_reduce", 10**6, 8).seconds for n in (ONE_MACHINE, crowded))
    assert shared == pytest.approx(4 * alone)


def test_a_fitted_link_reproduces_the_measured_times():
    sizes = [1_000, 100_000, 10_000_000]
    network = Network("known", 4, Link(7e-6, 3e9), Link(1.0, 1.0))
    seconds = [network._ring(2, size, 4).seconds for size in sizes]
    link = fit_link(sizes, seconds, 4)
    assert link.latency_s == pytest.approx(7e-6)
    assert link.bytes_per_s == pytest.approx(3e9)


def test_times_that_do_not_increase_with_size_cannot_be_fitted():
    with pytest.raises(DistError, match="times must increase with sizes"):
        fit_link([1000, 2000], [2e-3, 1e-3], 2)
    with pytest.raises(DistError, match="two or more sizes, a time for each"):
        fit_link([1000], [1e-3], 2)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"ranks_per_node": 0}, "ranks_per_node must be at least 1"),
        ({"overlap": 1.5}, r"overlap must be in \[0, 1\]"),
        ({"inside": Link(-1.0, 1e9)}, "a latency must be finite and at least 0"),
        ({"between": Link(0.0, 0.0)}, "a bandwidth must be more than 0"),
    ],
)
def test_network_arguments_out_of_range_are_refused(arguments, rule):
    numbers = {"ranks_per_node": 8, "inside": Link(0.0, 1.0), "between": Link(0.0, 1.0)}
    with pytest.raises(DistError, match=rule):
        Network("wrong", **{**numbers, **arguments})


def test_the_error_for_an_unknown_name_suggests_the_nearest():
    with pytest.raises(DistError, match="unknown network, got 'ethernt'; did you mean 'ethernet'"):
        get_network("ethernt")
    with pytest.raises(DistError, match="unknown collective, got 'allreduce'; did you mean"):
        ONE_MACHINE.cost("allreduce", 1, 2)
