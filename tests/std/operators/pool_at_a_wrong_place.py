"""Runs a saved gradient of max pooling with each invalid index, and prints the errors.

Run it as ``python pool_at_a_wrong_place.py LIBRARY DATA_FORMAT PLACE...``, in a separate process,
since an unchecked index would corrupt memory.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

import opwright as ow
from opwright.errors import OpwrightError


def save(folder: str, place: int, data_format: str) -> None:
    """Save a gradient of max pooling whose index is a persistable variable."""
    program = ow.Program()
    block = program.global_block()
    shapes = {"x": [8, 4, 4, 1], "index": [8, 2, 2, 1], "out_grad": [8, 2, 2, 1]}
    for name, (n, height, width, channels) in shapes.items():
        is_last = data_format == "NHWC"
        shape = [n, height, width, channels] if is_last else [n, channels, height, width]
        kept = name == "index"
        dtype = "int32" if kept else "float32"
        block.create_var(name, shape, dtype, persistable=kept, is_data=not kept)
    attrs = {"kernel": [2, 2], "data_format": data_format}
    inputs = {name: name for name in shapes}
    block.append_op("max_pool2d_grad", inputs, {"x_grad": ["x_grad"]}, attrs)
    index = np.zeros(block.var("index").shape, "int32")
    index.reshape(-1)[-1] = place
    scope = ow.Scope()
    scope.var("index").set(index)
    ow.save(folder, program, scope, ["x_grad"])


def run(folder: str) -> None:
    """Load the program and run it on ones."""
    scope = ow.Scope()
    loaded = ow.load(folder, scope)
    block = loaded.program.global_block()
    feeds = {name: np.ones(block.var(name).shape, "float32") for name in ("x", "out_grad")}
    step = ow.Network(block).compile(feed=list(feeds), fetch=["x_grad"], scope=scope)
    try:
        step(**feeds)
    except OpwrightError as error:
        print(*str(error).split())


library, data_format, *places = sys.argv[1:]
with (
    tempfile.TemporaryDirectory() as folder,
    ow.context_guard(ow.current_context().with_pins({"max_pool2d_grad": library})),
):
    for place in map(int, places):
        save(folder, place, data_format)
        run(folder)
