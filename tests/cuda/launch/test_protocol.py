"""Python, the launcher and the kernels use the same constants and positions in records.

A C++ compiler compares the constants in the headers of the launcher and the kernels with the Python
constants. Positions without a name are tested by a launch whose values are all distinct.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_cuda_emulator
from opwright.kernel import PrepareContext
from opwright.op import NoGradient, OpMaker
from opwright.packages import Package
from opwright_cuda import Kernel, LaunchPlan, Source
from opwright_cuda.cudnn import What
from opwright_cuda.launch.arguments import FAULT, WORKSPACE
from opwright_cuda.launch.indexing import MAX_RANK
from opwright_cuda.launch.plan import WORKSPACE_ALIGNMENT, ActionCode
from opwright_cuda.products import PRODUCT_THREADS, TILE, TILE_SUMS
from opwright_cuda.products.blas import Numbers
from opwright_cuda.products.small import LONG_TILES, TILES
from opwright_cuda.source import shared_headers

CUDA = Path(__file__).parents[3] / "plugins" / "cuda"
KERNELS = CUDA / "src" / "opwright_cuda"
SHIM = Path(opwright_cuda_emulator.__file__).parent / "native"


def camel(name: str) -> str:
    """Return the C++ name of a constant; ``LEADING_A`` becomes ``kLeadingA``."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def in_cpp(scope: str, names: Iterable[str]) -> dict[str, int]:
    """Return the C++ names of constants, with their positions in the Python list."""
    return {f"{scope}::{camel(name)}": i for i, name in enumerate(names)}


def named(scope: str, values: type[IntEnum]) -> dict[str, int]:
    return {f"{scope}::{camel(value.name)}": int(value) for value in values}


def find_differences(headers: list[str], folders: list[Path], numbers: Mapping[str, int]) -> str:
    """Return the compiler errors if constants in `headers` differ from `numbers`."""
    lines = [f'#include "{header}"' for header in headers]
    lines += [
        f'static_assert({name} == {value}, "{name} is {value}");' for name, value in numbers.items()
    ]
    command = ["c++", "-std=c++17", "-fsyntax-only", "-w", "-x", "c++", "-"]
    command += [f"-I{folder}" for folder in (*folders, ow.get_include())]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    return done.stderr


def find_in_launcher(header: str, numbers: Mapping[str, int]) -> str:
    return find_differences([header], [CUDA / "native", KERNELS], numbers)


def test_constants_of_record_actions_and_arguments_match_the_launcher() -> None:
    numbers = {
        **named("opwright_cuda", ActionCode),
        "opwright_cuda::kWorkspaceArgument": WORKSPACE,
        "opwright_cuda::kFaultArgument": FAULT,
        "opwright_cuda::kWorkspaceAlignment": WORKSPACE_ALIGNMENT,
    }
    assert find_in_launcher("launch/launch.h", numbers) == ""


def test_positions_of_product_fields_match_the_launcher() -> None:
    spec = "opwright_cuda::ProductSpec"
    numbers = {**in_cpp(spec, Numbers._fields), f"{spec}::kNumbers": len(Numbers._fields)}
    assert find_in_launcher("blas/blas.h", numbers) == ""


def test_constants_of_graph_operations_match_the_launcher() -> None:
    spec = "opwright_cuda::OperationGraphSpec"
    numbers = {**named(spec, What), f"{spec}::kWhats": len(What)}
    assert find_in_launcher("cudnn/cudnn.h", numbers) == ""


def test_tile_constants_of_products_match_the_kernels() -> None:
    scope = "opwright_cuda"
    numbers = {
        f"{scope}::kProductThreads": PRODUCT_THREADS,
        f"{scope}::kTileSums": TILE_SUMS,
        f"{scope}::SquareTile::kRows": TILE,
        f"{scope}::SquareTile::kColumns": TILE,
        f"{scope}::kMaxRank": MAX_RANK,
    }
    assert find_differences(["shim.h", "tiles.h"], [SHIM, KERNELS / "cu"], numbers) == ""


def test_tile_constants_of_small_products_match_the_kernels() -> None:
    numbers = {}
    for tile in TILES + LONG_TILES:
        made = {"kRows": tile.rows, "kColumns": tile.columns}
        made |= {"kThreads": tile.threads, "kSteps": tile.steps, "kReadsAhead": tile.reads_ahead}
        scope = f"opwright_cuda::{tile.ctype}"
        numbers |= {f"{scope}::{name}": int(number) for name, number in made.items()}
    assert find_differences(["shim.h", "small_products.h"], [SHIM, KERNELS / "cu"], numbers) == ""


def test_the_error_names_a_constant_that_differs() -> None:
    said = find_in_launcher("launch/launch.h", {"opwright_cuda::kUnlessSame": ActionCode.FILL})
    assert "opwright_cuda::kUnlessSame is 1" in said


TEXT = """
#include "kernel.h"
__global__ void describe(int32_t* out, const int32_t* x, int32_t* scratch) {
  const bool is_first = blockIdx.x + blockIdx.y + blockIdx.z == 0 &&
                        threadIdx.x + threadIdx.y + threadIdx.z == 0;
  if (!is_first) return;
  const unsigned extents[] = {gridDim.x,  gridDim.y,  gridDim.z,
                              blockDim.x, blockDim.y, blockDim.z};
  for (int i = 0; i < 6; ++i) out[i] = static_cast<int32_t>(extents[i]);
  out[6] = x[0];
  out[7] = scratch[0];
  out[8] = scratch[1];
}
"""
DESCRIBE = (
    OpMaker("acme.describe")
    .add_comment("Say how a kernel was launched.")
    .add_input("x", "int32 [1]")
    .add_output("out", "int32 [9]")
    .same_dtype_as("x")
    .build(
        infer_shape=lambda ctx: ctx.set_output("out", (9,)),
        gradient=NoGradient("it describes a launch"),
    )
)


def launch_described(ctx: PrepareContext, plan: LaunchPlan) -> None:
    scratch = plan.workspace(8)
    plan.fill(scratch, 8, value=1)
    plan.copy(scratch + 4, plan.input("x"), 4)
    arguments: list[Any] = [plan.output("out"), plan.input("x"), scratch]
    source = Source("describe.cu", TEXT, shared_headers())
    plan.launch(source, "describe", (2, 3, 5), (7, 4, 6), arguments)


@pytest.mark.cuda_kernels
def test_a_record_executes_its_launches_fills_and_copies() -> None:
    context = ow.Context.discover()
    acme = Package("acme", "opwright-acme", "1.0")
    context.ops.add("acme.describe", DESCRIBE, acme)
    context.kernels.add(
        "acme.describe", device="cuda", dtypes=["int32"], kernel=Kernel(launch_described),
        library="acme", package=acme,
    )  # fmt: skip
    with ow.context_guard(context):
        network = ow.Network([ow.Operator("acme.describe", x="x", out="out")])
        call = network.compile(feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())
        (out,) = call(x=np.array([2024], np.int32))
    assert out.tolist() == [2, 3, 5, 7, 4, 6, 2024, 0x01010101, 2024]
