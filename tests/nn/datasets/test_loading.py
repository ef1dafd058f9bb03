"""load_batches: order, position, random streams, and samples."""

from __future__ import annotations

import gc
import multiprocessing
from itertools import chain

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn.datasets import LoadError


@pytest.fixture(autouse=True)
def no_worker_is_left():
    yield
    gc.collect()
    assert not multiprocessing.active_children()


def listed(batches):
    return [[array.tolist() for array in batch] for batch in batches]


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"shuffle": False}])
def test_items_have_the_same_order_as_batches_for_any_number_of_workers(functions, paths, options):
    options = {"seed": 3, "epochs": 2, **options}
    x = np.repeat(np.arange(10, dtype=np.float32)[:, None], 3, 1)
    whole = listed(nn.batches((x, np.arange(10)[:, None]), 4, **options))
    for workers in (0, 1, 3):
        loader = nn.load_batches(paths, 4, map=functions.decode, workers=workers, **options)
        assert len(loader) == len(whole)
        assert listed(loader) == whole
        assert listed(loader) != []
        assert listed(loader.repeat(2)) == whole
        assert len(multiprocessing.active_children()) == workers


def test_arrays_are_returned_by_batches_without_workers():
    x = np.arange(6)
    loader = nn.load_batches((x,), 4, shuffle=False)
    assert type(loader) is type(nn.batches((x,), 4))
    assert np.shares_memory(next(loader)[0], x)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_position_continues_in_another_loader(functions, paths, workers):
    def make(count):
        return nn.load_batches(paths, 3, map=functions.decode, workers=count, epochs=3, seed=4)

    whole = listed(make(0))
    for done in (0, 3, 5, 12):
        left, other = make(workers), make(2 - workers)
        assert [listed([next(left)])[0] for _ in range(done)] == whole[:done]
        other.restore(left.position)
        left.close()
        assert listed(other) == whole[done:]
    with pytest.raises(AttributeValueError, match="same arguments, got arrays="):
        nn.load_batches(paths[::-1], 3, map=functions.decode, epochs=3, seed=4).restore(
            make(0).position
        )


def test_a_random_stream_depends_only_on_seed_epoch_and_item(functions):
    def make(workers, seed=3, **options):
        options = {"epochs": 2, "seed": seed, **options}
        return nn.load_batches(range(9), 4, map=functions.drawn, workers=workers, **options)

    def by_item(batches):
        return [{int(i): tuple(x) for i, x in zip(a[:, 0], b)} for a, b in batches]

    whole = listed(make(0))
    assert listed(make(1)) == listed(make(2)) == whole
    epochs = [
        {k: v for part in by_item(batches) for k, v in part.items()}
        for batches in (
            [next(loader) for _ in range(3)]
            for loader in [make(0, shuffle=False)]
            for _ in range(2)
        )
    ]
    assert len({x for epoch in epochs for x in epoch.values()}) == 18
    shuffled = {k: v for part in by_item(list(make(0))[:3]) for k, v in part.items()}
    assert shuffled == epochs[0]
    left, other = make(2), make(0)
    assert listed(next(left) for _ in range(4)) == whole[:4]
    other.restore(left.position)
    assert listed(other) == whole[4:]
    with pytest.raises(AttributeValueError, match="seed=3 instead of 4"):
        make(0, seed=4, shuffle=False).restore(make(0, shuffle=False).position)


def test_samples_of_a_function_have_separate_streams(functions):
    def make(**options):
        return nn.load_batches(lambda: iter(range(9)), 4, map=functions.drawn, samples=9, **options)

    items = nn.load_batches(range(9), 4, map=functions.drawn, shuffle=False, epochs=2)
    assert listed(make(shuffle=False, epochs=2)) == listed(items)
    with pytest.raises(AttributeValueError, match="seed=0 instead of 1"):
        make(seed=1, shuffle=False).restore(make(shuffle=False).position)


def test_a_position_does_not_depend_on_addresses():
    first, second = (nn.load_batches([object(), object()], 1, map=id).position for _ in range(2))
    kept = [object() for _ in range(4)]
    assert nn.load_batches(kept[:2], 1, map=id).position == first == second
    assert nn.load_batches(kept[2:], 1, map=id).position == first


@pytest.mark.parametrize("workers", [0, 2])
def test_the_error_names_a_failing_item_every_time(functions, workers):
    items = list(range(5, 9))
    loader = nn.load_batches(items, 1, map=functions.named, workers=workers, shuffle=False)
    batches = iter(loader)
    assert [next(batches)["x"].tolist() for _ in range(2)] == [[5.0], [6.0]]
    for _ in range(2):
        with pytest.raises(
            LoadError, match="got ValueError: seven for item 2, 7; fix the item"
        ) as error:
            next(loader)
        if workers:
            assert "in named" in "".join(error.value.__notes__)


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_with_different_shapes_are_refused(functions, workers):
    loader = nn.load_batches([2, 3], 2, map=functions.ragged, workers=workers, shuffle=False)
    with pytest.raises(LoadError, match=r"\(3,\).* for item 1 and .*\(2,\).* for item 0"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("forgets", "got None for item 4; end map with return"),
        ("half", "got None for item 4; end map with return"),
        ("listing", r"got \[\[1\], \[1, 2\]\] \(list\) for item 4; .* several arrays as a tuple"),
        ("anything", r"got <object object at .*> \(object\) for item 4; convert it to"),
        ("nothing", "got an empty tuple for item 4; return at least one array"),
    ],
)
def test_the_error_for_an_invalid_sample_names_its_item(functions, name, text):
    for workers in (0, 1):
        loader = nn.load_batches(
            range(9), 4, map=getattr(functions, name), workers=workers, shuffle=False
        )
        loader.restore({**loader.position, "batch": 1})
        with pytest.raises(LoadError, match=f"^load_batches: a sample must be an array, .*{text}"):
            next(iter(loader))


def test_a_function_as_data_returns_samples():
    for data, text in (
        (lambda: iter([None]), "got None for item 0; end map with return"),
        (lambda: None, r"data must return an iterator .* got None \(NoneType\); let it end with"),
    ):
        with pytest.raises(LoadError, match=text):
            next(iter(nn.load_batches(data, 1, samples=1)))


def test_a_generator_is_shuffled_and_continues():
    def samples():
        return ((np.float32(i), np.array([i])) for i in range(2500))

    def make(**options):
        return nn.load_batches(samples, 100, samples=2500, seed=1, epochs=2, **options)

    plain = [batch[1][:, 0].tolist() for batch in make(shuffle=False)]
    assert list(chain(*plain)) == [*range(2500)] * 2
    whole = [batch[1][:, 0].tolist() for batch in make()]
    first, second = list(chain(*whole[:25])), list(chain(*whole[25:]))
    assert sorted(first) == sorted(second) == list(range(2500))
    assert first != second
    assert first != list(range(2500))
    left, other = make(), make()
    for _ in range(30):
        next(left)
    other.restore(left.position)
    assert [batch[1][:, 0].tolist() for batch in other] == whole[30:]
    assert [batch[1][:, 0].tolist() for batch in left.repeat(2)] == whole
    mapped = make(map=lambda sample: sample[1] + 1, shuffle=False)
    assert next(mapped)[0][:, 0].tolist() == list(range(1, 101))


@pytest.mark.parametrize(("count", "got"), [(9, "more"), (11, "only 10")])
def test_a_generator_of_a_different_length_is_refused(count, got):
    loader = nn.load_batches(lambda: (np.float32(i) for i in range(10)), 4, samples=count)
    with pytest.raises(LoadError, match=f"samples={count} samples in each epoch, got {got}"):
        list(loader)


@pytest.mark.parametrize(
    ("data", "options", "error", "rule"),
    [
        ([1], {"mapp": abs}, AttributeTypeError, "did you mean 'map'"),
        ([1], {"map": abs, "num_workers": 1}, AttributeTypeError, "did you mean 'workers'"),
        ([1], {"map": 3}, AttributeTypeError, "map must be a function"),
        ([1], {"map": lambda item, other: item}, AttributeTypeError, "name the second argument"),
        ("abc", {"map": abs}, AttributeTypeError, "a sequence of items .* got str"),
        (iter([1]), {"map": abs}, AttributeTypeError, "a sequence of items .* got list_iterator"),
        ((np.zeros(2),), {"workers": 1}, AttributeValueError, "workers=1 for data without map"),
        (list, {"samples": 1, "workers": 1}, AttributeValueError, "workers=1 for a function"),
        (list, {}, AttributeValueError, "samples must be given"),
        ([1], {"map": abs, "samples": 1}, AttributeValueError, "got samples=1"),
        ([1], {"map": abs, "workers": -1}, AttributeValueError, "workers must be"),
        ([1], {"map": abs, "ahead": 0}, AttributeValueError, "ahead must be"),
        ([1], {"map": abs, "timeout": 3}, AttributeValueError, "timeout=3 with workers=0"),
        ([1], {"map": abs, "workers": 1, "timeout": 0}, AttributeValueError, "timeout must be"),
    ],
)
def test_the_error_names_a_wrong_argument_at_the_call(data, options, error, rule):
    with pytest.raises(error, match=rule):
        nn.load_batches(data, 1, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_training_with_load_batches_gives_the_same_losses(functions, workers):
    items = list(range(6))
    seen = []

    def step(x):
        seen.append(x.tolist())
        return [np.float32(x.sum()), len(multiprocessing.active_children())]

    loader = nn.load_batches(items, 4, map=functions.named, workers=workers, seed=2)
    history = nn.train(step, loader, epochs=3, progress=False)
    assert len(history) == 3
    expected = nn.batches({"x": np.arange(6, dtype=np.float32)}, 4, seed=2, epochs=3)
    assert seen == [batch["x"].tolist() for batch in expected]
    assert len(multiprocessing.active_children()) == workers


@pytest.mark.parametrize("workers", [0, 2])
def test_map_batch_receives_a_separate_stream_for_each_batch(functions, workers):
    def make(workers, **options):
        return nn.load_batches(
            range(10),
            4,
            map=functions.drawn,
            map_batch=functions.mixed,
            workers=workers,
            epochs=2,
            **options,
        )

    whole = listed(make(workers, seed=3))
    items = nn.load_batches(range(10), 4, map=functions.drawn, epochs=2, seed=3)
    arrays = [np.concatenate(column) for column in zip(*(next(items) for _ in range(3)))]
    order = np.argsort(arrays[0][:, 0])
    plain = nn.batches([a[order] for a in arrays], 4, map_batch=functions.mixed, epochs=1, seed=3)
    assert listed(plain) == whole[:3]
    assert len({batch[2][0] for batch in whole}) == 6
    left = make(workers, seed=3)
    assert listed(next(left) for _ in range(4)) == whole[:4]
    other = make(0, seed=3)
    other.restore(left.position)
    assert listed(other) == whole[4:]


def test_an_error_in_map_batch_is_repeated_and_the_position_contains_its_seed():
    def mixed(batch, rng):
        raise ValueError("mixed")

    batches = nn.batches((np.arange(4),), 2, map_batch=mixed, shuffle=False)
    for _ in range(2):
        with pytest.raises(ValueError, match="mixed"):
            next(batches)
    assert batches.position["seed"] == 0
    assert nn.batches((np.arange(4),), 2, map_batch=len, shuffle=False).position["seed"] is None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_class_with_len_and_getitem_is_accepted_as_data(functions, workers):
    loader = nn.load_batches(functions.Squares(), 4, workers=workers, shuffle=False)
    whole = [[[0, 1, 4, 9], [0, 1, 2, 3]], [[16, 25, 36, 49], [4, 5, 6, 7]]]
    assert listed(next(loader) for _ in range(2)) == whole
    assert loader.position["arrays"] == ["items[9]: Squares"]
    with pytest.raises(LoadError, match="got ValueError: eight for item 8; fix the item"):
        next(loader)
    mapped = nn.load_batches(functions.Squares(), 2, map=len, shuffle=False)
    assert next(mapped)[0].tolist() == [2, 2]
