"""Errors of `opwright new` state the rule and a remedy, and leave no files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opwright as ow
from opwright.errors import OperatorNotFoundError
from opwright_kit.scaffold import check_names, plan_package, write_package
from opwright_kit.scaffold.errors import ScaffoldError

New = Callable[..., Any]


@pytest.mark.parametrize(
    ("name", "rule", "way_out"),
    [
        ("My Ops", "words of a-z and 0-9 joined by '-', got 'My Ops'", "opwright-my-ops"),
        ("Opwright_Foo", "words of a-z and 0-9", "opwright-foo"),
        ("../evil", "words of a-z and 0-9", "opwright-evil"),
        ("", "words of a-z and 0-9", "ops"),
        ("opwright-3d", "must begin with a letter", "opwright-ops-3d"),
        ("opwright-lambda", "not be a keyword", "opwright-lambda-ops"),
        ("opwright-std", "is that of opwright-std 0.1.0, which is installed", "opwright-std-ops"),
        ("json", "the module's name 'json' is taken", "opwright-json"),
        ("opwright-softmax", "'softmax' is that of an operator", "opwright-softmax-ops"),
        ("cpu-", "words of a-z and 0-9", "opwright-cpu-ops"),
        ("opwright-install", "'install' is reserved by CMake", "opwright-install-ops"),
        ("opwright-native", "'native' is that of a library of kernels", "opwright-native-ops"),
    ],
)
def test_the_error_for_an_invalid_name_suggests_a_valid_name(
    name: str, rule: str, way_out: str
) -> None:
    context = ow.Context.discover()
    with pytest.raises(ScaffoldError) as caught:
        check_names(name, context)
    assert rule in str(caught.value)
    assert str(caught.value).endswith(f"; write {way_out!r}")
    assert check_names(way_out, context).distribution == way_out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "kernal"}, "unknown kind, got 'kernal'; did you mean 'kernel'"),
        ({"language": "rust"}, "got 'rust'; languages of an operator are 'python', 'cpp', 'cuda'"),
        ({"kind": "device", "language": "cuda"}, "languages of a device are 'python', 'cpp'$"),
        ({"license": "mit"}, "unknown license, got 'mit'; did you mean 'MIT'"),
        ({"operator": "relu"}, "got 'relu' with kind 'operator'; leave it out, or add --kind"),
        (
            {"kind": "kernel", "operator": "softmax"},
            "whose formula is known, got 'softmax'; choose one of abs, exp",
        ),
    ],
)
def test_the_error_for_an_unknown_choice_lists_the_choices(
    options: dict[str, str], message: str
) -> None:
    context = ow.Context.discover()
    with pytest.raises(ScaffoldError, match=message):
        plan_package(check_names("opwright-acme", context), context, **options)


def test_the_error_for_a_missing_operator_suggests_the_nearest_operator() -> None:
    context = ow.Context.discover()
    names = check_names("opwright-acme", context)
    with pytest.raises(OperatorNotFoundError, match="did you mean 'sigmoid'") as caught:
        plan_package(names, context, kind="kernel", operator="sigmod")
    assert "kernels can be generated for: abs, exp" in str(caught.value)


@pytest.mark.parametrize("taken", ["folder", "file", "dangling link"])
def test_an_existing_folder_is_refused_and_unchanged(tmp_path: Path, taken: str) -> None:
    place = tmp_path / "acme"
    if taken == "folder":
        place.mkdir()
    elif taken == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ScaffoldError, match=f"must not exist, got '{place}'; choose another name"):
        write_package(place, {"a": "b"})
    assert list(tmp_path.iterdir()) == [place]


def test_a_missing_parent_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError, match="into an existing folder, got .*nowhere'; make it"):
        write_package(tmp_path / "nowhere" / "acme", {"a": "b"})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_no_files(new: New, tmp_path: Path) -> None:
    # Files are limited to 4 KB here, and the license is larger.
    done = new("opwright-acme", before="ulimit -f 4;")
    assert done.returncode == 1
    assert "'opwright-acme' cannot be written, got OSError: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_next_three_commands(new: New, tmp_path: Path) -> None:
    done = new("opwright-acme")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "  pip install ./opwright-acme",
        "  python opwright-acme/example.py",
        "  opwright check opwright-acme",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["opwright-acme"]
    again = new("opwright-acme")
    assert (again.returncode, again.stdout) == (2, "")
    assert "opwright: new: the folder must not exist, got 'opwright-acme'" in again.stderr


def test_json_output_lists_the_written_files(new: New, tmp_path: Path) -> None:
    printed = json.loads(new("opwright-acme", "--kind", "device", "--json").stdout)
    written = {path for path in (tmp_path / "opwright-acme").rglob("*") if path.is_file()}
    assert {tmp_path / printed["folder"] / name for name in printed["files"]} == written
