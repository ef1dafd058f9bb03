"""Each save adds a generation under the next number; load reads the newest complete generation."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tracemalloc

import numpy as np
import pytest

from opwright import load, load_program, save
from opwright.errors import (
    AttributeValueError,
    FileTakenError,
    FormatError,
)
from opwright.program.files import opening
from opwright.program.files.generations import Saver


@pytest.fixture
def folder(tmp_path, model):
    """A folder with two generations, with the values 1 and 2."""
    for value in (1, 2):
        save(tmp_path / "model", model.build(), model.filled(value))
    return tmp_path / "model"


def generation_names(folder):
    return sorted(path.name for path in (folder / "generations").iterdir())


def test_the_requested_number_of_generations_is_kept(tmp_path, model):
    for value in range(5):
        save(tmp_path, model.build(), model.filled(value), keep=3)
    assert generation_names(tmp_path) == ["00000003", "00000004", "00000005"]
    save(tmp_path, model.build(), model.filled(5), keep=1)
    assert generation_names(tmp_path) == ["00000006"]
    for keep in (0, -1, True, 2.0, "2"):
        with pytest.raises(AttributeValueError, match="save: keep must be an int, at least 1"):
            save(tmp_path, model.build(), model.filled(6), keep=keep)


def test_the_files_at_the_top_are_links_to_the_newest_generation(folder):
    newest = folder / "generations" / "00000002"
    assert str((folder / "latest").readlink()) == "generations/00000002"
    for name in ("program.pb", "params.safetensors"):
        assert str((folder / name).readlink()) == f"latest/{name}"
        assert (folder / name).samefile(newest / name)


def test_an_older_generation_is_loaded_from_its_folder(folder, model):
    assert model.load_value(folder / "generations" / "00000001") == (3, 1)
    assert model.load_value(folder / "latest") == (3, 2)
    assert load_program(folder / "latest" / "program.pb").program_feeds == ("x",)
    shutil.rmtree(folder / "generations" / "00000002")
    assert model.load_value(folder) == (3, 1)


def test_notes_are_restored_with_their_program(tmp_path, model):
    notes = {"epoch": 3, "name": "größe", "losses": [1.5, None], "deep": {"a": True}}
    save(tmp_path, model.build(), model.filled(1), notes=notes)
    assert load(tmp_path, model.ArrayScope()).notes == notes
    assert load_program(tmp_path).notes == notes
    save(tmp_path, model.build(), model.filled(2))
    assert load_program(tmp_path).notes == {}


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ([1], "must be a mapping with string keys"),
        ({1: 2}, "must be a mapping with string keys"),
        ({"a": np.float32(1)}, "must be representable in JSON"),
        ({"a": float("nan")}, "must be representable in JSON"),
        ({"a": (1, 2)}, "must be unchanged by a round trip through JSON"),
        ({"a": {1: 2}}, "must be unchanged by a round trip through JSON"),
        ({"a": "b" * (16 << 20)}, "must be at most 16777216 bytes of JSON"),
    ],
)
def test_notes_that_json_cannot_represent_exactly_are_refused(folder, model, notes, message):
    with pytest.raises(AttributeValueError, match=f"save: notes {message}"):
        save(folder, model.build(), model.filled(3), notes=notes)
    assert model.load_value(folder) == (3, 2)
    assert generation_names(folder) == ["00000001", "00000002"]


# -- damaged generations
# -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["generation.json", "program.pb", "params.safetensors"])
def test_the_error_for_a_damaged_newest_generation_names_the_previous_generation(
    folder, model, name
):
    path = folder / "generations" / "00000002" / name
    data = path.read_bytes()
    for length in [0, 1, 9, *range(10, len(data) - 1, 17)]:
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"truncated|damaged") as caught:
            model.load_value(folder)
        assert "opwright.load(" in caught.value.__notes__[0]
        assert "generations/00000001" in caught.value.__notes__[0]
    path.unlink()
    with pytest.raises(FormatError, match=f"must contain .*, but lacks {name}"):
        model.load_value(folder)


def test_parameters_from_another_generation_are_refused(folder, model):
    names = [
        folder / "generations" / name / "params.safetensors" for name in generation_names(folder)
    ]
    shutil.copyfile(names[0], names[1])
    with pytest.raises(FormatError, match=r"bytes that do not match its generation\.json"):
        model.load_value(folder)


def test_a_manifest_written_by_a_newer_release_is_refused(folder, model):
    path = folder / "latest" / "generation.json"
    text = path.read_text()
    path.write_text(text.replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(FormatError, match="at most 1, got 2; install a newer opwright"):
        model.load_value(folder)


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 10**5, '{"format": 1}', "\0", "NaN"])
def test_a_file_that_is_not_a_manifest_is_refused(folder, model, text):
    (folder / "latest" / "generation.json").write_text(text)
    with pytest.raises(FormatError, match=r"truncated, or not a manifest of opwright\.save"):
        model.load_value(folder)


# -- foreign files in the folder -----------------------------------------------------------


@pytest.mark.parametrize("name", ["program.pb", "params.safetensors"])
def test_a_file_that_replaces_a_link_is_refused(folder, model, name):
    other = folder.parent / "other"
    other.mkdir()
    model.save_pair(other, model.build(5), model.filled(3, 5))
    (other / name).replace(folder / name)
    with pytest.raises(FormatError, match=f"{name}: must be a link .* from outside of generations"):
        model.load_value(folder)
    (folder / name).unlink()
    assert model.load_value(folder) == (3, 2)


def test_two_files_that_replace_the_links_are_kept_as_a_generation(folder, model):
    other = folder.parent / "other"
    other.mkdir()
    model.save_pair(other, model.build(5), model.filled(3, 5))
    for name in ("program.pb", "params.safetensors"):
        (other / name).replace(folder / name)
    save(folder, model.build(), model.filled(4))
    assert model.load_value(folder) == (3, 4)
    assert model.load_value(folder / "generations" / "00000003") == (5, 3)


def test_a_copy_with_files_instead_of_links_supports_load_and_save(folder, model):
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    assert not (copy / "program.pb").is_symlink()
    assert model.load_value(copy) == (3, 2)
    shutil.rmtree(copy / "latest")
    save(copy, model.build(), model.filled(3), keep=1)
    assert model.load_value(copy) == (3, 3)
    assert generation_names(copy) == ["00000003"]


def test_the_next_save_converts_a_standalone_pair_of_files_to_a_generation(tmp_path, model):
    model.save_pair(tmp_path, model.build(5), model.filled(1, 5))
    assert model.load_value(tmp_path) == (5, 1)
    save(tmp_path, model.build(), model.filled(2))
    assert model.load_value(tmp_path) == (3, 2)
    assert model.load_value(tmp_path / "generations" / "00000001") == (5, 1)


def test_files_written_by_other_tools_are_replaced_by_a_save(tmp_path, model):
    (tmp_path / "params.safetensors").write_bytes(b"of another tool")
    save(tmp_path, model.build(), model.filled(1))
    assert model.load_value(tmp_path) == (3, 1)


@pytest.mark.parametrize("name", ["latest", "program.pb", "params.safetensors"])
def test_a_folder_in_place_of_a_link_is_refused_and_unchanged(tmp_path, model, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileTakenError, match=rf"{name}: must be a link that opwright\.save"):
        save(tmp_path, model.build(), model.filled(1))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["program.pb", "params.safetensors", "latest"])
def test_a_planted_link_is_replaced_and_never_followed(tmp_path, model, name):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    save(folder, model.build(), model.filled(1))
    assert victim.read_text() == "mine"
    assert model.load_value(folder) == (3, 1)


def test_a_planted_link_instead_of_the_generations_is_refused(tmp_path, model):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "generations").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="generations: must be a folder, got a symbolic link"):
        save(tmp_path / "model", model.build(), model.filled(1))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_links_among_the_files_of_a_generation_are_refused(folder, model):
    path = folder / "generations" / "00000002" / "program.pb"
    path.rename(folder / "moved.pb")
    path.symlink_to(folder / "moved.pb")
    with pytest.raises(FormatError, match="must be a regular file, got a symbolic link"):
        model.load_value(folder)


@pytest.mark.parametrize("name", ["program.pb", "params.safetensors", "generation.json"])
@pytest.mark.parametrize("layout", ["generation", "pair"])
def test_a_pipe_is_refused_without_waiting(folder, model, name, layout):
    place = folder / "generations" / "00000002"
    if layout == "pair":
        place = folder.parent / "pair"
        place.mkdir()
        model.save_pair(place, model.build(), model.filled(1))
    (place / name).unlink(missing_ok=True)
    os.mkfifo(place / name)
    with pytest.raises(FormatError, match=f"{name}: must be a regular file, got a pipe"):
        model.load_value(place)
    if name == "program.pb":
        with pytest.raises(FormatError, match="must be a regular file, got a pipe"):
            load_program(place / name)


def test_a_device_file_is_refused(tmp_path, model):
    (tmp_path / "program.pb").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"program\.pb: must be a regular file, got a device"):
        model.load_value(tmp_path)


def test_file_modes_follow_the_umask(tmp_path, model):
    before = os.umask(0o027)
    try:
        save(tmp_path / "a" / "b", model.build(), model.filled(1))
    finally:
        os.umask(before)
    modes = {
        stat.S_IMODE(path.lstat().st_mode)
        for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]
        if not path.is_symlink()
    }
    assert modes == {0o750, 0o640}


def test_loading_a_small_program_allocates_less_than_1_mib(folder):
    load_program(folder)  # the import is not measured
    tracemalloc.start()
    try:
        load_program(folder)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


# -- concurrent savers ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["open_folder", "read_manifest", "check_top_level"])
def test_a_reader_whose_generation_is_removed_reads_the_next_one(
    folder, model, monkeypatch, function
):
    real, calls = getattr(opening, function), []

    def after_a_save(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            save(folder, model.build(5), model.filled(3, 5), keep=1)
        return real(*arguments)

    monkeypatch.setattr(opening, function, after_a_save)
    assert model.load_value(folder) == (5, 3)
    assert len(calls) == 2


def test_a_reader_reads_the_files_that_it_opened_even_if_they_are_removed(folder, model):
    def read(files):
        save(folder, model.build(5), model.filled(3, 5), keep=1)
        program = files.read_program()
        _, handle = files.open_params(program)
        return program, os.fstat(handle).st_size

    size = (folder / "params.safetensors").stat().st_size
    program = (folder / "program.pb").read_bytes()
    assert opening.read_saved(folder, read) == (program, size)


def test_only_files_of_a_dead_saver_are_removed(folder, model):
    with Saver(folder, folder / "generations") as live:
        live.new_folder.mkdir()
        (live.new_folder / "program.pb").write_text("half")
        save(folder, model.build(), model.filled(3))
        assert live.new_folder.exists()
    assert not live.new_folder.exists()
    dead = folder / "generations" / ".saving-dead"
    dead.touch()
    for name in (".new-dead", ".new-without-lock", ".old-one"):
        (folder / "generations" / name).mkdir()
        (folder / "generations" / name / "program.pb").touch()
    (folder / ".link-dead").symlink_to("nowhere")
    save(folder, model.build(), model.filled(4))
    assert generation_names(folder) == ["00000003", "00000004"]
    assert not os.path.lexists(folder / ".link-dead")


def test_a_saver_rewrites_its_temporary_files_if_they_were_removed(folder, model, monkeypatch):
    real, removed = os.rename, []

    def rename(source, target):
        if ".new-" in str(source) and not removed:
            shutil.rmtree(source)
            removed.append(source)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    save(folder, model.build(), model.filled(3))
    assert removed
    assert model.load_value(folder) == (3, 3)


def test_a_rename_that_succeeds_but_raises_is_not_repeated(folder, model, monkeypatch):
    real, lost = os.rename, []

    def rename(source, target):
        real(source, target)
        if ".new-" in str(source):
            lost.append(target)
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))

    monkeypatch.setattr(os, "rename", rename)
    save(folder, model.build(), model.filled(3))
    assert len(lost) == 1
    assert generation_names(folder) == ["00000002", "00000003"]
    assert model.load_value(folder) == (3, 3)


def test_without_file_locks_only_temporary_files_older_than_a_day_are_removed(
    folder, model, monkeypatch
):
    def flock(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    inner = folder / "generations"
    for token in ("young", "old"):
        (inner / f".saving-{token}").touch()
        (inner / f".new-{token}").mkdir()
    two_days_ago = (inner / ".saving-old").stat().st_mtime - 2 * 24 * 3600
    os.utime(inner / ".saving-old", (two_days_ago, two_days_ago))
    save(folder, model.build(), model.filled(3))
    assert model.load_value(folder) == (3, 3)
    assert sorted(path.name for path in inner.glob(".*")) == [".new-young", ".saving-young"]


def test_save_creates_only_generations_if_links_are_unsupported(tmp_path, model, monkeypatch):
    def symlink(text, path, *rest):
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "symlink", symlink)
    for value in (1, 2, 3):
        save(tmp_path, model.build(), model.filled(value))
        assert model.load_value(tmp_path) == (3, value)
    assert [path.name for path in tmp_path.iterdir()] == ["generations"]


def test_a_failure_to_remove_an_older_generation_is_reported(folder, model, monkeypatch):
    real = os.rename

    def rename(source, target):
        if ".old-" in str(target):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(source))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.warns(RuntimeWarning, match="is saved, but an older generation cannot be removed"):
        save(folder, model.build(), model.filled(3))
    assert model.load_value(folder) == (3, 3)
