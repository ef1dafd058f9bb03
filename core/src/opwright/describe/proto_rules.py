"""The rules for every OpProto, whether it is from an OpMaker, a message or a derived gradient."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from opwright.describe.attribute_values import PYTHON_TYPES, AttrType, describe_type
from opwright.describe.control import Branch, Control, Loop
from opwright.describe.dtypes import DTYPES
from opwright.describe.names import check_op_type
from opwright.errors import AttributeTypeError, AttributeValueError, RegistrationError
from opwright.messages.names import hint
from opwright.vocabulary import SEED_ATTR, STEP_SLOT, STREAM_ATTR

if TYPE_CHECKING:
    from opwright.describe.op_proto import AttrProto, OpProto, VarProto

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MAX_LENGTH = 64  # more than an array has axes


def check_op_proto(proto: OpProto) -> None:
    """Raise RegistrationError if an OpProto breaks a rule for operators."""
    check_op_type(proto.type)
    if not proto.comment.strip():
        _fail(proto, "add_comment must say what the operator computes, got none")
    if proto.version < 1:
        _fail(proto, f"version must be at least 1, got {proto.version}")
    _check_names(proto)
    for slot in (*proto.inputs, *proto.outputs):
        _check_slot(proto, slot)
    for slot in proto.inputs:
        _check_input(proto, slot)
    for slot in proto.outputs:
        _check_output(proto, slot)
    for attr in proto.attrs:
        _check_attr(proto, attr)
    _check_dispatch(proto)


def check_random(proto: OpProto) -> None:
    """Raise RegistrationError unless an operator has the slots and attributes of random numbers."""
    seed = proto.attr_protos.get(SEED_ATTR)
    if seed is None or seed.type is not AttrType.INT or seed.default != 0:
        _fail(proto, f"random=True needs an int attribute {SEED_ATTR!r} of default 0, got {seed}")
    stream = proto.attr_protos.get(STREAM_ATTR)
    if stream is None or stream.type is not AttrType.INT or stream.has_default or stream.required:
        _fail(
            proto,
            f"random=True needs an int attribute {STREAM_ATTR!r} that may be absent, got {stream}",
        )
    step = proto.input_slots.get(STEP_SLOT)
    if step is None or not step.optional or step.duplicable or step.dtypes != ("int64",):
        _fail(
            proto, f"random=True needs an optional input {STEP_SLOT!r} of dtype int64, got {step}"
        )


# The fields of Branch and Loop that name a slot, the side of the slot, and whether it takes a list.
_CONTROL_SLOTS: Final = (
    ("condition", "input", False),
    ("captured", "input", True),
    ("outputs", "output", True),
    ("carried", "input", True),
    ("sequences", "input", True),
    ("turns", "input", False),
    ("turns_taken", "output", False),
)
_LOOP_ATTRS: Final = (
    ("block", AttrType.BLOCK),
    ("block_condition", AttrType.STRING),
    ("block_inputs", AttrType.STRINGS),
    ("block_outputs", AttrType.STRINGS),
    ("block_elements", AttrType.STRINGS),
    ("max_iterations", AttrType.INT),
    ("reverse", AttrType.BOOL),
    ("checkpoint_every", AttrType.INT),
    ("segment", AttrType.INT),
    ("segmented", AttrType.STRINGS),
)


def check_control(proto: OpProto, control: Control) -> None:
    """Raise RegistrationError if the slots and attributes of control flow are missing."""
    slots: list[tuple[str, str | None, str, bool]] = [
        (role, getattr(control, role, None), side, is_list)
        for role, side, is_list in _CONTROL_SLOTS
    ]
    if isinstance(control, Loop):
        slots += [("stacks", slot, "output", True) for slot, _ in control.stacks]
    elif len(control.blocks) != 2:
        _fail(proto, f"a Branch must have two blocks, got {len(control.blocks)}")
    for role, slot, side, duplicable in slots:
        if slot is not None:
            known = proto.input_slots if side == "input" else proto.output_slots
            _check_control_slot(proto, role, slot, known, duplicable=duplicable)
    for name, type in _control_attrs(control):
        attr = proto.attr_protos.get(str(name))
        if attr is None or attr.type is not type:
            got = f"{attr.type_name} {name!r}" if attr else f"no attribute {name!r}"
            _fail(proto, f"its control flow needs an attribute of {type.type_name}, got {got}")


def _control_attrs(control: Control) -> Iterator[tuple[str | None, AttrType]]:
    if isinstance(control, Branch):
        for block, names in control.blocks:
            yield from ((block, AttrType.BLOCK), (names, AttrType.STRINGS))
        return
    needed_by = {"block_condition": control.condition, "block_elements": control.sequences}
    for field, type in _LOOP_ATTRS:
        name = getattr(control, field)
        if name is not None or needed_by.get(field) is not None:
            yield name, type
    yield from ((names, AttrType.STRINGS) for _, names in control.stacks)


def check_count_outputs(proto: OpProto) -> None:
    """Raise RegistrationError unless exactly one required output is duplicable."""
    duplicable = [slot.name for slot in proto.outputs if slot.duplicable and not slot.optional]
    if len(duplicable) != 1:
        _fail(proto, f"count_outputs needs one required duplicable output, got {duplicable}")


def _check_control_slot(
    proto: OpProto, role: str, name: str, slots: Mapping[str, VarProto], *, duplicable: bool
) -> None:
    slot = slots.get(name)
    if slot is None or slot.duplicable != duplicable:
        kind = "list" if duplicable else "variable"
        known = [other for other, var in slots.items() if var.duplicable == duplicable]
        _fail(
            proto,
            f"the {role} of its control flow must name a slot that takes a {kind}, got {name!r}"
            f"{hint(str(name), known, 'these')}",
        )


def _fail(proto: OpProto, message: str) -> NoReturn:
    raise RegistrationError(f"{proto.type}: {message}")


def _check_names(proto: OpProto) -> None:
    """Slots and attributes share one name space, since together they form a Python signature."""
    kinds: dict[str, str] = {}
    for kind, items in (
        ("an input", proto.inputs),
        ("an output", proto.outputs),
        ("an attribute", proto.attrs),
    ):
        for item in items:
            name = item.name
            if not _NAME.fullmatch(str(name)):
                _fail(proto, f"the name of {kind} must be lower_snake, got {name!r}")
            if keyword.iskeyword(name):
                _fail(proto, f"the name of {kind} must not be a Python keyword, got {name!r}")
            if name in kinds:
                _fail(
                    proto,
                    f"slots and attributes must have different names, got {name!r} "
                    f"for {kinds[name]} and {kind}",
                )
            kinds[name] = kind
            if not item.comment.strip():
                _fail(proto, f"{kind} must have a comment, got none for {name!r}")


def check_dtype_names(op_type: str, name: str, dtypes: Iterable[str]) -> None:
    """Raise RegistrationError unless all dtypes of a slot or attribute are canonical names."""
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise RegistrationError(
                f"{op_type}: the dtypes of {name!r} must be canonical names, got {dtype!r}"
                f"{hint(str(dtype), DTYPES, 'dtypes')}"
            )


def _check_slot(proto: OpProto, slot: VarProto) -> None:
    check_dtype_names(proto.type, slot.name, slot.dtypes)
    sources = [*proto.input_slots, *(attr.name for attr in proto.attrs if attr.is_dtype)]
    if not (slot.duplicable and slot.name in proto.input_slots):  # the first variable counts
        sources = [name for name in sources if name != slot.name]
    if slot.same_as is not None and slot.same_as not in sources:
        _fail(
            proto,
            f"same_dtype_as of {slot.name!r} must name an input or a dtype attribute, "
            f"got {slot.same_as!r}{hint(slot.same_as, sources, 'these')}",
        )


def _check_input(proto: OpProto, slot: VarProto) -> None:
    for word, flag in (("as_intermediate", slot.intermediate), ("aliases", slot.aliases)):
        if flag:
            _fail(proto, f"{word} is for outputs, got input {slot.name!r}")


def _check_output(proto: OpProto, slot: VarProto) -> None:
    if slot.shape_only:
        _fail(proto, f"as_shape_only is for inputs, got output {slot.name!r}")
    if slot.aliases is None:
        return
    aliased = proto.input_slots.get(slot.aliases)
    if aliased is None:
        _fail(
            proto,
            f"aliases of {slot.name!r} must name an input, got {slot.aliases!r}"
            f"{hint(slot.aliases, proto.input_slots, 'inputs')}",
        )
    if aliased.duplicable != slot.duplicable or aliased.shape_only:
        _fail(
            proto,
            f"output {slot.name!r} and the input that it aliases must both be duplicable or "
            f"neither, and the input must not be shape-only, got {slot.aliases!r}",
        )
    others = [s.name for s in proto.outputs if s.aliases == slot.aliases]
    if len(others) > 1:
        _fail(proto, f"an input must be aliased by one output, got {others} for {slot.aliases!r}")


def _check_attr(proto: OpProto, attr: AttrProto) -> None:
    _check_bounds(proto, attr)
    if attr.operand and attr.type not in {AttrType.INT, AttrType.INTS, AttrType.FLOAT}:
        _fail(
            proto,
            f"as_shape_operand is for int, list[int] and float, got attribute {attr.name!r}, "
            f"{attr.type_name}",
        )
    if attr.added and attr.required:
        _fail(proto, f"as_added is for attributes that may be omitted, got {attr.name!r}")
    if not 1 <= attr.length <= _MAX_LENGTH or (attr.length > 1 and not attr.type.is_list):
        _fail(
            proto,
            f"the length of {attr.name!r} must be in [1, {_MAX_LENGTH}], and 1 if it is not a "
            f"list, got {attr.length}",
        )
    for value in attr.allowed:
        if type(value) is not PYTHON_TYPES[attr.type.element]:
            kind = describe_type(attr.type.element)
            _fail(proto, f"each value allowed for {attr.name!r} must be {kind}, got {value!r}")
    if len(set(attr.allowed)) != len(attr.allowed):
        _fail(proto, f"values allowed for {attr.name!r} must differ, got {list(attr.allowed)}")
    if attr.default is None:
        return
    if attr.required:
        _fail(
            proto,
            f"{attr.name!r} must be required or have a default, got both; remove one of them",
        )
    try:
        attr.check(proto.type, attr.default)
    except (AttributeTypeError, AttributeValueError) as error:
        broken = str(error).removeprefix(f"{proto.type}: ")
        _fail(proto, f"the default of {attr.name!r} must be an allowed value: {broken}")


def _check_bounds(proto: OpProto, attr: AttrProto) -> None:
    bounds = [bound for bound in (attr.min, attr.max) if bound is not None]
    if not bounds:
        return
    if not attr.type.is_numeric:
        _fail(proto, f"a range is for numbers, got attribute {attr.name!r}, {attr.type_name}")
    if attr.allowed:
        _fail(proto, f"{attr.name!r} must have a range or allowed values, got both")
    for bound in bounds:
        if type(bound) is not PYTHON_TYPES[attr.type.element] or math.isnan(bound):
            kind = describe_type(attr.type.element)
            _fail(proto, f"each bound of {attr.name!r} must be {kind}, got {bound!r}")
    if attr.min is not None and attr.max is not None:
        exclusive = attr.min_exclusive or attr.max_exclusive
        if attr.min > attr.max or (exclusive and attr.min == attr.max):
            span = attr.describe_range()
            _fail(proto, f"the range of {attr.name!r} must not be empty, got {span}")


def _check_dispatch(proto: OpProto) -> None:
    name = proto.dispatch_slot
    known = [slot.name for slot in proto.inputs if not slot.optional]
    known += [a.name for a in proto.attrs if a.is_dtype and (a.required or a.has_default)]
    if name in known or (proto.has_blocks and not name):  # control flow has no kernel
        return
    if not name:
        _fail(
            proto,
            "an operator must have a required input or a dtype attribute, whose dtype selects the "
            "kernel, got neither; use add_attr('dtype', str, …).as_dtype()",
        )
    _fail(
        proto,
        f"dispatch_on must name a required input, or a dtype attribute that is never absent, "
        f"got {name!r}{hint(name, known, 'these')}",
    )
