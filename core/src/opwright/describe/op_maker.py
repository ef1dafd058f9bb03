"""`OpMaker` describes an operator in one chained expression."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from opwright.describe.attribute_values import PYTHON_TYPES, AttrType, convert_value, describe_type
from opwright.describe.control import Control
from opwright.describe.definition import (
    Body,
    CountOutputs,
    GradientRule,
    InferShape,
    NoGradient,
    OpDefinition,
    Unchanged,
    Upgrade,
)
from opwright.describe.dtypes import DTYPES
from opwright.describe.gradient_rules import GradOp
from opwright.describe.names import check_op_type
from opwright.describe.op_proto import AttrProto, OpProto, VarProto
from opwright.describe.proto_rules import (
    check_control,
    check_count_outputs,
    check_dtype_names,
    check_op_proto,
    check_random,
)
from opwright.errors import RegistrationError

_Draft: TypeAlias = dict[str, Any]
"""The fields of a slot or attribute that have been set so far."""

BLOCK: Final = AttrType.BLOCK
"""The type of an attribute that holds a sub-block."""

_ATTR_TYPES: Final[dict[object, AttrType]] = {BLOCK: BLOCK}
for _type in set(AttrType) - {BLOCK}:
    _python: Any = PYTHON_TYPES[_type.element]
    _ATTR_TYPES[list[_python] if _type.is_list else _python] = _type


class OpMaker:
    """Describes the slots and attributes of an operator, and their constraints.

    Every method returns the maker, so calls are chained. A constraint applies to the slot or
    attribute added last. Mistakes raise a `RegistrationError` that names the operator. The
    documentation of `opwright.op` begins with an example.

    Parameters
    ----------
    type : str
        The operator type in ``lower_snake``, prefixed by the plugin name and a dot.
    version : int
        Increment it when saved programs need an `upgrade`.
    """

    def __init__(self, type: str, version: int = 1) -> None:
        check_op_type(type)
        self._type = type
        self._version = version
        self._comment = ""
        self._drafts: dict[str, list[_Draft]] = {"input": [], "output": [], "attribute": []}
        self._kind = ""  # of the slot or attribute added last
        self._last: _Draft = {}
        self._dispatch: str | None = None
        self._dynamic = False
        self._deprecated: dict[str, str] = {}

    def add_comment(self, text: str) -> OpMaker:
        """Describe what the operator computes: formula, edge cases, source."""
        if self._comment:
            raise self._error("add_comment must be called once, got a second comment")
        self._comment = text
        return self

    def add_input(self, name: str, comment: str) -> OpMaker:
        """Add an input slot of one variable, required until `as_optional`."""
        return self._add("input", name, comment)

    def add_output(self, name: str, comment: str) -> OpMaker:
        """Add an output slot of one variable."""
        return self._add("output", name, comment)

    def add_attr(self, name: str, type: object, comment: str, length: int = 1) -> OpMaker:
        """Add an attribute; without `default` and `required` it may be absent.

        Parameters
        ----------
        name : str
            The name, which must differ from the names of slots.
        type : type
            int, float, str, bool, list[int], list[float], list[str], list[bool] or BLOCK.
        comment : str
            Its meaning.
        length : int
            For a list, the number of times that a single number is repeated.
        """
        try:
            attr_type = _ATTR_TYPES[type]
        except (KeyError, TypeError):
            raise self._error(
                f"the type of attribute {name!r} must be int, float, str, bool, a list of one of "
                f"them such as list[int], or BLOCK, got {type!r}"
            ) from None
        self._add("attribute", name, comment)
        self._last.update(type=attr_type, length=length)
        return self

    # -- constraints of attributes -----------------------------------------------------------------

    def default(self, value: object) -> OpMaker:
        """Set the default value of the attribute."""
        draft = self._attribute("default")
        if convert_value(draft["type"], value) is None:
            raise self._error(
                f"the default of {draft['name']!r} must be {describe_type(draft['type'])}, "
                f"got {value!r}"
            )
        return self._set(draft, "default", value)

    def greater_than(self, bound: float) -> OpMaker:
        """Allow only values greater than the bound."""
        return self._bound("greater_than", "min", bound, exclusive=True)

    def at_least(self, bound: float) -> OpMaker:
        """Allow only values greater than or equal to the bound."""
        return self._bound("at_least", "min", bound, exclusive=False)

    def less_than(self, bound: float) -> OpMaker:
        """Allow only values less than the bound."""
        return self._bound("less_than", "max", bound, exclusive=True)

    def at_most(self, bound: float) -> OpMaker:
        """Allow only values less than or equal to the bound."""
        return self._bound("at_most", "max", bound, exclusive=False)

    def between(self, low: float, high: float) -> OpMaker:
        """Allow only values from `low` to `high`, both included."""
        self._bound("between", "min", low, exclusive=False)
        return self._bound("between", "max", high, exclusive=False)

    def one_of(self, *values: object) -> OpMaker:
        """Allow only these values, or for a list only these elements."""
        draft = self._attribute("one_of")
        if not values:
            raise self._error(f"one_of must list the values of {draft['name']!r}, got none")
        return self._set(draft, "allowed", values)

    def required(self) -> OpMaker:
        """Require a value for the attribute."""
        return self._set(self._attribute("required"), "required", True)

    def as_dtype(self, *names: str) -> OpMaker:
        """Declare that the attribute is the canonical name of a dtype, one of `names` if given."""
        draft = self._attribute("as_dtype")
        if draft["type"] is not AttrType.STRING:
            raise self._error(f"as_dtype is for str attributes, got {draft['name']!r}")
        check_dtype_names(self._type, draft["name"], names)
        return self._set(draft, "allowed", names or DTYPES)

    def as_shape_operand(self) -> OpMaker:
        """Allow variables in place of numbers that determine the shapes of outputs.

        A number can be one variable of shape [] or [1]; a list can contain any number of such
        variables and of vectors. While a program is built, ``ctx.attr`` of the shape rule has None
        in place of such numbers, for unknown dimensions. When a plan is made, the numbers are
        known, and kernels, passes and bodies get them like the values of any other attribute.
        """
        return self._set(self._attribute("as_shape_operand"), "operand", True)

    def as_added(self) -> OpMaker:
        """Declare that the attribute was added after the operator had been published.

        Kernels that do not read the attribute are considered older. Such kernels are rejected
        unless the attribute has its default, which makes the operator behave as before.
        """
        return self._set(self._attribute("as_added"), "added", True)

    # -- constraints of slots ----------------------------------------------------------------------

    def as_duplicable(self) -> OpMaker:
        """Make the slot take a list of one or more variables."""
        return self._set(self._slot("as_duplicable"), "duplicable", True)

    def as_optional(self) -> OpMaker:
        """Allow the slot to be absent."""
        return self._set(self._slot("as_optional"), "optional", True)

    def as_intermediate(self) -> OpMaker:
        """Declare that only the gradient needs the output."""
        return self._set(self._slot("as_intermediate", "output"), "intermediate", True)

    def as_shape_only(self) -> OpMaker:
        """Declare that kernels read only the shape of the input, never its data."""
        return self._set(self._slot("as_shape_only", "input"), "shape_only", True)

    def same_dtype_as(self, name: str) -> OpMaker:
        """Give the slot the dtype of an input, or the dtype that a dtype attribute names."""
        return self._set(self._slot("same_dtype_as"), "same_as", name)

    def dtypes(self, *names: str) -> OpMaker:
        """Allow only these dtypes in the slot."""
        draft = self._slot("dtypes")
        if not names:
            raise self._error(f"dtypes must list the dtypes of {draft['name']!r}, got none")
        return self._set(draft, "dtypes", names)

    def aliases(self, slot: str) -> OpMaker:
        """Declare that the output is the variable of an input, which is updated in place."""
        return self._set(self._slot("aliases", "output"), "aliases", slot)

    # -- the operator as a whole -------------------------------------------------------------------

    def deprecated(self, old: str, new: str) -> OpMaker:
        """Accept a slot or attribute under its former name, too, with a DeprecationWarning.

        Saved programs may have the former name. Kernels, rules and listings use the new name.
        """
        self._deprecated[old] = new
        return self

    def dispatch_on(self, name: str) -> OpMaker:
        """Select the kernel by the dtype of this input, or by the value of this dtype attribute."""
        self._dispatch = name
        return self

    def dynamic_output(self) -> OpMaker:
        """Declare that the shapes of outputs depend on values, so kernels resize the outputs."""
        self._dynamic = True
        return self

    def build(
        self,
        infer_shape: InferShape,
        gradient: GradientRule | NoGradient | None = None,
        *,
        body: Body | None = None,
        control: Control | None = None,
        random: bool = False,
        upgrade: Upgrade | None = None,
        count_outputs: CountOutputs | None = None,
        effect: bool = False,
        unchanged: Unchanged | None = None,
        plan_only: bool = False,
    ) -> OpDefinition:
        """Check the description and return the operator.

        Parameters
        ----------
        infer_shape : callable
            ``infer_shape(ctx: InferContext)``, which sets the meta of every output.
        gradient : callable or NoGradient, optional
            `grad_op`, a function of a `GradientContext`, or `no_gradient`. Without a gradient,
            `append_backward` refuses the operator, or expands it if it has a body.
        body : callable, optional
            For a composite, emits simpler operators through a `BodyContext`. A composite that draws
            random numbers is built with `random`; the operators of the body use its stream. A body
            emits nothing and returns False if only kernels support the attributes or dtypes.
        control : Branch or Loop, optional
            How an operator with blocks is lowered.
        random : bool
            Whether it draws random numbers. If so, it must have an int attribute ``seed`` with
            default 0, an int attribute ``stream`` that may be absent, and an optional int64 input
            ``step``.
        upgrade : callable, optional
            ``upgrade(desc, from_version) -> desc``.
        count_outputs : callable, optional
            ``count_outputs(ctx: InferContext) -> int``, the number of variables of the duplicable
            output if no names are given, as in ``opwright.ops``.
        effect : bool
            Whether it has effects beyond its outputs, such as communication with other processes.
            Such an operator always runs, in program order, even if its outputs are not used.
        unchanged : callable, optional
            ``unchanged(attrs) -> bool`` returns whether, with these attributes, outputs in the
            memory of inputs (`aliases`) leave it unchanged. Such inputs count as never written.
        plan_only : bool
            Whether only passes create it, while a plan is lowered. Such an operator has kernels,
            but no gradient, body or control flow. It is hidden, and not allowed in programs.

        Raises
        ------
        RegistrationError
            If a rule for operators is broken.
        """
        definition = OpDefinition(
            self._make_proto(),
            infer_shape,
            gradient,
            body=body,
            control=control,
            random=random,
            upgrade=upgrade,
            count_outputs=count_outputs,
            effect=effect,
            unchanged=unchanged,
            plan_only=plan_only,
            deprecated=self._deprecated,
        )
        self._check(definition)
        return definition

    # -- inside ------------------------------------------------------------------------------------

    def _make_proto(self) -> OpProto:
        proto = OpProto(
            type=self._type,
            comment=self._comment,
            inputs=[VarProto(**slot) for slot in self._drafts["input"]],
            outputs=[VarProto(**slot) for slot in self._drafts["output"]],
            attrs=[AttrProto(**attr) for attr in self._drafts["attribute"]],
            version=self._version,
            dispatch=self._dispatch,
            dynamic_output=self._dynamic,
        )
        check_op_proto(proto)
        return proto

    def _check(self, definition: OpDefinition) -> None:
        """Raise RegistrationError if functions, random numbers or control flow break a rule."""
        for word in ("infer_shape", "gradient", "body", "upgrade", "count_outputs"):
            function = getattr(definition, word)
            optional = word != "infer_shape" and function is None
            if not (optional or callable(function) or isinstance(function, NoGradient)):
                raise self._error(f"{word} must be a function, got {function!r}")
        proto = definition.proto
        names = {*proto.input_slots, *proto.output_slots, *proto.attr_protos}
        for old, new in definition.deprecated.items():
            if old in names or new not in names:
                raise self._error(
                    f"deprecated must name a former name and a slot or attribute, got {old!r} and "
                    f"{new!r}"
                )
        gradient = definition.gradient
        if isinstance(gradient, GradOp):
            gradient.check(definition.proto)
        elif isinstance(gradient, NoGradient) and not gradient.reason.strip():
            raise self._error("no_gradient must give a reason, got a blank string")
        if definition.random:
            check_random(definition.proto)
        if definition.control is not None:
            check_control(definition.proto, definition.control)
        if definition.count_outputs is not None:
            check_count_outputs(definition.proto)
        rules = (definition.gradient, definition.body, definition.control, definition.upgrade)
        if definition.plan_only and any(rule is not None for rule in rules):
            raise self._error("plan_only excludes gradient, body, control and upgrade, got one")

    def _error(self, message: str) -> RegistrationError:
        return RegistrationError(f"{self._type}: {message}")

    def _add(self, kind: str, name: str, comment: str) -> OpMaker:
        self._kind, self._last = kind, {"name": name, "comment": comment}
        self._drafts[kind].append(self._last)
        return self

    def _attribute(self, method: str) -> _Draft:
        return self._added_last(method, "add_attr", "attribute")

    def _slot(self, method: str, kind: str = "") -> _Draft:
        if kind:
            return self._added_last(method, f"add_{kind}", kind)
        return self._added_last(method, "add_input or add_output", "input", "output")

    def _added_last(self, method: str, before: str, *kinds: str) -> _Draft:
        """Return the slot or attribute that was added last; raise if it is of a different kind."""
        if self._kind not in kinds:
            last = f"the {self._kind} {self._last['name']!r}" if self._kind else "nothing"
            raise self._error(f"{method} must follow {before}, got {last} before it")
        return self._last

    def _set(self, draft: _Draft, key: str, value: Any) -> OpMaker:
        if key in draft:
            raise self._error(
                f"{self._kind} {draft['name']!r} must be given its {key} once, "
                f"got {draft[key]!r} and {value!r}"
            )
        draft[key] = value
        return self

    def _bound(self, method: str, key: str, bound: float, exclusive: bool) -> OpMaker:
        draft = self._attribute(method)
        if not draft["type"].is_numeric:
            raise self._error(
                f"{method} is for int and float attributes, "
                f"got {draft['name']!r}, {draft['type'].type_name}"
            )
        self._set(draft, key, bound)
        return self._set(draft, f"{key}_exclusive", exclusive)
