"""Programs survive conversion to messages and back, and invalid messages are refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from opwright import Program
from opwright.describe import wire_reading
from opwright.errors import (
    AttributeTypeError,
    FormatError,
    OperatorNotFoundError,
    OpwrightError,
    ProgramError,
    SlotError,
    VariableNotFoundError,
)
from opwright.op import OpMaker, grad_op, same_shape_as
from opwright.packages import Package
from opwright.program.serialize import program_to_bytes


def build():
    program = Program(seed=11)
    block = program.global_block()
    block.create_var("x", [None, 4], is_data=True, stop_gradient=True)
    block.create_var("c", [], "bool", is_data=True)
    block.create_var("img")
    block.create_parameter("w", [4, 4], trainable=False)
    block.create_parameter("v", [4, 4])
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("dropout", {"x": "h"}, {"out": "d"}, {"probability": 0.25})
    yes, no = program.create_block(0), program.create_block(0)
    yes.append_op("square", {"x": "d"}, {"out": "s"})
    attrs = {"true_outputs": ["s"], "false_outputs": ["d"]}
    block.append_op(
        "cond", {"condition": "c"}, {"out": ["z"]}, {"true_block": yes, "false_block": no, **attrs}
    )
    return program


def test_a_saved_program_is_read_unchanged():
    program = build()
    twin = Program.from_proto(program.to_proto())
    assert str(twin) == str(program)
    assert twin.seed == 11
    assert twin.global_block().ops[1].attrs == program.global_block().ops[1].attrs
    for name, variable in program.global_block().vars.items():
        read = twin.global_block().var(name)
        assert (read.shape, read.dtype, read.is_parameter) == (
            variable.shape,
            variable.dtype,
            variable.is_parameter,
        )
        assert (read.stop_gradient, read.is_data) == (variable.stop_gradient, variable.is_data)
    assert not twin.global_block().var("w").trainable
    assert twin.global_block().append_op("dropout", {"x": "h"}).attr("stream") == 1


def test_equal_programs_are_serialized_to_identical_bytes():
    data = program_to_bytes(build())
    assert program_to_bytes(build()) == data
    assert program_to_bytes(Program.from_proto(data)) == data


def test_another_process_reads_the_same_program(tmp_path, toy):
    (tmp_path / "program.pb").write_bytes(program_to_bytes(build()))
    script = f"""
import sys
sys.path.insert(0, {str(toy.__file__.rpartition("/")[0])!r})
import toy_operators
from opwright.context.context import context_guard
from opwright.program import Program
with context_guard(toy_operators.context()):
    print(Program.from_proto(open({str(tmp_path / "program.pb")!r}, "rb").read()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == f"{build()}\n"


def test_a_program_names_the_packages_of_its_operators():
    (required,) = build().to_proto().requires
    assert (required.plugin, required.distribution, required.version) == (
        "std",
        "opwright-std",
        "1.0",
    )


def test_the_error_for_an_unknown_operator_names_the_package_to_install(context):
    package = Package("acme", "opwright-acme", "2.5")
    maker = OpMaker("acme.swish").add_comment("Swish.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    context.ops.add("acme.swish", maker.build(same_shape_as("x")), package)
    program = Program()
    program.global_block().create_var("x", [2])
    program.global_block().append_op("acme.swish", {"x": "x"})
    message = program.to_proto()
    del context.ops._registered["acme.swish"], context.ops._entries["acme.swish"]
    with pytest.raises(OperatorNotFoundError, match="pip install 'opwright-acme'") as caught:
        Program.from_proto(message)
    assert "made with opwright-acme 2.5" in str(caught.value)
    assert caught.value.__notes__ == ["in operator 0 of block 0 of the program read"]


def versioned(version, upgrade=None):
    maker = OpMaker("grow", version=version).add_comment("Grows.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("factor" if version > 1 else "scale", float, "how much").default(1.0)
    return maker.build(same_shape_as("x"), upgrade=upgrade)


def rename(desc, from_version):
    attrs = dict(desc["attrs"])
    attrs["factor"] = attrs.pop("scale") * from_version
    return {**desc, "attrs": attrs}


@pytest.fixture
def grow(context, toy):
    def install(definition):
        context.ops._registered.pop("grow", None)
        context.ops._entries.pop("grow", None)
        context.ops.add("grow", definition, toy.PACKAGE)

    return install


def write_grow(grow, version):
    grow(versioned(version))
    program = Program()
    program.global_block().create_var("x", [2])
    name = "factor" if version > 1 else "scale"
    program.global_block().append_op("grow", {"x": "x"}, attrs={name: 3.0})
    return program.to_proto()


def test_an_older_operator_is_upgraded_by_its_plugin(grow):
    message = write_grow(grow, 1)
    grow(versioned(2, rename))
    assert Program.from_proto(message).global_block().ops[0].attrs == {"factor": 3.0}


def test_an_older_operator_is_upgraded_by_an_annex(grow, context, toy):
    """Operators described in C++ need such annexes."""
    message = write_grow(grow, 1)
    grow(versioned(2))
    context.annexes.add("upgrade", "grow", "toy_operators:rename_scale", toy.PACKAGE)
    assert Program.from_proto(message).global_block().ops[0].attrs == {"factor": 3.0}


def test_a_gradient_is_upgraded_like_its_operator(grow, context):
    def versioned(version):
        maker = OpMaker("grow", version=version).add_comment("Grows.").add_input("x", "any")
        maker.add_output("out", "as x").same_dtype_as("x")
        maker.add_attr("factor" if version > 1 else "scale", float, "how much").default(1.0)
        return maker.build(same_shape_as("x"), grad_op("grow_grad"), upgrade=rename)

    grow(versioned(1))
    block = Program().global_block()
    for name in ("x", "g"):
        block.create_var(name, [2])
    block.append_op("grow_grad", {"x": "x", "out_grad": "g"}, {"x_grad": "d"}, {"scale": 3.0})
    message = block.program.to_proto()
    context.ops._entries.pop("grow_grad")
    grow(versioned(2))
    assert Program.from_proto(message).global_block().ops[0].attrs == {"factor": 3.0}


def test_a_program_with_deprecated_names_can_be_read(grow):
    message = write_grow(grow, 1)
    maker = OpMaker("grow").add_comment("Grows.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("factor", float, "how much").default(1.0).deprecated("scale", "factor")
    grow(maker.build(same_shape_as("x")))
    assert Program.from_proto(message).global_block().ops[0].attrs == {"factor": 3.0}


def test_an_older_operator_without_an_upgrade_is_refused(grow):
    message = write_grow(grow, 1)
    grow(versioned(2))
    with pytest.raises(FormatError, match="grow: version 1 cannot be read by version 2, got no up"):
        Program.from_proto(message)


def test_a_newer_operator_is_refused(grow):
    message = write_grow(grow, 2)
    grow(versioned(1))
    with pytest.raises(FormatError, match=r"at most 1, .* got 2; upgrade opwright-std"):
        Program.from_proto(message)


def edit(**changes):
    """Return a function that sets fields of a ProgramDesc, given by their paths."""

    def apply(message):
        for path, value in changes.items():
            target = message
            *parents, last = path.split("__")
            for part in parents:
                target = target[int(part)] if part.isdigit() else getattr(target, part)
            setattr(target, last, value)

    return apply


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (edit(format="zip"), FormatError, "format must be 'opwright.program', got 'zip'"),
        (edit(format_version=2), FormatError, "at most 1, got 2; install a newer opwright"),
        (edit(seed=2**63), FormatError, "seed and stream"),
        (edit(next_stream=-1), FormatError, "seed and stream"),
        (lambda m: m.ClearField("blocks"), FormatError, "got no block"),
        (edit(blocks__1__idx=2), FormatError, "block 1 has the wrong index"),
        (edit(blocks__1__parent_idx=1), FormatError, "block 1 must be nested in an earlier block"),
        (edit(blocks__1__parent_idx=-1), FormatError, "block 1 has the wrong index"),
        (edit(blocks__0__parent_idx=0), FormatError, "block 0 has the wrong index"),
        (edit(blocks__0__vars__0__name=""), FormatError, "a variable is described incorrectly"),
        (edit(blocks__0__vars__1__name="x"), FormatError, "'x' is described twice"),
        (edit(blocks__0__vars__0__dtype="float3"), FormatError, "unknown dtype, got 'float3'"),
        (
            edit(blocks__1__vars__0__is_parameter=True),
            FormatError,
            "described incorrectly, got 's'",
        ),
        (
            lambda m: m.blocks[0].vars[0].shape.dims.append(-7),
            FormatError,
            "variable 'x': .*at least 0, or -1",
        ),
        (edit(blocks__0__ops__0__type="nope"), OperatorNotFoundError, "pip install 'opwright-std'"),
        (edit(blocks__0__ops__0__inputs__0__slot="q"), SlotError, "unknown input, got 'q'"),
        (
            lambda m: m.blocks[0].ops[0].inputs[0].names.__setitem__(0, "gone"),
            VariableNotFoundError,
            "matmul: x: no such variable, got 'gone'",
        ),
        (
            lambda m: m.blocks[1].ops[0].outputs[0].names.__setitem__(0, "x"),
            FormatError,
            "square: out writes 'x' of an outer block",
        ),
        (
            lambda m: setattr(m.blocks[0].ops[1].attrs["probability"], "s", "half"),
            AttributeTypeError,
            "dropout: probability must be a float",
        ),
        (
            lambda m: setattr(m.blocks[0].ops[2].attrs["true_block"], "block", 0),
            FormatError,
            "true_block must be a block within block 0, got 0",
        ),
        (
            lambda m: setattr(m.blocks[0].ops[2].attrs["true_block"], "block", 99),
            FormatError,
            "got 99",
        ),
    ],
)
def test_a_message_that_does_not_describe_a_program_is_refused(change, error, message):
    broken = build().to_proto()
    change(broken)
    with pytest.raises(error, match=message):
        Program.from_proto(broken)


def damaged(body, rng):
    """Return `body` with random bytes changed, removed or repeated, and a valid checksum."""
    made = bytearray(body)
    for _ in range(rng.integers(1, 4)):
        at, length = int(rng.integers(18, len(made))), int(rng.integers(1, 9))
        kind = rng.integers(3)
        if kind == 0:
            made[at] = int(rng.integers(256))
        elif kind == 1:
            del made[at : at + length]
        else:
            made[at:at] = made[at : at + length]
    return bytes(made) + wire_reading.checksum_field(bytes(made))


def test_a_damaged_message_with_a_valid_checksum_is_refused_or_read():
    body = program_to_bytes(build())[:-6]
    rng = np.random.default_rng(7)
    read = 0
    for _ in range(20_000):
        try:
            program = Program.from_proto(damaged(body, rng))
        except OpwrightError:
            continue
        read += 1
        assert str(program.clone()) == str(program)
        program_to_bytes(program)
    assert read


@pytest.mark.parametrize("dtype", ["i4,", "f4", "", "float3", "float32[2]"])
def test_dtypes_in_messages_must_be_canonical_names(dtype):
    message = build().to_proto()
    message.blocks[0].vars[0].dtype = dtype
    with pytest.raises(FormatError, match="variable 'x': dtype: unknown dtype"):
        Program.from_proto(message)


def test_the_nesting_depth_of_blocks_is_limited():
    message = Program().to_proto()
    for index in range(1, 5000):
        message.blocks.add(idx=index, parent_idx=index - 1)
    with pytest.raises(FormatError, match="blocks nest at most 64 deep, got 65"):
        Program.from_proto(message)


def test_a_slot_without_variables_is_refused():
    message = build().to_proto()
    message.blocks[0].ops[1].outputs.add(slot="mask_2")
    with pytest.raises(FormatError, match="dropout: a slot must contain a variable, got none in '"):
        Program.from_proto(message)


def test_a_block_cannot_be_the_body_of_two_branches():
    message = build().to_proto()
    cond = message.blocks[0].ops[2]
    cond.attrs["false_block"].block = cond.attrs["true_block"].block
    with pytest.raises(FormatError, match="cond: .*_block must not be the block of another body"):
        Program.from_proto(message)
    program = build()
    block = program.global_block()
    attrs = block.ops[2].attrs | {"true_block": 1, "false_block": program.add_block(0)}
    with pytest.raises(ProgramError, match="cond: true_block must not be the block of another"):
        block.append_op("cond", {"condition": "c"}, {"out": ["w"]}, attrs)
