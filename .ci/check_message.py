"""Check a commit message, as a git hook: ``check_message.py FILE``.

The subject must be one line of at most 72 characters without a final full stop, followed by an
empty line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

MAX_CHARACTERS = 72
# Git writes subjects with these prefixes; `git rebase --autosquash` removes the last two.
BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def check_message(text: str) -> Iterator[str]:
    """Yield every rule that the message violates."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    if subject.startswith(BY_GIT):
        return
    if not subject.strip():
        yield "the message must begin with its subject, got an empty line"
    if len(subject) > MAX_CHARACTERS:
        yield f"the subject must have at most {MAX_CHARACTERS} characters, got {len(subject)}"
    if subject.endswith("."):
        yield "the subject must end without a full stop"
    if rest and rest[0].strip():
        yield "the second line must be empty; the body begins on the third"


def main() -> int:
    findings = list(check_message(Path(sys.argv[1]).read_text(encoding="utf-8")))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
