"""The script that installs pins and packages: its progress, and its output if pip fails."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "install.py"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def fake_pip(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a program that replaces pip and first prints its arguments."""
    program = tmp_path / "pip.py"
    program.write_text("import sys; print(*sys.argv[1:])\n")
    monkeypatch.setattr(module, "PIP", (sys.executable, str(program), "install"))
    return program


def show_all(module: ModuleType, stream: io.StringIO, total: int) -> str:
    progress = module.Progress("compiling", total, stream)
    for done in range(total + 1):
        progress.show(done)
    progress.close()
    return stream.getvalue()


def test_without_a_terminal_a_line_is_printed_every_ten_percent(module: ModuleType) -> None:
    lines = show_all(module, io.StringIO(), 300).splitlines()
    assert lines == [f"compiling: {percent} %" for percent in range(0, 101, 10)]


def test_few_steps_print_only_the_percentages_that_they_reach(module: ModuleType) -> None:
    lines = show_all(module, io.StringIO(), 3).splitlines()
    assert lines == [f"compiling: {percent} %" for percent in (0, 33, 66, 100)]


def test_on_a_terminal_one_line_shows_every_percent(module: ModuleType) -> None:
    text = show_all(module, Terminal(), 1000)
    assert text == "".join(f"\rcompiling: {percent} %" for percent in range(101)) + "\n"


def test_ninja_progress_is_weighted_by_the_number_of_sources(
    module: ModuleType, fake_pip: Path, tmp_path: Path
) -> None:
    for package, sources in (("small", 0), ("large", 2)):
        (tmp_path / package / "native").mkdir(parents=True)
        for number in range(sources):
            (tmp_path / package / "native" / f"{number}.cc").touch()
    with fake_pip.open("a") as file:
        file.write("print('  [1/2] Building CXX object a.o')\nprint('  [2/2] Linking b.so')\n")
    stream = io.StringIO()
    packages = [tmp_path / "small", tmp_path / "large"]
    module.install_packages(packages, [], module.Progress("installing", 4, stream))
    percents = [int(line.split()[1]) for line in stream.getvalue().splitlines()]
    assert percents == [12, 25, 62, 100]


def test_packages_are_byte_compiled_even_if_python_does_not_write_byte_code(
    module: ModuleType, fake_pip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = tmp_path / "package" / "src" / "probe" / "room" / "part.py"
    source.parent.mkdir(parents=True)
    source.write_text("VALUE = 1\n")
    progress = module.Progress("installing", 1, io.StringIO())
    module.install_packages([tmp_path / "package"], [], progress)
    byte_code = Path(importlib.util.cache_from_source(str(source)))
    assert byte_code.is_file()
    written = byte_code.stat().st_mtime_ns
    module.install_packages([tmp_path / "package"], [], progress)
    assert byte_code.stat().st_mtime_ns == written


def test_each_pin_counts_as_one_step_whatever_pip_does_with_it(
    module: ModuleType, fake_pip: Path, tmp_path: Path
) -> None:
    done = ("Collecting a==1", "Ignoring b: markers", "Requirement already satisfied: c==1")
    with fake_pip.open("a") as file:
        file.write("".join(f"print({line!r})\nprint('  Downloading')\n" for line in done))
    stream = io.StringIO()
    module.install_pins(tmp_path / "pins.txt", [], module.Progress("installing", 3, stream))
    assert stream.getvalue().splitlines()[-1] == "installing: 100 %"


def test_a_failure_prints_the_output_of_pip_without_progress_lines(
    module: ModuleType, fake_pip: Path, tmp_path: Path
) -> None:
    fake_pip.write_text(
        "print('[1/9] Building a.o')\nprint('error: no a.h')\nraise SystemExit(3)\n"
    )
    with pytest.raises(SystemExit, match=r"error: no a\.h") as raised:
        module.install_packages([tmp_path], [], module.Progress("installing", 1, io.StringIO()))
    assert "Building" not in str(raised.value)


def test_a_missing_requirement_is_not_downloaded_from_the_registry(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "opwright-probe"\nversion = "1"\ndependencies = ["six==1.0.0"]\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["pyproject.toml"]\n'
    )
    environ = {**os.environ, "PIP_TARGET": str(tmp_path / "target")}
    command = [sys.executable, str(SCRIPT), "packages", str(tmp_path)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No matching distribution found for six==1.0.0" in done.stderr
    assert f"installing {tmp_path}: 0 %" in done.stderr
