"""The generated module matches the wire format, and describing operators does not import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from opwright import framework_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_module_matches_the_wire_format(tmp_path):
    pytest.importorskip("grpc_tools", reason="the compiler of the wire format is not installed")
    target = tmp_path / "framework.bin"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"]
    command += [f"--descriptor_set_out={target}", "opwright/framework.proto"]
    subprocess.run(command, check=True)
    (compiled,) = FileDescriptorSet.FromString(target.read_bytes()).file
    for message in _all_messages(compiled.message_type):
        for field in message.field:
            field.ClearField("json_name")  # not contained in generated modules
    generated = FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    assert generated == compiled, "stale: run make proto"


def _all_messages(messages):
    for message in messages:
        yield message
        yield from _all_messages(message.nested_type)


def test_the_module_is_generated_with_the_oldest_supported_release():
    source = (ROOT / "core/src/opwright/framework_pb2.py").read_text()
    assert "# Protobuf Python Version: 5.29.0\n" in source


def test_describing_operators_does_not_import_protobuf():
    code = "import sys, opwright.op\nassert not any('protobuf' in name for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
