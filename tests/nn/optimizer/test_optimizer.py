"""Optimizers match the formulas of their papers and keep their states in the scope."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    GradientError,
    ProgramError,
    VariableNotFoundError,
)
from opwright_nn import layers, optimizer

RATE = 0.1
START = np.array([[1.0], [-2.0], [0.5]])
X = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]])
# The loss is the mean of x · w, which has one column, so the gradient of w is the mean row of x.
GRAD = X.mean(axis=0, keepdims=True).T


def build(make, dtype="float64", **attr):
    """Append mean(x · w) with w = START; return scope, step, w's name and the optimizer."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 3], dtype)
        weight = nn.ParamAttr(**attr)
        loss = layers.mean(layers.fc(x, 1, bias=False, name="a", param_attr=weight))
        instance = make()
        instance.minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    scope.var("a_w_param").set(START.astype(dtype))
    step = ow.Network(main.global_block()).compile(feed=["x"], fetch=[loss], scope=scope)
    return scope, lambda: step(x=X.astype(dtype)), instance


def weight_after(make, steps, **attr):
    scope, step, _ = build(make, **attr)
    for _ in range(steps):
        step()
    return scope.var("a_w_param").numpy()


def check(weight, expected):
    # The tolerance is for float32, in which the learning rate is stored.
    np.testing.assert_allclose(weight, expected, rtol=2e-7, atol=2e-7)


def test_sgd_steps_against_the_gradient():
    check(weight_after(lambda: optimizer.SGD(RATE), 3), START - 3 * RATE * GRAD)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_keeps_a_velocity(nesterov):
    weight, velocity = START.copy(), 0.0
    for _ in range(4):
        velocity = 0.8 * velocity + GRAD
        weight = weight - RATE * (GRAD + 0.8 * velocity if nesterov else velocity)
    check(weight_after(lambda: optimizer.Momentum(RATE, 0.8, nesterov=nesterov), 4), weight)


@pytest.mark.parametrize("decay", [None, 0.3])
def test_adam_matches_the_formulas_of_its_paper(decay):
    weight, m, v = START.copy(), 0.0, 0.0
    for t in range(1, 5):
        m, v = 0.7 * m + 0.3 * GRAD, 0.9 * v + 0.1 * GRAD**2
        move = (m / (1 - 0.7**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-3)
        weight = weight - RATE * (move + (decay or 0.0) * weight)

    def make():
        options = {"beta1": 0.7, "beta2": 0.9, "epsilon": 1e-3}
        if decay is None:
            return optimizer.Adam(RATE, **options)
        return optimizer.AdamW(RATE, weight_decay=decay, **options)

    np.testing.assert_allclose(weight_after(make, 4), weight, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("beta2", [1 - 1e-3, 1 - 1e-6, 1 - 1e-8])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Lamb"])
def test_steps_are_accurate_however_close_beta2_is_to_1(name, beta2, dtype):
    def steps(beta2):
        make = lambda: getattr(optimizer, name)(RATE, beta2=beta2, epsilon=1e-12)  # noqa: E731
        scope, step, _ = build(make, dtype)
        for _ in range(4):
            step()
        return scope.var("a_w_param").numpy()

    # If all gradients are equal, each moment is the gradient (or its square) times a factor, which
    # the bias correction removes.
    np.testing.assert_allclose(steps(beta2), steps(0.5), rtol=1e-5 if dtype == "float32" else 1e-7)


def test_penalties_add_their_gradient():
    l2 = lambda: optimizer.SGD(RATE, regularizer=nn.regularizer.L2(0.5))  # noqa: E731
    check(weight_after(l2, 1), START - RATE * (GRAD + 0.5 * START))
    l1 = lambda: optimizer.SGD(RATE, regularizer=nn.regularizer.L1(0.5))  # noqa: E731
    check(weight_after(l1, 1), START - RATE * (GRAD + 0.5 * np.sign(START)))
    # Parameter options take precedence over optimizer options.
    check(
        weight_after(l2, 1, regularizer=nn.regularizer.L1(0.5)),
        START - RATE * (GRAD + 0.5 * np.sign(START)),
    )


def test_gradients_are_clipped_before_penalties():
    norm = np.linalg.norm(GRAD)
    for clip, bounded in [
        (nn.clip.ClipByValue(0.6), np.clip(GRAD, -0.6, 0.6)),
        (nn.clip.ClipByValue(0.6, min=0.0), np.clip(GRAD, 0.0, 0.6)),
        (nn.clip.ClipByNorm(0.5), GRAD * 0.5 / norm),
        (nn.clip.ClipByNorm(50.0), GRAD),
        (nn.clip.ClipByGlobalNorm(0.5), GRAD * 0.5 / norm),
        (nn.clip.ClipByGlobalNorm(50.0), GRAD),
    ]:
        make = lambda clip=clip: optimizer.SGD(  # noqa: E731
            RATE, clip=clip, regularizer=nn.regularizer.L2(0.5)
        )
        check(weight_after(make, 1), START - RATE * (bounded + 0.5 * START))


def two_layers(clip):
    """Return both weight gradients, raw and as used by the update."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 3], "float64")
        hidden = layers.fc(x, 4, bias=False, name="a")
        loss = layers.mean(layers.fc(hidden, 2, bias=False, name="b"))
        pairs = optimizer.SGD(1.0, clip=clip).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    before = [scope.var(f"{name}_w_param").numpy() for name in "ab"]
    network = ow.Network(main.global_block())
    grads = network.compile(feed=["x"], fetch=[grad for _, grad in pairs], scope=scope)(x=X)
    after = [scope.var(f"{name}_w_param").numpy() for name in "ab"]
    return grads, [old - new for old, new in zip(before, after, strict=True)]


def test_clip_by_norm_bounds_each_gradient_separately():
    grads, moves = two_layers(nn.clip.ClipByNorm(0.01))
    for grad, move in zip(grads, moves, strict=True):
        assert np.linalg.norm(grad) > 0.01
        np.testing.assert_allclose(move, grad * 0.01 / np.linalg.norm(grad), rtol=1e-6)


def test_clip_by_global_norm_preserves_the_ratios_of_gradients():
    grads, moves = two_layers(nn.clip.ClipByGlobalNorm(0.01))
    norm = np.sqrt(sum((grad**2).sum() for grad in grads))
    assert norm > 0.01
    for grad, move in zip(grads, moves, strict=True):
        np.testing.assert_allclose(move, grad * 0.01 / norm, rtol=1e-6)


def test_a_gradient_within_the_bound_is_bitwise_unchanged():
    plain = weight_after(lambda: optimizer.SGD(RATE), 1)
    for clip in (nn.clip.ClipByNorm(3.7), nn.clip.ClipByGlobalNorm(3.7)):
        bounded = weight_after(lambda clip=clip: optimizer.SGD(RATE, clip=clip), 1)
        np.testing.assert_array_equal(bounded, plain)


def test_a_zero_gradient_stays_zero_after_clipping():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 3])
        loss = layers.mean(layers.fc(x, 2))
        optimizer.SGD(1.0, clip=nn.clip.ClipByGlobalNorm(1.0)).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    before = scope.var("fc_0_w_param").numpy()
    step = ow.Network(main.global_block()).compile(feed=["x"], scope=scope)
    step(x=np.zeros((4, 3), np.float32))
    np.testing.assert_array_equal(scope.var("fc_0_w_param").numpy(), before)


def test_the_learning_rate_of_a_parameter_multiplies_the_rate_of_the_optimizer():
    weight = weight_after(lambda: optimizer.SGD(RATE), 1, learning_rate=0.25)
    check(weight, START - 0.25 * RATE * GRAD)
    still = weight_after(lambda: optimizer.SGD(RATE), 1, learning_rate=0.0)
    np.testing.assert_array_equal(still, START)


def test_the_learning_rate_is_a_tensor_that_can_change_between_steps():
    scope, step, sgd = build(lambda: optimizer.SGD(RATE))
    assert sgd.learning_rate.name == "learning_rate"
    assert sgd.learning_rate.persistable
    assert (scope.var("learning_rate").dtype, scope.var("learning_rate").shape) == ("float32", (1,))
    step()
    version = scope.structure_version
    sgd.set_learning_rate(scope, 1.0)
    step()
    check(scope.var("a_w_param").numpy(), START - (RATE + 1.0) * GRAD)
    assert scope.structure_version == version


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (optimizer.SGD, []),
        (optimizer.Momentum, ["velocity"]),
        (optimizer.Adam, ["beta1_power", "beta2_power", "moment1", "moment2"]),
        (optimizer.AdamW, ["beta1_power", "beta2_power", "moment1", "moment2"]),
    ],
)
def test_states_are_named_after_their_parameter(make, names):
    scope, _, _ = build(make)
    states = {name for name in scope.names() if name.startswith("a_w_param_")}
    assert states == {f"a_w_param_{name}" for name in names}


def test_float32_parameters_train():
    scope, step, _ = build(lambda: optimizer.Adam(RATE), dtype="float32")
    step()
    moved = scope.var("a_w_param").numpy()
    assert moved.dtype == np.float32
    np.testing.assert_allclose(moved, START - RATE * np.sign(GRAD), rtol=1e-5)


def test_minimize_returns_pairs_and_skips_parameters_that_are_not_trainable(programs):
    x = layers.data("x", [None, 3])
    fixed = nn.ParamAttr(trainable=False)
    hidden = layers.fc(x, 4, name="a", param_attr=fixed, bias_attr=fixed)
    loss = layers.mean(layers.fc(hidden, 2, name="b"))
    pairs = optimizer.SGD(RATE).minimize(loss)
    assert [(parameter.name, grad.name) for parameter, grad in pairs] == [
        ("b_w_param", "b_w_param_grad"),
        ("b_b_param", "b_b_param_grad"),
    ]


def test_minimize_trains_the_listed_parameters(programs):
    x = layers.data("x", [None, 3])
    loss = layers.mean(layers.fc(layers.fc(x, 4, name="a"), 2, name="b"))
    pairs = optimizer.SGD(RATE).minimize(loss, parameters=["a_b_param"])
    assert [parameter.name for parameter, _ in pairs] == ["a_b_param"]


def test_minimize_without_a_parameter_to_train_is_refused_and_changes_nothing(programs):
    main, startup = programs
    loss = layers.mean(layers.data("x", [None, 3]))
    before = (len(main.global_block().ops), list(main.global_block().vars))
    with pytest.raises((ProgramError, GradientError), match="parameter"):
        optimizer.SGD(RATE).minimize(loss)
    assert (len(main.global_block().ops), list(main.global_block().vars)) == before
    assert not startup.global_block().vars


def test_an_optimizer_refuses_a_second_program():
    sgd = optimizer.SGD(RATE)
    build(lambda: sgd)
    with pytest.raises(ProgramError, match="SGD: an optimizer belongs to one program"):
        build(lambda: sgd)


def test_the_learning_rate_before_minimize_is_refused():
    sgd = optimizer.SGD(RATE)
    with pytest.raises(ProgramError, match="SGD: the learning rate has no variable before"):
        sgd.set_learning_rate(ow.Scope(), 0.1)
    build(lambda: sgd)
    with pytest.raises(VariableNotFoundError, match="SGD: the scope must hold 'learning_rate'"):
        sgd.set_learning_rate(ow.Scope(), 0.1)
    with pytest.raises(AttributeTypeError, match="SGD: scope must be a Scope, got 0.1"):
        sgd.set_learning_rate(0.1, 0.1)
    with pytest.raises(AttributeValueError, match="SGD: learning rate must be"):
        sgd.set_learning_rate(ow.Scope(), -0.1)


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: optimizer.SGD(-1), AttributeValueError, r"SGD: learning_rate .* \[0, inf\)"),
        (lambda: optimizer.SGD("0.1"), AttributeTypeError, "SGD: learning_rate must be a finite"),
        (lambda: optimizer.SGD(0.1, clip=1.0), AttributeTypeError, "SGD: clip must be a Gradient"),
        (lambda: optimizer.SGD(0.1, regularizer=1), AttributeTypeError, "regularizer must be a R"),
        (lambda: optimizer.Momentum(mu=1), AttributeValueError, r"Momentum: mu .* \[0, 1\)"),
        (lambda: optimizer.Momentum(nesterov=1), AttributeTypeError, "nesterov must be True or"),
        (lambda: optimizer.Adam(beta1=1.0), AttributeValueError, r"Adam: beta1 .* \[0, 1\)"),
        (lambda: optimizer.Adam(epsilon=0), AttributeValueError, r"Adam: epsilon .* \(0, inf\)"),
        (lambda: optimizer.AdamW(beta2=-1), AttributeValueError, "AdamW: beta2 must be"),
        (lambda: optimizer.AdamW(weight_decay=-1), AttributeValueError, "AdamW: weight_decay must"),
        (lambda: nn.clip.ClipByNorm(0), AttributeValueError, r"ClipByNorm: max_norm .* \(0, inf\)"),
        (lambda: nn.clip.ClipByGlobalNorm("1"), AttributeTypeError, "ClipByGlobalNorm: max_norm"),
        (
            lambda: nn.clip.ClipByValue(-0.01, 0.01),
            AttributeValueError,
            r"got max=-0.01, min=0.01; max comes first: ClipByValue\(0.01, min=-0.01\)",
        ),
        (lambda: nn.regularizer.L1(-1), AttributeValueError, "L1: coefficient must be"),
        (lambda: nn.regularizer.L2(None), AttributeTypeError, "L2: coefficient must be"),
        (lambda: optimizer.SGD().minimize("loss"), AttributeTypeError, "SGD: loss must be a var"),
    ],
)
def test_the_error_names_a_bad_argument(make, error, rule):
    with pytest.raises(error, match=rule):
        make()


@pytest.mark.parametrize("kind", optimizer.OPTIMIZERS.values(), ids=optimizer.OPTIMIZERS)
def test_arguments_have_the_ranges_of_the_operator_attributes(kind):
    attributes = kind().attrs()
    for rule in ow.op_proto(kind.op_type).attrs:
        assert rule.name in attributes or rule.has_default
        if rule.name not in attributes or rule.min is None:
            continue
        with pytest.raises(AttributeValueError, match=rf"^{kind.__name__}: {rule.name} must be a "):
            kind(**{rule.name: rule.min - 1})
        if rule.max is not None:
            with pytest.raises(AttributeValueError, match=rule.name):
                kind(**{rule.name: rule.max + 1})


def test_assigning_to_the_learning_rate_is_refused():
    adam = optimizer.Adam(RATE)
    with pytest.raises(AttributeError, match=r"Adam: .* a variable .*; call set_learning_rate\("):
        adam.learning_rate = 0.5


class Halving(optimizer.Optimizer):
    """A user-defined optimizer with an explicit constructor."""

    op_type = "momentum"

    def __init__(self, learning_rate, share):
        super().__init__(learning_rate)
        self.share = share

    def attrs(self):
        return {"mu": self.share / 2}

    def states(self):
        return [optimizer.State("velocity")]


def test_a_user_can_declare_an_optimizer():
    expected = weight_after(lambda: optimizer.Momentum(RATE, 0.25), 3)
    np.testing.assert_array_equal(weight_after(lambda: Halving(RATE, 0.5), 3), expected)
    assert repr(Halving(RATE, 0.5)) == "Halving(learning_rate=0.1, mu=0.25)"


# -- The function optimize ----------------------------------------------------------------------


def gradients(programs):
    x = layers.data("x", [None, 3])
    loss = layers.mean(layers.fc(x, 2, name="a"))
    return {parameter.name: grad.name for parameter, grad in ow.append_backward(loss)}


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: p.global_block(), None])
def test_optimize_appends_an_operator_for_each_pair(programs, wrap):
    main, startup = programs
    param_grad = gradients(programs)
    target = ow.Network(main.global_block()) if wrap is None else wrap(main)
    last = nn.optimize(target, "momentum", {"learning_rate": 0.5, "mu": 0.7}, param_grad)
    ops = main.global_block().ops
    assert last == len(ops) - 1
    assert [(op.type, op.input("param")) for op in ops[-2:]] == [
        ("momentum", ("a_w_param",)),
        ("momentum", ("a_b_param",)),
    ]
    assert ops[-1].attr("mu") == 0.7
    assert "a_w_param_velocity" in startup.global_block().vars


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        ({"type": "sdg"}, AttributeValueError, "type must be one of 'sgd'.*did you mean 'sgd'"),
        ({"type": 3}, AttributeTypeError, "type must be one of"),
        ({"attrs": {"learning_rat": 1}}, AttributeValueError, "did you mean 'learning_rate'"),
        ({"attrs": 0.1}, AttributeTypeError, "attrs must be a mapping, got 0.1"),
        ({"param_grad": ["a"]}, AttributeTypeError, "param_grad must be a mapping of names"),
        ({"param_grad": {"a_w_para": "x"}}, VariableNotFoundError, "did you mean 'a_w_param'"),
        ({"param_grad": {}}, ProgramError, "there must be a parameter to train"),
        ({"network": 3}, AttributeTypeError, "network must be a Program, a Block or a Network"),
        ({"network": ow.Network()}, AttributeTypeError, "network must be a Program, a Block"),
    ],
)
def test_the_error_names_a_bad_argument_of_optimize(programs, arguments, error, rule):
    param_grad = gradients(programs)
    values = {"network": programs[0], "type": "sgd", "attrs": None, "param_grad": param_grad}
    before = len(programs[0].global_block().ops)
    with pytest.raises(error, match=rule):
        nn.optimize(**(values | arguments))
    assert len(programs[0].global_block().ops) == before
