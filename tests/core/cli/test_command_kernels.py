"""``opwright kernels`` prints which libraries have kernels for each operator, device and dtype."""

from __future__ import annotations

import json

import pytest

from opwright import context_guard
from opwright.cli import main
from sites import KERNEL_HOOK

RIVAL = (
    KERNEL_HOOK
    + "registry.add('acme.swish', device='cpu', dtypes=['float32'], kernel='not_there:a', "
    "library='fast', priority=80, prefers={'mode': 'fast'})\n"
    "    registry.add('acme.swish', device='npu', dtypes=['float16', 'bfloat16'], "
    "kernel='not_there:b')\n"
    "    registry.add('acme.swish', device='*', dtypes='*', kernel='not_there:c', library='slow', "
    "priority=1)\n"
)


def matrix(text):
    """Parse a printed matrix into {(operator, device): {dtype: library letters}}."""
    lines = text.partition("\n\n")[0].splitlines()
    title, *rows = [line.split() for line in lines]
    return {tuple(row[:2]): dict(zip(title[2:], row[2:], strict=True)) for row in rows}


@pytest.fixture
def rivals(site):
    """A site with acme's swish and kernels for it from another distribution."""
    site.add("acme")
    site.add("rival", RIVAL)
    return site


def test_a_cell_lists_libraries_in_the_order_in_which_they_are_tried(rivals):
    done = rivals.command("kernels", "acme.swish")
    cells = matrix(done.stdout)
    assert done.returncode == 0
    assert cells["acme.swish", "cpu"]["f32"] == "FAS"
    assert cells["acme.swish", "cpu"]["f64"] == "AS"
    assert "\nA  acme   opwright-acme 1.0\nF  fast   opwright-rival 1.0\n" in done.stdout
    assert "\nR  rival  opwright-rival 1.0\nS  slow   opwright-rival 1.0\n" in done.stdout


def test_a_kernel_for_any_device_or_dtype_is_in_every_cell(rivals):
    cells = matrix(rivals.command("kernels").stdout)
    assert set(cells) == {
        (name, device) for name in ("acme.swish", "acme.swish_grad") for device in ("cpu", "npu")
    }
    assert cells["acme.swish", "npu"]["bf16"] == "RS"
    assert cells["acme.swish", "npu"]["bool"] == "S"
    assert set(cells["acme.swish_grad", "cpu"].values()) == {"A"}


def test_a_gap_in_the_matrix_is_shown_as_a_dot(rivals):
    cells = matrix(rivals.command("kernels", "acme.swish_grad", "--device", "npu").stdout)
    assert cells == {}
    cells = matrix(rivals.command("kernels", "acme.*", "--device", "npu", "--dtype", "int8").stdout)
    assert cells == {("acme.swish", "npu"): {"i8": "S"}, ("acme.swish_grad", "npu"): {"i8": "."}}


def test_a_plus_marks_a_cell_with_more_libraries_than_fit(site):
    site.add("acme")
    line = "    registry.add('acme.swish', device='cpu', dtypes='*', kernel='a:b', library='{}')\n"
    site.add("many", KERNEL_HOOK + "pass\n" + "".join(line.format(f"l{i}") for i in range(5)))
    done = site.command("kernels", "acme.swish", "--dtype", "int8")
    assert matrix(done.stdout)["acme.swish", "cpu"]["i8"] == "L12+"


def test_the_matrix_fits_a_terminal_of_100_columns(site):
    long = "opwright_is_" * 6
    hook = (
        f"registry.add('longer.{long}', device='cpu', dtypes=['float32'], kernel='not_there:a')\n"
    )
    every = "registry.add('longer.x', device='cpu', dtypes='*', kernel='not_there:a')\n"
    site.add("longer", KERNEL_HOOK + hook + "    " + every)
    lines = site.command("kernels").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert f"longer.{long}" in lines
    assert lines[2].split()[0] == "cpu"


NARROWED = """
import io, json
from contextlib import redirect_stdout
from opwright.cli import main

answer = []
for words in {words!r}:
    with redirect_stdout(io.StringIO()) as told:
        assert main(["kernels", "--json", *words]) == 0
    found = json.loads(told.getvalue())
    answer.append([(item["op_type"].partition(".")[2], item["library"]) for item in found])
"""


def test_kernels_are_filtered_by_operator_device_dtype_library_and_distribution(rivals):
    slow, fast, acme, rival = (["swish", name] for name in ("slow", "fast", "acme", "rival"))
    grad = ["swish_grad", "acme"]
    expected = {
        (): [slow, fast, acme, rival, grad],
        ("*_grad",): [grad],
        ("acme.swish", "acme.swish_grad"): [slow, fast, acme, rival, grad],
        ("--device", "npu"): [slow, rival],
        ("--device", "npu:1"): [slow, rival],
        ("--dtype", "float64"): [slow, acme, grad],
        ("--library", "fast"): [fast],
        ("--distribution", "opwright-rival", "--device", "cpu"): [slow, fast],
    }
    found = rivals.json(NARROWED.format(words=[*expected]))
    assert dict(zip(expected, found, strict=True)) == expected


def test_json_contains_everything_that_was_registered(rivals):
    (item,) = json.loads(rivals.command("kernels", "--json", "--library", "fast").stdout)
    assert item == {
        "op_type": "acme.swish",
        "device": "cpu",
        "dtypes": ["float32"],
        "library": "fast",
        "target": "not_there:a",
        "priority": 80,
        "may_reuse": [],
        "capturable": False,
        "deterministic": True,
        "strided": False,
        "prefers": {"mode": "fast"},
        "find_refusal": None,
        "refusal": None,
        "package": {"plugin": "rival", "distribution": "opwright-rival", "version": "1.0"},
    }


def test_a_missing_kernel_is_reported(site):
    site.add("acme", KERNEL_HOOK + "pass\n")
    assert site.command("kernels").stdout == "no kernel fits\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["acme.swsh"], "acme.swsh: no operator of this type is registered; did you mean 'acme.sw"),
        (["acmee.*"], "kernels: a pattern must fit an operator, got 'acmee.*'; see: opwright ops"),
        (["--dtype", "flot32"], "did you mean 'float32'?"),
        (["--device", "cpu:1"], "cpu:1: the only host has number 0, got number 1; write 'cpu'"),
        (["--device", "cpuu"], "must have a kernel or a plugin, got 'cpuu'; did you mean 'cpu'?"),
        (["--device", "cuda"], "got 'cuda'; to get it: pip install \"opwright[cuda]\""),
        (["--library", "acmee"], "matches the library, got 'acmee'; did you mean 'acme'?"),
        (
            ["--distribution", "acme"],
            "matches the distribution, got 'acme'; distributions are 'opwright-",
        ),
        (["--dvice", "cpu"], "unknown argument, got '--dvice'; did you mean '--device'?"),
    ],
)
def test_the_error_for_a_misspelled_name_suggests_the_nearest_name(acme, capsys, words, message):
    with context_guard(acme):
        assert main(["kernels", *words]) in {1, 2}
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
