"""Trains changed training programs, or changed forward programs after differentiating them."""

from __future__ import annotations

import random
from typing import Any

from models import forward_programs, training_programs

import opwright as ow
from opwright.framework_pb2 import ProgramDesc
from opwright.program.serialize import program_to_bytes

from . import programs


def draw(rng: random.Random) -> dict[str, Any]:
    """Return a training program, or a forward program to be differentiated."""
    differentiate = rng.random() < 0.3
    case = programs.draw_from(rng, forward_programs() if differentiate else training_programs())
    return {**case, "differentiate": differentiate}


def run(case: dict[str, Any]) -> None:
    """Train two steps."""
    if case["differentiate"]:
        case = {**case, "program": _with_gradients(case["program"])}
    programs.read_and_run(case, times=2)


def _with_gradients(data: bytes) -> bytes:
    """Return a program with gradients of its results, and an SGD step for its parameters."""
    program = ow.Program.from_proto(data)
    message = ProgramDesc.FromString(data)
    block = program.global_block()
    targets = [block.var(name) for name in message.fetches if name in block.vars]
    pairs = ow.append_backward(targets)
    rate = block.create_var("@rate", [1], persistable=True)
    for parameter, gradient in pairs:
        block.append_op(
            "sgd",
            {"param": parameter, "grad": gradient, "learning_rate": rate},
            {"param_out": parameter},
        )
    return program_to_bytes(program, message.feeds, message.fetches)
