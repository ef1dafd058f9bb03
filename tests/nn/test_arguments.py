"""Laws of arguments that a layer does not have: the error names those that it has."""

from __future__ import annotations

import inspect

import pytest

import opwright as ow
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
        (lambda x: layers.relu(x, inplace=True), "'inplace'; arguments are 'x', 'name'"),
        (lambda x: nn.optimizer.SGD(lr=0.1), "'lr'; did you mean 'learning_rate'"),
        (lambda x: nn.batches((x, x), batch_size=3), "'batch_size'; did you mean 'size'"),
    ],
)
def test_the_name_of_another_framework_is_answered_with_ours(programs, call, rule):
    with pytest.raises(
        AttributeTypeError, match=rf"^\w+: arguments must be those that it has, got {rule}"
    ):
        call(layers.data("x", [None, 3]))


def test_a_missing_argument_is_answered_with_all_of_them(programs):
    with pytest.raises(AttributeTypeError, match="^max_pool1d: missing .*'kernel'; .* are x, ker"):
        layers.max_pool1d(layers.data("x", [None, 3, 3]))


def test_a_method_names_its_own_arguments():
    with pytest.raises(AttributeTypeError, match="^Model.dropout: .*'p'; did you mean 'probab"):
        nn.Model().dropout("x", p=0.5)


def test_each_layer_keeps_its_signature_and_documentation():
    for name in layers.__all__:
        layer = getattr(layers, name)
        assert "args" not in inspect.signature(layer).parameters, name
        assert inspect.getdoc(layer), name


def test_an_error_from_within_is_not_one_of_the_arguments():
    @suggest
    def broken(x):
        return x + "1"

    with pytest.raises(TypeError, match="unsupported operand"):
        broken(1)


FREE = {"fill", "run", "guard", "initialize_parameters", "run_options", "plot"}
"""Methods of a Model without names to mistype, and those of every step, which are not slowed."""

CLASSES = (
    *(getattr(nn.optimizer, name) for name in ("SGD", "Adam", "AdamW", "Accumulate")),
    *(getattr(nn.clip, name) for name in nn.clip.__all__ if name != "GradientClip"),
    *(getattr(nn.initializer, name) for name in nn.initializer.__all__ if name != "Initializer"),
    *(nn.regularizer.L1, nn.regularizer.L2, nn.metrics.Accuracy, nn.metrics.AUC, nn.metrics.R2),
    *(nn.Model, nn.EarlyStopping, nn.Plateau, nn.Checkpoint, nn.TensorBoard),
    *(nn.ParamAttr, nn.Schedule, nn.datasets.Vocabulary),
)
FUNCTIONS = (
    *(nn.train, nn.batches, nn.load_batches, nn.summary, nn.plot, nn.find_nan, nn.optimize),
    *(nn.create_parameter, nn.inference_program, nn.get_sparse_rows, nn.metrics.accuracy),
    *(
        nn.datasets.pad,
        nn.datasets.digits.load,
        nn.datasets.idx.read,
        nn.checkpoint.save,
        nn.checkpoint.resume,
    ),
    *(getattr(nn.schedule, name) for name in ("step", "cosine", "warmup", "one_cycle")),
    *(ow.save, ow.load, ow.load_program, ow.Network),
)


@pytest.mark.parametrize("call", [*CLASSES, *FUNCTIONS], ids=lambda call: call.__name__)
def test_an_unknown_argument_is_answered_with_those_there_are(call):
    with pytest.raises(AttributeTypeError, match="got 'zzqq'; (arguments are|did you mean)"):
        call(zzqq=1)


def model_with_loss():
    model = nn.Model()
    scores = model.fc_layer(model.input("x", [None, 3]), 2)
    return model, model.softmax_with_cross_entropy(scores, "y", reduction="mean")


def test_an_unknown_argument_of_a_model_is_answered_with_those_there_are():
    names = [name for name, _ in inspect.getmembers(nn.Model, callable) if name[0] != "_"]
    assert len(names) > 80
    for name in set(names) - FREE:
        model, loss = model_with_loss()
        args = {"backward": (loss,), "minimize": (loss,), "predict": (loss,), "optimize": ("sgd",)}
        if name == "optimize":
            model.backward(loss)
        # What `predict` is fed has names of its own.
        error, rule = (FeedError, "inputs") if name == "predict" else (OpwrightError, "'zzqq'")
        with pytest.raises(error, match=rf"{rule}.*; (did you mean|.* are|.*its arguments)"):
            getattr(model, name)(*args.get(name, ()), zzqq=1)


def test_a_prediction_of_nothing_says_what_is_missing():
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
def test_methods_of_what_they_return_do_so_too(call, rule, tmp_path):
    network = ow.Network([ow.Operator("relu", x="x", out="a")])
    with pytest.raises(AttributeTypeError, match=rule):
        call(network, nn.batches(([1, 2],), 1), tmp_path)
