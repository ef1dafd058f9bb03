"""Compiled and Python kernels that cannot be loaded are skipped and reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import opwright as ow
from opwright.discovery.discover import Settings
from opwright.errors import KernelError, KernelNotFoundError, PluginError

X = np.ones(3)

PYTHON = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("acme.scale", "opwright_acme.ops:SCALE")

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("acme.scale", device="cpu", dtypes=["float32", "float64"],
                 kernel=BROKEN, library="broken", priority=60)
"""
OPERATOR = """
from opwright.op import OpMaker, no_gradient, same_shape_as

SCALE = (
    OpMaker("acme.scale")
    .add_comment("A multiple.")
    .add_input("x", "any")
    .add_output("out", "like x")
    .same_dtype_as("x")
    .add_attr("factor", float, "f")
    .default(2.0)
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("a test"))
)
"""
SLOW = "def scale(x, out, *, factor):\n    out[...] = 10 * x\n"
MODULE, LIBRARY = "opwright_acme.broken:scale", "opwright_acme/libacme.so"


@pytest.fixture
def broken(acme, slower_kernel, tmp_path):
    """Install a plugin whose first kernel is broken and which may have a second, slower kernel."""

    def install(target, text="import not_there\n", others=slower_kernel):
        table = PYTHON.replace("BROKEN", repr(target)) + others
        library = tmp_path / "text.so"
        library.write_text("no library")
        context = acme.use(library, table)
        acme.add_module("ops", OPERATOR)
        acme.add_module("slow", SLOW)
        acme.add_module("broken", text)
        return context

    return install


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (MODULE, "ModuleNotFoundError: No module named 'not_there'"),
        (LIBRARY, "a library must be a shared object"),
    ],
)
def test_a_broken_kernel_is_reported_once_and_replaced(broken, target, reason):
    context = broken(target)
    with pytest.warns(RuntimeWarning, match="acme.scale.*; the kernel is skipped") as warned:
        np.testing.assert_array_equal(ow.ops.acme.scale(X), 10 * X)
    ow.ops.acme.scale(
        np.ones(3, "float32")
    )  # a second report would raise, since warnings are errors
    assert reason in str(warned[0].message)
    [failure] = context.failures
    assert failure.package.distribution == "opwright-acme"
    assert reason in failure.reason
    explanation = ow.explain("acme.scale", dtype="float64")
    assert explanation.chosen.library == "slow"
    by_key = {str(candidate.entry.key): candidate for candidate in explanation.candidates}
    rejected = by_key["acme.scale[cpu, float64, broken]"]
    assert rejected.verdict == "rejected"
    assert rejected.reason.startswith("failed to load: acme.scale[cpu, float64, broken]")
    assert reason in rejected.reason


def test_a_kernel_with_a_wrong_signature_counts_as_broken(broken):
    broken(MODULE, "def scale(y, out):\n    pass\n")
    with pytest.warns(RuntimeWarning, match="acme.scale.*; the kernel is skipped"):
        np.testing.assert_array_equal(ow.ops.acme.scale(X), 10 * X)


def test_each_module_and_library_is_listed(broken, slower_kernel):
    second = slower_kernel.replace('library="slow"', 'library="second"').replace(
        "opwright_acme.slow:scale", "opwright_acme.gone:scale"
    )
    context = broken(MODULE, others=slower_kernel + second.replace("priority=1", "priority=2"))
    with pytest.warns(RuntimeWarning) as told:
        ow.ops.acme.scale(X)
    assert [str(w.message).partition("]")[0] for w in told] == [
        "acme.scale[cpu, float64, broken",
        "acme.scale[cpu, *, second",
    ]
    assert len(context.failures) == 2


@pytest.mark.parametrize("target", [MODULE, LIBRARY])
def test_strict_raises_for_a_broken_kernel(broken, target, monkeypatch):
    context = broken(target)
    monkeypatch.setattr(context, "settings", Settings(strict=True))
    with pytest.raises(PluginError, match=r"acme.scale\[cpu, float64, broken\]: "):
        ow.ops.acme.scale(X)
    assert not context.failures


@pytest.mark.parametrize("target", [MODULE, LIBRARY])
def test_without_another_kernel_the_error_states_the_reason(broken, target):
    broken(target, others="")
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(KernelNotFoundError, match=r"^acme.scale\[cpu, float64\]: no ") as caught,
    ):
        ow.ops.acme.scale(X)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("no kernel can be used")
    assert lines[1].startswith("  broken of opwright-acme 1.0 failed to load: acme.scale[cpu, ")
    helps = "install 'not_there', which" if target == MODULE else "pip install "
    assert lines[-1].startswith(f"  to fix opwright-acme 1.0: {helps}")
    assert str(caught.value).count("failed to load: acme") == 1


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ("1 / 0", "got ZeroDivisionError: division by zero; call ctx.refuse"),
        ("ctx.workspace(-1)", "got acme.scale: workspace must be a number of bytes"),
        ("return 3", "got .*call ctx.refuse"),
        ("return lambda y: None", "got .*kernel parameter must be a slot or attribute"),
    ],
)
def test_the_error_for_a_failing_prepare_names_operator_kernel_and_package(broken, raised, text):
    broken(MODULE, f"class scale:\n    @staticmethod\n    def prepare(ctx):\n        {raised}\n")
    network = ow.Network(
        [
            ow.Operator("acme.scale", x="a", out="b"),
            ow.Operator("acme.scale", x="b", out="c", factor=3.0),
        ]
    )
    who = r"^acme.scale\[cpu, float64, broken\] of opwright-acme 1.0: prepare failed for operator "
    with pytest.raises(ow.errors.OpwrightError, match=f"{who}0, {text}"):
        network.compile(feed=["a"], fetch=["c"])(a=X)


def test_the_error_names_a_later_operator_whose_bind_fails(acme, plain_library):
    acme.use(plain_library)
    network = ow.Network(
        [
            ow.Operator("acme.scale", x="a", out="b"),
            ow.Operator("acme.scale", x="b", out="c", fault="bind"),
        ]
    )
    run = network.compile(feed=["a"], fetch=["c"])
    text = r"acme.scale\[cpu\]: operator 1 failed in the bind of its kernel 'acme' of opwright-acme"
    for _ in range(2):
        with pytest.raises(KernelError, match=text):
            run(a=X)


# ---- Missing parts of a package ------------------------------------------------------------------


@pytest.fixture
def needy(acme, compiler, tmp_path, table):
    """Install a library that links to a missing library."""
    other = tmp_path / "libneeded.so"
    _make_needed(other)
    flags = ("-DFAULT=extern int needed(void); needed()", "-Wl,--no-as-needed", str(other))
    library = tmp_path / "libacme.so"
    library.write_bytes(compiler.build("plugin.c", *flags).read_bytes())
    other.unlink()

    def install(*requires):
        acme.requires = list(requires)
        return acme.use(library, table)

    return install


def _make_needed(path):
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-Wl,-soname,libneeded.so.3", "-o", str(path), "-"],
        input="int needed(void) { return 1; }",
        text=True,
        check=True,
    )


LINE = (
    r"libneeded.so.3: cannot open shared object file.*; install what it needs; opwright-acme 1.0 "
    r"needs not-there>=2, which is not installed; pip install 'not-there>=2'"
)


def test_the_error_for_a_missing_linked_library_names_it_and_the_package(needy):
    needy("numpy", "not-there >=2", 'nor-there; sys_platform == "win32"', 'x; extra == "test"')
    with pytest.raises(PluginError, match=LINE) as caught:
        ow.ops.acme.scale(X)
    assert caught.value.advice == "pip install 'not-there>=2'"


@pytest.fixture
def elsewhere(needy, acme):
    """Install a linked library in a folder outside the search path.

    libdnnl is in such a folder if its distribution and the plugin are in different environments.
    """
    needy("other-lib")
    info = acme.site / "other_lib-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-lib\nVersion: 2.0\n")
    (info / "RECORD").write_text("../elsewhere/lib/libneeded.so.3,,\n")
    folder = acme.site.parent / "elsewhere" / "lib"
    folder.mkdir(parents=True)
    _make_needed(folder / "libneeded.so.3")


@pytest.mark.usefixtures("elsewhere")
def test_a_library_of_a_required_package_is_found_outside_the_search_path(acme):
    # The operator runs in a separate process, since a library stays open until the process exits.
    text = acme.python("import numpy, opwright\nprint(opwright.ops.acme.scale(numpy.ones(2)))")
    assert text.strip() == "[2. 2.]"


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("name", "kind"), [("model.owb", "LoadedBundle"), ("it", "CachedProgram")])
def test_bundles_and_stored_plans_find_a_library_outside_the_search_path(
    acme, tmp_path, monkeypatch, name, kind
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OPWRIGHT_LIBRARIES", str(acme.site))
    begin = "import sys, numpy, opwright as ow\nx = numpy.ones(2, 'float32')\n"
    acme.python(
        begin + "program = ow.Program()\n"
        "with ow.program_guard(program):\n"
        "    block = program.global_block()\n"
        "    y = ow.ops.acme.scale(block.create_var('x', shape=[2], dtype='float32'))\n"
        "ow.save('it', program, ow.Scope(), [y])\n"
        "loaded = ow.load('it')\n"
        "loaded(x)\n"
        "loaded.bundle('model.owb', {'x': [2]}, None)\n"
    )
    text = acme.python(
        begin + f"loaded = ow.load({name!r})\n"
        "print(type(loaded).__name__, loaded(x)[0], 'opwright.lowering' in sys.modules)"
    )
    assert text.split("\n")[0] == f"{kind} [2. 2.] False"


def test_if_no_requirement_is_missing_the_error_only_quotes_the_loader(needy):
    needy("numpy")
    with pytest.raises(PluginError, match=r"libneeded.so.3: cannot .*install what it needs$"):
        ow.ops.acme.scale(X)


def test_doctor_and_explain_name_the_missing_requirement(needy, acme):
    needy("not-there>=2")
    command = [sys.executable, "-c", "from opwright.cli import main; raise SystemExit(main())"]
    path = {**os.environ, "PYTHONPATH": str(acme.site)}
    done = subprocess.run(
        [*command, "doctor", "--json"], env=path, capture_output=True, text=True, check=False
    )
    [found] = [p for p in json.loads(done.stdout)["problems"] if p["plugin"] == "acme"]
    assert found["advice"] == ["pip install 'not-there>=2'"]
    assert "needs not-there>=2, which is not installed" in found["problems"][0]


@pytest.mark.parametrize("rest", ["explain", "error"])
def test_the_message_of_an_entry_function_is_in_every_report(acme, compiler, table, rest):
    fault = '-DFAULT=host->log(OW_LOG_ERROR, "acme: needs AVX2"); return 5'
    ops = table.replace('"acme.scale", LIBRARY', '"acme.scale", "opwright_acme.ops:SCALE"')
    acme.use(compiler.build("plugin.c", fault), ops)
    acme.add_module("ops", OPERATOR)
    if rest == "explain":
        text = str(ow.explain("acme.scale", dtype="float64"))
    else:
        with pytest.warns(RuntimeWarning), pytest.raises(KernelNotFoundError) as caught:
            ow.ops.acme.scale(X)
        text = str(caught.value)
    assert "must return its table, got status 5: acme: needs AVX2 (acme 1.0)" in text
