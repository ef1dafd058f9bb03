"""Builds small compiled plugins once per test session, and installs them as distributions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import opwright as ow
from acme_operators import SCALE
from opwright import Context, context_guard

SOURCES = Path(__file__).parent / "sources"
sys.path.insert(0, str(Path(__file__).parent))  # tape_device

TABLE = """
import opwright.plugin as plugin

LIBRARY = "opwright_acme/libacme.so"

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("acme.scale", LIBRARY)

@plugin.hookimpl
def opwright_kernels(registry):
    for op_type in ("acme.scale", "acme.scale_grad"):
        registry.add(op_type, device="cpu", dtypes=["float32", "float64"], kernel=LIBRARY)
"""


class Compiler:
    """Builds shared libraries from `sources`, once for each combination of flags."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        array = ", ".join(map(str, SCALE.proto.to_proto().SerializeToString()))
        (folder / "proto.h").write_text(
            f"static const unsigned char kScaleProto[] = {{{array}}};\n"
        )
        self._made: dict[tuple[str, ...], Path] = {}

    def build(self, source: str, *flags: str, include: Path | None = None) -> Path:
        """Build and return a library; `include` replaces the header folder of opwright."""
        headers = str(include or ow.get_include())
        key = (source, *flags, headers)
        if key not in self._made:
            target = self.folder / f"lib{len(self._made)}.so"
            is_c = source.endswith(".c")
            self.run(
                *(["gcc", "-std=c11", "-D_POSIX_C_SOURCE=200809L"] if is_c else ["g++"]),
                *("-O0", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden"),
                *(f"-I{folder}" for folder in (headers, self.folder, SOURCES)),
                *flags,
                *("-o", str(target), str(SOURCES / source)),
            )
            self._made[key] = target
        return self._made[key]

    @staticmethod
    def run(*command: str) -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def plain_library(compiler: Compiler) -> Path:
    """The library of the C plugin, without faults."""
    return compiler.build("plugin.c")


class Acme:
    """The distribution opwright-acme, installed in a separate folder as if by pip."""

    def __init__(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = site
        self.requires: list[str] = []
        self._monkeypatch = monkeypatch
        self._guards: list[AbstractContextManager[Context]] = []

    def install(self, library: Path | None, table: str = TABLE) -> Path:
        """Write the package and its metadata; return the path of its library."""
        package = self.site / "opwright_acme"
        info = self.site / "opwright_acme-1.0.dist-info"
        for folder in (package, info):
            folder.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "plugin.py").write_text(table)
        if library is not None:
            shutil.copy(library, package / "libacme.so")
        needs = "".join(f"Requires-Dist: {line}\n" for line in self.requires)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: opwright-acme\nVersion: 1.0\n{needs}"
        )
        (info / "entry_points.txt").write_text("[opwright.plugins]\nacme = opwright_acme.plugin\n")
        return package / "libacme.so"

    def add_module(self, name: str, text: str) -> None:
        """Add a Python module to the package."""
        (self.site / "opwright_acme" / f"{name}.py").write_text(text)

    def use(self, library: Path | None, table: str = TABLE) -> Context:
        """Install the distribution, discover it in a new Context, and make the Context current."""
        self.install(library, table)
        self._monkeypatch.syspath_prepend(str(self.site))
        context = Context.discover()
        guard = context_guard(context)
        guard.__enter__()
        self._guards.append(guard)
        return context

    def python(self, code: str) -> str:
        """Run code in a new Python process that can import the package; return its output."""
        return Compiler.run(
            sys.executable, "-c", f"import sys; sys.path.insert(0, {str(self.site)!r})\n{code}"
        )

    def doctor(self) -> subprocess.CompletedProcess[str]:
        """Run ``opwright doctor`` in a new process that can import the package.

        It checks only one of the other plugins, since checking all would take three times as long.
        """
        boot = f"import sys; sys.path.insert(0, {str(self.site)!r})\n"
        code = boot + "from opwright.cli import main; sys.exit(main(['doctor']))"
        command = [sys.executable, "-c", code]
        environ = os.environ | {"OPWRIGHT_PLUGINS": "std,acme"}
        return subprocess.run(
            command, env=environ, check=False, capture_output=True, text=True, timeout=600
        )

    def close(self) -> None:
        while self._guards:
            self._guards.pop().__exit__(None, None, None)
        for name in [name for name in sys.modules if name.partition(".")[0] == "opwright_acme"]:
            del sys.modules[name]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acme]:
    """The distribution opwright-acme, which the test installs."""
    made = Acme(tmp_path / "site", monkeypatch)
    yield made
    made.close()


@pytest.fixture
def tape(acme: Acme, compiler: Compiler) -> Any:
    """The `tape_device.Tape` of an installed distribution with the device "tape"."""
    from tape_device import TABLE, Tape

    acme.use(compiler.build("tape.cc"), TABLE)
    return Tape(acme.site / "opwright_acme" / "libacme.so")


@pytest.fixture
def slower_kernel() -> str:
    """Hook-module code that registers a low-priority Python kernel, which multiplies by 10."""
    return """
    registry.add("acme.scale", device="cpu", dtypes="*", library="slow", priority=1,
                 kernel="opwright_acme.slow:scale")
"""


@pytest.fixture
def table() -> str:
    """The source of the plugin's hook module, for tests that modify it."""
    return TABLE
