"""The opwright-cuda options that affect rounding can be set for a network or a Context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call
from test_cudnn import convolving, feeds, installed, offered, pinned  # noqa: F401 - the fixture

import opwright as ow
from opwright.errors import SettingError
from opwright_cuda.options import ALLOW_TF32, ALLOW_VARYING, TUNE


@pytest.mark.cuda_kernels
def test_float32_products_use_tensor_cores_only_on_request(gpu: Any) -> None:
    given = feeds(1 + 2.0**-20)
    with offered(gpu, 5, 6):
        for allowed, factor in ((False, 1 + 2.0**-20), (True, 1.0)):
            with pinned("cudnn", {ALLOW_TF32: allowed}):
                (out,) = call("conv2d", given)
            np.testing.assert_allclose(out, np.full((2, 4, 6, 6), 27 * factor), rtol=2.0**-22)


@pytest.mark.cuda_kernels
def test_equal_networks_with_different_options_do_not_share_kernels(
    gpu: Any,
) -> None:
    given = feeds(1 + 2.0**-20)
    with offered(gpu, 5, 6), pinned("cudnn"):
        _, network = convolving()
        for allowed in (False, True, False, True):
            compiled = network.compile(
                ["x", "weight"],
                ["out"],
                device="cuda",
                scope=ow.Scope(),
                options={ALLOW_TF32: allowed},
            )
            factor = 1.0 if allowed else 1 + 2.0**-20
            (out,) = compiled(**given)
            np.testing.assert_allclose(out, np.full((2, 4, 6, 6), 27 * factor), rtol=2.0**-22)


def test_the_options_are_declared_and_off_by_default() -> None:
    context = ow.Context.discover()
    declared = context.options.fill({})
    own = {name: value for name, value in declared.items() if name.startswith("cuda.")}
    assert own == {ALLOW_TF32: False, ALLOW_VARYING: False, TUNE: False}
    with pytest.raises(SettingError, match=r"got 'cuda.alow_tf32'; did you mean 'cuda.allow_tf32'"):
        context.with_options({"cuda.alow_tf32": True})
