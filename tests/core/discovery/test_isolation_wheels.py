"""The core and other plugins keep working if pip has installed wheels of broken plugins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opwright

from .fixture_wheels import (
    COMPILED,
    COMPILED_PLUGINS,
    ENDLESS,
    GOOD,
    LIBRARY,
    PYTHON_PLUGINS,
    STUCK,
    write_wheel,
)

pytestmark = pytest.mark.slow

VERSION = "1.2"


class Installed:
    """A folder with wheels installed by pip, in addition to this environment."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.site = folder / "site"
        self.cache = folder / "cache"
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
        command += ["--quiet", "--no-index", "--no-deps", "--target", str(self.site)]
        subprocess.run([*command, *map(str, wheels)], check=True, timeout=600)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPWRIGHT_", "PYTHON"))}
        env |= {"PYTHONPATH": str(self.site), "OPWRIGHT_CACHE_DIR": str(self.cache), **environ}
        command = [sys.executable, *words]
        return subprocess.run(
            command, check=False, env=env, capture_output=True, text=True, timeout=600
        )

    def json(self, code: str) -> Any:
        """Run code that assigns its result to `answer`, and return it."""
        done = self.run("-c", f"{textwrap.dedent(code)}\nimport json\nprint(json.dumps(answer))")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def compile_library(folder: Path, name: str, entry: str, fault: str) -> bytes:
    target = folder / f"lib{name}.so"
    command = ["gcc", "-std=c11", "-O0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", f"-I{opwright.get_include()}", f'-DNAME="{name}"']
    command += [f"-DENTRY={entry}", f"-DFAULT={fault}", "-x", "c", "-", "-o", str(target)]
    subprocess.run(command, input=LIBRARY, text=True, check=True, timeout=600)
    return target.read_bytes()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """All `fixture_wheels` plugins whose import does not hang; three of these plugins work."""
    folder = tmp_path_factory.mktemp("isolation")
    wheels = [
        write_wheel(folder, name, table, version=VERSION) for name, table in PYTHON_PLUGINS.items()
    ]
    for name, (entry, fault) in COMPILED_PLUGINS.items():
        files = {f"lib{name}.so": compile_library(folder, name, entry, fault)}
        wheels.append(write_wheel(folder, name, COMPILED, version=VERSION, files=files))
    wheels.append(write_wheel(folder, "apple", GOOD, version=VERSION, distribution="orchard"))
    return Installed(folder, wheels)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A working plugin, and two plugins with an endless hook module or operator module."""
    folder = tmp_path_factory.mktemp("endless")
    wheels = [
        write_wheel(folder, "endless", ENDLESS),
        write_wheel(folder, "stuck", STUCK, files={"slow.py": ENDLESS.encode()}),
        write_wheel(folder, "zebra", GOOD),
    ]
    return Installed(folder, wheels)


KEPT_OUT = {
    "raises": "ZeroDivisionError: division by zero",
    "newer_core": "ImportError: cannot import name 'of_a_newer_release' from 'opwright.op'",
    "signature": "hook with a wrong signature, got opwright_ops(registry, verbose); write def ",
    "twice": "twice.swish: registered twice by opwright-twice 1.2; remove one of the two",
    "rival": "apple.swish[cpu, float64, apple]: kernel is registered twice, by opwright-apple 1.2 ",
    "apple": "apple.swish: operator is registered twice, by opwright-apple 1.2 and orchard 1.2",
    "half": "RuntimeError: the other half",
}
"""Reasons by plugin; two plugins are named "apple", and the reason is that of orchard."""

UPGRADE = "pip install --upgrade opwright"
UNUSABLE = {
    "no_entry": ("must export opwright_plugin_v1, got none of", f"{UPGRADE}-no-entry"),
    "newer_abi": ("must be built for ABI 1, got one for ABI 2", UPGRADE),
    "no_symbol": ('"undefined symbol: of_a_newer_release"', f"{UPGRADE}-no-symbol"),
}
"""The message about a library that cannot be opened and the suggested command, by plugin."""

ADVICE = {
    "raises": f"{UPGRADE}-raises",
    "newer_core": UPGRADE,
    "signature": f"{UPGRADE}-signature",
    "twice": f"{UPGRADE}-twice",
    "rival": "pip uninstall opwright-rival (or opwright-apple)",
    "apple": "pip uninstall orchard (or opwright-apple)",
    "half": f"{UPGRADE}-half",
}


def test_the_core_and_other_plugins_keep_working(installed: Installed) -> None:
    answer = installed.json("""
    import numpy as np, opwright as ow
    x = np.full(2, -1.0)
    failures = ow.current_context().failures
    answer = {
        "numbers": [f(x)[0] for f in (
            ow.ops.relu, ow.ops.apple.swish, ow.ops.compiled.swish, ow.ops.zebra.swish)],
        "failures": {f.package.plugin: [f.package.version, f.reason, f.advice] for f in failures},
    }
    """)
    swish = -1 / (1 + 2.718281828459045)
    assert answer["numbers"] == pytest.approx([0.0, swish, -2.0, swish])
    failures = answer["failures"]
    assert {name: failures[name][0] for name in failures} == dict.fromkeys(KEPT_OUT, VERSION)
    for name, reason in KEPT_OUT.items():
        assert failures[name][1].startswith(reason)
        assert failures[name][2] == ADVICE[name]


def test_all_registrations_of_a_plugin_that_raises_in_its_last_hook_are_discarded(
    installed: Installed,
) -> None:
    answer = installed.json("""
    import opwright as ow
    context = ow.current_context()
    answer = [
        [type for type in context.ops.types(all=True) if type.startswith("half.")],
        [type for type in context.kernels.op_types() if type.startswith("half.")],
        context.devices.find("half_device") is not None,
        hasattr(ow.ops, "half"),
    ]
    """)
    assert answer == [[], [], False, False]


def test_discovery_and_listing_do_not_open_libraries(installed: Installed) -> None:
    answer = installed.json("""
    from pathlib import Path
    import numpy as np, opwright as ow

    def opened():
        lines = Path("/proc/self/maps").read_text().splitlines()
        paths = {line.split()[-1] for line in lines if "/site/" in line}
        return sorted(Path(path).name for path in paths)

    ow.list_ops(all=True), ow.current_context().kernels.registrations()
    ow.ops.zebra.swish(np.ones(2))
    before = opened()
    ow.ops.compiled.swish(np.ones(2))
    answer = [before, opened()]
    """)
    assert answer == [[], ["libcompiled.so"]]


def test_a_library_that_crashes_kills_only_processes_that_use_it(installed: Installed) -> None:
    code = "import numpy as np, opwright as ow; ow.ops.segfault.swish(np.ones(2))"
    assert installed.run("-c", code).returncode == -signal.SIGSEGV
    code = "import numpy as np, opwright as ow; ow.ops.zebra.swish(np.ones(2)), ow.list_ops()"
    assert installed.run("-c", code).returncode == 0


def test_a_library_that_crashed_two_processes_is_skipped(
    installed: Installed, tmp_path: Path
) -> None:
    code = "import numpy as np, opwright as ow; ow.ops.segfault.swish(np.ones(2))"
    done = [installed.run("-c", code, OPWRIGHT_CACHE_DIR=str(tmp_path)) for _ in range(3)]
    assert [each.returncode for each in done] == [-signal.SIGSEGV, -signal.SIGSEGV, 1]
    assert (
        "plugin 'segfault': a process ended while importing 'opwright_segfault/libsegfault.so' of "
        f"opwright-segfault {VERSION}"
    ) in done[1].stderr
    assert "the last 2 processes ended while importing" in done[2].stderr
    fix = f"to fix opwright-segfault {VERSION}: opwright doctor --retry segfault\n"
    assert fix in done[2].stderr


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_library_that_cannot_be_opened_is_reported_at_first_use(
    installed: Installed, name: str
) -> None:
    code = f"import numpy as np, opwright as ow; ow.ops.{name}.swish(np.ones(2))"
    done = installed.run("-W", "ignore", "-c", code)
    reason, advice = UNUSABLE[name]
    distribution = f"opwright-{name.replace('_', '-')} {VERSION}"
    assert f"{name}.swish[cpu, float64]: no kernel can be used" in done.stderr
    assert reason in done.stderr
    assert f"to fix {distribution}: {advice}\n" in done.stderr


def test_the_error_for_an_operator_of_an_excluded_plugin_names_the_plugin_first(
    installed: Installed,
) -> None:
    code = "import numpy as np, opwright as ow; ow.ops.twice.swish(np.ones(2))"
    lines = installed.run("-c", code).stderr.splitlines()
    first = next(i for i, line in enumerate(lines) if "twice: no operator" in line)
    assert lines[first].endswith("twice: no operator of this type is registered")
    assert lines[first + 1].startswith("  plugin 'twice' failed to load: twice.swish: registered")
    assert lines[-1] == f"  to get it: {UPGRADE}-twice"


@pytest.fixture(scope="session")
def doctor(installed: Installed) -> Callable[[str], dict[str, Any]]:
    """A function that finds a plugin in one list of the doctor report."""
    done = installed.run("-m", "opwright", "doctor", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)

    def find(kind: str) -> dict[str, Any]:
        return {(item["plugin"], item["distribution"]): item for item in report[kind]}

    return find


def test_doctor_names_each_quarantined_plugin(doctor: Callable[[str], Any]) -> None:
    found = {plugin: item for (plugin, _), item in doctor("failures").items()}
    assert set(found) == set(KEPT_OUT)
    for name, item in found.items():
        assert item["version"] == VERSION
        expected = "orchard" if name == "apple" else f"opwright-{name.replace('_', '-')}"
        assert item["distribution"] == expected
        assert item["reason"].startswith(KEPT_OUT[name])
        assert item["advice"] == ADVICE[name]


def test_doctor_names_each_library_that_cannot_be_opened(doctor: Callable[[str], Any]) -> None:
    found = {plugin: item for (plugin, _), item in doctor("problems").items()}
    assert set(found) == set(UNUSABLE)
    for name, item in found.items():
        [text] = item["problems"]
        assert text.startswith(f"{name}.swish[cpu, float64, {name}]: library 'opwright_{name}/lib")
        assert UNUSABLE[name][0] in text
        assert item["advice"] == [UNUSABLE[name][1]]


def test_doctor_names_the_crashed_plugin_and_the_step(doctor: Callable[[str], Any]) -> None:
    [crash] = doctor("crashes").values()
    assert (crash["plugin"], crash["distribution"]) == ("segfault", "opwright-segfault")
    assert crash["reason"] == (
        "crashed with SIGSEGV while segfault.swish[cpu, float64, segfault] was loaded"
    )
    assert crash["always"] is False
    assert crash["advice"].startswith("pip install --upgrade opwright-segfault")


def test_doctor_does_not_report_faults_of_working_plugins(doctor: Callable[[str], Any]) -> None:
    states = {key: item["state"] for key, item in doctor("plugins").items()}
    for name in ("std", "cpu", "cuda", "apple", "compiled", "zebra"):
        assert states[name, f"opwright-{name}"] == "good"


def test_doctor_shows_the_cost_of_each_plugin(doctor: Callable[[str], Any]) -> None:
    for item in doctor("plugins").values():
        assert item["import_ms"] > 0
        assert item["index_ms"] > 0


def test_doctor_shows_where_an_endless_import_hangs(endless: Installed) -> None:
    words = ("-m", "opwright", "doctor", "--timeout", "5")
    done = endless.run(*words, OPWRIGHT_PLUGINS="endless,stuck,zebra")
    assert done.returncode == 1
    text = done.stdout
    assert "plugin 'endless' of opwright-endless 1.0 crashes or blocks every proc" in text
    assert "  reason: took more than 5 s while its hooks ran\n" in text
    assert 'plugin.py", line 3, in <module>\n' in text
    assert "plugin 'stuck' of opwright-stuck 1.0 crashes or blocks processes that" in text
    assert "  reason: took more than 5 s while stuck.swish was loaded\n" in text
    assert 'slow.py", line 3, in <module>\n' in text
    assert "OPWRIGHT_PLUGINS=zebra\n" in text


def test_interrupting_an_endless_import_names_the_plugin(endless: Installed) -> None:
    code = """
import os, signal, sys, threading, time
from opwright.context.context import current_context

def interrupt():
    while "opwright_endless.plugin" not in sys.modules:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
current_context()
"""
    done = endless.run("-c", code, OPWRIGHT_PLUGINS="endless")
    assert done.stderr.splitlines()[-2] == "KeyboardInterrupt"
    assert done.stderr.splitlines()[-1].startswith(
        "plugin 'endless' of opwright-endless 1.0 was being loaded; to see what it does: opwright "
    )


def test_discovery_finishes_if_a_plugin_with_an_endless_import_is_excluded(
    endless: Installed,
) -> None:
    code = "import opwright; print('zebra.swish' in opwright.list_ops())"
    assert endless.run("-c", code, OPWRIGHT_PLUGINS="std,zebra").stdout == "True\n"
