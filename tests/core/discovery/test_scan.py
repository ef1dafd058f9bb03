"""Entry points are found by reading files in a fixed order; invalid files are skipped."""

from __future__ import annotations

import importlib.metadata
import os
import time
import zipfile
from pathlib import Path

import pytest

from opwright.discovery.scan import normalize, parse_entry_points
from opwright.plugin import scan


def install(
    folder: Path, name: str, version: str = "1.0", entries: str = "", suffix: str = "dist-info"
) -> Path:
    info = folder / f"{name}-{version}.{suffix}"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    if entries:
        (info / "entry_points.txt").write_text(f"[opwright.plugins]\n{entries}\n")
    return info


def names(sources):
    return [(source.distribution, source.name) for source in sources]


def test_only_the_plugin_group_is_read():
    text = """
    # a comment
    [console_scripts]
    tool = acme.tool:main
    [opwright.plugins]
    acme = opwright_acme.plugin
      spaced  =  opwright_acme.more:table  [extra]
    [other]
    acme = no
    """
    assert list(parse_entry_points(text)) == [
        ("acme", "opwright_acme.plugin"),
        ("spaced", "opwright_acme.more:table"),
    ]


def test_opwright_plugins_come_first_and_all_others_are_sorted_by_distribution(tmp_path):
    for name in ("aaa", "opwright_nn", "zzz", "opwright_std", "opwright_cuda", "opwright_cpu"):
        install(tmp_path, name, entries=f"{name} = m")
    core = install(tmp_path, "opwright")
    extras = [("std", "cpu"), ("cpu", "cpu"), ("std", "cuda"), ("cuda", "cuda"), ("nn", "nn")]
    lines = [f'Requires-Dist: opwright-{name}; extra == "{extra}"\n' for name, extra in extras]
    (core / "METADATA").write_text("Requires-Dist: zzz\n" + "".join(lines))
    found = [source.distribution for source in scan([str(tmp_path)], [])]
    expected = ["opwright-std", "opwright-cpu", "opwright-cuda", "opwright-nn", "aaa", "zzz"]
    assert found == expected


def test_the_first_distribution_on_the_path_hides_later_distributions_of_the_same_name(tmp_path):
    install(tmp_path / "one", "opwright_acme", "2.0")  # has no plugins, but hides the other
    install(tmp_path / "two", "Opwright.Acme", "1.0", "acme = m")
    assert scan([str(tmp_path / "one"), str(tmp_path / "two")], []) == []
    [source] = scan([str(tmp_path / "two"), str(tmp_path / "one")], [])
    assert (source.distribution, source.version) == ("opwright-acme", "1.0")


def test_the_newest_metadata_of_several_versions_in_one_folder_is_used(tmp_path):
    for version, age_s in (("1.9", 50), ("1.10", 90), ("1.2", 10)):
        info = install(tmp_path, "acme", version, "acme = m")
        when = time.time() - age_s
        os.utime(info, (when, when))
    [source] = scan([str(tmp_path)], [])
    assert source.version == "1.2"


def test_folders_left_behind_by_pip_are_ignored(tmp_path):
    install(tmp_path, "~cme", entries="acme = m")
    assert scan([str(tmp_path)], []) == []


def test_an_egg_info_of_an_editable_install_is_found(tmp_path):
    info = tmp_path / "opwright_acme.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: opwright-acme\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text("[opwright.plugins]\nacme = m\n")
    [source] = scan([str(tmp_path)], [])
    assert (source.distribution, source.version) == ("opwright-acme", "3.1")


def test_a_zip_file_on_the_path_is_found_by_importlib(tmp_path):
    path = tmp_path / "plugins.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("acme-1.5.dist-info/METADATA", "Name: acme\nVersion: 1.5\n")
        archive.writestr("acme-1.5.dist-info/entry_points.txt", "[opwright.plugins]\nacme = m\n")
    [source] = scan([str(path)], [])
    assert source[:4] == ("acme", "m", "acme", "1.5")


class FakeDistribution(importlib.metadata.Distribution):
    def read_text(self, filename):
        texts = {
            "METADATA": "Name: far-away\nVersion: 7\n",
            "entry_points.txt": "[opwright.plugins]\nfar = far_away\n",
        }
        return texts.get(filename)

    def locate_file(self, path):
        return Path(path)


class FakeFinder:
    def find_distributions(self, context):
        return [FakeDistribution()]


def test_a_custom_finder_is_queried(tmp_path):
    [source] = scan([str(tmp_path)], [FakeFinder()])
    assert source[:4] == ("far", "far_away", "far-away", "7")


def test_finders_do_not_override_distributions_on_the_path(tmp_path):
    install(tmp_path, "far_away", "8", "near = m")
    assert names(scan([str(tmp_path)], [FakeFinder()])) == [("far-away", "near")]


def test_missing_folders_are_skipped(tmp_path):
    install(tmp_path, "acme", entries="acme = m")
    assert names(scan([str(tmp_path / "gone"), str(tmp_path)], [])) == [("acme", "acme")]


def test_an_empty_path_entry_is_the_current_folder(tmp_path, monkeypatch):
    install(tmp_path, "acme", entries="acme = m")
    monkeypatch.chdir(tmp_path)
    assert names(scan([""], [])) == [("acme", "acme")]


def test_a_change_of_the_entry_points_changes_the_source(tmp_path):
    info = install(tmp_path, "acme", entries="acme = m")
    [before] = scan([str(tmp_path)], [])
    os.utime(info / "entry_points.txt", ns=(1, 1))
    [after] = scan([str(tmp_path)], [])
    assert before.stamp != after.stamp == 1


def test_scanning_finds_the_same_distributions_as_importlib():
    own = {(s.distribution, s.name, s.target) for s in scan()}
    theirs = {
        (normalize(e.dist.name), e.name, e.value)
        for e in importlib.metadata.entry_points(group="opwright.plugins")
    }
    assert own == theirs


def test_every_spelling_of_a_distribution_name_is_recognized(tmp_path):
    install(tmp_path, "Opwright_Acme", entries="acme = m")
    assert names(scan([str(tmp_path)], [])) == [("opwright-acme", "acme")]


@pytest.mark.parametrize("text", ["", "[opwright.plugins]\n", "nonsense", "[opwright.plugins"])
def test_an_empty_entry_points_file_gives_an_empty_list(text):
    assert list(parse_entry_points(text)) == []


def zipped(path: Path, files: dict[str, bytes]) -> str:
    """Write a zip file that contains the metadata of ``foo``."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"foo-1.0.dist-info/{name}", content)
    return str(path)


LATIN_1 = "Name: foo\nAuthor: André\nVersion: 1.0\n".encode("latin-1")
PLUGIN = b"[opwright.plugins]\nfoo = foo\n"


@pytest.mark.parametrize(
    "files",
    [
        {"METADATA": LATIN_1, "entry_points.txt": PLUGIN},
        {"METADATA": b"Name: foo\nVersion: 1.0\n", "entry_points.txt": b"# \xe9\n" + PLUGIN},
        {"entry_points.txt": PLUGIN},
    ],
    ids=["metadata", "entry points", "no metadata"],
)
def test_a_damaged_zip_is_skipped_and_reported(tmp_path, files):
    install(tmp_path, "acme", entries="acme = acme")
    faults = []
    path = zipped(tmp_path / "foo.zip", files)
    assert names(scan([path, str(tmp_path)], [], faults=faults)) == [("acme", "acme")]
    [fault] = faults
    assert fault.startswith(f"{path}, ")


def make_folder(path):
    path.mkdir()


def make_pipe(path):
    os.mkfifo(path)


def make_large(path):
    path.touch()
    os.truncate(path, 1 << 30)


@pytest.mark.parametrize(
    ("make", "count"), [(make_folder, 1), (make_pipe, 0), (make_large, 1)], ids=str
)
def test_an_invalid_entry_points_file_is_skipped_immediately(tmp_path, make, count):
    install(tmp_path, "acme", entries="acme = acme")
    info = tmp_path / "foo-1.0.dist-info"
    info.mkdir()
    make(info / "entry_points.txt")
    faults = []
    assert names(scan([str(tmp_path)], [], faults=faults)) == [("acme", "acme")]
    assert len(faults) == count


class RaisingFinder:
    def __init__(self, error):
        self.error = error

    def find_distributions(self, context):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("torn"), SystemExit(3), GeneratorExit()])
def test_a_finder_that_raises_is_skipped_and_reported(tmp_path, error):
    install(tmp_path, "acme", entries="acme = acme")
    faults = []
    found = scan([str(tmp_path)], [RaisingFinder(error)], faults=faults)
    assert names(found) == [("acme", "acme")]
    assert faults == [f"RaisingFinder: {type(error).__name__}{': ' if str(error) else ''}{error}"]


@pytest.mark.parametrize("entry", [b"/nowhere", None, "a\0b"])
def test_an_invalid_path_entry_is_skipped(tmp_path, entry):
    install(tmp_path, "acme", entries="acme = acme")
    assert names(scan([entry, str(tmp_path)], [])) == [("acme", "acme")]


def test_two_distributions_with_a_common_name_prefix_are_both_found(tmp_path):
    install(tmp_path, "acme", entries="acme = acme")
    for name, point in (("acme-extra", "extra"), ("acme-more", "more")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nx")
        (info / "entry_points.txt").write_text(f"[opwright.plugins]\n{point} = acme\n")
    found = {source.name: source.label for source in scan([str(tmp_path)], [])}
    assert found == {
        "acme": "acme 1.0",
        "extra": "acme-extra 1.0",
        "more": "acme-more 1.0",
    }


def test_control_characters_in_names_are_escaped(tmp_path):
    install(tmp_path, "acme", entries="acme\x1b[2J\u202e = acme")
    [source] = scan([str(tmp_path)], [])
    assert source.name == "acme\\x1b[2J\\u202e"


def test_other_entry_point_groups_are_scanned_in_the_same_way(tmp_path):
    install(
        tmp_path, "acme", entries="acme = acme\n\n[opwright.commands]\nsizes = acme.sizes:SIZES"
    )
    [source] = scan([str(tmp_path)], [], group="opwright.commands")
    assert (source.name, source.target, source.label) == ("sizes", "acme.sizes:SIZES", "acme 1.0")
