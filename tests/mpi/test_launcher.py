"""``opwright-mpi run`` labels lines with ranks, and terminates all processes together."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opwright_dist import get_engine
from opwright_dist.launching.output import Lines
from opwright_mpi import launcher

CONNECT = "import os, sys, time\nimport opwright_dist as dist\nr = dist.rank()\n"


def test_every_line_begins_with_its_rank_and_stays_complete(run) -> None:
    script = """
import os, sys
r = os.environ["OPWRIGHT_MPI_RANK"]
for i in range(300):
    os.write(1, b"out " + r.encode() * 1000)
    os.write(1, b" end\\n")
    print("err", r * 50, "end", file=sys.stderr)
print("the last line has no end", end="")
"""
    done = run(script, 4)
    assert done.returncode == 0, done.stderr
    out, err = done.stdout.splitlines(), done.stderr.splitlines()
    for r in range(4):
        assert out.count(f"[{r}] out {str(r) * 1000} end") == 300
        assert err.count(f"[{r}] err {str(r) * 50} end") == 300
        assert f"[{r}] the last line has no end" in out
    assert len(out) == 4 * 301
    assert len(err) == 4 * 300


@pytest.mark.parametrize("choice", [None, "3"])
def test_processes_share_the_cpus_by_default(run, monkeypatch, choice) -> None:
    monkeypatch.delenv("OPWRIGHT_NUM_THREADS", raising=False)
    if choice is not None:
        monkeypatch.setenv("OPWRIGHT_NUM_THREADS", choice)
    done = run("import opwright as ow; print(ow.get_num_threads())", 2)
    expected = choice or str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert sorted(done.stdout.splitlines()) == [f"[0] {expected}", f"[1] {expected}"]


def test_a_line_is_forwarded_before_its_process_exits(tmp_path: Path, command) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('first')\ninput()\nprint('second')\n")
    with subprocess.Popen(
        command(1, script),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "[0] first\n"
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.read() == "[0] second\n"
    assert process.returncode == 0


def test_an_unterminated_line_is_forwarded_in_chunks() -> None:
    lines = Lines(3)
    assert lines.add(b"a" * 10) == b""
    assert lines.add(b"a" * (1 << 20)) == b"[3] " + b"a" * (10 + (1 << 20)) + b"\n"
    assert lines.end() == b""


def test_the_launcher_runs_modules_and_passes_arguments_to_scripts(tmp_path: Path, command) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    words = [*command(1)[:-2], "-n2", "-m", "train", "-n", "--epochs=3"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert sorted(done.stdout.splitlines()) == [f"[{r}] ['-n', '--epochs=3']" for r in range(2)]


@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        ("sys.exit(7)", 7, "rank 1 exited with code 7"),
        ("os._exit(0)", 1, "rank 1 exited with code 0 before it had finalized MPI"),
        ("os._exit(5)", 5, "rank 1 exited with code 5; all processes are terminated"),
        (
            "os.kill(os.getpid(), 40)",
            168,
            "rank 1 was terminated by signal 40; all processes are terminated",
        ),
    ],
)
def test_a_rank_that_exits_before_the_other_ranks_terminates_all_ranks(
    run, end, status, message
) -> None:
    wait = "time.sleep(1000)" if end != "sys.exit(7)" else "pass"
    done = run(f"{CONNECT}if r == 1:\n    {end}\n{wait}\n", 3)
    assert done.returncode == status, done.stdout + done.stderr
    assert f"opwright-mpi: {message}" in done.stderr


def test_a_rank_that_never_connects_terminates_the_waiting_ranks(run) -> None:
    script = "import os\nif os.environ['OPWRIGHT_MPI_RANK'] == '1':\n    raise SystemExit\n"
    done = run(script + CONNECT, 2)
    assert done.returncode == 1
    assert "rank 1 exited with code 0 without connecting to the others" in done.stderr


def test_child_processes_of_a_rank_are_terminated_with_it(run, tmp_path: Path) -> None:
    script = f"""
import subprocess
if r == 0:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
    os._exit(1)
time.sleep(1000)
"""
    assert run(CONNECT + script, 2).returncode == 1
    child = int((tmp_path / "child").read_text())
    assert not is_running(child)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_terminates_all_ranks(
    tmp_path: Path, command, number: int, status: int
) -> None:
    script = tmp_path / "script.py"
    script.write_text(CONNECT + "print(os.getpid(), flush=True)\ntime.sleep(1000)\n")
    with subprocess.Popen(
        command(2, script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == status
    assert f"opwright-mpi: terminated by {signal.Signals(number).name}" in errors
    assert not any(map(is_running, pids))


def test_processes_exit_when_their_launcher_is_killed(tmp_path: Path, command) -> None:
    script = tmp_path / "script.py"
    script.write_text(CONNECT + "print(os.getpid(), flush=True)\ntime.sleep(1000)\n")
    with subprocess.Popen(command(2, script), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
        process.kill()
    while any(map(is_running, pids)):
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().split()[2] not in "ZX"


def test_all_ranks_exit_when_the_reader_of_the_output_exits(tmp_path: Path, command) -> None:
    script = tmp_path / "script.py"
    script.write_text("while True:\n    print('again')\n")
    line = f"{shlex.join(command(2, script))} | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stdout in ("[0] again\n", "[1] again\n")
    assert "Traceback" not in done.stderr


def test_scripts_without_collectives_run_independently(run) -> None:
    done = run("print('good')", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[0] good", "[1] good"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "unknown command, got 'rnu'; did you mean 'run'?"),
        (["run"], "-n must give the number of processes, got none; write -n 4"),
        (["run", "-n"], r"-n must be a number of processes in \[1, 4096\], got ''"),
        (["run", "-n", "0", "x.py"], r"-n must be a number of processes in \[1, 4096\], got '0'"),
        (["run", "-n", "four", "x.py"], r"in \[1, 4096\], got 'four'; use about one process per"),
        (["run", "-n", "-3", "x.py"], r"in \[1, 4096\], got '-3'"),
        (["run", "--rank", "4", "x.py"], "unknown option, got '--rank'; did you mean '--ranks'?"),
        (["run", "-n", "4"], "a script must follow the options, got none; write run -n 4 train.py"),
        (["run", "-n", "4", "trian.py"], "the script must be a file, got 'trian.py'; did you mean"),
        (["run", "-n", "4", "none/x.py"], "got 'none/x.py'; give the path of a Python file"),
        (["run", "-n", "4", "-m", "no.such"], "the module must be importable, got 'no.such'"),
    ],
)
def test_the_error_for_an_invalid_command_line_explains_the_fault(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert launcher.main(words) == 2
    text = capsys.readouterr().err
    assert text.startswith("opwright-mpi run: ")
    assert re.search(message.replace("?", r"\?"), text), text


def test_without_an_mpi_library_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.touch()
    monkeypatch.setattr("opwright_mpi.library.find_in_wheel", lambda *_: None)
    assert launcher.main(["run", "-n", "2", str(script)]) == 1
    assert "pip install mpich, or set OPWRIGHT_MPI_LIBRARY" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--help"], ["run", "--help"], ["run", "-n", "2", "-h"]])
def test_help_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(words) == 0
    assert "usage: opwright-mpi run -n N" in capsys.readouterr().out


def test_a_rendezvous_connects_the_processes_of_another_launcher() -> None:
    rendezvous = get_engine("mpi").open_rendezvous([0, 0], "127.0.0.1")
    script = CONNECT + "print(r, dist.size(), dist.gather(b'%d' % r), 'PMI_PORT' in os.environ)"
    try:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script],
                env=os.environ | rendezvous.environment(rank),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        rendezvous.close()
    assert outputs == [f"{rank} 2 [b'0', b'1'] False\n" for rank in range(2)]


def test_a_launcher_can_run_within_a_process_of_another_launcher(run, monkeypatch) -> None:
    outer = {"PMI_PORT": "127.0.0.1:1", "PMI_ID": "7", "PMI_RANK": "5", "PMI_SIZE": "9"}
    for name, value in {**outer, "PMIX_NAMESPACE": "outer", "PMIX_RANK": "5"}.items():
        monkeypatch.setenv(name, value)
    done = run(CONNECT + "print(dist.gather(r))", 2)
    assert sorted(done.stdout.splitlines()) == [f"[{r}] [0, 1]" for r in range(2)], done


def test_a_script_can_initialize_mpi_itself(run) -> None:
    script = """
import ctypes
from opwright_mpi.library import find_library

library = ctypes.CDLL(find_library())
MULTIPLE = 4096  # MPI_THREAD_MULTIPLE in the standard MPI ABI
library.MPI_Init_thread(None, None, MULTIPLE, ctypes.byref(ctypes.c_int()))
import opwright_dist as dist
print(dist.size(), dist.gather(b"%d" % dist.rank()))
"""
    done = run(script, 2)
    assert sorted(done.stdout.splitlines()) == [f"[{r}] 2 [b'0', b'1']" for r in range(2)], done


def test_a_child_process_of_a_rank_is_refused_as_a_member(run) -> None:
    script = """
import subprocess
code = "import opwright_dist as dist; dist.rank()"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(done.stderr.splitlines()[-1])
print(dist.gather(b"%d" % r))
"""
    done = run(CONNECT + script, 2)
    assert done.stdout.count("must inherit the connection that its launcher opened") == 2, done
    assert done.stdout.count("[b'0', b'1']") == 2


def run_by_mpiexec(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "script.py"
    path.write_text(CONNECT + script)
    command = [Path(sys.executable).parent / "mpiexec", "-n", "2", sys.executable, path]
    environment = os.environ | {"OPWRIGHT_DIST_DEADLINE": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_processes_can_be_started_by_mpiexec(tmp_path: Path) -> None:
    # A single write is not split, even if Python does not buffer output.
    done = run_by_mpiexec(tmp_path, "print(f'{r} {dist.size()}\\n', end='')\n")
    assert sorted(done.stdout.splitlines()) == ["0 2", "1 2"], done.stderr


def test_a_failure_terminates_all_processes_started_by_mpiexec(tmp_path: Path) -> None:
    done = run_by_mpiexec(tmp_path, "if r == 1:\n    raise ValueError\ntime.sleep(1000)\n")
    assert done.returncode != 0
    assert "opwright-mpi: rank 1 failed; all processes are terminated" in done.stderr
