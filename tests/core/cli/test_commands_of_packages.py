"""Commands that packages add through entry points, and errors for missing commands."""

from __future__ import annotations

import json

import pytest

from sites import Site, link_libraries

SIZES = """
import json

def add_arguments(parser):
    parser.add_argument("--least", type=int, default=0, help="leave out smaller ones")

def run(args):
    print(json.dumps({"least": args.least}) if args.json else f"at least {args.least}")
    return 0
"""


@pytest.fixture
def bare(tmp_path):
    """A site without opwright-kit."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    link_libraries(libraries)
    return Site(tmp_path / "site", libraries)


def add_command(site, name, text, module=SIZES):
    """Install a distribution that adds a command; `text` is its module ``commands``."""
    package = site.add(name, modules={"commands": text, "sizes": module})
    [info] = site.folder.glob(f"opwright_{name}-*.dist-info")
    with (info / "entry_points.txt").open("a") as file:
        file.write(f"\n[opwright.commands]\nsizes = {package.name}.commands:SIZES\n")


GOOD = """
from opwright.commands import Command

SIZES = Command("show how large the operators are", "opwright_{name}.sizes")
"""


@pytest.mark.parametrize("command", ["bench", "check", "graph", "new", "stubs"])
def test_the_error_for_a_missing_command_names_the_package_to_install(bare, command):
    done = bare.command(command, "anything", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "CommandError"
    assert f"unknown command, got {command!r}" in done.stderr
    assert done.stderr.endswith('; to get more commands: pip install "opwright[dev]"\n')


def test_without_the_kit_operators_are_listed_but_not_shown_as_pages(bare):
    bare.add("acme")
    assert "acme.swish" in bare.command("ops").stdout
    done = bare.command("ops", "acme.swish")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "opwright: ops: a package must provide its page, got none; to get more commands: "
        'pip install "opwright[dev]"\n'
    )


def test_without_the_kit_the_profile_error_names_the_package_to_install(bare):
    answer = bare.json("""
    import opwright as ow
    from opwright.errors import MissingRequirementError
    answer = []
    for method in ("profile", "graph_html"):
        try:
            getattr(ow.Network([]), method)("page.html")
        except MissingRequirementError as error:
            answer.append(str(error))
    """)
    assert answer == [
        f'kit[{tool}]: no plugin provides this annex\n  to get it: pip install "opwright[dev]"'
        for tool in ("profile", "draw")
    ]


def test_a_package_adds_a_command(bare):
    add_command(bare, "acme", GOOD)
    assert "show how large the operators are" in bare.command("--help").stdout
    assert bare.command("sizes", "--least", "3").stdout == "at least 3\n"
    assert json.loads(bare.command("sizes", "--json").stdout) == {"least": 0}
    done = bare.command("sizes", "--lest=3")
    assert "sizes: unknown argument, got '--lest=3'; did you mean '--least'?" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1 / 0",
            (
                "sizes: its package must be importable, got ZeroDivisionError: division by zero "
                "from opwright-acme; reinstall or uninstall it"
            ),
        ),
        (
            "SIZES = 3",
            (
                "sizes: an entry point of opwright.commands must name an "
                "opwright.commands.Command, got 3 from opwright-acme"
            ),
        ),
    ],
)
def test_a_broken_command_does_not_affect_other_commands(bare, text, message):
    add_command(bare, "acme", text)
    done = bare.command("sizes")
    assert done.returncode == 2
    assert message in done.stderr
    assert bare.command("plugins").returncode == 0
    assert "sizes" not in bare.command("--help").stdout


def test_the_error_names_both_packages_that_add_the_same_command(bare):
    add_command(bare, "acme", GOOD)
    add_command(bare, "other", GOOD)
    done = bare.command("sizes")
    assert done.returncode == 2
    assert (
        "sizes: one package must provide a command, got opwright-acme, opwright-other; uninstall "
        "one of them" in done.stderr
    )


def test_the_error_for_an_unknown_command_suggests_the_nearest_command(bare):
    add_command(bare, "acme", GOOD)
    assert "unknown command, got 'size'; did you mean 'sizes'?" in bare.command("size").stderr
    assert bare.command("kernel").stderr == (
        "opwright: unknown command, got 'kernel'; did you mean 'kernels'?\n"
    )
