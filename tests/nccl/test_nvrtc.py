"""NVRTC compiles the kernels that run before and after NCCL calls, even without a GPU."""

from __future__ import annotations

import pytest
from emulated_nccl import list_expressions

from every_case import EVERY, is_one_in
from opwright_cuda import Source
from opwright_cuda.compile.nvrtc import Nvrtc


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_every_kernel_is_compiled_for_gpus(arch: str) -> None:
    source = Source.of_package("opwright_nccl", "cu/collectives.cu")
    expressions = [e for e in list_expressions() if EVERY or is_one_in(4, e)]
    image = Nvrtc().compile(source, expressions, arch)
    assert len(set(image.names)) == len(expressions)
