"""The error for an unknown argument of a layer names the known arguments."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

import opwright as ow
import opwright_dist
import opwright_nn as nn
from opwright.errors import AttributeTypeError, FeedError, OpwrightError
from opwright_nn import layers
from opwright_nn.arguments import suggest


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda x: layers.conv2d(x, 8, kernel_size=3), "'kernel_size'; did you mean 'kernel'"),
        (lambda x: layers.conv2d(x, 8, 3, stride=2), "'stride'; did you mean 'strides'"),
        (lambda x: layers.conv2d(x, out_channels=8), "'out_channels'; did you mean 'filters'"),
        (lambda x: layers.dropout(x, p=0.5), "'p'; did you mean 'probability'"),
        (lambda x: layers.fc(x, units=3), "'units'; did you mean 'size'"),
        (lambda x: layers.lstm(x, hidden_size=3), "'hidden_size'; did you mean 'size'"),
        (lambda x: layers.softmax(x, dim=1), "'dim'; did you mean 'axis'"),
        (lambda x: layers.batch_norm(x, eps=0.1), "'eps'; did you mean 'epsilon'"),
        (lambda x: layers.attention(x, num_heads=2), "'num_heads'; did you mean 'heads'"),
        (lambda x: layers.relu(x, inplace=True), "'inplace'; arguments are 'input', 'name'"),
        (lambda x: nn.optimizer.SGD(lr=0.1), "'lr'; did you mean 'learning_rate'"),
        (
            lambda x: nn.optimizer.SGD().minimize(x, var_list=[x]),
            "'var_list'; did you mean 'parameters'",
        ),
        (lambda x: nn.batches((x, x), batch_size=3), "'batch_size'; did you mean 'size'"),
    ],
)
def test_the_error_for_an_argument_of_another_framework_suggests_our_argument(programs, call, rule):
    with pytest.raises(AttributeTypeError, match=rf"^[\w.]+: unknown argument, got {rule}"):
        call(layers.data("x", [None, 3]))


def test_the_error_for_a_missing_argument_lists_all_arguments(programs):
    with pytest.raises(
        AttributeTypeError, match="^max_pool1d: missing .*'kernel'; .* are input, ker"
    ):
        layers.max_pool1d(layers.data("x", [None, 3, 3]))


def test_the_error_of_a_method_names_its_own_arguments():
    with pytest.raises(AttributeTypeError, match="^Model.dropout: .*'p'; did you mean 'probab"):
        nn.Model().dropout("x", p=0.5)


def test_each_layer_keeps_its_signature_and_documentation():
    for name in layers.__all__:
        layer = getattr(layers, name)
        assert "args" not in inspect.signature(layer).parameters, name
        assert inspect.getdoc(layer), name


def test_the_documentation_of_a_layer_names_arguments_rather_than_slots():
    types = set(ow.list_ops()) & set(layers.__all__) - {"scan"}  # which documents `body`'s slots
    assert len(types) > 20
    for name in types:
        layer = getattr(layers, name)
        slots = {slot.name for slot in ow.op_proto(name).inputs}
        quoted = set(re.findall(r"(?<!`)`(\w+)`(?!`)", inspect.getdoc(layer)))
        assert quoted & slots <= inspect.signature(layer).parameters.keys(), name


def test_an_error_raised_inside_a_layer_is_not_blamed_on_the_arguments():
    @suggest
    def broken(x):
        return x + "1"

    with pytest.raises(TypeError, match="unsupported operand"):
        broken(1)


CORE = (ow.save, ow.load, ow.load_program, ow.Network)
FREE = {"fill", "run", "guard", "initialize_parameters", "run_options", "plot"}
"""Methods of a Model without named arguments, and methods called per step, which must be fast."""


def list_public(module, listed):
    """Add the callables of a public module and of its public submodules to `listed`, by path."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            list_public(value, listed)
        elif callable(value):
            listed[f"{module.__name__}.{name}"] = value
    return listed


def names_no_argument(call):
    """Return whether a callable has no named arguments, as some errors and base classes do."""
    if not inspect.isclass(call):
        return False
    if issubclass(call, BaseException):
        return not inspect.isfunction(call.__init__)
    has_constructor = call.__init__ is not object.__init__ or call.__new__ is not object.__new__
    return inspect.isabstract(call) or not has_constructor


PUBLIC = list_public(nn, list_public(opwright_dist, {}))


def test_every_public_module_is_listed():
    assert {"opwright_nn.DataParallel", "opwright_nn.datasets.pad"} <= PUBLIC.keys()
    assert {"opwright_dist.rank", "opwright_dist.layers.fc"} <= PUBLIC.keys()
    assert len(PUBLIC) > 200


@pytest.mark.parametrize("call", [*PUBLIC.values(), *CORE], ids=[*PUBLIC, *map(str, CORE)])
def test_the_error_for_an_unknown_argument_names_the_known_arguments(call):
    if names_no_argument(call):
        with pytest.raises(TypeError, match="takes no (keyword )?arguments|abstract class"):
            call(zzqq=1)
        return
    with pytest.raises(
        AttributeTypeError, match="got 'zzqq'; (arguments are|did you mean|it has no arguments)"
    ):
        call(zzqq=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.DataParallel(shard_optimiser=True),
            "DataParallel: unknown argument, got 'shard_optimiser'; did you mean 'shard_optim",
        ),
        (lambda: nn.ParamAttr(lr=2), "ParamAttr: .* got 'lr'; did you mean 'learning_rate'?"),
        (lambda: nn.DataParallel("a", "b", True, 1), "DataParallel: too many .*arguments are gr"),
        (lambda: nn.datasets.Table([1]), "Table: missing .*'targets'; its arguments are features,"),
    ],
)
def test_the_error_raised_by_a_generated_constructor_names_its_fields(call, message):
    with pytest.raises(AttributeTypeError, match=f"^{message}"):
        call()


def test_a_tuple_with_named_fields_is_copied_and_pickled_like_any_other_tuple():
    choice = nn.DataParallel("pair", shard_optimizer=True)
    assert pickle.loads(pickle.dumps(choice)) == copy.copy(choice) == choice
    assert choice._replace(group="world") == nn.DataParallel(shard_optimizer=True)


def model_with_loss():
    model = nn.Model()
    scores = model.fc_layer(model.input("x", [None, 3]), 2)
    return model, model.softmax_with_cross_entropy(scores, "y", reduction="mean")


def test_the_error_for_an_unknown_argument_of_a_model_names_the_known_arguments():
    names = [name for name, _ in inspect.getmembers(nn.Model, callable) if name[0] != "_"]
    assert len(names) > 80
    for name in set(names) - FREE:
        model, loss = model_with_loss()
        args = {"backward": (loss,), "minimize": (loss,), "predict": (loss,), "optimize": ("sgd",)}
        if name == "optimize":
            model.backward(loss)
        # `predict` accepts feeds by arbitrary names.
        error, rule = (FeedError, "inputs") if name == "predict" else (OpwrightError, "'zzqq'")
        with pytest.raises(error, match=rf"{rule}.*; (did you mean|.* are|.*its arguments)"):
            getattr(model, name)(*args.get(name, ()), zzqq=1)


def test_the_error_for_a_prediction_without_variables_names_the_missing_argument():
    with pytest.raises(AttributeTypeError, match="^Model.predict: missing .*'variable'; its argu"):
        model_with_loss()[0].predict(x=[[1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda n, d, p: n.compile(feed=["x"], fetchs=["a"]), "'fetchs'; did you mean 'fetch'"),
        (lambda n, d, p: n.run(scop=None), "Network.run.*'scop'; did you mean 'scope'"),
        (lambda n, d, p: n.profile({}, run=3), "Network.profile.*'run'; arguments are"),
        (lambda n, d, p: n.graph_html(p / "a.html", titel=""), "'titel'; did you mean 'title'"),
        (lambda n, d, p: d.repeat(epoch=2), "'epoch'; did you mean 'epochs'"),
        (lambda n, d, p: d.restore(positions={}), "'positions'; did you mean 'position'"),
        (lambda n, d, p: nn.History().plot("a.svg", column=[]), "'column'; did you mean 'columns'"),
        (lambda n, d, p: nn.History().write_csv(pth=p), "'pth'; did you mean 'path'"),
    ],
)
def test_methods_of_returned_objects_also_report_wrong_arguments(call, rule, tmp_path):
    network = ow.Network([ow.Operator("relu", x="x", out="a")])
    with pytest.raises(AttributeTypeError, match=rule):
        call(network, nn.batches(([1, 2],), 1), tmp_path)
