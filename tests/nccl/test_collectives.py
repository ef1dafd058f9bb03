"""Every collective over real processes on emulated GPUs matches NumPy."""

from __future__ import annotations

import pytest
from scripts import ALONE, EXACT, MOVEMENTS, REDUCTIONS, ROWS, SHARDS, VALUES

LONG = pytest.mark.long("the other cases run the same code with fewer processes")


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG)])
def test_reductions_match_numpy(run, ranks: int) -> None:
    done = run(VALUES + REDUCTIONS, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_16_bit_floats_are_summed_in_32_bits_and_nan_and_infinity_propagate(run) -> None:
    done = run(VALUES + EXACT, 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 3


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=LONG)])
def test_data_movement_collectives_match_numpy(run, ranks: int) -> None:
    # A single process does not run collectives, so there is nothing to record.
    head = VALUES.replace("    assert network.pl", "    assert n == 1 or network.pl")
    done = run(head + MOVEMENTS, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=LONG), 3])
def test_shards_match_ranges_of_the_flattened_array(run, ranks: int) -> None:
    done = run(VALUES + SHARDS, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_rows_are_exchanged_according_to_the_counts(run) -> None:
    done = run(VALUES + ROWS, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_blocking_plans_give_the_same_results(run) -> None:
    head = VALUES.replace('graph_refusal == ""', 'graph_refusal.endswith("not capturable")')
    done = run(head + MOVEMENTS, 2, variables={"OPWRIGHT_CUDA_BLOCKING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_a_single_process_can_run_the_collective_kernels(run) -> None:
    done = run(ALONE, 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("good\n")
