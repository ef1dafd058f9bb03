"""Check rules for files that other tools do not check, such as lengths and local paths.

Prints one line per finding; the exit status is 1 if there are findings. ``check_files.py [ROOT]``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MAX_LINES = 400
PYTHON = {".py", ".pyi"}
CODE = PYTHON | {".c", ".cc", ".cu", ".h", ".hpp", ".proto"}
TEXT = CODE | {".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ""}

# Third-party or generated files; their length is not under our control.
FOREIGN = {
    "core/include/dlpack/dlpack.h",
    "LICENSE",
}
GENERATED = re.compile(r"_pb2\.pyi?$")

# Paths that exist only on one machine. (Concatenated so that this file does not contain them.)
PLACES = [f"/{first}/" for first in ("work", "root", "home", "Users")]
ONE_MACHINE = re.compile(r"(?<![\w.$}])(?:" + "|".join(PLACES) + ")")
# American spelling, as in NumPy and PyTorch; tests contain misspelled arguments.
BRITISH = re.compile(
    r"\b\w*(?:(?:initial|normal|optim|serial|vector|minim|maxim|standard|regular|recogn)is(?:e|ing|ation)"
    r"|colour|behaviour|neighbour|favour|honour|centre|labelled|modelled)",
    re.IGNORECASE,
)
# In Python code, a slope can also be an attribute of rectifiers.
SLOPE = re.compile(
    r"(?<!negative)_slope|Slope[A-Z]|\bslopes? = |\bslope of (?:a|the) (?:loss|function)"
)
MARKS = re.compile(r"\b(?:FIX" + r"ME|X" + r"XX|TO" + r"DO)\b")


def list_files(root: Path) -> list[PurePosixPath]:
    """Return the files under `root` that git tracks or does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    names = sorted(set(listed.stdout.splitlines()))
    return [PurePosixPath(name) for name in names if (root / name).is_file()]


def check_length(path: PurePosixPath, lines: list[str]) -> Iterator[str]:
    if path.suffix in CODE and len(lines) > MAX_LINES:
        yield f"{path}: at most {MAX_LINES} lines a file, got {len(lines)}; split it by purpose"


def find_slope(path: PurePosixPath, line: str) -> bool:
    """Return whether the line calls a gradient or derivative a slope."""
    return bool(SLOPE.search(line)) if path.suffix in PYTHON else "slope" in line.lower()


def check_lines(path: PurePosixPath, lines: list[str]) -> Iterator[str]:
    checks_words = path.parts[0] not in {"tests", ".ci"}  # these files contain the refused words
    for number, line in enumerate(lines, start=1):
        if line != line.rstrip():
            yield f"{path}:{number}: lines must not end with white space"
        if ONE_MACHINE.search(line):
            yield f"{path}:{number}: paths must not depend on one machine, got {line.strip()[:80]}"
        if checks_words and (word := BRITISH.search(line)):
            yield f"{path}:{number}: American spelling is used, got {word[0]!r}"
        if path.suffix in CODE and checks_words and find_slope(path, line):
            yield f"{path}:{number}: a gradient or derivative, not a slope: {line.strip()[:80]}"
        if path.suffix in CODE and MARKS.search(line):
            yield (
                f"{path}:{number}: marks of unfinished work must be removed, got "
                f"{line.strip()[:80]}"
            )


def check_repository(root: Path) -> Iterator[str]:
    """Yield every finding in the tree below `root`."""
    for path in list_files(root):
        if path.suffix not in TEXT or str(path) in FOREIGN or GENERATED.search(path.name):
            continue
        text = (root / path).read_text(encoding="utf-8")
        yield from check_length(path, text.splitlines())
        yield from check_lines(path, text.splitlines())
        if text and not text.endswith("\n"):
            yield f"{path}: a file must end with a newline"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    findings = list(check_repository(root))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings in the files of the repository")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
