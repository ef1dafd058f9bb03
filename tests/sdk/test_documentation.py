"""The page on compiled operators: its C++ compiles, and is what the example has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/publish_a_compiled_operator.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples/plugins/opwright-cos-sim"
SOURCE = (EXAMPLE / "native/cos_sim.cc").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_operator_and_the_registrations_are_those_of_the_example():
    operator, _, _, registrations = blocks("cpp")
    assert operator.removeprefix("#include <opwright/sdk.hpp>\n") in SOURCE
    assert registrations in SOURCE


def test_the_files_of_the_package_are_those_of_the_example():
    [cmake], [plugin] = blocks("cmake"), blocks("python")
    assert cmake in (EXAMPLE / "CMakeLists.txt").read_text(encoding="utf-8")
    assert plugin in (EXAMPLE / "src/opwright_cos_sim/plugin.py").read_text(encoding="utf-8")


def test_the_kernels_compile(compile_plugin, tmp_path):
    operator, kernel, staged, _ = blocks("cpp")
    parts = [operator, kernel, "using Attrs = CosSimAttrs;", staged, REGISTRATIONS]
    file = tmp_path / "page.cc"
    file.write_text("\n".join(parts), encoding="utf-8")
    # The page leaves out loops, and the bodies of two functions: they are found by nobody here.
    flags = ("-w", "-Wl,-z,lazy")
    assert compile_plugin(file, flags=flags).exists()


REGISTRATIONS = """
OPWRIGHT_REGISTER_OP(acme_cos_sim, "acme.cos_sim", CosSim);
OPWRIGHT_REGISTER_KERNEL(acme_cos_sim, "cpu", CosSimKernel, float, double);
OPWRIGHT_REGISTER_KERNEL(acme_cos_sim, "cpu", Staged, float);
OPWRIGHT_PLUGIN("acme", acme_cos_sim);
"""
