"""Commands mark kernels that, according to their plugin, would refuse on this machine."""

from __future__ import annotations

import json

import pytest

from sites import KERNEL_HOOK

HOOK = (
    KERNEL_HOOK + "for name in ('acme.swish', 'acme.swish_grad'):\n"
    "        registry.add(name, device='cpu', dtypes=['float32'], library='fast', priority=80,\n"
    "                     kernel='opwright_rival.fast:' + name.partition('.')[2],\n"
    "                     find_refusal='opwright_rival.fast:find_refusal')\n"
)

KERNELS = """
def swish(x, out, *, beta): ...

def swish_grad(x, out_grad, x_grad, *, beta): ...

def find_refusal():
    {answer}
"""

LACK = "print('asked'); return 'fastlib is not installed; pip install fastlib'"
REASON = "fastlib is not installed; pip install fastlib"

BROKEN = {
    "raise ValueError('no answer')": "got ValueError: no answer; pip install --upgrade opwright-b",
    "import not_there": "got ModuleNotFoundError: No module named 'not_there'; install 'not_the",
    "raise SystemExit(3)": "got SystemExit: 3; pip install --upgrade opwright-broken",
    "return False": "got False; pip install --upgrade opwright-broken",
    "return ''": "got ''; pip install --upgrade opwright-broken",
}


@pytest.fixture
def rival(site):
    """A function that adds faster kernels for acme's swish, given the body of find_refusal."""

    def add(answer, hook=HOOK):
        site.add("acme")
        site.add("rival", hook, modules={"fast": KERNELS.replace("{answer}", answer)})
        return site

    return add


def test_explain_names_the_refusing_kernel_and_chooses_the_next(rival):
    done = rival(LACK).command("explain", "acme.swish", "--dtype", "float32", "--json")
    assert done.stderr.count("asked") == 1
    told = json.loads(done.stdout)
    chosen, refusing, _ = told["candidates"]
    assert (chosen["library"], chosen["verdict"]) == ("acme", "chosen")
    assert (refusing["library"], refusing["verdict"]) == ("fast", "rejected")
    assert refusing["reason"] == f"would refuse: {REASON}"
    assert told["notes"] == []


def test_a_kernel_whose_plugin_finds_no_refusal_is_chosen(rival):
    done = rival("return None").command("explain", "acme.swish", "--dtype", "float32")
    assert "would refuse" not in done.stdout
    assert done.stdout.splitlines()[2].split()[1] == "fast"


def test_kernels_for_another_device_or_dtype_are_not_queried(rival):
    done = rival(LACK).command("explain", "acme.swish", "--dtype", "float64")
    assert "asked" not in done.stdout


def test_the_kernels_command_reports_a_library_whose_kernels_would_refuse(rival):
    site = rival(LACK)
    done = site.command("kernels")
    asked, matrix = done.stdout.split("\n", 1)
    assert asked == "asked"
    assert f"\nF  fast  opwright-rival 1.0  would refuse: {REASON}\n" in matrix
    assert "\nA  acme  opwright-acme 1.0\n" in matrix
    told = json.loads(site.command("kernels", "--json").stdout)
    assert {(item["library"], item["refusal"]) for item in told} == {
        ("acme", None),
        ("fast", REASON),
    }
    assert "asked" not in site.command("kernels", "--library", "acme").stdout


def test_the_kernels_command_reports_that_only_some_kernels_would_refuse(rival):
    other = "    registry.add('acme.swish', device='cpu', dtypes=['int8'], library='fast', "
    done = rival(LACK, HOOK + other + "kernel='a:b')\n").command("kernels")
    assert f"  some would refuse: {REASON}\n" in done.stdout


def test_doctor_does_not_report_a_refusal_as_a_fault(rival):
    site = rival(LACK)
    done = site.command("doctor")
    assert done.returncode == 0
    assert f"\nkernels of fast from opwright-rival 1.0 would refuse: {REASON}\n" in done.stdout
    assert done.stdout.endswith("\nno problem found\n")
    told = json.loads(site.command("doctor", "--json").stdout)
    assert told["refusals"] == [
        {
            "plugin": "rival",
            "distribution": "opwright-rival",
            "version": "1.0",
            "libraries": ["fast"],
            "reason": REASON,
        }
    ]


@pytest.fixture
def broken(site):
    """A site with one kernel for each function in `BROKEN`, and the expected error messages."""
    line = (
        "    registry.add('acme.swish', device='cpu', dtypes=['float32'], library='l{n}', "
        "kernel='opwright_broken.fast:swish', find_refusal='opwright_broken.fast:find_{n}')\n"
    )
    functions = [f"def find_{n}():\n    {answer}\n" for n, answer in enumerate(BROKEN)]
    site.add("acme")
    site.add(
        "broken",
        KERNEL_HOOK + "pass\n" + "".join(line.format(n=n) for n in range(len(BROKEN))),
        modules={"fast": "def swish(x, out, *, beta): ...\n" + "".join(functions)},
    )
    whose = "'opwright_broken.fast:find_{n}' of opwright-broken 1.0 must return a reason or None, "
    return site, [whose.format(n=n) + got for n, got in enumerate(BROKEN.values())]


def test_a_broken_find_refusal_is_reported_as_a_fault_of_its_plugin(broken):
    site, told = broken
    told = [f"find_refusal: {text}" for text in told]
    for command in ("explain acme.swish --dtype float32", "kernels acme.swish"):
        done = site.command(*command.split())
        assert done.returncode == 0
        lines = done.stdout.splitlines()[-len(told) :]
        assert [line.startswith(text) for line, text in zip(lines, told, strict=True)] == [True] * 5
    explained = site.command("explain", "acme.swish", "--dtype", "float32").stdout
    assert explained.splitlines()[3].split()[1] == "l0"  # a kernel whose check fails may be usable
    done = site.command("kernels", "acme.swish", "--json")
    assert len(json.loads(done.stdout)) == 6
    assert done.stderr.startswith(told[0])


def test_doctor_reports_a_broken_find_refusal(broken):
    site, told = broken
    done = site.command("doctor")
    assert done.returncode == 1
    for n, text in enumerate(told):
        assert f"\n  find_refusal of l{n}: {text}" in done.stdout


def test_a_missing_function_is_reported_as_a_fault_of_its_plugin(rival):
    site = rival(LACK, HOOK.replace("fast:find_refusal", "fast:find_reason"))
    done = site.command("explain", "acme.swish", "--dtype", "float32")
    assert "'opwright_rival.fast:find_reason' of opwright-rival 1.0 failed to load" in done.stdout
    assert site.command("doctor").returncode == 1


def test_doctor_names_a_function_that_terminates_the_process(rival):
    done = rival("import os; os.abort()").command("doctor")
    assert done.returncode == 1
    assert "while find_refusal of fast was loaded" in done.stdout


def test_plans_do_not_query_find_refusal(rival):
    site = rival(LACK)
    code = """
    import numpy as np, opwright as ow
    ow.ops.acme.swish(np.ones(3, np.float32), beta=1.0)
    """
    assert site.python(code) == ""


def test_a_refusal_can_depend_on_the_options_of_the_context(site):
    hook = (
        HOOK
        + """
@plugin.hookimpl
def opwright_options(registry):
    registry.add("fast", default=False, comment="Round more.")
"""
    )
    kernels = KERNELS.replace("def find_refusal():", "def find_refusal(options):")
    answer = 'return None if options["rival.fast"] else "the option rival.fast allows it"'
    site.add("acme")
    site.add("rival", hook, modules={"fast": kernels.replace("{answer}", answer)})
    code = """
    import opwright as ow
    answer = []
    for fast in (False, True):
        context = ow.current_context().with_options({"rival.fast": fast})
        first = ow.explain("acme.swish", dtype="float32", context=context).candidates[0]
        answer.append(first.entry.library)
    """
    assert site.json(code) == ["acme", "fast"]
