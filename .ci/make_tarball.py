"""Pack all files needed to run bundles without Python: ``make_tarball.py FOLDER CORE CPU``.

CORE and CPU are the folders of the packages libopwright and opwright-cpu. Their wheels are built
and unpacked to ``include`` and ``lib``. Kernels and oneDNN are placed next to libopwright, because
it searches there. oneDNN comes from the installed onednn-cpu-gomp. The contents need the C and C++
libraries of the system and, if oneDNN is used, its libgomp.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

from make_wheels import build

ONEDNN = "onednn-cpu-gomp"


def copy_onednn(root: Path) -> None:
    """Copy oneDNN with its licenses, under the file name that kernels open."""
    files = importlib.metadata.files(ONEDNN) or ()
    [library] = [file for file in files if file.name == "libdnnl.so.3"]
    shutil.copy2(library.locate(), root / "lib")
    licenses = root / "licenses-of-onednn"
    licenses.mkdir()
    for file in files:
        if file.name.startswith(("LICENSE", "THIRD-PARTY")):
            shutil.copy2(file.locate(), licenses)


def unpack(wheels: list[Path], folder: Path) -> Path:
    """Return the folder to pack: the prefix of libopwright with the kernel libraries."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(folder)
    [license_file] = folder.glob("libopwright-*.dist-info/licenses/LICENSE")
    version = license_file.parents[1].name.removesuffix(".dist-info").partition("-")[2]
    root = folder / f"libopwright-{version}-{sysconfig.get_platform()}"
    root.mkdir()
    shutil.copy2(license_file, root)
    for name in ("include", "lib"):
        (folder / "libopwright" / name).rename(root / name)
    (root / "lib" / "libopwright.so").symlink_to("libopwright.so.1")
    for library in sorted((folder / "opwright_cpu").glob("*.so")):
        library.rename(root / "lib" / library.name)
    copy_onednn(root)
    return root


def main() -> None:
    target, *packages = [Path(word) for word in sys.argv[1:]]
    if len(packages) != 2:
        raise SystemExit(
            f"make_tarball.py FOLDER CORE CPU: two packages must be given, got {len(packages)}"
        )
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        wheels = build(packages, Path(made))
        root = unpack(wheels, Path(made))
        path = target / f"{root.name}.tar.gz"
        with tarfile.open(path, "w:gz", compresslevel=6) as archive:
            archive.add(root, root.name)
    print(path.name)


if __name__ == "__main__":
    main()
