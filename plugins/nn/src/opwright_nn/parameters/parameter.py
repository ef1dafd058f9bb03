"""Creates parameters and states in the main program, their initializers in the startup program."""

from __future__ import annotations

from collections.abc import Mapping

import opwright as ow
from opwright.errors import AttributeValueError, DtypeError, ProgramError, ShapeError
from opwright.op import format_shape, is_float, shapes_match
from opwright_nn.initializer import Initializer
from opwright_nn.parameters.deferred import DeferredVariable, Shape, ShapeRule, find_deferred
from opwright_nn.parameters.param_attr import ParamAttr
from opwright_nn.precision import parameter_dtype


def make_parameter(
    who: str,
    name: str,
    attr: ParamAttr,
    rule: ShapeRule,
    *,
    default: Initializer,
    dtype: str = "float32",
) -> ow.Variable:
    """Return a parameter of the default main program, initialized by the default startup program.

    Parameters
    ----------
    who : str
        The layer, for messages.
    name : str
        The name if `attr` has none.
    attr : ParamAttr
        Name, initializer and training options. The name of an existing parameter of the same
        shape, whether from here or from `name`, shares that parameter.
    rule : callable
        Returns the shape.
    default : Initializer
        The initializer if `attr` has none.
    dtype : str
        A float dtype; within `nn.mixed_precision` a 16-bit dtype means float32.
    """
    dtype = parameter_dtype(dtype)
    if not is_float(dtype):
        raise DtypeError(
            f"{who}: its input, and so its parameters, must have a float dtype, got {dtype}; "
            "declare the input as float32, or cast it"
        )
    block = ow.default_main_program().global_block()
    old = block.find_var(attr.name or name)
    if old is not None:
        return _share(who, old, rule(), attr)
    initializer = attr.initializer or default
    parameter = block.create_parameter(
        attr.name or name,
        rule(),
        dtype,
        trainable=attr.trainable,
        initializer=initializer,
        optimize={"learning_rate": attr.learning_rate},
        regularizer=attr.regularizer,
    )
    _initialize(who, parameter, rule, initializer)
    return parameter


def make_state(
    who: str,
    name: str,
    rule: ShapeRule,
    initializer: Initializer,
    dtype: str = "float32",
    *,
    shared: bool = False,
) -> ow.Variable:
    """Return a persistable variable that is not trained, such as running statistics or moments.

    With `shared`, an existing state of that shape is returned.
    """
    block = ow.default_main_program().global_block()
    old = block.find_var(name)
    if old is not None:
        is_state = old.persistable and not old.is_parameter
        if shared and is_state and shapes_match(old.shape or (), rule()):
            return old
        raise ProgramError(f"{who}: the name of a state must be new, got {name!r}; choose another")
    state = block.create_var(
        name, rule(), parameter_dtype(dtype), persistable=True, stop_gradient=True
    )
    _initialize(who, state, rule, initializer)
    return state


def _initialize(who: str, variable: ow.Variable, rule: ShapeRule, initializer: Initializer) -> None:
    startup, deferred = ow.default_startup_program(), find_deferred()
    # The stream is chosen now: the value must not depend on when the shape becomes known.
    deferred_variable = DeferredVariable(variable, rule, initializer, startup.next_stream())
    if -1 not in (variable.shape or ()):
        deferred_variable.append(startup)
    elif deferred is not None:
        deferred.add(deferred_variable)
    else:
        raise ShapeError(
            f"{who}: the shape of {variable.name} must follow from that of the input, "
            f"got {format_shape(variable.shape or ())}; pass layers.data the width, or use "
            "nn.Model, which infers it from the first batch"
        )


def _share(who: str, old: ow.Variable, shape: Shape, attr: ParamAttr) -> ow.Variable:
    if not old.is_parameter:
        raise ProgramError(
            f"{who}: the name must be new or belong to a parameter, got {old.name!r}, which is "
            "another variable; rename the layer"
        )
    known = old.shape or ()
    if not shapes_match(known, shape):
        raise ShapeError(
            f"{who}: the shared parameter {old.name!r} must be {format_shape(shape)}, "
            f"got {format_shape(known)}; layers with the same name share parameters, so rename a "
            "layer with a different shape"
        )
    _check_shared(who, old, attr)
    return old


def _check_shared(who: str, old: ow.Variable, attr: ParamAttr) -> None:
    """Raise if the options of a shared parameter differ from the options in its first layer."""
    defaults = ParamAttr()
    own = getattr(old, "optimize", None)
    values = {
        "initializer": getattr(old, "initializer", None),
        "learning_rate": own.get("learning_rate", 1.0) if isinstance(own, Mapping) else 1.0,
        "regularizer": getattr(old, "regularizer", None),
        "trainable": getattr(old, "trainable", True),
    }
    for field, value in values.items():
        other = getattr(attr, field)
        if other != getattr(defaults, field) and other != value:
            raise AttributeValueError(
                f"{who}: the shared parameter {old.name!r} has {field} {value!r}, got {other!r}; "
                "describe it in its first layer, or share it by ParamAttr(name=...) alone"
            )
