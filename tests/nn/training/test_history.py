"""Laws of the history: a table, pictures, CSV and event files with its numbers."""

from __future__ import annotations

import csv
import json
import sys

import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, MissingRequirementError
from opwright_nn import History, TensorBoard
from opwright_nn.training.history import pack_records, unpack_records

NAN, INF = float("nan"), float("inf")
RECORDS = [
    {"epoch": 1, "steps": 5, "loss": 0.1 + 0.2, "validation_loss": 0.5, "learning_rate": 0.1},
    {"epoch": 2, "steps": 10, "loss": NAN, "validation_loss": INF, "learning_rate": 0.1},
]


@pytest.fixture
def history():
    return History(RECORDS)


def test_columns_are_lists(history):
    assert history["epoch"] == [1, 2]
    assert history.columns == ["epoch", "steps", "loss", "validation_loss", "learning_rate"]
    with pytest.raises(AttributeValueError, match="got 'los'; did you mean 'loss'"):
        history["los"]


def test_a_loop_gives_its_rows(history):
    assert [row["epoch"] for row in history] == [1, 2]
    assert next(iter(history)) is history.records[0]


def test_it_prints_a_table_and_a_line(history):
    lines = str(history).splitlines()
    assert lines[0].split() == history.columns
    assert lines[1].split() == ["1", "5", "0.3", "0.5", "0.1"]
    assert len({len(line) for line in lines}) == 1
    assert repr(history).startswith("History(2 epochs, steps 10, loss nan")
    assert repr(History()) == "History(0 epochs)"
    assert str(History()) == ""


def test_csv_gives_back_the_bits(history, tmp_path):
    history.write_csv(tmp_path / "history.csv")
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["loss"]) == 0.1 + 0.2
    assert [row["loss"] for row in rows][1] == "nan"


@pytest.mark.parametrize("records", [RECORDS, []])
def test_records_come_back_from_json_with_their_bits(records):
    again = unpack_records(
        "history", json.loads(json.dumps(pack_records(records), allow_nan=False))
    )
    assert repr(again) == repr(records)


@pytest.mark.parametrize(("ending", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_it_is_drawn_as_png_and_svg(history, tmp_path, ending, begin):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve{ending}"
    history.plot(path)
    assert path.read_bytes().startswith(begin)
    history.plot(path, columns=["learning_rate"])
    History().plot(path)


def test_a_picture_needs_a_known_ending_and_column(history, tmp_path):
    with pytest.raises(
        AttributeValueError, match=r"must end in .png or .svg, got '.*curve.pgn'; d"
    ):
        history.plot(tmp_path / "curve.pgn")
    with pytest.raises(AttributeValueError, match="got 'los'; did you mean 'loss'"):
        history.plot(tmp_path / "curve.png", columns=["los"])
    with pytest.raises(AttributeTypeError, match="got 'column'; did you mean 'columns'"):
        history.plot(tmp_path / "curve.png", column=["loss"])


def test_missing_matplotlib_says_what_to_install(history, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingRequirementError, match="run: pip install matplotlib"):
        history.plot(tmp_path / "curve.png")


def test_missing_writers_of_tensorboard_say_what_to_install(history, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(MissingRequirementError, match="run: pip install tensorboardX"):
        history.write_tensorboard(tmp_path)


def read_events(folder):
    """Return (tag, step, value) of the event files of a folder; the format is TFRecord."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    points = []
    for path in folder.iterdir():
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            event = proto.Event.FromString(data[12 : 12 + size])
            points += [(v.tag, event.step, v.simple_value) for v in event.summary.value]
            data = data[16 + size :]
    return points


@pytest.mark.parametrize("writer", ["tensorboardX", "tensorboard"])
def test_event_files_have_a_point_for_each_number(history, tmp_path, monkeypatch, writer):
    pytest.importorskip("tensorboardX")
    pytest.importorskip(writer)
    if writer == "tensorboard":
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
    history.write_tensorboard(tmp_path)
    monkeypatch.undo()
    points = read_events(tmp_path)
    assert [point[:2] for point in points] == [
        (name, record["steps"])
        for record in RECORDS
        for name in ("loss", "validation_loss", "learning_rate")
    ]
    assert points[0][2] == pytest.approx(0.3)


def test_the_callback_writes_after_each_epoch(small, train, tmp_path):
    pytest.importorskip("tensorboardX")
    history = train(small.make()[0], small.data, 2, callbacks=[TensorBoard(tmp_path)])
    losses = [value for tag, _, value in read_events(tmp_path) if tag == "loss"]
    assert losses == pytest.approx(history["loss"])
