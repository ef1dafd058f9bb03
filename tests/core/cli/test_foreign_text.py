"""The command line handles arbitrary output, names, errors and metadata of third parties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sites import TABLE, Site

NOISY = f"""
import ctypes, os
print("from Python")
os.write(1, b"from a descriptor\\n")
ctypes.CDLL(None).puts(b"from C")
{TABLE}
"""


@pytest.fixture
def noisy(site: Site) -> Site:
    """A site with a plugin that prints when it is imported."""
    site.add("acme", NOISY)
    return site


@pytest.mark.parametrize(
    "words", [("plugins",), ("ops",), ("kernels",), ("passes",), ("doctor",), ("explain", "no")]
)
def test_the_output_of_a_plugin_is_not_in_the_json(noisy: Site, words: tuple[str, ...]) -> None:
    done = noisy.command(*words, "--json")
    json.loads(done.stdout)
    if words != ("doctor",):  # captured by its child process
        for text in ("from Python", "from a descriptor", "from C"):
            assert text in done.stderr


def test_the_json_printed_by_a_third_party_command_is_kept(site: Site) -> None:
    package = site.add("acme", modules={"show": SHOW})
    [info] = site.folder.glob("*.dist-info")
    with (info / "entry_points.txt").open("a") as file:
        file.write(f"\n[opwright.commands]\nshow = {package.name}.show:SHOW\n")
    assert json.loads(site.command("show", "--json").stdout) == [1]


SHOW = """
import json
from opwright.commands import Command

SHOW = Command("show a document", "opwright_acme.show")

def add_arguments(parser):
    pass

def run(args):
    print(json.dumps([1]))
    return 0
"""


def add_entries(site: Site, *lines: str) -> None:
    """Install a distribution with these entry points."""
    site.add("acme", entry="\n".join(lines))


@pytest.mark.parametrize("command", ["plugins", "doctor", "ops", "kernels"])
def test_escape_sequences_are_not_printed_to_the_terminal(site: Site, command: str) -> None:
    site.add("torn", "raise ImportError('\\x1b[2J')")
    add_entries(site, "evil\x1b]0;x\x07\u202e = opwright_acme.plugin")
    done = site.command(command)
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr
    assert command not in ("plugins", "doctor") or "evil\\x1b]0;x\\x07\\u202e" in done.stdout


def test_doctor_checks_thousands_of_entry_points(site: Site) -> None:
    add_entries(site, *(f"evil{i} = nowhere" for i in range(3000)))
    done = site.command("doctor")
    assert "Traceback (most recent call last)" not in done.stderr
    assert "3000 plugins need fixing" in done.stdout


def test_doctor_reports_metadata_that_cannot_be_read(site: Site) -> None:
    site.add("acme")
    (site.folder / "foo-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    done = site.command("doctor")
    assert "skipped, for its metadata cannot be read:" in done.stdout
    assert "foo-1.0.dist-info: IsADirectoryError" in done.stdout
    assert json.loads(site.command("doctor", "--json").stdout)["unreadable_metadata"]


@pytest.mark.parametrize("name", ["RECORD", "METADATA"])
def test_damaged_metadata_does_not_hide_the_import_error_of_a_plugin(site: Site, name: str) -> None:
    site.add("acme", "import nothing_here")
    site.add("other")
    [info] = site.folder.glob("opwright_acme-*.dist-info")
    Path(info / name).write_bytes(b"\xff\xfe,,\n")
    [[plugin, reason]] = site.failures()
    assert (plugin, reason) == ("acme", "ModuleNotFoundError: No module named 'nothing_here'")


@pytest.mark.parametrize(
    "text",
    ["raise SystemExit(3)", "raise GeneratorExit", "raise type('Stop', (BaseException,), {})"],
)
def test_a_module_that_raises_at_first_use_causes_a_plugin_error(site: Site, text: str) -> None:
    site.add("acme", modules={"swish": text})
    answer = site.json("""
    import opwright as ow
    from opwright.errors import PluginError
    try:
        ow.current_context().ops.get("acme.swish")
    except PluginError as error:
        answer = str(error)
    """)
    assert "'opwright_acme.swish:SWISH' of opwright-acme 1.0 failed to load" in answer
