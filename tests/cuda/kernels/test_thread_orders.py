"""Results are bitwise identical for every order in which the emulator runs block threads."""

from __future__ import annotations

import os

import pytest
from direct_launch import Launcher
from samples import OURS, Call, Sample, make_call, one_of_each

pytestmark = pytest.mark.grid(4)

ORDERS = ("ascending", "descending", "random")


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    "sample", [each for each in one_of_each() if each.library in OURS], ids=str
)
def test_results_are_bitwise_identical_in_every_order_of_threads(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "OPWRIGHT_CUDA_DRIVER" not in os.environ:
        pytest.skip("a GPU chooses the order of threads")
    called: Call = make_call(sample.op_type, sample.dtype)
    results = {}
    for order in ORDERS:
        monkeypatch.setenv("OPWRIGHT_EMULATOR_ORDER", order)
        try:
            results[order] = Launcher().run(sample, called)
        except NotImplementedError as error:  # cuBLASLt determines the order
            pytest.skip(str(error))
    for order in ORDERS[1:]:
        for slot, listed in results["ascending"].items():
            for one, other in zip(listed, results[order][slot], strict=True):
                assert one.tobytes() == other.tobytes(), f"{sample}: {slot} in order {order}"
