"""Writes complete distributions to a folder; runs processes that find no other distributions."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy
import pluggy
import pytest

import opwright
import opwright_kit
from opwright import Context, _runtime
from opwright.op import OpMaker, same_shape_as
from opwright.packages import Package

SWISH = """
import numpy as np
from opwright.op import OpMaker, grad_op, same_shape_as

def swish(x, out, *, beta):
    np.divide(x, 1 + np.exp(-beta * x), out=out)

def swish_grad(x, out_grad, x_grad, *, beta):
    s = 1 / (1 + np.exp(-beta * x))
    np.multiply(out_grad, s + beta * x * s * (1 - s), out=x_grad)

SWISH = (
    OpMaker("{name}.swish")
    .add_comment("Swish, out = x * sigmoid(beta * x).")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x").same_dtype_as("x")
    .add_attr("beta", float, "steepness").default(1.0).greater_than(0.0)
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("{name}.swish_grad", needs=["x"]))
)
"""

TABLE = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("{name}.swish", "opwright_{name}.swish:SWISH")

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("{name}.swish", device="cpu", dtypes=["float32", "float64"],
                 kernel="opwright_{name}.swish:swish")
    registry.add("{name}.swish_grad", device="cpu", dtypes="*",
                 kernel="opwright_{name}.swish:swish_grad")
"""

HEAD = "import opwright.plugin as plugin\n\n"

OP_HOOK = HEAD + "@plugin.hookimpl\ndef opwright_ops(registry):\n    "

KERNEL_HOOK = HEAD + "@plugin.hookimpl\ndef opwright_kernels(registry):\n    "


class Site:
    """A folder with distributions as pip installs them."""

    def __init__(self, folder: Path, libraries: Path) -> None:
        self.folder = folder
        self.libraries = libraries
        self.cache = folder.parent / "cache"
        folder.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        name: str,
        table: str | None = None,
        *,
        distribution: str | None = None,
        version: str = "1.0",
        modules: dict[str, str] | None = None,
        entry: str | None = None,
    ) -> Path:
        """Install ``opwright-<name>``, by default the `swish` of example 4; return its package."""
        distribution = distribution or f"opwright-{name}"
        package = self.folder / distribution.replace("-", "_")
        package.mkdir(exist_ok=True)
        files = {"__init__": "", "plugin": TABLE if table is None else table, "swish": SWISH}
        for module, text in {**files, **(modules or {})}.items():
            body = textwrap.dedent(text).replace("{name}", name)
            (package / f"{module}.py").write_text(body)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        entry = entry or f"{name} = {package.name}.plugin"
        (info / "entry_points.txt").write_text(f"[opwright.plugins]\n{entry}\n")
        self._age(package, info)
        return package

    @staticmethod
    def _age(*folders: Path) -> None:
        """Set the file times back, because the index excludes files that were just written."""
        for folder in folders:
            for file in folder.rglob("*"):
                status = file.stat()
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))

    def run(
        self, *words: str, check: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a new Python process that finds only this folder, the core, NumPy and pluggy."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPWRIGHT_", "PYTHON"))}
        env["PYTHONPATH"] = os.pathsep.join([str(self.folder), str(self.libraries)])
        env["OPWRIGHT_CACHE_DIR"] = str(self.cache)
        command = [sys.executable, "-S", "-W", "error", *words]
        env |= environ
        done = subprocess.run(
            command, check=False, env=env, capture_output=True, text=True, timeout=600
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def python(self, code: str, **environ: str) -> str:
        """Run code that prints, and return its output."""
        return self.run("-c", textwrap.dedent(code), **environ).stdout

    def json(self, code: str, **environ: str) -> Any:
        """Run code that assigns `answer`, and return its value."""
        text = f"{textwrap.dedent(code)}\nimport json\nprint(json.dumps(answer))"
        return json.loads(self.run("-c", text, **environ).stdout.splitlines()[-1])

    def command(
        self, *words: str, check: bool = False, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command ``opwright``."""
        return self.run("-m", "opwright", *words, check=check, **environ)

    def failures(self, **environ: str) -> list[list[str]]:
        """Return [plugin, reason] for each plugin that a new process quarantines."""
        code = """
        from opwright.context.context import current_context
        answer = [[f.package.plugin, f.reason] for f in current_context().failures]
        """
        found: list[list[str]] = self.json(code, **environ)
        return found


def link_libraries(folder: Path) -> None:
    """Link the core, laid out as in a wheel, and its requirements into a folder."""
    for package in (numpy, pluggy):
        source = Path(str(package.__file__)).parent
        (folder / source.name).symlink_to(source)
        for beside in source.parent.glob(f"{source.name}.libs"):
            (folder / beside.name).symlink_to(beside)
    core = folder / "opwright"  # an editable install has modules and runtime in two folders
    core.mkdir()
    for source in (*Path(opwright.__file__).parent.iterdir(), Path(_runtime.__file__)):
        (core / source.name).symlink_to(source)
    info = folder / "opwright-0.0.dist-info"
    info.mkdir()
    written = importlib.metadata.distribution("opwright").read_text("METADATA")
    assert written is not None
    (info / "METADATA").write_text(written)


def link_kit(folder: Path) -> None:
    """Link the opwright-kit commands into such a folder, without the opwright-kit plugin."""
    source = Path(opwright_kit.__file__).parent
    (folder / source.name).symlink_to(source)
    info = folder / "opwright_kit-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: opwright-kit\nVersion: 0.0\n")
    written = importlib.metadata.distribution("opwright-kit").read_text("entry_points.txt")
    assert written is not None
    commands = written[written.index("[opwright.commands]") :].partition("\n\n")[0]
    (info / "entry_points.txt").write_text(f"{commands}\n")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the core and its requirements, without the plugins of this environment."""
    folder = tmp_path_factory.mktemp("libraries")
    link_libraries(folder)
    link_kit(folder)
    return folder


@pytest.fixture
def site(tmp_path: Path, libraries: Path) -> Site:
    """An empty folder for distributions."""
    return Site(tmp_path / "site", libraries)


@pytest.fixture
def acme() -> Context:
    """A context in this process with the operator acme.swish, whose kernels never run."""
    package = Package("acme", "opwright-acme", "1.0")
    context = Context()
    maker = OpMaker("acme.swish").add_comment("Swish, out = x * sigmoid(beta * x).")
    maker.add_input("x", "any shape, float").add_output("out", "that of x").same_dtype_as("x")
    maker.add_attr("beta", float, "steepness").default(1.0).greater_than(0.0)
    context.ops.add("acme.swish", maker.build(infer_shape=same_shape_as("x")), package)
    context.kernels.add(
        "acme.swish",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel="not_there:swish",
        library="acme",
        package=package,
    )
    return context
