"""The C++ code on the page about compiled operators compiles and matches the example."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/publish_a_compiled_operator.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples/plugins/opwright-cosine"
SOURCE = (EXAMPLE / "native/cosine.cc").read_text(encoding="utf-8")
KERNELS = EXAMPLE / "src/opwright_cosine/cu"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_operator_and_the_registrations_match_the_example():
    operator, _, _, _, _, registrations, *_ = blocks("cpp")
    assert operator.removeprefix("#include <opwright/sdk.hpp>\n") in SOURCE
    assert registrations in SOURCE


def test_the_files_of_the_package_match_the_example():
    [cmake], [kernel] = blocks("cmake"), blocks("cuda")
    *_, functor = blocks("cpp")
    assert cmake in (EXAMPLE / "CMakeLists.txt").read_text(encoding="utf-8")
    assert functor in (KERNELS / "cosine.h").read_text(encoding="utf-8")
    assert kernel in (KERNELS / "cosine.cu").read_text(encoding="utf-8")


def test_the_kernels_compile(compiler, tmp_path):
    operator, kernel, shares, _, staged, *_ = blocks("cpp")
    shared = SHARED.format(shares)
    parts = [operator, kernel, shared, "using Attrs = CosineAttrs;", staged, REGISTRATIONS]
    file = tmp_path / "page.cc"
    file.write_text("\n".join(parts), encoding="utf-8")
    # The page omits loops, and the bodies of two functions.
    compiler.check(file)


def test_the_kernels_for_other_packages_compile(compiler, tmp_path):
    *_, others, _ = blocks("cpp")
    file = tmp_path / "others.cc"
    file.write_text(OTHERS + others, encoding="utf-8")
    compiler.check(file)


SHARED = """
void Double(const opwright::RunContext& ctx, int64_t n, const float* x, float* out) {{
{}}}
"""
REGISTRATIONS = """
OPWRIGHT_REGISTER_OP(cosine_similarity, "cosine.similarity", Cosine);
OPWRIGHT_REGISTER_KERNEL(cosine_similarity, "cpu", CosineKernel, float, double);
OPWRIGHT_REGISTER_KERNEL(cosine_similarity, "cpu", Staged, float);
OPWRIGHT_PLUGIN("cosine", cosine_similarity);
"""
OTHERS = """
#include <opwright/sdk.hpp>
struct SoftmaxAttrs;
template <typename T>
struct SoftmaxKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const SoftmaxAttrs& attrs);
};
template <typename T>
using SoftmaxGradKernel = SoftmaxKernel<T>;
"""
