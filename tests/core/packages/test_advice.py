"""Errors name the package to install, upgrade or reinstall."""

from __future__ import annotations

import pytest


def test_errors_name_the_failure_and_the_package(site):
    site.add("acme")
    site.add("cuda", "import cupy\n")
    done = site.command("explain", "acme.swish", "--device", "cuda", "--dtype", "float32")
    assert done.returncode == 2
    assert done.stderr == (
        "opwright: acme.swish[cuda, float32]: no kernel registered\n"
        "  available: acme.swish[cpu, float32 | float64] (acme)\n"
        "  plugin 'cuda' failed to load: ModuleNotFoundError: No module named 'cupy'\n"
        "  to get it: install 'cupy', which the plugin 'cuda' needs "
        "(opwright-cuda 1.0 does not list it)\n"
    )


def test_the_error_for_an_operator_of_a_failed_plugin_shows_a_command_that_helps(site):
    site.add("acme", "import not_there\n")
    done = site.command("ops", "acme.swish")
    assert done.stderr == (
        "opwright: acme.swish: no operator of this type is registered; "
        "no plugin provides any operator\n"
        "  plugin 'acme' failed to load: ModuleNotFoundError: No module named 'not_there'\n"
        "  to get it: install 'not_there', which the plugin 'acme' needs "
        "(opwright-acme 1.0 does not list it)\n"
    )


ADVICE = """
from opwright.context.context import current_context
answer = current_context().failures[0].advice
"""


def add_requirements(site, *lines):
    [info] = site.folder.glob("*.dist-info")
    with (info / "METADATA").open("a") as file:
        file.writelines(f"Requires-Dist: {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("not_there", "pip install 'not-there>=2'"),
        ("not_there.inner", "pip install 'not-there>=2'"),
        ("yaml", "pip install 'not-there>=2' 'PyNone<7'"),
    ],
)
def test_advice_names_a_missing_dependency_to_install(site, module, advice):
    site.add("acme", f"import {module}\n")
    add_requirements(site, "not-there >= 2", "PyNone (<7)", 'other; extra == "more"')
    name = module.partition(".")[0]
    needs = f"install {name!r}, which the plugin 'acme' needs: {advice}"
    assert site.json(ADVICE) == needs


def test_advice_names_a_missing_dependency_whose_name_equals_the_plugin_name(site):
    site.add("not_there", "import not_there\n")
    add_requirements(site, "not-there >= 2")
    needs = "install 'not_there', which the plugin 'not_there' needs: pip install 'not-there>=2'"
    assert site.json(ADVICE) == needs


def test_advice_upgrades_a_package_that_is_too_old_for_the_plugin(site):
    site.add("acme", "import numpy.of_a_later_release\n")
    assert site.json(ADVICE) == (
        "upgrade 'numpy': the plugin 'acme' needs 'numpy.of_a_later_release', which it lacks"
    )


@pytest.mark.parametrize("package", ["opwright_acme", "acme_modules"])
def test_advice_reinstalls_a_damaged_package(site, package):
    site.add("acme", f"import {package}.gone\n")
    (site.folder / "acme_modules").mkdir()
    [info] = site.folder.glob("*.dist-info")
    (info / "RECORD").write_text("acme_modules/__init__.py,,\n")
    assert site.json(ADVICE) == (
        f"opwright-acme 1.0 is broken, its own module '{package}.gone' is missing: "
        "pip install --force-reinstall --no-deps opwright-acme"
    )


def test_without_opwright_std_the_error_for_a_standard_operator_names_the_package(site):
    done = site.command("ops", "relu")
    assert done.stderr.endswith("  to get it: pip install opwright-std\n")
