"""Chooses the files of a package by its kind and language, and fills in their templates."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Final, NamedTuple

from opwright import Context
from opwright.plugin import hint
from opwright_kit.scaffold.errors import ScaffoldError
from opwright_kit.scaffold.formulas import DEFAULT_OPERATOR, find_formula
from opwright_kit.scaffold.headers import get_abi_version, list_headers
from opwright_kit.scaffold.licenses import LICENSES
from opwright_kit.scaffold.naming import PackageNames

OPERATOR: Final = "operator"
KERNEL: Final = "kernel"
DEVICE: Final = "device"

_MARK: Final = re.compile(r"@([A-Z_]+)@")

_COMMON: Final = {
    ".github/workflows/ci.yml": "common/ci.yml.in",
    ".gitignore": "common/gitignore.in",
    "README.md": "@KIND@_@LANGUAGE@/README.md.in",
    "src/@MODULE@/__init__.py": "common/init.py.in",
    "src/@MODULE@/plugin.py": "@KIND@_@LANGUAGE@/plugin.py.in",
    "src/@MODULE@/py.typed": "common/py.typed.in",
    "tests/test_conformance.py": "common/conformance.py.in",
}
_PYTHON: Final = {"pyproject.toml": "common/pyproject.hatchling.in"}
_CPP: Final = {
    ".clang-format": "common/clang-format.in",
    "pyproject.toml": "common/pyproject.scikit-build.in",
    "CMakeLists.txt": "common/CMakeLists.txt.in",
    "native/opwright-abi-@ABI@/README.md": "common/abi.md.in",
    "native/opwright-abi-@ABI@/LICENSE": "common/LICENSE-Apache-2.0.in",
}
_CUDA: Final = {
    ".clang-format": "common/clang-format.in",
    **_PYTHON,
    "src/@MODULE@/cu/@FUNCTION@.cu": "@KIND@_cuda/kernel.cu.in",
    "src/@MODULE@/cuda_kernels.py": "@KIND@_cuda/cuda_kernels.py.in",
    "tests/conftest.py": "common/emulator.py.in",
}
_OPERATOR: Final = {"tests/test_isru.py": "common/operator_values.py.in"}
_KERNEL: Final = {
    "example.py": "kernel_python/example.py.in",
    "tests/test_@FUNCTION@.py": "kernel_python/values.py.in",
}

CHOICES: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    (OPERATOR, "python"): {
        **_PYTHON,
        **_OPERATOR,
        "example.py": "common/operator_example.py.in",
        "src/@MODULE@/isru.py": "operator_python/isru.py.in",
    },
    (OPERATOR, "cpp"): {
        **_CPP,
        **_OPERATOR,
        "example.py": "common/operator_example.py.in",
        "native/isru.cc": "operator_cpp/isru.cc.in",
        "src/@MODULE@/reference.py": "operator_cpp/reference.py.in",
    },
    (OPERATOR, "cuda"): {
        **_CUDA,
        **_OPERATOR,
        "example.py": "operator_cuda/example.py.in",
        "src/@MODULE@/isru.py": "operator_python/isru.py.in",
        "tests/test_cuda.py": "operator_cuda/cuda_values.py.in",
    },
    (KERNEL, "python"): {
        **_PYTHON,
        **_KERNEL,
        "src/@MODULE@/kernels.py": "kernel_python/kernels.py.in",
    },
    (KERNEL, "cpp"): {**_CPP, **_KERNEL, "native/@FUNCTION@.cc": "kernel_cpp/@ARITY@.cc.in"},
    (KERNEL, "cuda"): {
        **_CUDA,
        "example.py": "kernel_cuda/example.py.in",
        "tests/test_@FUNCTION@.py": "kernel_cuda/values.py.in",
    },
    (DEVICE, "python"): {
        **_PYTHON,
        "example.py": "common/device_example.py.in",
        "src/@MODULE@/arena.py": "device_python/arena.py.in",
        "src/@MODULE@/kernels.py": "device_python/kernels.py.in",
        "tests/test_arena.py": "device_python/arena_values.py.in",
    },
    (DEVICE, "cpp"): {
        **_CPP,
        "example.py": "common/device_example.py.in",
        "native/arena.cc": "device_cpp/arena.cc.in",
        "native/arena.h": "device_cpp/arena.h.in",
        "native/memory.h": "device_cpp/memory.h.in",
        "native/worker.h": "device_cpp/worker.h.in",
        "tests/test_arena.py": "device_cpp/arena_values.py.in",
    },
}
"""By kind and language, paths and templates; both contain marks such as ``@NAME@``."""

# Links the thread library, since the device has a thread.
_THREADS: Final = """\
find_package(Threads REQUIRED)
target_link_libraries(@PLUGIN@ PRIVATE Threads::Threads)
"""

_WORDS: Final = {"python": "Python", "cpp": "C++", "cuda": "CUDA C++"}
_SUMMARIES: Final = {
    OPERATOR: "The operator @PLUGIN@.isru for opwright, in @WORD@",
    KERNEL: "A kernel in @WORD@ for opwright's operator @OPERATOR@",
    DEVICE: "The device @PLUGIN@ for opwright, in @WORD@: a block of memory of a fixed size",
}


class Package(NamedTuple):
    """A package to write.

    Attributes
    ----------
    names : PackageNames
    summary : str
        Its purpose, in one line.
    files : dict of str to str
        Path below its folder, and text.
    """

    names: PackageNames
    summary: str
    files: dict[str, str]


def plan_package(
    names: PackageNames,
    context: Context,
    *,
    kind: str = OPERATOR,
    language: str = "python",
    operator: str | None = None,
    license: str = "Apache-2.0",
) -> Package:
    """Return the files of a package without writing them.

    Parameters
    ----------
    names : PackageNames
    context : Context
        Where the operator is registered.
    kind : str
        ``"operator"``, ``"kernel"`` or ``"device"``.
    language : str
        ``"python"``, ``"cpp"`` or ``"cuda"``.
    operator : str, optional
        The computation of a kernel; only for kernels.
    license : str
        An SPDX identifier, one of `LICENSES`.

    Raises
    ------
    ScaffoldError
        For an invalid choice; lists the valid choices.
    OperatorNotFoundError
        If the operator is not installed.
    """
    templates = _find_templates(kind, language)
    if license not in LICENSES:
        raise ScaffoldError(
            f"new: unknown license, got {license!r}{hint(license, LICENSES, 'licenses')}"
        )
    if operator is not None and kind != KERNEL:
        raise ScaffoldError(
            f"new: --operator names the operator of a kernel, got {operator!r} with kind {kind!r}; "
            "leave it out, or add --kind kernel"
        )
    values = _base_values(names, kind, language, license)
    values.update(_kernel_values(operator or DEFAULT_OPERATOR, context) if kind == KERNEL else {})
    values["SUMMARY"] = summary = render(_SUMMARIES[kind], values)
    paths = {**_COMMON, "LICENSE": LICENSES[license], **templates}
    written = {
        render(path, values): render(_read(render(template, values)), values)
        for path, template in paths.items()
    }
    if language == "cpp":
        folder = f"native/opwright-abi-{values['ABI']}"
        written.update((f"{folder}/{path}", text) for path, text in list_headers())
    return Package(names, summary, dict(sorted(written.items())))


def _find_templates(kind: str, language: str) -> Mapping[str, str]:
    templates = CHOICES.get((kind, language))
    if templates is not None:
        return templates
    kinds = list(dict.fromkeys(k for k, _ in CHOICES))
    if kind not in kinds:
        raise ScaffoldError(f"new: unknown kind, got {kind!r}{hint(kind, kinds, 'kinds')}")
    languages = [other for k, other in CHOICES if k == kind]
    article = "an" if kind == OPERATOR else "a"
    raise ScaffoldError(
        f"new: {article} {kind} cannot be generated in this language, got {language!r}"
        f"{hint(language, languages, f'languages of {article} {kind}')}"
    )


def _base_values(names: PackageNames, kind: str, language: str, license: str) -> dict[str, str]:
    major, minor = version("opwright").split(".")[:2]
    needs = ["numpy>=2.0", f"opwright>={major}.{minor}"]
    needs += ["opwright-std"] if kind != OPERATOR else []
    needs += ["opwright-cuda"] if language == "cuda" else []
    tests = ["opwright-std"] if kind == OPERATOR else []
    tests += ["opwright-cuda-emulator"] if language == "cuda" else []
    tests += ["opwright-kit", "pytest>=8.0"]
    return {
        "NAME": names.distribution,
        "MODULE": names.module,
        "PLUGIN": names.plugin,
        "KIND": kind,
        "LANGUAGE": language,
        "WORD": _WORDS[language],
        "LICENSE": license,
        "ABI": get_abi_version(),
        "FUNCTION": "arena" if kind == DEVICE else "isru",
        "THREADS": render(_THREADS, {"PLUGIN": names.plugin}) if kind == DEVICE else "",
        "NEEDS": ", ".join(f'"{need}"' for need in needs),
        "TEST_NEEDS": ", ".join(f'"{need}"' for need in tests),
    }


def _kernel_values(op_type: str, context: Context) -> dict[str, str]:
    formula = find_formula(op_type, context)
    slots = ["x", "y"][: formula.n_inputs]
    loads = [f"const T {slot} = {slot}_in[i];" for slot in slots]
    stored_loads = [f"const T {slot} = Load({slot}_in[i]);" for slot in slots]
    return {
        "OPERATOR": op_type,
        # The suffix avoids shadowing a builtin such as `abs`; any kernel name is allowed.
        "FUNCTION": f"{op_type}_kernel",
        "CLASS": op_type.title(),
        "ARITY": "unary" if formula.n_inputs == 1 else "binary",
        "FORMULA": formula.words,
        "NATIVE": formula.native,
        "BODY": textwrap.indent(formula.python, "    "),
        "ARRAYS": ", ".join(f"{slot}: Array" for slot in slots),
        "N_INPUTS": str(formula.n_inputs),
        "SLOT_NAMES": repr("".join(slots)).replace("'", '"'),
        "LOADS": textwrap.indent("\n".join(loads), " " * 6),
        "STORED_PARAMETERS": ", ".join(f"const Stored* {slot}_in" for slot in slots),
        "STORED_LOADS": textwrap.indent("\n".join(stored_loads), " " * 4),
        "POINTERS": ", ".join(f'plan.input("{slot}")' for slot in slots),
    }


def _read(template: str) -> str:
    folder = files("opwright_kit.scaffold").joinpath("templates")
    return folder.joinpath(*template.split("/")).read_text(encoding="utf-8")


def render(text: str, values: Mapping[str, str]) -> str:
    """Return a template with each ``@MARK@`` replaced by its value."""
    return _MARK.sub(lambda match: values[match[1]], text)
