"""Visits the nodes of graphs and function bodies in order and passes each to its row."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import opwright as ow
from opwright.errors import OpwrightError
from opwright_onnx.dtypes import element_type
from opwright_onnx.errors import DeclinedError, ModelError, UnsupportedError, ValueNeededError
from opwright_onnx.messages import (
    AttributeProto,
    AttributeType,
    FunctionProto,
    GraphProto,
    NodeProto,
    fields_of,
    read,
)
from opwright_onnx.translate.codes import Codes
from opwright_onnx.translate.model import MAX_DEPTH, MIN_OPSET, read_opsets
from opwright_onnx.translate.node import PREFIX, Node, describe_node, read_attributes
from opwright_onnx.translate.schemas import find_schema, newest_opset
from opwright_onnx.translate.table import find_row
from opwright_onnx.translate.tensors import read_sparse, read_tensor
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions other than opwright errors that reading a damaged node can raise."""


_OF_PROCESSORS: Final = "com.microsoft.nchwc"
"""The domain that ONNX Runtime uses, with ORT_ENABLE_ALL, for the layouts of one processor."""


class Walk:
    """A translation in progress, with its nesting depth and the number of translated nodes.

    Attributes
    ----------
    translator : Translator
    """

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._n_nodes = 0
        self._depth = 0
        self._references: Mapping[str, AttributeProto] = {}

    def graph(self, graph: GraphProto, given: Mapping[str, Value]) -> list[Value]:
        """Translate a graph and return its outputs; `given` are the values of its inputs."""
        t = self.translator
        with self._inside(graph.name):
            outer, t.env = t.env, t.env.new_child(dict(given))
            try:
                self._enter_initializers(graph)
                self.nodes(graph.node)
                return [self.read(output.name) for output in graph.output]
            finally:
                t.env = outer

    def _enter_initializers(self, graph: GraphProto) -> None:
        t = self.translator
        folder = t.model.folder
        weights = t.model.weights if self._depth == 1 else {}
        pairs = [
            (tensor.name, read_tensor(tensor, folder, weights.get(position)))
            for position, tensor in enumerate(graph.initializer)
        ]
        pairs += [
            (tensor.values.name, read_sparse(tensor, folder)) for tensor in graph.sparse_initializer
        ]
        for name, array in pairs:
            if name in t.model.inputs and self._depth == 1:
                continue
            if isinstance(array, Codes):
                t.env[name] = array
                continue
            t.name(array, name)
            is_trained = t.model.trainable and array.dtype.kind in "fV" and array.ndim > 0
            t.env[name] = t.place(array, name, is_trained=True) if is_trained else array

    def nodes(self, nodes: Iterable[NodeProto]) -> None:
        """Translate nodes that are in topological order."""
        for proto in nodes:
            self._node(proto)

    def read(self, name: str) -> Value:
        """Return the value with the given name."""
        if not name:
            return None
        try:
            return self.translator.env[name]
        except KeyError:
            raise ModelError(
                f"graph: every name must be written before it is read, got {name!r}"
            ) from None

    def _node(self, proto: NodeProto) -> None:
        self._n_nodes += 1
        budget = self.translator.model.budget
        if self._n_nodes > budget:
            raise ModelError(
                f"model: a model must have at most {budget} nodes after its functions and loops "
                "are unrolled, got more"
            )
        t = self.translator
        before = len(t.block.ops)
        try:
            node = self._read_node(proto)
            results = self.evaluate(node)
            names = list(proto.output)
            if len(results) < len(names) and any(names[len(results) :]):
                raise ModelError(
                    f"the node must have at most {len(results)} outputs, got {len(names)}"
                )
        except (ModelError, OpwrightError, *FAULTS) as reason:
            raise _explain(proto, reason) from reason
        for name, value in zip(names, results):
            if name:
                t.env[name] = rename(t, before, value, name)

    def _read_node(self, proto: NodeProto) -> Node:
        t = self.translator
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        key = (proto.domain, proto.op_type, proto.overload)
        opset = t.opsets.get(domain, 1 if key in t.model.functions else 0)
        if not opset:
            raise ModelError(
                f"opset_import must name the domain {proto.domain!r}, got {sorted(t.opsets)}"
            )
        if not domain and not _is_supported(proto.op_type, opset):
            raise UnsupportedError(
                f"its opset must be at least {MIN_OPSET}, got {opset}; convert the model with "
                "onnx.version_converter"
            )
        inputs = [self.read(name) for name in proto.input]
        while inputs and inputs[-1] is None and not proto.input[len(inputs) - 1]:
            inputs.pop()
        if any(attribute.ref_attr_name for attribute in proto.attribute):
            proto = self._resolved(proto)
        attrs = read_attributes(proto, opset, t.model.folder)
        return Node(proto, inputs, attrs, opset)

    def evaluate(self, node: Node) -> list[Value]:
        """Translate a node by the model's own function, otherwise by its row or function body."""
        t, proto = self.translator, node.proto
        function = t.model.functions.get((proto.domain, proto.op_type, proto.overload))
        if function is not None:
            return self._function(function, node)
        if node.domain.startswith(PREFIX):
            from opwright_onnx.translate.own import read_own

            return read_own(t, node)
        row = find_row(node.domain, node.op_type)
        try:
            if row is None:
                raise DeclinedError(_describe_missing(node))
            with ow.transaction():
                return self._apply(row, node)
        except DeclinedError as reason:
            schema = find_schema(node.op_type, node.domain, node.opset)
            body = None if schema is None else _find_body(t, schema, node)
            if body is None:
                raise
            try:
                with ow.transaction():
                    return self._function(body, node)
            except UnsupportedError as error:
                raise UnsupportedError(f"{reason}; its function body: {error}") from error

    def _apply(self, row: Any, node: Node) -> list[Value]:
        if callable(row):
            if getattr(row, "walks", False):
                result = row(self, node, *node.inputs)
            else:
                result = row(self.translator, node, *node.inputs)
        else:
            since, op_type, names = row
            if node.opset < since:
                raise DeclinedError(f"its opset must be at least {since}, got {node.opset}")
            for attribute in node.proto.attribute:
                if attribute.name not in names:
                    raise DeclinedError(f"attribute {attribute.name!r} has no counterpart")
            attrs = {names[k]: v for k, v in node.attrs.items() if k in names}
            inputs = node.inputs
            if ow.op_proto(op_type).inputs[0].duplicable:
                inputs = [inputs]
            result = self.translator.op(op_type, *inputs, **attrs)
        return list(result) if isinstance(result, tuple) else [result]

    def _function(self, function: FunctionProto, node: Node) -> list[Value]:
        """Translate a function call by translating the function body."""
        t = self.translator
        if len(node.inputs) > len(function.input):
            raise ModelError(
                f"the node must have at most {len(function.input)} inputs, got {len(node.inputs)}"
            )
        given = dict.fromkeys(function.input)
        given.update(zip(function.input, node.inputs))
        references = {a.name: a for a in function.attribute_proto}
        references.update(_schema_defaults(node))
        references.update({a.name: a for a in node.proto.attribute})
        before = t.env, t.opsets, self._references
        opsets = {**t.opsets, **read_opsets(function.opset_import, function.name)}
        t.env, t.opsets, self._references = ChainMap(given), opsets, references
        try:
            with self._inside(function.name):
                self.nodes(function.node)
                wanted = [*node.proto.output, *[""] * len(function.output)]
                return [self.read(n) if w else None for n, w in zip(function.output, wanted)]
        finally:
            t.env, t.opsets, self._references = before

    def _resolved(self, proto: NodeProto) -> NodeProto:
        """Replace attribute references of a node by the attributes of the enclosing function."""
        attributes = []
        for attribute in proto.attribute:
            given = attribute
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in self._references:
                    continue
                fields = fields_of(self._references[attribute.ref_attr_name])
                given = AttributeProto(**(fields | {"name": attribute.name}))
            attributes.append(given)
        return NodeProto(**(fields_of(proto) | {"attribute": attributes}))

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ModelError(
                f"{name}: graphs and functions must be nested at most {MAX_DEPTH} deep, "
                "got more; a function must not call itself"
            )
        try:
            yield
        finally:
            self._depth -= 1


def knows_old(row: Any) -> Any:
    """Mark a row that also supports operator versions before the oldest supported opset."""
    row.knows_old = True
    return row


def walks(row: Any) -> Any:
    """Mark a row that needs the `Walk`, since the attributes of its operator contain graphs."""
    row.walks = True
    return row


def call_row(
    t: Translator,
    op_type: str,
    *inputs: Value,
    domain: str = "",
    outputs: int | None = None,
    **attrs: Any,
) -> Any:
    """Call a row with a node that has these inputs and attributes, in the newest opset."""
    names = [f"y{i}" for i in range(outputs or 1)]
    proto = NodeProto(op_type=op_type, domain=domain, output=names)
    opset = newest_opset() if domain == "" else 1
    defaults = read_attributes(proto, opset, None)
    node = Node(proto, list(inputs), {**defaults, **attrs}, opset)
    results = Walk(t)._apply(find_row(domain, op_type), node)
    return results[0] if outputs is None else tuple(results[:outputs])


def _describe_missing(node: Node) -> str:
    if find_schema(node.op_type, node.domain, node.opset) is None:
        advice = "; optimize with ORT_ENABLE_EXTENDED" if node.domain == _OF_PROCESSORS else ""
        return (
            f"its operator must be one of ONNX, a function of the model, or one that a package "
            f"has a row for, got {node.op_type!r} of domain {node.proto.domain!r}{advice}"
        )
    advice = "; export with options={'zipmap': False}" if node.op_type == "ZipMap" else ""
    return f"opwright has no counterpart for this operator{advice}"


def _explain(proto: NodeProto, reason: Exception) -> ModelError:
    """Return an error that names the node; the message of an inner node comes first."""
    message = str(reason)
    if not isinstance(reason, OpwrightError):
        message = f"the node must be well formed, got {type(reason).__name__}: {reason}"
    if not message.startswith("node "):
        message = f"{describe_node(proto)}: {message}"
    if isinstance(reason, ValueNeededError):
        return ValueNeededError(message, reason.inputs)
    return (UnsupportedError if isinstance(reason, UnsupportedError) else ModelError)(message)


def rename(t: Translator, before: int, value: Value, name: str) -> Value:
    """Rename an output Variable of a node to its name in the model."""
    if not isinstance(value, ow.Variable) or t.program.free_name(name) != name:
        return value
    written = t.block.ops[before:]
    old = value.name
    if not any(old in op.output_names() for op in written) or old not in t.block.vars:
        return value
    for op in written:
        for slots in (op.inputs, op.outputs):
            for slot, names in slots.items():
                if old in names:
                    slots[slot] = tuple([name if item == old else item for item in names])
    t.block.rename_var(old, name)
    t.program.note_name(name)
    return value


def _is_supported(op_type: str, opset: int) -> bool:
    """Return whether a row supports the version, or the operator has not changed since then."""
    if opset >= MIN_OPSET or getattr(find_row("", op_type), "knows_old", False):
        return True
    old, oldest = find_schema(op_type, "", opset), find_schema(op_type, "", MIN_OPSET)
    return old is not None and oldest is not None and old.since_version == oldest.since_version


def _schema_defaults(node: Node) -> dict[str, AttributeProto]:
    schema = find_schema(node.op_type, node.domain, node.opset)
    if schema is None:
        return {}
    defaults = {name: a.default_value for name, a in schema.attributes.items()}
    return {
        name: default
        for name, default in defaults.items()
        if default.name and default.type != AttributeType.UNDEFINED
    }


def _find_body(t: Translator, schema: Any, node: Node) -> FunctionProto | None:
    """Return the function body of an operator for the inputs of a node, or None."""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.opset]
        data = schema.get_function_with_opset_version(max(versions)) if versions else None
        if data:
            return read("FunctionProto", data)
    if not schema.has_context_dependent_function:
        return None
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    if not versions:
        return None
    types = [_type_of(t, value).SerializeToString() for value in node.inputs]
    data = schema.get_context_dependent_function_with_opset_version(
        max(versions), node.proto.SerializeToString(), types
    )
    if not data:
        return None
    return read("FunctionProto", data)


def _type_of(t: Translator, value: Value) -> Any:
    from onnx import TypeProto, helper  # the body required onnx anyway

    if value is None:
        return TypeProto()
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(t, value[0]) if value else TypeProto())
    shape = t.shape(value)
    return helper.make_tensor_type_proto(element_type(t.dtype(value)), shape)
