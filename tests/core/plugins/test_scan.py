"""Finding entry points by reading files: what counts, in which order, and what is left alone."""

from __future__ import annotations

import importlib.metadata
import os
import time
import zipfile
from pathlib import Path

import pytest

from opwright.plugin import scan
from opwright.plugins.scan import normalize, parse_entry_points


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


def test_only_the_group_of_plugins_is_read():
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


def test_own_plugins_come_first_then_by_distribution(tmp_path):
    for name in ("aaa", "opwright_nn", "zzz", "opwright_std", "opwright_cuda", "opwright_cpu"):
        install(tmp_path, name, entries=f"{name} = m")
    found = [source.distribution for source in scan([str(tmp_path)], [])]
    expected = ["opwright-std", "opwright-cpu", "opwright-cuda", "opwright-nn", "aaa", "zzz"]
    assert found == expected


def test_the_first_distribution_of_a_name_on_the_path_hides_later_ones(tmp_path):
    install(tmp_path / "one", "opwright_acme", "2.0")  # without plugins, and yet it counts
    install(tmp_path / "two", "Opwright.Acme", "1.0", "acme = m")
    assert scan([str(tmp_path / "one"), str(tmp_path / "two")], []) == []
    [source] = scan([str(tmp_path / "two"), str(tmp_path / "one")], [])
    assert (source.distribution, source.version) == ("opwright-acme", "1.0")


def test_of_several_versions_in_one_folder_the_newest_metadata_counts(tmp_path):
    for version, age_s in (("1.9", 50), ("1.10", 90), ("1.2", 10)):
        info = install(tmp_path, "acme", version, "acme = m")
        when = time.time() - age_s
        os.utime(info, (when, when))
    [source] = scan([str(tmp_path)], [])
    assert source.version == "1.2"


def test_what_pip_left_behind_is_no_distribution(tmp_path):
    install(tmp_path, "~cme", entries="acme = m")
    assert scan([str(tmp_path)], []) == []


def test_an_egg_info_of_an_editable_install_is_found(tmp_path):
    info = tmp_path / "opwright_acme.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: opwright-acme\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text("[opwright.plugins]\nacme = m\n")
    [source] = scan([str(tmp_path)], [])
    assert (source.distribution, source.version) == ("opwright-acme", "3.1")


def test_a_zip_file_on_the_path_is_found_the_slow_way(tmp_path):
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


def test_a_finder_of_its_own_kind_is_asked(tmp_path):
    [source] = scan([str(tmp_path)], [FakeFinder()])
    assert source[:4] == ("far", "far_away", "far-away", "7")


def test_a_finder_does_not_override_the_path(tmp_path):
    install(tmp_path, "far_away", "8", "near = m")
    assert names(scan([str(tmp_path)], [FakeFinder()])) == [("far-away", "near")]


def test_missing_folders_are_passed_over(tmp_path):
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


def test_scanning_finds_what_importlib_finds():
    own = {(s.distribution, s.name, s.target) for s in scan()}
    theirs = {
        (normalize(e.dist.name), e.name, e.value)
        for e in importlib.metadata.entry_points(group="opwright.plugins")
    }
    assert own == theirs


def test_a_name_is_found_in_each_spelling(tmp_path):
    install(tmp_path, "Opwright_Acme", entries="acme = m")
    assert names(scan([str(tmp_path)], [])) == [("opwright-acme", "acme")]


@pytest.mark.parametrize("text", ["", "[opwright.plugins]\n", "nonsense", "[opwright.plugins"])
def test_empty_entry_points_give_nothing(text):
    assert list(parse_entry_points(text)) == []
