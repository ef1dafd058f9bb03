"""Runs the command ``opwright`` in a process with installed test distributions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opwright import Context
from opwright.cli import main
from opwright.cli.command import list_commands
from opwright.context import context
from sites import KERNEL_HOOK, OP_HOOK, TABLE

# Commands provided by opwright and opwright_kit, which are installed on every site.
COMMANDS = [
    name
    for name, command in list_commands().items()
    if command.module.startswith(("opwright.", "opwright_kit."))
]
GUIDE = Path(__file__).parents[3] / "docs" / "command_line.md"


def table(text):
    return [line.split() for line in text.splitlines()]


def test_plugins_are_listed_with_their_contents(site):
    site.add("acme")
    site.add("boom", "1 / 0\n")
    site.add("calm")
    done = site.command("plugins", OPWRIGHT_PLUGINS="acme,boom")
    assert done.returncode == 0
    rows = table(done.stdout)
    assert rows[1] == ["acme", "opwright-acme", "1.0", "loaded", "1", "3", "0", "0"]
    assert rows[2][:4] == ["boom", "opwright-boom", "1.0", "failed"]
    assert rows[3][:4] == ["calm", "opwright-calm", "1.0", "disabled"]
    assert "plugin 'boom' failed to load: ZeroDivisionError: division by zero" in done.stdout


def test_without_plugins_the_first_plugin_to_install_is_suggested(site):
    assert "pip install opwright-std" in site.command("plugins").stdout
    assert json.loads(site.command("plugins", "--json").stdout) == []


def test_passes_are_listed_in_the_order_in_which_they_run(site):
    hook = "import opwright.plugin as plugin\n\n@plugin.hookimpl\ndef opwright_passes(registry):\n"
    hook += "    registry.add('late', phase='layout', function='not_there:f', device='cuda')\n"
    hook += "    registry.add('early', phase='fuse', function='not_there:f')\n"
    site.add("acme", hook)
    rows = table(site.command("passes").stdout)
    assert rows[1] == ["early", "fuse", "*", "opwright-acme", "1.0"]
    assert rows[2] == ["late", "layout", "cuda", "opwright-acme", "1.0"]
    (only,) = json.loads(site.command("passes", "--json", "--device", "cpu").stdout)
    assert (only["name"], only["package"]["plugin"]) == ("early", "acme")


def test_explain_prints_the_table_and_sets_the_exit_code(site):
    site.add("acme")
    good = site.command("explain", "acme.swish", "--dtype", "float32")
    assert good.returncode == 0
    assert "chosen" in good.stdout
    bad = site.command("explain", "acme.swish", "--dtype", "int32")
    assert bad.returncode == 1
    assert "no kernel fits" in bad.stdout
    data = json.loads(site.command("explain", "acme.swish", "--json").stdout)
    assert data["candidates"][0]["library"] == "acme"


def test_doctor_does_not_report_problems_if_all_plugins_work(site):
    site.add("acme")
    done = site.command("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("\nno problem found\n")
    data = json.loads(site.command("doctor", "--json").stdout)
    assert [(p["plugin"], p["state"]) for p in data["plugins"]] == [("acme", "good")]
    assert data["plugins"][0]["import_ms"] > 0


NO_OPERATOR = """
no operator is installed
  to fix it: pip install "opwright[cpu]"

nothing can be computed
"""


def test_doctor_reports_missing_operators_if_none_is_installed(site):
    done = site.command("doctor")
    assert done.returncode == 1
    assert done.stdout.endswith(NO_OPERATOR)
    data = json.loads(site.command("doctor", "--json").stdout)
    advice = 'pip install "opwright[cpu]"'
    assert data["lack"] == {"reason": "no operator is installed", "advice": advice}


def test_doctor_reports_that_no_operator_has_a_kernel_for_the_host(site):
    kernel = "registry.add('{}', device='{}', dtypes='*', kernel='opwright_acme.swish:swish')\n"
    site.add("acme", OP_HOOK + "registry.add('acme.swish', 'opwright_acme.swish:SWISH')\n")
    site.add("gpu", KERNEL_HOOK + kernel.format("acme.swish", "gpu"))
    site.add("other", KERNEL_HOOK + kernel.format("unknown.add", "cpu"))
    done = site.command("doctor")
    assert done.returncode == 1
    reason = "no operator has a kernel for the device cpu"
    assert f'\n{reason}\n  to fix it: pip install "opwright[cpu]"\n' in done.stdout
    site.add("host", KERNEL_HOOK + kernel.format("acme.swish", "*"))
    assert site.command("doctor").stdout.endswith("\nno problem found\n")


def test_doctor_names_the_setting_that_excludes_the_operators(site):
    site.add("acme")
    site.add("calm", OP_HOOK + "pass\n")
    done = site.command("doctor", OPWRIGHT_PLUGINS="calm")
    assert done.returncode == 1
    assert "\n  to fix it: unset OPWRIGHT_PLUGINS, which excludes 1 plugin\n" in done.stdout


def test_doctor_does_not_report_missing_operators_if_a_plugin_is_broken(site):
    site.add("boom", "import not_there\n")
    done = site.command("doctor")
    assert done.returncode == 1
    assert "no operator" not in done.stdout
    assert done.stdout.endswith("\n1 plugin needs fixing\n")


def test_doctor_names_every_broken_plugin_and_a_command_that_helps(site):
    site.add("acme")
    site.add("boom", "import not_there\n", version="2.5")
    rival = "registry.add('acme.swish', device='cpu', dtypes=['float32'], kernel='a:b', "
    site.add("rival", KERNEL_HOOK + rival + "library='acme')\n")
    done = site.command("doctor")
    assert done.returncode == 1
    text = done.stdout
    assert "plugin 'boom' of opwright-boom 2.5 is kept out" in text
    assert "  reason: ModuleNotFoundError: No module named 'not_there'" in text
    assert "  to fix it: install 'not_there', which the plugin 'boom' needs (opwrigh" in text
    assert '  |   File "' in text
    assert "plugin 'rival' of opwright-rival 1.0 is kept out" in text
    assert "  to fix it: pip uninstall opwright-rival (or opwright-acme)" in text
    assert text.endswith("\n2 plugins need fixing\n")


def test_doctor_runs_the_registered_checks(site):
    late = OP_HOOK + "registry.add('late.gone', 'opwright_late.swish:GONE')\n\n"
    late += KERNEL_HOOK.removeprefix("import opwright.plugin as plugin\n\n")
    late += (
        "registry.add('late.swish', device='cpu', dtypes='*', kernel='not_there:k')\n    "
        "registry.add('acme.swish', device='cpu', dtypes='*', kernel='opwright_late.swish:SWISH')"
    )
    site.add("acme")
    site.add("late", late)
    done = site.command("doctor", "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    [found] = data["problems"]
    assert found["plugin"] == "late"
    gone, no_kernel = found["problems"]  # a kernel for the undefined late.swish is not a fault
    assert gone.startswith("late.gone: 'opwright_late.swish:GONE' of opwright-late 1.0 failed")
    assert no_kernel.startswith("acme.swish[cpu, *, late]: a kernel must be a function of slots")


CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"


def test_doctor_accepts_a_kernel_for_a_device_that_no_plugin_provides(site):
    """A kernel for a device that no plugin provides belongs to an extra that is not installed."""
    hook = "registry.add('acme.swish', device='gpu', dtypes='*', kernel='not_there:k')\n"
    site.add("acme")
    site.add("more", KERNEL_HOOK + hook)
    done = site.command("doctor")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "86401"])
def test_doctor_refuses_a_time_limit_that_is_too_short_or_infinite(capsys, given):
    assert main(["doctor", "--timeout", given]) == 2
    text = "doctor: --timeout must be more than 0 and at most 86400 seconds, got "
    assert f"{text}{given}; give" in capsys.readouterr().err


def test_doctor_lists_plugins_that_crash(site):
    site.add("acme")
    site.add("early", CRASH)
    site.add("later", modules={"swish": CRASH})
    site.add("quits", "import os\nos._exit(7)\n")
    site.add("zebra")
    done = site.command("doctor")
    assert done.returncode == 1
    rows = {row[0]: row[3] for row in table(done.stdout) if len(row) == 6 and "|" not in row}
    states = {"acme": "good", "early": "crashes", "later": "crashes"}
    assert rows == {**states, "quits": "crashes", "zebra": "good"}
    assert "  reason: crashed with SIGSEGV while its hooks ran" in done.stdout
    assert "  reason: crashed with SIGSEGV while later.swish was loaded" in done.stdout
    assert "  reason: ended the process with exit code 7 while its hooks ran" in done.stdout


def test_doctor_shows_the_functions_in_which_a_plugin_crashed(site):
    site.add("acme", "def inner():\n    import os\n    os.abort()\n\ninner()\n")
    text = site.command("doctor").stdout
    assert "  reason: crashed with SIGABRT while its hooks ran" in text
    lines = [line.split()[-1] for line in text.splitlines() if line.startswith("  |   File ")]
    assert lines == ["<module>", "inner"]


def test_doctor_groups_equal_load_failures_of_a_plugin(site):
    names = "".join(f"registry.add('late.op{i}', 'not_there:X')\n    " for i in range(9))
    site.add("late", OP_HOOK + names)
    [found] = json.loads(site.command("doctor", "--json").stdout)["problems"]
    [text] = found["problems"]
    assert text.startswith("late.op0 and 8 more: 'not_there:X' of opwright-late 1.0 failed to load")


def test_doctor_stops_plugins_that_hang(site):
    site.add("acme")
    site.add("sleepy", "import time\ntime.sleep(600)\n")
    done = site.command("doctor", "--timeout", "2")
    assert done.returncode == 1
    assert "  reason: took more than 2 s while its hooks ran" in done.stdout


def test_doctor_excludes_the_output_of_plugins_from_its_report(site):
    site.add("acme", "print('hello')\nimport sys\nsys.stdout.flush()\n" + TABLE)
    assert site.command("doctor").returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plugns"], "unknown command, got 'plugns'; did you mean 'plugins'?"),
        (["xyz"], "unknown command, got 'xyz'; commands are 'plugins', 'ops'"),
        (["explain", "acme.swsh"], "did you mean 'acme.swish'?"),
        (["ops", "acme.swsh"], "did you mean 'acme.swish'?"),
        (["explain", "--dvice", "cpu", "acme.swish"], "got '--dvice'; did you mean '--device'?"),
        (["passes", "extra"], "passes: unknown argument, got 'extra'; see: --help"),
        (["--versoin"], "opwright: unknown argument, got '--versoin'; did you mean '--version'?"),
    ],
)
def test_the_error_for_a_typo_suggests_the_nearest_name(site, words, message):
    site.add("acme")
    done = site.command(*words)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr


def test_without_a_command_help_is_shown(site):
    done = site.command()
    assert done.returncode == 2
    for name in COMMANDS:
        assert f"\n    {name}" in done.stdout


def test_the_version_is_reported(site):
    assert site.command("--version").stdout.startswith("opwright ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(capsys, name):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_in_the_guide(name):
    assert f"\n$ opwright {name} " in GUIDE.read_text() or f"\n$ opwright {name}\n" in (
        GUIDE.read_text()
    )


def test_a_closed_pipe_does_not_cause_a_traceback(site):
    site.add("acme")
    code = (
        "import sys, os; from opwright.cli import main\n"
        "r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
        "code = main(['ops', '--json']); sys.stdout.flush(); sys.exit(code)"
    )
    done = site.run("-c", code, check=False)
    assert "Traceback" not in done.stderr


def test_an_interrupted_command_does_not_print_a_traceback(capsys, monkeypatch):
    def interrupt(*args):
        error = KeyboardInterrupt()
        error.add_note("plugin 'endless' was being loaded")
        raise error

    monkeypatch.setattr(Context, "discover", interrupt)
    monkeypatch.setattr(context, "_default", None)
    assert main(["kernels"]) == 130
    told = capsys.readouterr().err
    assert told == "opwright: kernels: interrupted\n  plugin 'endless' was being loaded\n"


def test_a_full_disk_causes_a_one_line_error(site):
    site.add("acme")
    code = (
        "import sys, os; from opwright.cli import main\n"
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 1); sys.exit(main(['plugins', *sys.argv[1:]]))"
    )
    for words in ([], ["--json"]):
        done = site.run("-c", code, *words, check=False)
        assert done.returncode == 1
        assert done.stderr == "opwright: plugins: [Errno 28] No space left on device\n"


def test_doctor_names_a_plugin_that_raises_an_interrupt(site):
    site.add("acme")
    site.add("boom", "raise KeyboardInterrupt('within')\n")
    done = site.command("doctor")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "raised KeyboardInterrupt: within while its hooks ran" in done.stdout
    assert "to continue without the crashing ones: OPWRIGHT_PLUGINS=acme" in done.stdout
