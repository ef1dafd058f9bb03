"""The history of training, as a table, as plots, and in CSV and event files."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    MissingRequirementError,
    ShapeError,
    VariableNotFoundError,
)
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


def test_iterating_a_history_yields_its_rows(history):
    assert [row["epoch"] for row in history] == [1, 2]
    assert next(iter(history)) is history.records[0]


def test_a_history_prints_as_a_table(history):
    lines = str(history).splitlines()
    assert lines[0].split() == history.columns
    assert lines[1].split() == ["1", "5", "0.3", "0.5", "0.1"]
    assert len({len(line) for line in lines}) == 1
    assert repr(history).startswith("History(2 epochs, steps 10, loss nan")
    assert repr(History()) == "History(0 epochs)"
    assert str(History()) == ""


def test_csv_files_preserve_numbers_exactly(history, tmp_path):
    history.write_csv(tmp_path / "history.csv")
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["loss"]) == 0.1 + 0.2
    assert [row["loss"] for row in rows][1] == "nan"


@pytest.mark.parametrize("records", [RECORDS, []])
def test_json_preserves_records_exactly(records):
    again = unpack_records(
        "history", json.loads(json.dumps(pack_records(records), allow_nan=False))
    )
    assert repr(again) == repr(records)


@pytest.mark.parametrize(("ending", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_history_can_be_plotted_as_png_and_svg(history, tmp_path, ending, begin):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve{ending}"
    history.plot(path)
    assert path.read_bytes().startswith(begin)
    history.plot(path, columns=["learning_rate"])
    History().plot(path)


def test_a_plot_requires_a_known_file_type_and_column(history, tmp_path):
    with pytest.raises(
        AttributeValueError, match=r"must end in .png or .svg, got '.*curve.pgn'; d"
    ):
        history.plot(tmp_path / "curve.pgn")
    with pytest.raises(AttributeValueError, match="got 'los'; did you mean 'loss'"):
        history.plot(tmp_path / "curve.png", columns=["los"])
    with pytest.raises(AttributeTypeError, match="got 'column'; did you mean 'columns'"):
        history.plot(tmp_path / "curve.png", column=["loss"])


def test_without_matplotlib_the_error_names_the_package_to_install(history, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingRequirementError, match="run: pip install matplotlib"):
        history.plot(tmp_path / "curve.png")


def test_without_a_tensorboard_writer_the_error_names_the_package_to_install(
    history, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(MissingRequirementError, match="run: pip install tensorboardX"):
        history.write_tensorboard(tmp_path)


def read_events(folder):
    """Return the (tag, step, value) tuples of the TFRecord event files in a folder."""
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
def test_event_files_contain_a_point_for_each_number(history, tmp_path, monkeypatch, writer):
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


@pytest.mark.parametrize("writer", ["tensorboardX", "tensorboard"])
def test_histograms_and_images_are_written_after_each_epoch(
    small, train, tmp_path, monkeypatch, writer
):
    proto = pytest.importorskip("tensorboardX.proto.summary_pb2")
    pytest.importorskip("PIL")
    if writer == "tensorboard":
        event = pytest.importorskip("tensorboardX.proto.event_pb2")
        use_plain_writer(monkeypatch, event, proto)
    image = np.zeros((3, 1, 2, 5), np.float32)
    image[1] = 1.0
    callback = TensorBoard(tmp_path, histograms="fc_0_*", images={"digits": lambda: image})
    train(small.make()[0], small.data, 2, callbacks=[callback])
    values = read_values(tmp_path)
    assert [v.tag for v in values].count("digits") == 2
    histogram = next(v.histo for v in values if v.tag == "fc_0_w_param")
    assert (histogram.num, sum(histogram.bucket)) == (30, 30)
    picture = next(v.image for v in values if v.tag == "digits")
    pixels = decode(picture.encoded_image_string)
    assert pixels.shape[:2] == (picture.height, picture.width) == (2, 15)
    np.testing.assert_array_equal(pixels.reshape(2, 15, -1)[0, :, 0], [0] * 5 + [255] * 5 + [0] * 5)


def use_plain_writer(monkeypatch, event, summary):
    """Replace the tensorboardX writer with a writer that creates an event file with tensorboard."""

    class EventFileWriter:
        def __init__(self, folder):
            self._file = (Path(folder) / "events").open("wb")

        def add_event(self, item):
            data = item.SerializeToString()
            self._file.write(len(data).to_bytes(8, "little") + bytes(4) + data + bytes(4))

        def flush(self):
            self._file.flush()

        def close(self):
            self._file.close()

    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    protos = SimpleNamespace(event_pb2=event, summary_pb2=summary)
    writer = SimpleNamespace(EventFileWriter=EventFileWriter)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", protos)
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", writer)


def read_values(folder):
    """Return the values of the event files in a folder."""
    proto = sys.modules["tensorboardX.proto.event_pb2"]
    values = []
    for path in folder.iterdir():
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            values += proto.Event.FromString(data[12 : 12 + size]).summary.value
            data = data[16 + size :]
    return values


def decode(data):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("options", "error", "rule"),
    [
        ({"histograms": "nothing_*"}, VariableNotFoundError, "TensorBoard: histograms: .*nothing_"),
        ({"images": {"a": lambda: np.zeros((2, 3))}}, ShapeError, r"images\['a'\] must be \[n, ch"),
        ({"images": {"a": 3}}, AttributeTypeError, "must be a function that returns images"),
    ],
)
def test_a_value_that_cannot_be_written_is_refused(small, train, tmp_path, options, error, rule):
    pytest.importorskip("tensorboardX")
    with pytest.raises(error, match=rule):
        train(small.make()[0], small.data, 1, callbacks=[TensorBoard(tmp_path, **options)])
