"""TableEncoder: kinds of columns, missing values, data frames, and saving."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, FormatError, ShapeError
from opwright_nn.datasets import TableEncoder, csv

CSV = """age,city,joined,note,income
31,Paris,2024-01-05,likes long walks,high
,Oslo,2024-03-01,walks to work,low
45,,NA,"swims, rarely",high
27,Paris,2023-12-24,,low
"""
DAYS = [datetime.date(2024, 1, 5), datetime.date(2024, 3, 1), None, datetime.date(2023, 12, 24)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return csv.read_columns(path)


@pytest.fixture
def encoder():
    return TableEncoder(target="income", columns={"note": "text"})


def test_columns_are_converted_to_arrays_by_kind(table, encoder):
    arrays = encoder.fit_transform(table)
    assert encoder.feature_names == (
        "age", "age missing", "city=Oslo", "city=Paris", "city missing",
        "joined days", "joined year sin", "joined year cos", "joined week sin", "joined week cos",
        "joined missing",
    )  # fmt: skip
    assert list(arrays) == ["features", "note", "income"]
    features = dict(zip(encoder.feature_names, arrays["features"].T, strict=True))
    ages = np.array([31, np.nan, 45, 27])
    expected = np.nan_to_num((ages - np.nanmean(ages)) / np.nanstd(ages))
    np.testing.assert_allclose(features["age"], expected, rtol=1e-6)
    np.testing.assert_array_equal(features["age missing"], [0, 1, 0, 0])
    np.testing.assert_array_equal(features["city=Paris"], [1, 0, 0, 1])
    np.testing.assert_array_equal(features["city missing"], [0, 0, 1, 0])
    days = np.array([np.nan if day is None else day.toordinal() for day in DAYS])
    expected = np.nan_to_num((days - np.nanmean(days)) / np.nanstd(days))
    np.testing.assert_allclose(features["joined days"], expected, rtol=1e-5)
    weekdays = [0 if day is None else np.sin(2 * np.pi * day.weekday() / 7) for day in DAYS]
    np.testing.assert_allclose(features["joined week sin"], weekdays, atol=1e-6)
    assert arrays["note"].dtype == np.int64
    assert (arrays["note"] > 0).sum(axis=1).tolist() == [3, 3, 2, 0]
    assert encoder.vocabulary_sizes == {"note": 2 + 7}
    assert (encoder.classes, arrays["income"].tolist()) == (("high", "low"), [0, 1, 0, 1])


def test_a_table_is_encoded_like_the_fitted_table(table, encoder):
    arrays = encoder.fit_transform(table)
    rows = [{"age": 31.0, "city": "Paris", "joined": DAYS[0], "note": "likes long walks"}]
    for served in (rows, {name: [value] for name, value in rows[0].items()}):
        single = encoder.transform(served)
        assert list(single) == ["features", "note"]
        np.testing.assert_array_equal(single["features"][0], arrays["features"][0])
        np.testing.assert_array_equal(single["note"][0], arrays["note"][0])
    new = encoder.transform([{"age": None, "city": "Rome", "joined": None, "note": "new words"}])
    assert new["features"][0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert new["note"][0].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("values", "kind", "n_features"),
    [
        (["1", "-2.5e3", " 7 "], "number", 1),
        ([1, None, np.float32(2)], "number", 2),
        (np.array([1.5, np.nan]), "number", 2),
        ([True, False], "number", 1),
        (["2024-01-01", "2024-01-02"], "date", 5),
        (np.array(["2024-01-01", "NaT"], "datetime64[ns]"), "date", 6),
        (["2024-01-01T10:00:00+02:00", "2024-01-02 08:30"], "datetime", 7),
        (["a", "b", "a"], "category", 2),
        (["1", "x"], "category", 2),
        (["1_0", "2"], "category", 2),
    ],
)
def test_the_kind_of_a_column_is_detected(values, kind, n_features):
    encoder = TableEncoder().fit({"x": values})
    assert f"x: {kind}" in repr(encoder)
    assert len(encoder.feature_names) == n_features
    features = encoder.transform({"x": values})["features"]
    assert features.shape == (len(values), n_features)
    assert np.isfinite(features).all()


def test_dates_can_have_a_format_and_a_time_zone():
    forms = TableEncoder(columns={"x": "date %d/%m/%Y"}).fit_transform(
        {"x": ["24/12/2023", "1/2/2024"]}
    )
    iso = TableEncoder().fit_transform({"x": ["2023-12-24", "2024-02-01"]})
    np.testing.assert_array_equal(forms["features"], iso["features"])
    zones = {"x": ["2024-01-01T10:00:00+02:00", "2024-01-01T09:00:00"]}
    utc = {"x": ["2024-01-01T08:00:00", "2024-01-01T09:00:00Z"]}
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(zones)["features"],
        TableEncoder().fit_transform(utc)["features"],
    )


def test_a_numeric_target_is_not_changed():
    arrays = TableEncoder("y").fit_transform({"x": [1, 2], "y": ["3.5", "-1"]})
    assert arrays["y"].tolist() == [[3.5], [-1.0]]
    assert arrays["y"].dtype == np.float32
    named = TableEncoder("y", columns={"y": "category", "x": "skip", "z": "number"})
    arrays = named.fit_transform({"x": [1, 2, 3], "y": [3.0, 5, "5"], "z": [0, 0, 0]})
    assert (arrays["y"].tolist(), named.classes) == ([0, 1, 1], ("3", "5"))
    assert arrays["features"].tolist() == [[0.0]] * 3


class Frame:
    """A minimal data frame, as in pandas and polars: names, and a column for each name."""

    def __init__(self, table):
        self.table = table
        self.columns = list(table)

    def __getitem__(self, name):
        return iter(self.table[name])


def test_a_data_frame_is_accepted_as_a_table(table, encoder):
    arrays = encoder.fit_transform(table)
    for name, array in encoder.fit_transform(Frame(table)).items():
        np.testing.assert_array_equal(arrays[name], array)


def test_a_pandas_frame_is_accepted_as_a_table(encoder, tmp_path):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "people.csv").write_text(CSV)
    texts = encoder.fit_transform(csv.read_columns(tmp_path / "people.csv"))
    frame = pandas.read_csv(tmp_path / "people.csv", parse_dates=["joined"])
    frame["city"] = frame["city"].astype("category")
    frame["age"] = frame["age"].astype("Int64")
    arrays = encoder.fit_transform(frame)
    for name, array in texts.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_an_encoder_is_saved_with_a_model_and_applied_at_serving(table, encoder, tmp_path):
    arrays = encoder.fit_transform(table)
    model = nn.Model()
    words = model.embedding("note", size=[encoder.vocabulary_sizes["note"], 4])
    joined = model.concat([model.input("features", [None, 11]), model.flatten(words)], axis=1)
    scores = model.fc_layer(joined, size=len(encoder.classes))
    model.minimize(
        model.mean(model.softmax_with_cross_entropy(scores, "income")), nn.optimizer.Adam(0.01)
    )
    nn.train(model, arrays, epochs=1, batch_size=2, progress=False)
    ow.save(
        tmp_path / "served",
        model.program,
        model.scope,
        [scores],
        notes={"encoder": encoder.state()},
    )
    loaded = ow.load(tmp_path / "served")
    again = TableEncoder.from_state(loaded.notes["encoder"])
    assert (repr(again), again.classes) == (repr(encoder), encoder.classes)
    rows = [{"age": 31, "city": "Paris", "joined": "2024-01-05", "note": "walks"}]
    for name, array in encoder.transform(rows).items():
        np.testing.assert_array_equal(again.transform(rows)[name], array)
    (answer,) = loaded(again.transform(rows))
    np.testing.assert_allclose(answer, model.predict(scores, **encoder.transform(rows)), rtol=1e-6)


def changed(state, **values):
    state = json.loads(json.dumps(state))
    state["columns"][0].update(values)
    return state


def test_a_damaged_state_is_refused(table, encoder):
    state = encoder.fit(table).state()
    assert json.loads(json.dumps(state)) == state
    for damaged, rule in (
        (None, "state must be a mapping"),
        ({**state, "columns": state["columns"] * 2}, "of different names and words"),
        (changed(state, kind="nothing"), "columns.0..kind must be one of"),
        (changed(state, deviation=(0.0).hex()), "deviation must be a finite number above 0"),
        (changed(state, mean=3), "as float.hex writes it"),
        (changed(state, length=10**9), r"length must be an int in \[0, 256\]"),
        (changed(state, words=["a", "a"]), "of different names and words"),
        (changed(state, more=1), "a mapping without 'more'"),
    ):
        with pytest.raises(FormatError, match=rf"TableEncoder.from_state: .*{rule}.*; pass what"):
            TableEncoder.from_state(damaged)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda e, t: e.transform(t), AttributeValueError, "must be fitted"),
        (lambda e, t: e.fit([[1]]), AttributeTypeError, "rows .* must be dicts .* got list"),
        (
            lambda e, t: e.fit({"age": 1}),
            AttributeTypeError,
            "got int for 'age'; pass .* \\[row\\]",
        ),
        (lambda e, t: e.fit({"city": "Rome"}), AttributeTypeError, "got str for 'city'"),
        (lambda e, t: e.fit("people.csv"), AttributeTypeError, "got str; read a file by nn.data"),
        (lambda e, t: e.fit({"income": [1], "note": [1, 2]}), ShapeError, "the same length"),
        (lambda e, t: e.fit({"note": ["a"]}), AttributeValueError, "the column 'income', got none"),
        (
            lambda e, t: e.fit({**t, "age": [None] * 4}),
            AttributeValueError,
            "a value, got none in 'age'",
        ),
        (lambda e, t: e.fit(t).transform([{"agee": 1}]), AttributeValueError, "'age', got none"),
        (lambda e, t: e.fit(t).transform({**t, "age": ["x"] * 4}), FormatError, "'x' in row 0"),
        (
            lambda e, t: e.fit(t).transform({**t, "joined": ["x"] * 4}),
            FormatError,
            "date of ISO 8601",
        ),
        (lambda e, t: e.fit(t).transform({**t, "income": ["hig"] * 4}), FormatError, "mean 'high'"),
        (
            lambda e, t: e.fit(t).transform({**t, "income": [None] * 4}),
            FormatError,
            "in 4, such as 0, 1, 2",
        ),
        (
            lambda e, t: TableEncoder(max_categories=1).fit(t),
            AttributeValueError,
            "got 2 in 'city'; pass .* 'category', or 'date %d.%m.%Y'",
        ),
        (
            lambda e, t: TableEncoder("note", columns={"note": "text"}).fit(t),
            AttributeValueError,
            "got text",
        ),
        (lambda e, t: TableEncoder(columns={"a": "numbr"}), AttributeValueError, "'number'"),
        (lambda e, t: TableEncoder(columns={"a": "number %d"}), AttributeValueError, "only dates"),
        (
            lambda e, t: TableEncoder("features").fit({"features": [1]}),
            AttributeValueError,
            "must not be named 'features'",
        ),
        (lambda e, t: TableEncoder(missing="NA"), AttributeTypeError, "a list of strings"),
    ],
)
def test_the_error_describes_an_invalid_table(call, error, rule, table, encoder):
    with pytest.raises(error, match=rule):
        call(encoder, table)


def test_columns_with_the_same_name_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a, a\n1,2\n")
    with pytest.raises(FormatError, match="different names, got a, a"):
        csv.read_columns(tmp_path / "a.csv")


def test_a_vocabulary_can_be_created_from_its_words():
    vocabulary = nn.datasets.Vocabulary(["abba", "a"])
    again = nn.datasets.Vocabulary.from_words(list(vocabulary)[2:])
    assert list(again) == list(vocabulary)
    assert again.encode(["bax"]).tolist() == vocabulary.encode(["bax"]).tolist()
    with pytest.raises(AttributeValueError, match="words must differ"):
        nn.datasets.Vocabulary.from_words(["a", "a"])
