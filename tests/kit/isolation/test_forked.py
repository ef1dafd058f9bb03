"""Tests the messages and exits of work in a forked process, and that no process is left running."""

from __future__ import annotations

import os
import signal

import pytest

from opwright_kit.isolation.forked import run_forked


def test_messages_arrive_in_order():
    def work(tell):
        tell([1, "one"])
        tell({"two": None})

    assert run_forked(work) == ([[1, "one"], {"two": None}], "")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGFPE), "crashed with SIGFPE"),
        (lambda: os._exit(3), "ended the process with exit code 3"),
        (lambda: 1 / 0, "ended the process with exit code 1"),
    ],
)
def test_an_early_exit_is_reported_and_earlier_messages_are_kept(end, said):
    def work(tell):
        tell("begun")
        end()
        tell("done")

    assert run_forked(work) == (["begun"], said)


def test_an_interrupt_terminates_work_that_hangs(site, tmp_path):
    answer = site.json(
        f"""
        import os, signal, threading, time
        from pathlib import Path
        from opwright_kit.isolation.forked import run_forked

        started = Path({str(tmp_path / "pid")!r})

        def work(tell):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            started.with_suffix(".new").write_text(str(os.getpid()))
            started.with_suffix(".new").rename(started)
            time.sleep(600)

        def interrupt():
            while not started.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            run_forked(work)
        except KeyboardInterrupt:
            try:
                os.kill(int(started.read_text()), 0)
                answer = "it runs on"
            except ProcessLookupError:
                answer = "gone"
        """
    )
    assert answer == "gone"
