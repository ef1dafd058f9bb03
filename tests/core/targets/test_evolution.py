"""The core supports older libraries, and a later core supports libraries built today.

`tests/sdk/test_hosts.py` tests a library built today in an earlier core.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime

ROOT = Path(__file__).parents[3]
ABI = (Path(ow.get_include()) / "opwright" / "abi.h").read_text()
MINOR = int(ABI.split("#define OW_ABI_MINOR ")[1].split()[0])
LATER = {
    f"#define OW_ABI_MINOR {MINOR}": f"#define OW_ABI_MINOR {MINOR + 1}",
    **{
        f"}} {name};": f"  uint64_t later;\n}} {name};"
        for name in ("ow_attr", "ow_prepare", "ow_call", "ow_infer", "ow_op", "ow_plugin")
    },
    "  ow_run_fn run;\n};": "  ow_run_fn run;\n  uint64_t later;\n};",
    "(*poll)(const ow_call* call);\n};": (
        "(*poll)(const ow_call* call);\n  int32_t (*later)(void);\n};"
    ),
    "void* graph);\n};": "void* graph);\n  uint64_t later;\n};",
}
EARLIER = Path(__file__).parent / "headers_1_0"
VERSIONS = {"earlier": (1, 0), "current": (1, MINOR), "later": (1, MINOR + 1)}


@pytest.fixture(scope="session")
def later_headers(tmp_path_factory):
    """Headers of a hypothetical later minor version, which adds a field to extensible structs."""
    folder = tmp_path_factory.mktemp("later")
    shutil.copytree(ow.get_include(), folder, dirs_exist_ok=True)
    path = folder / "opwright" / "abi.h"
    text = path.read_text()
    for old, new in LATER.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)
    return folder


@pytest.fixture(scope="session")
def earlier_headers(tmp_path_factory):
    """The headers of interface version 1.0."""
    folder = tmp_path_factory.mktemp("earlier")
    shutil.copytree(EARLIER, folder, dirs_exist_ok=True)
    (folder / "dlpack").symlink_to(Path(ow.get_include()) / "dlpack")
    return folder


@pytest.fixture(params=VERSIONS)
def headers(request, earlier_headers, later_headers):
    """The name of a version, and its header folder (None for the current headers)."""
    folders = {"earlier": earlier_headers, "current": None, "later": later_headers}
    return request.param, folders[request.param]


@pytest.fixture(scope="session")
def later_library(compiler, later_headers):
    """A library of the later version, which queries the new service and sets unknown flags.

    The core ignores unknown flags.
    """
    fault = (
        '-DFAULT=plugin.later = 7; if (OW_HAS(host, later)) plugin.name = "later"; '
        "kernels[0].flags |= 1u << 31; ops[0].flags |= 1u << 31"
    )
    return compiler.build("plugin.c", fault, include=later_headers)


@pytest.fixture(scope="session")
def later_host(compiler, later_headers, tmp_path_factory):
    """The runtime compiled as a core of the later version, with a small main program."""
    folder = tmp_path_factory.mktemp("host")
    native = ROOT / "tests" / "native"
    # A unity build is faster, since most of the time is spent on headers.
    runtime = folder / "runtime.cc"
    listed = sorted((ROOT / "core" / "native" / "runtime").rglob("*.cc"))
    runtime.write_text("".join(f'#include "{source}"\n' for source in listed))
    host = Path(__file__).parent / "sources" / "later_host.cc"
    sources = [runtime, native / "plans.cc", native / "kernels.cc", host]
    includes = [f"-I{path}" for path in (later_headers, ROOT / "core" / "native", native)]
    flags = ("-std=c++17", "-O0", "-fPIC", '-DOPWRIGHT_VERSION="later"', *includes)
    program = folder / "later_host"
    compiler.run("g++", *flags, "-pthread", *map(str, sources), "-ldl", "-o", str(program))
    return program


def test_a_library_of_a_later_minor_version_works(acme, later_library):
    assert _runtime.Library(str(later_library)).abi_version == (1, MINOR + 1)
    acme.use(later_library)
    np.testing.assert_array_equal(ow.ops.acme.scale(np.ones(3)), np.full(3, 2.0))
    kernels = _runtime.Library(str(later_library)).kernels
    assert [kernel[1] for kernel in kernels] == ["acme.scale", "acme.scale_grad"]


def test_kernels_and_shape_rules_of_each_version_work(acme, compiler, headers):
    version, folder = headers
    library = compiler.build("plugin.c", include=folder)
    assert _runtime.Library(str(library)).abi_version == VERSIONS[version]
    acme.use(library)
    np.testing.assert_array_equal(ow.ops.acme.scale(np.ones(3)), np.full(3, 2.0))
    assert ow.explain("acme.scale").chosen.library == "acme"


def test_a_device_of_each_version_opens(compiler, headers):
    version, folder = headers
    library = _runtime.Library(str(compiler.build("tape.cc", include=folder)))
    assert library.abi_version == VERSIONS[version]
    device = library.open_device(library.devices.index("tape"))
    x = np.arange(6.0)
    np.testing.assert_array_equal(_runtime.Tensor.from_numpy(x, device).numpy(), x)


def test_a_library_can_query_the_features_of_the_host(later_library):
    assert _runtime.Library(str(later_library)).name == "acme"


COMPILES = pytest.mark.long("it compiles the runtime with the headers of a later version")


@COMPILES
@pytest.mark.slow
def test_a_core_of_a_later_minor_version_runs_a_current_library(
    compiler, later_host, plain_library
):
    text = compiler.run(str(later_host), str(plain_library))
    assert text == f"host 1.{MINOR + 1} library 1.{MINOR} out 6 dim -1 later 0\n"


@COMPILES
@pytest.mark.slow
def test_a_later_core_and_a_later_library_use_the_new_fields(compiler, later_host, later_library):
    text = compiler.run(str(later_host), str(later_library))
    assert text == f"host 1.{MINOR + 1} library 1.{MINOR + 1} out 6 dim -1 later 1\n"
