"""Batches: each row appears once per epoch, the seed fixes the order, and errors occur early."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError

DATA = (np.arange(10, dtype=np.float32).reshape(10, 1), np.arange(10))


@pytest.mark.parametrize("size", [1, 3, 5, 10, 11])
def test_each_row_appears_once_per_epoch_with_its_label(size):
    rows = []
    for images, labels in nn.batches(DATA, size=size, epochs=3, seed=2):
        np.testing.assert_array_equal(images[:, 0], labels)
        assert len(labels) <= size
        rows.extend(labels.tolist())
    for epoch in range(3):
        assert sorted(rows[10 * epoch : 10 * (epoch + 1)]) == list(range(10))


def test_the_order_depends_only_on_seed_and_epoch():
    def order(seed, epochs):
        return [
            int(label)
            for _, labels in nn.batches(DATA, 4, epochs=epochs, seed=seed)
            for label in labels
        ]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2)[:10] == order(1, 1)
    assert order(1, 2)[:10] != order(1, 2)[10:]
    assert order(1, 1) != order(2, 1)


def test_an_incomplete_last_batch_is_kept_or_dropped():
    assert [len(labels) for _, labels in nn.batches(DATA, 4)] == [4, 4, 2]
    assert [len(labels) for _, labels in nn.batches(DATA, 4, drop_last=True)] == [4, 4]
    assert [len(labels) for _, labels in nn.batches(DATA, 5, drop_last=True)] == [5, 5]
    assert list(nn.batches(DATA, 11, drop_last=True)) == []


def test_without_shuffle_rows_keep_their_order_without_a_copy():
    pairs = list(nn.batches(DATA, 4, shuffle=False))
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in pairs]), DATA[1])
    assert all(np.shares_memory(images, DATA[0]) for images, _ in pairs)


def test_zero_epochs_or_zero_rows_give_no_batches():
    assert list(nn.batches(DATA, 4, epochs=0)) == []
    assert list(nn.batches((np.zeros((0, 3)),), 4, epochs=2)) == []


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_continue_from_any_position(shuffle, drop_last):
    options = {"epochs": 3, "seed": 5, "shuffle": shuffle, "drop_last": drop_last}
    whole = [labels.tolist() for _, labels in nn.batches(DATA, 4, **options)]
    first = nn.batches(DATA, 4, **options)
    for n_before in range(len(whole) + 1):
        again = nn.batches(DATA, 4, **options)
        again.restore(json.loads(json.dumps(first.position)))
        assert again.position == first.position
        assert [labels.tolist() for _, labels in again] == whole[n_before:]
        next(first, None)


def test_a_restored_run_can_have_more_epochs():
    ended = nn.batches(DATA, 4, epochs=1, seed=5)
    list(ended)
    longer = nn.batches(DATA, 4, epochs=2, seed=5)
    longer.restore(ended.position)
    assert longer.position["epoch"] == 1
    assert len(list(longer)) == 3
    with pytest.raises(AttributeValueError, match="within 1 epochs of 3 batches, got batch 0 of"):
        nn.batches(DATA, 4, seed=5).restore(longer.position)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"size": 20}, "size=4 instead of 20"),
        ({"seed": 1}, "seed=5 instead of 1, order_crc32="),
        ({"shuffle": False}, "shuffle=True instead of False"),
        ({"drop_last": True}, "drop_last=False instead of True"),
        ({"data": (DATA[0][:9], DATA[1][:9])}, r"arrays=\['float32\[10, 1\]', 'int64\[10\]'\]"),
    ],
)
def test_batches_with_different_arguments_refuse_a_position(options, rule):
    first = nn.batches(DATA, 4, seed=5)
    next(first)
    position = first.position
    other = nn.batches(**{"data": DATA, "size": 4, "seed": 5, **options})
    with pytest.raises(AttributeValueError, match=f"with the same arguments, got .*{rule}"):
        other.restore(position)
    assert other.position["batch"] == 0


def test_a_different_order_of_rows_is_detected():
    batches = nn.batches(DATA, 4, seed=5)
    position = {**batches.position, "order_crc32": 1}
    with pytest.raises(AttributeValueError, match="order_crc32=1 instead of"):
        batches.restore(position)


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (None, AttributeTypeError),
        ({}, AttributeTypeError),
        ({"epoch": -1}, AttributeValueError),
        ({"batch": "1"}, AttributeTypeError),
        ({"batch": 3}, AttributeValueError),
    ],
)
def test_a_value_that_is_not_a_position_is_refused(position, error):
    batches = nn.batches(DATA, 4, seed=5)
    if position:
        position = {**batches.position, **position}
    with pytest.raises(error, match=r"batches\.restore: "):
        batches.restore(position)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_only_on_a_terminal(monkeypatch, terminal):
    class Screen(io.StringIO):
        def isatty(self):
            return terminal

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    assert len(list(nn.batches(DATA, 4, epochs=2, progress=True))) == 6
    assert ("6/6" in screen.getvalue()) is terminal
    screen.truncate(0)
    assert len(list(nn.batches(DATA, 4, epochs=2, progress=True).repeat(1))) == 3
    assert not screen.getvalue()


@pytest.mark.parametrize(
    ("data", "error", "rule"),
    [
        (DATA[0], AttributeTypeError, "must be a tuple, list or dict of arrays, got ndarray"),
        ("ab", AttributeTypeError, "must be a tuple, list or dict of arrays, got str"),
        (([[1], [1, 2]],), AttributeTypeError, r"got \[\[1\], \[1, 2\]\] as array 0; pad its rows"),
        (([1], [None]), AttributeTypeError, r"got \[None\] as array 1; pad its rows"),
        ({"x": [{}]}, AttributeTypeError, r"got \[\{\}\] as array 0; pad its rows"),
        ((), ShapeError, "at least one array"),
        ((np.float32(1),), ShapeError, "each with an axis of rows"),
        (
            (DATA[0], DATA[1][:9]),
            ShapeError,
            r"same number of rows, got shapes \[\[10, 1\], \[9\]\]",
        ),
    ],
)
def test_invalid_data_is_refused_at_the_call(data, error, rule):
    with pytest.raises(error, match=f"batches: .*{rule}"):
        nn.batches(data, size=2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"size": 0}, AttributeValueError),
        ({"size": 2.0}, AttributeTypeError),
        ({"size": True}, AttributeTypeError),
        ({"size": 2, "epochs": -1}, AttributeValueError),
        ({"size": 2, "seed": "1"}, AttributeTypeError),
        ({"size": 2, "seed": -1}, AttributeValueError),
        ({"size": 2, "shuffle": 1}, AttributeTypeError),
        ({"size": 2, "drop_last": None}, AttributeTypeError),
        ({"size": 2, "progress": "yes"}, AttributeTypeError),
    ],
)
def test_the_error_names_a_bad_argument_at_the_call(arguments, error):
    with pytest.raises(error, match=f"batches: {list(arguments)[-1]} must be"):
        nn.batches(DATA, **arguments)


def test_a_second_loop_continues_with_the_next_epoch_in_a_new_order():
    whole = [labels.tolist() for _, labels in nn.batches(DATA, 4, epochs=3, seed=5)]
    single = nn.batches(DATA, 4, seed=5)
    parts = [[labels.tolist() for _, labels in single] for _ in range(3)]
    assert [*parts[0], *parts[1], *parts[2]] == whole
    assert parts[0] != parts[1]
    assert next(single, None) is None


def test_first_epoch_starts_with_the_order_of_that_epoch():
    whole = [labels.tolist() for _, labels in nn.batches(DATA, 4, epochs=2, seed=5)]
    later = nn.batches(DATA, 4, first_epoch=1, seed=5)
    assert later.position["epoch"] == 1
    assert [labels.tolist() for _, labels in later] == whole[3:]


def test_an_interrupted_loop_continues_and_a_restored_finished_loop_stays_finished():
    left = nn.batches(DATA, 4, epochs=2, seed=5)
    first = [labels.tolist() for _, (_, labels) in zip(range(2), left, strict=False)]
    whole = [labels.tolist() for _, labels in nn.batches(DATA, 4, epochs=2, seed=5)]
    assert [*first, *(labels.tolist() for _, labels in left)][:2] == whole[:2]
    again = nn.batches(DATA, 4, epochs=2, seed=5)
    again.restore(left.position)
    assert list(again) == []


@pytest.mark.parametrize(("drop_last", "per_epoch"), [(False, 3), (True, 2)])
def test_the_length_is_the_number_of_batches(drop_last, per_epoch):
    batches = nn.batches(DATA, 4, epochs=5, drop_last=drop_last)
    assert batches.per_epoch == per_epoch
    assert len(batches) == 5 * per_epoch == len(list(batches)) == len(batches)
    assert len(batches.repeat(2)) == 2 * per_epoch


def test_batches_of_a_dict_are_dicts_in_the_same_order():
    pairs = list(nn.batches(DATA, 4, epochs=2, seed=3))
    dicts = list(nn.batches({"img": DATA[0], "label": DATA[1]}, 4, epochs=2, seed=3))
    assert [sorted(batch) for batch in dicts] == [["img", "label"]] * 6
    for (images, labels), batch in zip(pairs, dicts, strict=True):
        np.testing.assert_array_equal(batch["img"], images)
        np.testing.assert_array_equal(batch["label"], labels)


def test_a_position_of_batches_with_different_names_is_refused():
    position = nn.batches({"img": DATA[0], "label": DATA[1]}, 4).position
    with pytest.raises(AttributeValueError, match=r"'img: float32\[10, 1\]'"):
        nn.batches({"image": DATA[0], "label": DATA[1]}, 4).restore(position)


def test_the_error_suggests_a_name_for_a_mistyped_argument():
    with pytest.raises(
        AttributeTypeError, match="batches: unknown argument, got 'epoch'; did you mean 'epo"
    ):
        nn.batches(DATA, 4, epoch=2)
