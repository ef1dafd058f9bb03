"""Every command exits with 2 if its command line is invalid, and prints the error as JSON."""

from __future__ import annotations

import json

import pytest

import opwright as ow
from opwright.cli import _make_parser, main
from opwright.cli.command import get_command, list_commands

COMMANDS = list_commands()
ANY_OP = "tanh"

GOOD = {
    "explain": [ANY_OP],
    "check": ["opwright-std"],
    "new": ["opwright-acme"],
    "bench": [ANY_OP, "--feed", "4"],
    "graph": ["model"],
    "lock": ["model"],
    "bundle": ["model"],
    "onnx": ["report", "model"],
    "run": ["model"],
}
"""The valid arguments that a command needs in addition to the invalid argument."""

# Invalid words by command and argument. If the argument is an option, its words are added to the
# arguments in GOOD; otherwise, they are passed alone.
WRONG = {
    ("ops", "type"): [["tahn"]],
    ("kernels", "pattern"): [["tahn"], ["tahn*"]],
    ("kernels", "device"): [["--device", "cpi"], ["--device", "cpu:x"]],
    ("kernels", "dtype"): [["--dtype", "flot32"]],
    ("kernels", "library"): [["--library", "numpi"]],
    ("kernels", "distribution"): [["--distribution", "opwright-sdt"]],
    ("passes", "device"): [["--device", "cpi"]],
    ("graph", "model"): [["modle"]],
    ("graph", "output"): [["--output", "no/page.html"], ["--output", "model"]],
    ("graph", "device"): [["--device", "cpi"], ["--device", "cpu:1"]],
    ("graph", "feed"): [
        ["--feed", "x=4"],
        ["--profile", "--feed", "y=4"],
        ["--profile", "--feed", "x=a"],
    ],
    ("graph", "runs"): [["--runs", "0"], ["--runs", "x"]],
    ("graph", "fallback"): [["--fallback", "cpi"]],
    ("bundle", "folder"): [["modle"], []],
    ("bundle", "feed"): [["--feed", "x=a"], ["--feed", "y=4"]],
    ("bundle", "batch"): [["--batch", "x"], ["--batch", "4:1"]],
    ("bundle", "output"): [["--output", "no/a.owb"]],
    ("onnx", "action"): [["reprt", "model"], []],
    ("onnx", "model"): [["report", "modle"], ["report"]],
    ("onnx", "target"): [["convert", "model", "no/model.onnx"]],
    ("onnx", "feed"): [["--feed", "x=a"]],
    ("onnx", "opset"): [["--opset", "x"]],
    ("run", "model"): [["modle"], []],
    ("run", "input"): [["--input", "x=gone.npy"], ["--input", "y=model"]],
    ("run", "feed"): [["--feed", "x=a"], ["--feed", "y=4"]],
    ("run", "output"): [["--output", "no/results.npz"]],
    ("run", "device"): [["--device", "cpi"], ["--device", "cpu:1"]],
    ("lock", "model"): [["modle"], ["model/program.pb"], []],
    ("lock", "output"): [["--output", "no/a.lock"], ["--output", "model"]],
    ("lock", "device"): [["--device", "cpi"], ["--device", "cpu:1"]],
    ("lock", "fallback"): [["--fallback", "cpi"]],
    ("lock", "feed"): [["--feed", "y=4"], ["--feed", "x=a"], ["--feed", "x=3"]],
    ("explain", "type"): [["tahn"], []],
    ("explain", "device"): [["--device", "cpi"], ["--device", "cpu:1"]],
    ("explain", "dtype"): [["--dtype", "flot32"]],
    ("check", "package"): [["opwright-sdt"], []],
    ("check", "rule"): [["--rule", "refrence"]],
    ("check", "subject"): [["--subject", "tahn"]],
    ("check", "seed"): [["--seed", "x"], ["--seed", "-1"]],
    ("check", "sample"): [["--sample", "x"], ["--sample", "-1"]],
    ("check", "dtype"): [["--dtype", "flot32"]],
    ("check", "time_limit"): [["--time-limit", "x"], ["--time-limit", "0"]],
    ("check", "junit"): [["--junit", "no/a.xml"]],
    ("new", "name"): [["Bad_Name"], []],
    ("new", "kind"): [["--kind", "opertor"]],
    ("new", "language"): [["--language", "pyton"]],
    ("new", "operator"): [["--operator", "tahn"], ["--kind", "kernel", "--operator", "tahn"]],
    ("new", "license"): [["--license", "GLP"]],
    ("new", "into"): [["--into", "no/where"]],
    ("bench", "type"): [["tahn"], []],
    ("bench", "feed"): [["--feed", "y=4"], ["--feed", "x=a"], ["--feed", "x=4:flot32"]],
    ("bench", "attr"): [["--attr", "axs=1"], ["--attr", "axis"]],
    ("bench", "device"): [["--device", "cpi"], ["--device", "cpu:1"]],
    ("bench", "dtype"): [["--dtype", "flot32"]],
    ("bench", "rounds"): [["--rounds", "x"], ["--rounds", "0"]],
    ("bench", "threads"): [["--threads", "x"], ["--threads", "0"]],
    ("stubs", "output"): [["--output", "model/program.pb"]],
    ("doctor", "timeout"): [["--timeout", "x"], ["--timeout", "0"]],
    ("doctor", "retry"): [["--retry", "sdt"]],
}


def arguments(command):
    """Return the command arguments that take a value."""
    [subparsers] = [
        a for a in _make_parser(command, get_command(command))[0]._actions if a.dest == "command"
    ]
    actions = subparsers.choices[command]._actions
    return [action.dest for action in actions if action.nargs != 0]


CASES = [
    (command, argument, words)
    for command in COMMANDS
    for argument in arguments(command)
    for words in WRONG[command, argument]  # a new argument must be added to WRONG
]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Save a small program, and change into its folder."""
    monkeypatch.chdir(tmp_path)
    with ow.program_guard(ow.Program(), ow.Program()) as (program, _):
        x = program.global_block().create_var("x", [4], is_data=True)
        ow.save("model", program, ow.Scope(), fetch=[ow.ops.tanh(x)])


def run(capsys, *words):
    """Return the exit code, the parsed output and the error text."""
    code = main(words)
    told = capsys.readouterr()
    return code, json.loads(told.out), told.err


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(("command", "argument", "words"), CASES)
def test_an_invalid_value_of_any_argument_exits_with_2_and_prints_json(
    capsys, command, argument, words
):
    is_option = any(word.startswith("--") for word in words)
    given = [*GOOD.get(command, ()), *words] if is_option else words
    code, found, error = run(capsys, command, *given, "--json")
    assert code == 2
    assert set(found) == {"error"}
    assert set(found["error"]) == {"kind", "message"}
    assert found["error"]["kind"].endswith("Error")
    assert error == f"opwright: {found['error']['message']}\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("word", ["--jsn", "--unknown=1", "-q"])
def test_an_unknown_option_exits_with_2_and_prints_json(capsys, command, word):
    code, found, _ = run(capsys, command, *GOOD.get(command, ()), word, "--json")
    assert code == 2
    assert f"unknown argument, got '{word}'" in found["error"]["message"]


def test_an_unknown_command_exits_with_2_and_prints_json(capsys):
    code, found, _ = run(capsys, "docter", "--json")
    assert (code, found["error"]["kind"]) == (2, "CommandError")


def test_an_abbreviated_option_is_not_expanded(capsys):
    assert main(["ops", "--al"]) == 2
    assert "got '--al'; did you mean '--all'?" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["OPWRIGHT_PLUGINS", "OPWRIGHT_STRICT"])
def test_an_invalid_environment_variable_exits_with_2_and_prints_json(site, variable):
    site.add("acme")
    done = site.command("plugins", "--json", **{variable: "nope"})
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "SettingError"


def test_a_failure_of_a_plugin_exits_with_1_and_prints_json(site):
    table = """
    import opwright.plugin as plugin

    @plugin.hookimpl
    def opwright_ops(registry):
        registry.add("acme.swish", "opwright_acme.gone:SWISH")
    """
    site.add("acme", table)
    done = site.command("ops", "acme.swish", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "PluginError"
    assert "opwright-acme 1.0 failed to load" in error["message"]
    assert done.stderr == f"opwright: {error['message']}\n"


@pytest.mark.usefixtures("model")
def test_a_damaged_program_exits_with_1(capsys, tmp_path):
    (tmp_path / "model" / "program.pb").write_bytes(b"no program")
    code, found, _ = run(capsys, "graph", "model", "--json")
    assert (code, found["error"]["kind"]) == (1, "FormatError")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "command", sorted(set(COMMANDS) - {"check", "new", "stubs", "doctor", "onnx"})
)
def test_a_correct_input_exits_with_0(capsys, command):
    assert run(capsys, command, *GOOD.get(command, ()), "--json")[0] == 0


@pytest.mark.usefixtures("model")
def test_the_error_for_bundling_a_missing_folder_names_the_folder(capsys):
    assert main(["bundle", "modle"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("opwright: bundle: modle: must be a folder that opwright.save has")
