"""Changes the structure or the bytes of a program message, and corrects the checksum."""

from __future__ import annotations

import random
import zlib
from typing import Any

from mutations import DTYPES, FAR, FLOATS, NAMES, SMALL, draw_int
from samples import definitions

from opwright.describe.wire_reading import checksum_field
from opwright.framework_pb2 import ProgramDesc

_CHECKSUM_TAG = b"\x85\x7d"  # field 2000 of ProgramDesc, a fixed32
_HUGE = tuple(number for number in FAR if -(2**63) <= number < 2**63)


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Change some bytes of a message; the result usually has a valid checksum."""
    body = bytearray(data[: -len(_CHECKSUM_TAG) - 4])
    for _ in range(rng.choice((1, 1, 2, 4, 9))):
        place = rng.randrange(18, len(body))
        kind = rng.randrange(4)
        if kind == 0:
            body[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            body[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            del body[place : place + rng.choice((1, 1, 2, 8))]
        else:
            body[place:place] = body[place - rng.choice((1, 4, 16)) : place]
    if rng.random() < 0.1:
        return bytes(body)
    return bytes(body) + _CHECKSUM_TAG + zlib.crc32(body).to_bytes(4, "little")


def change_program(rng: random.Random, data: bytes, times: int) -> bytes:
    """Return the bytes of a program with some of its fields changed."""
    message = ProgramDesc.FromString(data)
    for _ in range(times):
        rng.choice(_CHANGES)(rng, message)
    message.ClearField("checksum")
    try:
        body = message.SerializeToString(deterministic=True)
    except ValueError:  # a name that is not UTF-8
        return data
    return body + checksum_field(body)


def _block(rng: random.Random, message: Any) -> Any:
    return rng.choice(message.blocks) if message.blocks else None


def _op(rng: random.Random, message: Any) -> Any:
    blocks = [block for block in message.blocks if block.ops]
    return rng.choice(rng.choice(blocks).ops) if blocks else None


def _var(rng: random.Random, message: Any) -> Any:
    blocks = [block for block in message.blocks if block.vars]
    return rng.choice(rng.choice(blocks).vars) if blocks else None


def _a_name(rng: random.Random, message: Any) -> str:
    var = _var(rng, message)
    text = rng.choice(NAMES)
    known = var is not None and rng.random() < 0.9
    return var.name if known else text.encode("utf-8", "replace").decode()


def _change_shape(rng: random.Random, message: Any) -> None:
    var = _var(rng, message)
    if var is None:
        return
    kind = rng.random()
    if kind < 0.1:
        var.ClearField("shape")
    elif kind < 0.3 or not var.shape.dims:
        var.shape.dims.insert(0, rng.choice(SMALL))
    elif kind < 0.4:
        del var.shape.dims[rng.randrange(len(var.shape.dims))]
    else:
        dim = rng.choice(SMALL) if rng.random() < 0.7 else rng.choice((-1, *_HUGE))
        var.shape.dims[rng.randrange(len(var.shape.dims))] = dim


def _change_var(rng: random.Random, message: Any) -> None:
    var = _var(rng, message)
    if var is None:
        return
    field = rng.choice(("persistable", "is_parameter", "stop_gradient", "frozen", "is_data"))
    kind = rng.random()
    if kind < 0.4:
        var.dtype = rng.choice((*DTYPES, "bfloat16", "nothing", ""))
    elif kind < 0.9:
        setattr(var, field, not getattr(var, field))
    else:
        var.name = _a_name(rng, message)


def _change_slot(rng: random.Random, message: Any) -> None:
    """Exchange, drop or repeat the variables of a slot."""
    op = _op(rng, message)
    slots = [] if op is None else [*op.inputs, *op.outputs]
    if not slots:
        return
    slot = rng.choice(slots)
    kind = rng.random()
    if kind < 0.6 and slot.names:
        slot.names[rng.randrange(len(slot.names))] = _a_name(rng, message)
    elif kind < 0.75:
        slot.names.append(_a_name(rng, message))
    elif kind < 0.85 and slot.names:
        slot.names.pop()
    else:
        proto = definitions().get(op.type)
        known = () if proto is None else (*proto.input_index, *proto.output_index)
        slot.slot = rng.choice(known or ("x",))


def _drop_slot(rng: random.Random, message: Any) -> None:
    op = _op(rng, message)
    side = None if op is None else rng.choice((op.inputs, op.outputs))
    if side:
        del side[rng.randrange(len(side))]


def _change_attr(rng: random.Random, message: Any) -> None:
    op = _op(rng, message)
    if op is None or not op.attrs:
        return
    name = rng.choice(sorted(op.attrs))
    value = op.attrs[name]
    kind = value.WhichOneof("value")
    if kind is None or rng.random() < 0.05:
        del op.attrs[name]
    elif kind == "i":
        value.i = max(min(draw_int(rng), 2**63 - 1), -(2**63))
    elif kind == "f":
        value.f = rng.choice(FLOATS)
    elif kind == "b":
        value.b = not value.b
    elif kind == "s":
        value.s = rng.choice((*DTYPES, "NHWC", "relu", "tanh", "", "nothing"))
    elif kind == "block":
        value.block = rng.choice((-1, 0, 1, 2, 3, 99, 2**31 - 1))
    else:
        _change_list(rng, message, getattr(value, kind).values)


def _change_list(rng: random.Random, message: Any, values: Any) -> None:
    kind = rng.random()
    if values and kind < 0.2:
        values.pop()
    elif values and kind < 0.7:
        place = rng.randrange(len(values))
        values[place] = _element_like(rng, message, values[place])
    elif values:
        values.append(_element_like(rng, message, values[0]))


def _element_like(rng: random.Random, message: Any, value: Any) -> Any:
    if isinstance(value, str):
        return _a_name(rng, message)
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return rng.choice(FLOATS)
    return max(min(draw_int(rng), 2**63 - 1), -(2**63))


def _change_type(rng: random.Random, message: Any) -> None:
    op = _op(rng, message)
    if op is not None:
        op.type = rng.choice(sorted(definitions())) if rng.random() < 0.9 else "acme.nothing"


def _move_op(rng: random.Random, message: Any) -> None:
    """Drop, repeat or exchange operators."""
    block = _block(rng, message)
    if block is None or not block.ops:
        return
    place = rng.randrange(len(block.ops))
    kind = rng.random()
    if kind < 0.4:
        del block.ops[place]
    elif kind < 0.7:
        block.ops.add().CopyFrom(block.ops[place])
    else:
        other = rng.randrange(len(block.ops))
        one, two = type(block.ops[0])(), type(block.ops[0])()
        one.CopyFrom(block.ops[place])
        two.CopyFrom(block.ops[other])
        block.ops[place].CopyFrom(two)
        block.ops[other].CopyFrom(one)


def _change_blocks(rng: random.Random, message: Any) -> None:
    block = _block(rng, message)
    kind = rng.random()
    if block is None or kind < 0.3:
        made = message.blocks.add()
        made.idx = len(message.blocks) - 1
        made.parent_idx = rng.randrange(-1, len(message.blocks))
    elif kind < 0.6:
        block.idx = rng.choice((-1, 0, 1, 2, 3, 2**31 - 1))
    elif kind < 0.9:
        block.parent_idx = rng.choice((-1, 0, 1, 2, 3, -(2**31)))
    else:
        del message.blocks[-1]


def _change_head(rng: random.Random, message: Any) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        message.seed = rng.choice((0, 1, 2**63 - 1, 2**63, 2**64 - 1))
    elif kind == 1:
        message.next_stream = rng.choice((0, -1, 2**32, 2**63 - 1, -(2**63)))
    elif kind == 2:
        message.fetches.append(_a_name(rng, message))
    elif kind == 3:
        message.feeds.append(_a_name(rng, message))
    else:
        del message.requires[:]


_CHANGES = (
    *(_change_shape, _change_shape, _change_shape, _change_var, _change_var),
    *(_change_slot, _change_slot, _change_slot, _drop_slot, _change_attr, _change_attr),
    *(_change_attr, _change_type, _move_op, _move_op, _change_blocks, _change_head),
)
