"""The opwright-std passes do not change results; each test covers one hazard."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2

IDENTITIES = {
    "assign": ({}, [2, 3]),
    "reshape": ({"shape": [3, 2]}, [3, 2]),
    "squeeze": ({"axis": []}, [2, 3]),
    "unsqueeze": ({"axis": [0, -1]}, [1, 2, 3, 1]),
    "flatten": ({"start_axis": 0}, [6]),
    "expand": ({"shape": [1, 2, -1]}, [1, 2, 3]),
    "cast": ({"dtype": "float32"}, [2, 3]),
    "scale": ({"scale": 1.0}, [2, 3]),
    "transpose": ({"axes": [0, -1]}, [2, 3]),
    "add_n": ({}, [2, 3]),
}

CHANGES = {
    "expand": {"shape": [2, 2, 3]},
    "cast": {"dtype": "float64"},
    "scale": {"scale": 1.0, "bias": 0.5},
    "transpose": {"axes": []},
}


def op(type, out, x, **slots):
    return ow.Operator(type, x=x, out=out, **slots)


def identity(type, out, x):
    return op(type, out, x, **IDENTITIES[type][0])


def run(ops, fetch, feeds, persistables, passes, calls=2):
    """Call twice and return the fetches, the scope's contents, and the number of operators run."""
    program = ow.Program()
    block = program.global_block()
    for name, value in {**feeds, **persistables}.items():
        shape, dtype = value.shape, value.dtype.name
        block.create_var(name, shape, dtype, persistable=name in persistables)
    for given in ops:
        block.append_op(given.type, given.inputs, given.outputs, given.attrs)
    scope = ow.Scope()
    for name, value in persistables.items():
        scope.var(name).set(value)
    network = ow.Network(block)
    call = network.compile(feed=list(feeds), fetch=fetch, scope=scope, passes=passes)
    given = {name: value.copy() for name, value in feeds.items()}
    results = [call(**given) for _ in range(calls)]
    for name, value in feeds.items():
        np.testing.assert_array_equal(given[name], value)
    held = [scope.find_var(name).numpy() for name in persistables]
    fetched = [np.array(array) for result in results for array in result]
    return fetched, held, network.placement(), results


def check(ops, fetch, feeds=None, persistables=None):
    """Compare bitwise with a run without passes; return operator counts with and without passes."""
    feeds = {"x": X} if feeds is None else feeds
    plain = run(ops, fetch, feeds, persistables or {}, [])
    passed = run(ops, fetch, feeds, persistables or {}, ["remove_identities"])
    for wanted, found in zip(plain[:2], passed[:2], strict=True):
        for one, other in zip(wanted, found, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))
    for array in (array for result in passed[3] for array in result):
        assert array.flags.writeable
        array.fill(0)  # a fetched array belongs to the caller, so other arrays do not change
    return passed[2].operators, plain[2].operators


@pytest.mark.parametrize("type", IDENTITIES)
def test_operators_that_do_not_change_data_are_removed(type):
    ops = [op("exp", "a", "x"), identity(type, "b", "a"), op("tanh", "out", "b")]
    assert check(ops, ["out"]) == (2, 3)


@pytest.mark.parametrize("type", CHANGES)
def test_operators_that_change_data_are_kept(type):
    ops = [op("exp", "a", "x"), op(type, "b", "a", **CHANGES[type]), op("tanh", "out", "b")]
    assert check(ops, ["out"]) == (3, 3)


def test_operators_that_only_move_axes_of_length_one_are_removed():
    ops = [op("exp", "a", "x"), op("transpose", "b", "a", axes=[2, 1, 0]), op("tanh", "out", "b")]
    assert check(ops, ["out"], {"x": X.reshape(1, 6, 1)}) == (2, 3)
    assert check(ops, ["out"], {"x": X.reshape(3, 1, 2)}) == (3, 3)


@pytest.mark.parametrize(
    ("type", "x", "y", "operators"),
    [
        ("sum_like", (2, 3), (2, 3), 3),
        ("sum_like", (1, 2, 3), (2, 3), 3),
        ("sum_like", (2, 3), (3,), 4),
        ("expand_like", (2, 3), (2, 3), 3),
        ("expand_like", (2, 3), (1, 2, 3), 3),
        ("expand_like", (3,), (2, 3), 4),
    ],
)
def test_sums_and_repetitions_with_an_empty_list_of_axes_are_removed(type, x, y, operators):
    feeds = {"x": np.ones(x, np.float32), "y": np.ones(y, np.float32)}
    ops = [op("exp", "a", "x"), op(type, "b", "a", like="y"), op("tanh", "c", "b")]
    got, plain = check([*ops, op("exp", "out", "c")], ["out"], feeds)
    assert (got, plain) == (operators, 4)


def test_a_chain_of_views_is_one_view():
    ops = [op("exp", "a", "x"), identity("reshape", "b", "a"), identity("flatten", "c", "b")]
    ops += [op("reshape_like", "d", "c", like="x"), op("add", "out", "d", y="a")]
    assert check(ops, ["out"]) == (2, 5)


@pytest.mark.parametrize("size", [(0, 3), (1, 1)])
def test_empty_arrays_and_single_elements_are_viewed_too(size):
    ops = [op("exp", "a", "x"), identity("flatten", "b", "a"), op("tanh", "out", "b")]
    assert check(ops, ["out"], {"x": np.zeros(size, np.float32)}) == (2, 3)


# Fetched values


@pytest.mark.parametrize("type", IDENTITIES)
def test_a_fetched_copy_stays_a_copy(type):
    ops = [op("exp", "a", "x"), identity(type, "b", "a"), op("tanh", "c", "b")]
    assert check(ops, ["b"]) == (2, 2)
    assert check(ops, ["a", "b", "c"]) == (3, 3)
    assert check([identity(type, "b", "x")], ["b"]) == (1, 1)


@pytest.mark.parametrize("type", IDENTITIES)
def test_viewed_values_can_be_fetched(type):
    ops = [op("exp", "a", "x"), identity(type, "b", "a"), op("tanh", "c", "b")]
    assert check(ops, ["a", "c"]) == (2, 3)
    assert check(ops, ["c", "a", "a"]) == (2, 3)


# Feeds and values written in place


@pytest.mark.parametrize("type", IDENTITIES)
def test_a_feed_can_be_viewed(type):
    ops = [identity(type, "b", "x"), op("tanh", "out", "b"), op("relu", "z", "b")]
    assert check(ops, ["out", "z"]) == (2, 3)


def sgd(param, grad):
    return ow.Operator("sgd", param=param, grad=grad, learning_rate="rate", param_out=param)


RATE = {"rate": np.array([0.5], np.float32)}


@pytest.mark.parametrize("type", ["assign", "scale", "add_n", "cast", "transpose"])
def test_a_copy_that_is_written_in_place_is_kept(type):
    ops = [identity(type, "b", "x"), sgd("b", "y"), op("tanh", "out", "x")]
    feeds = {"x": X, "y": X + 1, **RATE}
    assert check(ops, ["out", "b"], feeds) == (3, 3)
    ops = [op("exp", "a", "x"), identity(type, "b", "a"), sgd("b", "y"), op("tanh", "out", "a")]
    assert check(ops, ["out", "b"], feeds) == (4, 4)


@pytest.mark.parametrize("type", IDENTITIES)
def test_in_place_kernels_keep_a_viewed_value_intact(type):
    shape = IDENTITIES[type][1]
    ops = [op("exp", "a", "x"), identity(type, "b", "a"), op("exp", "c", "b")]
    ops += [
        op("negative", "d", "c"),
        op("reshape", "e", "d", shape=[2, 3]),
        op("add", "out", "e", y="a"),
    ]
    got, _ = check([*ops, op("reshape", "z", "c", shape=shape)], ["out"])
    assert got == 4


# Persistables


@pytest.mark.parametrize("type", IDENTITIES)
def test_a_persistable_is_viewed_until_it_is_written(type):
    early = [identity(type, "b", "w"), op("tanh", "out", "b"), sgd("w", "x")]
    late = [identity(type, "b", "w"), sgd("w", "x"), op("tanh", "out", "b")]
    both = [identity(type, "b", "w"), op("exp", "z", "b"), sgd("w", "x"), op("tanh", "out", "b")]
    feeds = {"x": X, **RATE}
    assert check(early, ["out"], feeds, {"w": X + 3}) == (2, 3)
    assert check(late, ["out"], feeds, {"w": X + 3}) == (3, 3)
    assert check(both, ["out", "z"], feeds, {"w": X + 3}) == (4, 4)


def test_a_persistable_that_is_read_only_in_another_shape_is_viewed():
    ops = [op("reshape", "b", "w", shape=[3, 2]), op("matmul", "out", "x", y="b")]
    assert check(ops, ["out"], {"x": X}, {"w": np.ones(6, np.float32)}) == (1, 2)


def test_a_copy_into_a_persistable_is_kept():
    ops = [op("exp", "a", "x"), op("assign", "w", "a"), op("tanh", "out", "w")]
    assert check(ops, ["out"], {"x": X}, {"w": X}) == (3, 3)


def test_a_new_version_of_a_persistable_is_viewed():
    ops = [sgd("w", "x"), identity("reshape", "b", "w"), op("tanh", "out", "b")]
    assert check(ops, ["out"], {"x": X, **RATE}, {"w": X}) == (2, 3)


# Random programs


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_give_the_same_results_with_and_without_passes(seed):
    rng = np.random.default_rng(seed)
    names = ["x", "y", "w"]
    ops = []
    for i in range(30):
        x, y = rng.choice(names[-7:], 2)
        kind = rng.choice(["assign", "flatten", "like", "add", "tanh", "sgd", "exp", "cast"])
        out = f"v{i}"
        if kind == "like":
            ops.append(op("reshape_like", out, x, like="x"))
        elif kind == "flatten":
            ops += [op("flatten", f"f{i}", x, start_axis=0)]
            ops += [op("reshape", out, f"f{i}", shape=[2, 3])]
        elif kind == "add":
            ops.append(op("add", out, x, y=y))
        elif kind == "sgd":
            ops.append(sgd(str(rng.choice(["w", x])), y))
            continue
        else:
            attrs = {"dtype": "float32"} if kind == "cast" else {}
            ops.append(op(str(kind), out, "tanh_" + out if kind == "exp" else x, **attrs))
            if kind == "exp":
                ops.insert(-1, op("tanh", "tanh_" + out, x))
        names.append(out)
    fetch = [*dict.fromkeys(rng.choice(names[3:], 4)), names[-1]]
    feeds = {"x": X / 4, "y": X / 8, **RATE}
    after, before = check(ops, fetch, feeds, {"w": X / 2})
    assert after <= before
