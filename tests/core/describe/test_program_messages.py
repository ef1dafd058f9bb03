"""Program messages survive a round trip, and damaged messages are refused."""

from __future__ import annotations

import subprocess
import sys
import zlib

import pytest

from opwright import framework_pb2 as pb
from opwright.describe import wire as messages
from opwright.describe import wire_reading
from opwright.errors import FormatError


def program():
    """A program that uses every field."""
    message = pb.ProgramDesc(seed=2**64 - 1, next_stream=3, feeds=["x"], fetches=["y"])
    message.requires.add(plugin="acme", distribution="opwright-acme", version="1.0")
    outer = message.blocks.add(idx=0, parent_idx=-1)
    outer.vars.add(name="x", shape=pb.Shape(dims=[-1, 3]), dtype="float32", is_data=True)
    outer.vars.add(name="w", shape=pb.Shape(), dtype="float64", is_parameter=True, frozen=True)
    outer.vars.add(name="y", dtype="int64", persistable=True, stop_gradient=True)
    slots = (pb.SlotDesc(slot=slot, names=[name]) for slot, name in (("x", "x"), ("out", "y")))
    op = outer.ops.add(type="acme.whole", version=4, inputs=[next(slots)], outputs=[next(slots)])
    op.attrs["block"].block = 1
    op.attrs["ints"].ints.values.append(1)
    message.blocks.add(idx=1, parent_idx=0)
    return message


def plain(message):
    """Convert a protobuf message to the nested dict that `read_message` returns."""
    if not hasattr(message, "ListFields"):
        return message
    fields = {}
    for field, value in message.ListFields():
        if field.name == "attrs":
            entries = [{"key": key, "value": plain(value[key])} for key in sorted(value)]
            fields[field.name] = entries
        elif not isinstance(value, str) and hasattr(value, "__len__"):
            fields[field.name] = [plain(element) for element in value]
        else:
            fields[field.name] = plain(value)
    return fields


def to_bytes(message):
    return messages.program_to_bytes(plain(message))


def test_protobuf_reads_a_serialized_program():
    message = program()
    data = to_bytes(message)
    message.format, message.format_version = "opwright.program", 1
    again = pb.ProgramDesc.FromString(data)
    again.ClearField("checksum")
    assert again == message
    assert len(data) == len(
        sealed(message.SerializeToString())
    )  # the order of map entries is undefined


def test_a_program_survives_a_round_trip():
    message = program()
    again = wire_reading.read_program(to_bytes(message))
    head = {"format", "format_version", "checksum"}
    assert plain(message) == {key: again[key] for key in again if key not in head}
    scalar, unknown = again["blocks"][0]["vars"][1:]
    assert ("shape" in scalar, "shape" in unknown) == (True, False)


def test_equal_programs_are_written_as_identical_bytes():
    data = to_bytes(program())
    assert data == to_bytes(program())
    assert data == to_bytes(pb.ProgramDesc.FromString(data))


def test_the_checksum_is_the_last_field_in_the_wire_format():
    data = to_bytes(program())
    assert pb.ProgramDesc.FromString(data).checksum == zlib.crc32(data[:-6])
    assert max(field.number for field in pb.ProgramDesc.DESCRIPTOR.fields) == 2000


def test_a_program_written_by_one_process_is_read_by_another_process(tmp_path):
    path = tmp_path / "program.pb"
    path.write_bytes(to_bytes(program()))
    code = (
        "import sys; from opwright.describe.wire_reading import read_program, read_op\n"
        f"message = read_program(open({str(path)!r}, 'rb').read())\n"
        "print(read_op(message['blocks'][0]['ops'][0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(wire_reading.read_op(plain(program())["blocks"][0]["ops"][0]))


def test_a_program_truncated_anywhere_is_refused():
    data = to_bytes(program())
    for length in range(len(data)):
        with pytest.raises(
            FormatError, match=r"program: (not a program of opwright|truncated or dam)"
        ):
            wire_reading.read_program(data[:length])


def test_a_program_with_any_byte_changed_is_refused():
    data = to_bytes(program())
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 0x10
        with pytest.raises(FormatError, match=r"program: "):
            wire_reading.read_program(bytes(changed))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"\x08\x01", bytes(1000)])
def test_foreign_bytes_raise_a_format_error(data):
    with pytest.raises(FormatError, match=r"program: not a program of opwright, got bytes that"):
        wire_reading.read_program(data)


def sealed(data):
    return data + b"\x85\x7d" + zlib.crc32(data).to_bytes(4, "little")


def test_an_invalid_message_with_a_valid_checksum_is_refused():
    start = to_bytes(pb.ProgramDesc())[:18]
    with pytest.raises(FormatError, match=r"program: truncated or foreign bytes"):
        wire_reading.read_program(sealed(start + b"\x1a\xff"))


@pytest.mark.parametrize("version", [0, 2])
def test_a_program_with_another_format_version_is_refused(version):
    message = program()
    message.format = "opwright.program"
    message.format_version = version
    with pytest.raises(
        FormatError, match=f"program: format version must be at most 1, got {version}"
    ):
        wire_reading.read_program(sealed(message.SerializeToString(deterministic=True)))


def test_unknown_fields_of_a_program_are_ignored():
    message = program()
    message.format = "opwright.program"
    message.format_version = 1
    data = message.SerializeToString(deterministic=True) + b"\xd2\x0f\x03abc"  # field 250
    assert wire_reading.read_program(sealed(data))["seed"] == message.seed


def test_an_oversized_program_is_refused_without_parsing(monkeypatch):
    data = to_bytes(program())
    with pytest.raises(FormatError, match=f"program: must have at most 10 bytes, got {len(data)}"):
        wire_reading.read_program(data, max_bytes=10)
    monkeypatch.setattr(messages, "MAX_PROGRAM_BYTES", 20)
    with pytest.raises(FormatError, match=r"program: must have at most 14 bytes, got"):
        to_bytes(program())
