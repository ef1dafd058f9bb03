"""Tests what mypy reports for calls after ``opwright stubs``, with more operators installed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from opwright.op import OpMaker, same_shape_as
from opwright_kit.commands import stubs
from opwright_kit.stubs import make_stub
from sites import Site, link_kit, link_libraries

pytestmark = pytest.mark.slow

MIX = """
from opwright.op import OpMaker, same_shape_as
import opwright.plugin as plugin

MIX = (
    OpMaker("mix.blend")
    .add_comment("All kinds of slots and attributes.")
    .add_input("x", "arrays").as_duplicable()
    .add_input("weight", "any shape").as_optional()
    .add_output("out", "shape of x").same_dtype_as("x")
    .add_output("count", "shape of x").dtypes("int64")
    .add_output("saved", "shape of x").same_dtype_as("x").as_intermediate()
    .add_attr("mode", str, "how").one_of("soft", "hard").default("soft")
    .add_attr("size", list[int], "how much").required()
    .add_attr("limit", float, "at most").default(float("inf"))
    .add_attr("dtype", str, "a dtype").one_of("float32", "float64").default("float32")
    .add_attr("exact", bool, "or not").default(False)
    .build(infer_shape=same_shape_as("x"))
)

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("mix.blend", "opwright_mix.plugin:MIX")
"""

CALLS = """
from typing import Any, assert_type

import numpy as np
import opwright as ow
from opwright import Variable, ops

a = np.zeros((2, 3), np.float32)
b = np.zeros(3, np.float32)

assert_type(ow.ops.acme.swish(a), np.ndarray[Any, Any])
assert_type(ow.ops.acme.swish(a, beta=np.float64(2.0)), np.ndarray[Any, Any])
assert_type(ow.ops.acme.swish([1.0, 2.0], beta=2), np.ndarray[Any, Any])
assert_type(ops.mix.blend([a, a], size=[2, 3]), tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]])
assert_type(ops.mix.blend([a], size=2, returns="saved"), np.ndarray[Any, Any])
assert_type(ops.mix.blend([a], size=2, returns=["out"]), tuple[np.ndarray[Any, Any], ...])
ow.ops.mix.blend((a, b), b, size=(np.int64(2), 3), mode="hard", dtype=np.float32, exact=True)


def build(x: Variable) -> Variable:
    pair = ow.ops.mix.blend([x], x, size=[1])
    assert_type(pair, tuple[Variable, Variable])
    assert_type((1 - x[:, 1:]) ** 2 @ b / 3, Variable)
    assert_type(x > b, Variable)
    return ow.ops.acme.swish(pair[0])


ow.ops.acme.swish(a, bta=2.0)  # E: Unexpected keyword argument "bta"
ow.ops.acme.swish(a, beta="2")  # E: Argument "beta" to "swish" of "_acme_ops" has incompatible
ow.ops.acme.swish(a, 2.0)  # E: Too many positional arguments for "swish"
ow.ops.acme.swish()  # E: Missing positional argument "x" in call to "swish"
ow.ops.acme.swish("text")  # E: Value of type variable "_Array" of "swish" of "_acme_ops" cannot be
ow.ops.acme.swsh(a)  # E: "_acme_ops" has no attribute "swsh"; maybe "swish"?
ow.ops.acmee.swish(a)  # E: Module has no attribute "acmee"; maybe "acme"?
ow.ops.mix.blend([a])  # E: No overload variant of "blend" of "_mix_ops" matches
ow.ops.mix.blend(a, size=[1])  # E: No overload variant of "blend" of "_mix_ops" matches
ow.ops.mix.blend([a], size="1")  # E: Argument "size" to "blend" of "_mix_ops" has incompatible
ow.ops.mix.blend([a], size=[1], mode="weak")  # E: No overload variant of "blend" of "_mix_ops"
ow.ops.mix.blend([a], size=[1], dtype="int8")  # E: No overload variant of "blend" of "_mix_ops"
ow.ops.mix.blend([a], size=1, returns=3)  # E: No overload variant of "blend" of "_mix_ops"
ow.Program().global_block().create_var("x") + "1"  # E: Argument 1 has incompatible type "str"
ow.ops.acme.swish(a).shpe  # E: "ndarray[Any, Any]" has no attribute "shpe"; maybe "shape"?
"""


class Environment:
    """A virtual environment with only the opwright core and two plugins."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", symlinks=True)
        self.python = folder / "env" / "bin" / "python"
        [self.packages] = folder.glob("env/lib/python*/site-packages")
        link_libraries(self.packages)
        link_kit(self.packages)
        self.site = Site(self.packages, self.packages)
        self.site.add("acme")
        self.site.add("mix", MIX)
        self.folder = folder

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPWRIGHT_", "PYTHON"))}
        env["OPWRIGHT_CACHE_DIR"] = str(self.folder / "cache")
        command = [self.python, "-W", "error", "-m", "opwright", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def check_types(self, code: str) -> dict[int, list[str]]:
        """Return the errors that mypy reports, by line number."""
        script = self.folder / "calls.py"
        script.write_text(code)
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull]
        command += ["--cache-dir", str(self.folder / "mypy"), "--no-error-summary"]
        command += ["--python-executable", str(self.python), "--hide-error-codes", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode in {0, 1}, done.stdout + done.stderr
        found: dict[int, list[str]] = {}
        for line in done.stdout.splitlines():
            _, number, kind, text = line.split(":", 3)
            if kind.strip() == "error":
                found.setdefault(int(number), []).append(text.strip())
        return found

    @property
    def stub(self) -> Path:
        return self.packages / "opwright-stubs" / "ops" / "__init__.pyi"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="module")
def written(environment):
    """The environment after a run of ``opwright stubs``."""
    done = environment.command("stubs")
    assert done.returncode == 0, done.stderr
    assert f"{environment.stub.parents[1]} is written: 2 operators" in done.stdout
    return environment


@pytest.fixture(scope="module")
def findings(written):
    return written.check_types(CALLS)


WRONG = {
    number: line.partition("# E: ")[2]
    for number, line in enumerate(CALLS.splitlines(), start=1)
    if "# E: " in line
}


def test_mypy_accepts_correct_calls_and_infers_their_result_types(findings):
    assert {number: text for number, text in findings.items() if number not in WRONG} == {}


@pytest.mark.parametrize("number", WRONG, ids=[text[:40] for text in WRONG.values()])
def test_mypy_reports_a_wrong_call(findings, number):
    [message] = findings.get(number, [""])
    assert message.startswith(WRONG[number])


def test_without_stubs_every_operator_has_type_any(environment, tmp_path):
    away = tmp_path / "away"
    stub_package = environment.packages / "opwright-stubs"
    if stub_package.exists():
        stub_package.rename(away)
    try:
        found = environment.check_types("import opwright as ow\nx: int = ow.ops.acme.swish(1)\n")
    finally:
        if away.exists():
            away.rename(stub_package)
    assert found == {}


def test_the_written_stub_is_python_and_contains_the_docstrings(written):
    tree = ast.parse(written.stub.read_text())
    assert "opwright-acme 1.0\nopwright-mix 1.0" in str(ast.get_docstring(tree))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    [swish] = classes["_acme_ops"].body
    assert isinstance(swish, ast.FunctionDef)
    assert "beta : float, in (0, inf), default 1.0" in str(ast.get_docstring(swish))
    assert (written.stub.parents[1] / "py.typed").read_text() == "partial\n"
    assert written.stub.stat().st_mode & 0o777 == 0o644


def test_check_reports_stale_stubs(environment, tmp_path):
    output = ("--output", str(tmp_path))
    missing = environment.command("stubs", "--check", *output)
    assert missing.returncode == 1
    assert "is stale: 2 operators" in missing.stdout
    assert "__init__.pyi does not exist" in missing.stdout
    assert list(tmp_path.iterdir()) == []
    assert environment.command("stubs", *output).returncode == 0
    fresh = environment.command("stubs", "--check", "--json", *output)
    assert fresh.returncode == 0
    assert json.loads(fresh.stdout) == {
        "path": str(tmp_path / "opwright-stubs"),
        "operators": 2,
        "stale": False,
        "changes": [],
        "left_out": [],
    }
    stub = tmp_path / "opwright-stubs" / "ops" / "__init__.pyi"
    stub.write_text(stub.read_text().replace("beta: _Float = 1.0", "beta: _Float = 2.0"))
    stale = environment.command("stubs", "--check", *output)
    assert stale.returncode == 1
    assert "  +    def swish(_self, x: _Array | _Plain, *, beta: _Float = 1.0)" in stale.stdout
    assert f"to rewrite it: opwright stubs --output {tmp_path}" in stale.stdout


def test_an_operator_that_cannot_be_loaded_is_omitted_and_reported(site, written, tmp_path):
    broken = written.site
    hook = MIX.replace('"opwright_mix.plugin:MIX"', '"not_there:MIX"').replace("mix.", "gone.")
    folder = broken.add("gone", hook)
    try:
        done = written.command("stubs", "--output", str(tmp_path))
    finally:
        for info in written.packages.glob("opwright_gone*"):
            info.rename(tmp_path / info.name)
    assert folder.name == "opwright_gone"
    assert done.returncode == 0, done.stderr
    assert "is written: 2 operators" in done.stdout
    assert "left out: gone.blend: 'not_there:MIX' of opwright-gone 1.0 failed" in done.stdout


def test_a_folder_that_cannot_be_written_is_reported(environment, tmp_path):
    (tmp_path / "file").write_text("")
    done = environment.command("stubs", "--output", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "stubs: the folder must be writable, got" in done.stderr
    assert "Not a directory; give another: --output DIR" in done.stderr


def test_a_misspelled_option_is_reported(environment):
    done = environment.command("stubs", "--chek")
    assert done.returncode == 2
    assert "stubs: unknown argument, got '--chek'; did you mean '--check'?" in done.stderr


def test_an_interruption_leaves_the_old_stub_intact(tmp_path, monkeypatch):
    path = tmp_path / "__init__.pyi"
    path.write_text("old")

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(stubs.CommandError, match="No space left on device; give another"):
        stubs._write({path: "new"})
    assert [file.name for file in tmp_path.iterdir()] == ["__init__.pyi"]
    assert path.read_text() == "old"


def test_readers_during_a_write_see_the_complete_old_stub(tmp_path):
    path = tmp_path / "__init__.pyi"
    path.write_text("old")
    with path.open() as reader:
        stubs._write({path: "newer"})
        assert reader.read() == "old"
    assert path.read_text() == "newer"


def test_stubs_without_operators_fail_with_a_remedy(tmp_path):
    environment = Environment(tmp_path)
    for found in [*environment.packages.glob("*acme*"), *environment.packages.glob("*mix*")]:
        found.rename(tmp_path / found.name)
    done = environment.command("stubs")
    assert done.returncode == 2
    assert "stubs: an operator must be installed, got none; pip install opwright-std" in done.stderr


def make(op_type: str) -> OpMaker:
    return OpMaker(op_type).add_comment("Text.").add_output("out", "shape of x")


def test_an_input_after_an_optional_input_can_be_given_by_position():
    maker = make("first").add_input("x", "any").as_optional().add_input("y", "any")
    text = make_stub([maker.build(infer_shape=same_shape_as("y"))], [])
    assert "def first(x: _Array | _Plain | None = None, y: _Input = ...) -> _Array:" in text


def test_comments_with_quotes_do_not_end_the_docstring():
    maker = OpMaker("quoted").add_comment('Three """ and a \\\\ and an end "').add_input("x", "any")
    maker.add_output("out", "shape of x")
    tree = ast.parse(make_stub([maker.build(infer_shape=same_shape_as("x"))], []))
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert str(ast.get_docstring(function)).startswith('Three """ and a \\\\ and an end "')


def test_an_operator_named_like_a_type_does_not_change_annotations():
    definitions = [
        make(name)
        .add_input("x", "any")
        .add_attr("n", int, "a number")
        .default(1)
        .build(infer_shape=same_shape_as("x"))
        for name in ("int", "float", "tuple", "type")
    ]
    tree = ast.parse(make_stub(definitions, []))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    named = {n.id for f in functions for n in ast.walk(f) if isinstance(n, ast.Name)}
    assert all(name.startswith("_") for name in named)
