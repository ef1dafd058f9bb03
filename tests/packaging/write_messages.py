"""Write messages to a file, or read such a file and rewrite it, with any protobuf release.

``write_messages.py write FILE`` · ``write_messages.py copy FROM TO``
"""

import sys
from pathlib import Path

import google.protobuf

import opwright as ow
from opwright.program.serialize import program_to_bytes


def build_program() -> ow.Program:
    """Return a program with attributes of several types, a parameter and gradients."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = block.create_var("x", shape=[-1, 6])
        weight = block.create_parameter("w_param", shape=[6, 4], dtype="float32")
        h = ow.ops.softmax(ow.ops.matmul(x, weight), axis=-1)
        h = ow.ops.reshape(ow.ops.clip(h, min=0.25, max=0.75), shape=[-1, 2, 2])
        ow.append_backward(ow.ops.sum(h, axis=[0, 1, 2], keepdims=False))
    return main


def main() -> None:
    """Run the command line."""
    action, source, *target = sys.argv[1:]
    if action == "write":
        Path(source).write_bytes(program_to_bytes(build_program()))
    else:
        read = ow.Program.from_proto(Path(source).read_bytes())
        assert str(read) == str(build_program())
        Path(*target).write_bytes(program_to_bytes(read))
    print(google.protobuf.__version__)


if __name__ == "__main__":
    main()
