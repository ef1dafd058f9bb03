"""Non-library files, libraries for another machine or ABI, and malformed tables are refused."""

from __future__ import annotations

import os
import re
import shutil
import struct

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime
from opwright.discovery.discover import Settings
from opwright.errors import KernelNotFoundError, PluginError, RegistrationError

X = np.ones(3)


def patched(source, target, offset, data):
    """Return a copy of a file with some bytes replaced."""
    shutil.copy(source, target)
    with open(target, "r+b") as file:
        file.seek(offset)
        file.write(data)
    return str(target)


def fails(path, text):
    with pytest.raises(PluginError, match="^" + re.escape(str(path)) + ": " + text):
        _runtime.Library(str(path))


def test_the_error_distinguishes_kinds_of_files_that_are_not_libraries(
    tmp_path, plain_library, compiler
):
    (tmp_path / "empty.so").touch()
    fails(tmp_path / "empty.so", "a library must be a shared object .ELF., got an empty file")
    (tmp_path / "text.so").write_text("INPUT(libacme.so.1)\n")
    fails(tmp_path / "text.so", "a library must be a shared object .ELF., got a file of another")
    fails(tmp_path, "a library must be a file, got a folder")
    fails(tmp_path / "none.so", "a library must be a file that can be read, got No such file")
    program = tmp_path / "program.o"
    compiler.run("gcc", "-c", "-x", "c", os.devnull, "-o", str(program))
    fails(program, "a library must be a shared object, got an object file; link it with -shared")


@pytest.mark.parametrize("kept", [20, 40, 64, 300, 5000])
def test_a_truncated_file_does_not_crash_the_process(tmp_path, plain_library, kept):
    path = tmp_path / "cut.so"
    path.write_bytes(plain_library.read_bytes()[:kept])
    fails(path, "a library must be complete, got a truncated file of")


@pytest.mark.parametrize(
    ("offset", "data", "name"),
    [
        (18, struct.pack("<H", 183), "aarch64"),
        (18, struct.pack("<H", 21), "ppc64"),
        (18, struct.pack("<H", 999), "ELF machine 999"),
        (5, b"\x02", ".* of the other byte order"),
    ],
)
def test_the_error_names_the_architecture_of_a_foreign_library(
    tmp_path, plain_library, offset, data, name
):
    path = patched(plain_library, tmp_path / "other.so", offset, data)
    fails(path, f"a library must be built for this process, x86-64, got one for {name}; install")


def test_the_error_identifies_a_32_bit_library(tmp_path, plain_library):
    path = patched(plain_library, tmp_path / "small.so", 4, b"\x01")
    path = patched(path, tmp_path / "smaller.so", 18, struct.pack("<H", 3))
    fails(path, r"a library must be built for this process, x86-64, got one for x86 \(32 bits\)")


def test_the_error_for_a_missing_dependency_or_symbol_quotes_the_loader(compiler, tmp_path):
    path = compiler.build("plugin.c", "-DFAULT=extern void nowhere(void); nowhere()")
    fails(path, 'a library must be loadable by the system, got "undefined symbol: nowh')


def test_a_library_with_a_missing_entry_symbol_or_another_abi_is_refused(compiler):
    path = compiler.build("plugin.c", "-DENTRY=something_else")
    fails(path, "a plugin library must export opwright_plugin_v1, got none of this name; define")
    path = compiler.build("plugin.c", "-DENTRY=opwright_plugin_v2")
    fails(path, "a plugin library must be built for ABI 1, got one for ABI 2; install a newer opw")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            "return OW_ERROR",
            r"opwright_plugin_v1 must return its table, got status 1: \(acme 1.0\)",
        ),
        (
            'host->log(OW_LOG_ERROR, "acme: no driver"); return 5',
            r"opwright_plugin_v1 must return its table, got status 5: acme: no driver \(acme 1",
        ),
        ("*out = NULL", r"plugin table: the entry function must set \*plugin, got NULL"),
        (
            "plugin.size = 96",
            r"plugin table: size must be sizeof\(ow_plugin\), at least 104, got 96",
        ),
        ("plugin.abi_major = 2", "plugin table: abi_major must be 1 in a library that exports"),
        ("plugin.name = NULL", "plugin table: name must be a string of 1 to 256 bytes, got NULL"),
        ('plugin.version = ""', "plugin table: version must be a string .* got an empty one"),
        (
            r'plugin.name = "ac\377me"',
            "plugin table: name must be .*, got bytes that are not UTF-8",
        ),
        (r'plugin.version = "1\300\200"', "plugin table: version must be .* that are not UTF-8"),
        (
            r'kernels[0].library = "\355\240\200"',
            r"acme.scale\[cpu\]: library must be .* not UTF-8",
        ),
        ("plugin.n_ops = 1000000", "plugin table: ops must be an array of at most 65536, got 1000"),
        ("plugin.ops = NULL", "plugin table: ops must be .* got 1 at NULL"),
        ("plugin.op_stride = 8", "plugin table: the stride of ops must be .* at least 72, got 8"),
        ("plugin.op_stride += 4", "plugin table: the stride of ops must be .* got 76"),
        ("ops[0].size = 64", r"plugin table: ops\[0\].size must be in 72 to the stride 72, got 64"),
        ("ops[0].size = 80", r"plugin table: ops\[0\].size must be in 72 to the stride 72, got 80"),
        ("ops[0].type = NULL", r"ops\[0\]: type must be a string"),
        ("ops[0].proto = NULL", "acme.scale: an operator needs an OpProto .* at NULL"),
        ("ops[0].infer = NULL", "acme.scale: an operator needs infer, got NULL"),
        ('ops[0].no_gradient_reason = "none"', "acme.scale: .* got both; keep one"),
        ("ops[0].n_gradient_needs = 1", "acme.scale: gradient_needs must be .* 1 at NULL"),
        ("plugin.n_ops = 2", "acme.scale: an operator must be in the table once, got it twice"),
        (
            "kernels[1].size = 0",
            r"plugin table: kernels\[1\].size must be in 128 to the stride 128",
        ),
        ("kernels[0].op_type = NULL", r"kernels\[0\]: op_type must be a string"),
        ("kernels[0].device = NULL", r"acme.scale: kernels\[0\]: device must be a string"),
        ("kernels[0].priority = 100", r"acme.scale\[cpu\]: priority must be in 0 to 99, got 100"),
        ("kernels[0].flags = 8", r"acme.scale\[cpu\]: OW_KERNEL_NEEDS_GIL is the runtime's own"),
        (
            "static const DLDataType d[] = {{kDLFloat, 0, 1}}; kernels[0].dtypes = d",
            r"acme.scale\[cpu\]: dtypes\[0\] must have bits and lanes, got 0 and 1",
        ),
        (
            "static const DLDataType d[] = {{kDLFloat, 32, 0}}; kernels[0].dtypes = d",
            r"acme.scale\[cpu\]: dtypes\[0\] must have bits and lanes, got 32 and 0",
        ),
        ("kernels[0].dtypes = NULL", r"acme.scale\[cpu\]: dtypes must be .* got 2 at NULL"),
        ("kernels[0].may_reuse = NULL", r"acme.scale\[cpu\]: may_reuse must be .* got 1 at NULL"),
        ("kernels[0].run = NULL", "acme.scale: a kernel needs op_type, run, release if it has p"),
        ("kernels[0].release = NULL", "acme.scale: a kernel needs op_type, run, release if"),
        ("kernels[0].unbind = NULL", "acme.scale: a kernel .* unbind if it has bind, got NULL"),
        ("kernels[1] = kernels[0]", r"acme.scale\[cpu, acme\]: .* got it twice for float32"),
        ("plugin.n_devices = 1", "plugin table: devices must be an array .* got 1 at NULL"),
    ],
)
def test_the_error_for_a_malformed_table_states_the_broken_rule(compiler, fault, text):
    fails(compiler.build("plugin.c", f"-DFAULT={fault}"), text)


@pytest.mark.parametrize(
    ("thrown", "text"),
    [('std::runtime_error("oh no")', "oh no"), ("42", "not a std::exception")],
)
def test_an_entry_function_that_throws_is_reported(compiler, thrown, text):
    path = compiler.build("throwing.cc", f"-DFAULT=throw {thrown}")
    fails(path, f"opwright_plugin_v1 must .* got status 1: threw an exception, .*: {text}")


def test_a_broken_library_is_reported_once_and_its_kernels_replaced(acme, table, slower_kernel):
    ops = table.replace('"acme.scale", LIBRARY', '"acme.scale", "opwright_acme.slow:SCALE"')
    context = acme.use(None, ops + slower_kernel)
    acme.add_module(
        "slow",
        "from opwright.op import OpMaker, same_shape_as, no_gradient\n"
        "def scale(x, out, *, factor):\n    out[...] = 10 * x\n"
        'SCALE = (OpMaker("acme.scale").add_comment("A multiple.").add_input("x", "any")\n'
        '    .add_output("out", "as x").same_dtype_as("x")\n'
        '    .add_attr("factor", float, "f").default(2.0)\n'
        '    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("a test")))\n',
    )
    with pytest.warns(RuntimeWarning, match="acme.scale.*; the kernel is skipped"):
        np.testing.assert_array_equal(ow.ops.acme.scale(X), 10 * X)
    ow.ops.acme.scale(
        np.ones(3, "float32")
    )  # a second report would raise, since warnings are errors
    assert [failure.package.plugin for failure in context.failures] == ["acme"]
    explanation = ow.explain("acme.scale", dtype="float64")
    assert "failed to load" in str(explanation)
    assert explanation.chosen.library == "slow"


def test_strict_raises_for_a_broken_library(acme, plain_library, table, monkeypatch):
    context = acme.use(plain_library, table.replace("dtypes=[", "library='other', dtypes=["))
    monkeypatch.setattr(context, "settings", Settings(strict=True))
    text = (
        r"acme.scale\[cpu, float64, other\]: no such kernel is in library "
        r"'opwright_acme/libacme.so' of opwright-acme 1.0; "
        r"there are: acme.scale\[cpu, float32 | float64, acme\]"
    )
    with pytest.raises(PluginError, match=text):
        ow.ops.acme.scale(X)
    assert not context.failures


def test_without_another_kernel_the_error_names_the_library(acme, plain_library, table):
    acme.use(plain_library, table.replace("dtypes=[", "priority=7, dtypes=["))
    text = "no kernel can be used\n  acme of opwright-acme 1.0 failed to load: .*: "
    with (
        pytest.warns(RuntimeWarning, match="pass priority=50 to registry.add"),
        pytest.raises(KernelNotFoundError, match=text + "priority must be equal in hook"),
    ):
        ow.ops.acme.scale(X)


def test_the_error_for_a_missing_library_names_the_package(acme):
    acme.use(None)
    text = (
        "acme.scale: library 'opwright_acme/libacme.so' of opwright-acme 1.0 must be an "
        "installed file, got none; pip install --force-reinstall --no-deps opwright-acme"
    )
    with pytest.raises(PluginError, match=text):
        ow.ops.acme.scale(X)


def test_an_operator_missing_from_the_library_is_reported_with_the_nearest_operator(
    acme, plain_library, table
):
    context = acme.use(plain_library, table.replace('add("acme.scale"', 'add("acme.scales"'))
    text = "acme.scales: no operator of this type is in library .*; did you mean 'acme.scale'?"
    with pytest.raises(PluginError, match=text):
        context.ops.get("acme.scales")


def test_hook_and_library_must_agree_on_hidden_operators(acme, compiler):
    hidden = "-DFAULT=ops[0].flags = OW_OP_HIDDEN"
    context = acme.use(compiler.build("plugin.c", hidden))
    with pytest.raises(RegistrationError, match="acme.scale: .* pass hidden=True to registry.add"):
        context.ops.get("acme.scale")


def test_a_library_with_the_name_of_another_plugin_is_refused(acme, compiler):
    context = acme.use(compiler.build("plugin.c", '-DPLUGIN_NAME="other"'))
    with pytest.raises(PluginError, match="must have the name of the plugin, 'acme', got 'other'"):
        context.ops.get("acme.scale")


def test_a_malformed_op_proto_is_refused(acme, compiler):
    context = acme.use(compiler.build("plugin.c", "-DFAULT=ops[0].proto_bytes = 20"))
    with pytest.raises(RegistrationError, match="acme.scale: library .* a valid OpProto, got: "):
        context.ops.get("acme.scale")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("libacme.so", "../libacme.so", "target must be a string .* or the path of a library"),
        ("libacme.so", "libacme.txt", "target must be a string .* or the path of a library"),
        ("dtypes=[", "may_reuse=[('out', 'x')], dtypes=[", "may_reuse of a compiled kernel, got"),
        ("dtypes=[", "deterministic=False, dtypes=[", "deterministic of a compiled kernel, got"),
    ],
)
def test_a_plugin_whose_hook_registers_a_library_with_invalid_arguments_is_quarantined(
    acme, table, old, new, text
):
    [failure] = acme.use(None, table.replace(old, new)).failures
    assert re.search(text, failure.reason)


def test_a_kernel_can_be_registered_for_an_operator_that_no_plugin_provides(
    acme, plain_library, table
):
    table = table.replace('registry.add("acme.scale", LIBRARY)', "pass")
    [entry, *_] = acme.use(plain_library, table).kernels.entries("acme.scale")
    with pytest.raises(ow.errors.OperatorNotFoundError, match="acme.scale: no operator of this"):
        entry.load()
