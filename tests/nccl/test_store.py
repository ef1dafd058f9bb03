"""The store exchanges bytes in rank order and reports missing processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from opwright_dist import DistError
from opwright_dist.rendezvous import join
from opwright_nccl import launcher
from opwright_nccl.store import GOODBYE, Connection, Store

N = 3


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store(N)
    yield opened
    opened.close()


@pytest.fixture
def connections(store: Store) -> Iterator[list[Connection]]:
    opened = [Connection(store.environment(rank), rank) for rank in range(N)]
    yield opened
    for connection in opened:
        connection.close()


def test_gather_returns_all_values_in_the_order_of_the_group(connections: list[Connection]) -> None:
    members, results = [2, 0, 1], {}

    def give(rank: int) -> None:
        place = members.index(rank)
        answer = connections[rank].gather("key", place, members, b"%d" % rank * rank, 30.0)
        results[rank] = answer

    threads = [threading.Thread(target=give, args=(rank,)) for rank in range(N)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[rank] for rank in range(N)] == [([b"22", b"", b"1"], [], {})] * N


def test_absent_processes_are_reported(connections: list[Connection]) -> None:
    first, *_ = connections
    assert first.gather("key", 0, range(N), b"", 0.05) == ([], [1, 2], {})


def test_a_process_that_exits_is_reported_immediately(
    store: Store, connections: list[Connection]
) -> None:
    first, second, third = connections
    second.close()
    parts, missing, ended = first.gather("key", 0, range(N), b"", 30.0)
    assert (parts, missing, ended) == ([], [1, 2], {1: "lost"})
    third.say_goodbye()
    _, ended = first.get([])
    assert ended == {1: "lost", 2: "finished"}
    assert store.finalized == {2}


def test_the_final_exchange_waits_even_for_processes_that_have_said_goodbye(
    connections: list[Connection],
) -> None:
    first, second, _ = connections
    second.say_goodbye()
    _, missing, _ = first.gather(GOODBYE, 0, [0, 1], b"", 0.05)
    assert missing == [1]  # the exchange waited for rank 1, although rank 1 had said goodbye


def test_strings_are_stored(connections: list[Connection]) -> None:
    first, second, _ = connections
    first.put("plan/1", "dist.barrier() of float32 [3]\n")
    assert second.get(["plan/1", "plan/2"])[0] == ["dist.barrier() of float32 [3]\n", None]


def test_a_wrong_token_is_refused(store: Store) -> None:
    variables = store.environment(0) | {"OPWRIGHT_NCCL_TOKEN": "guessed"}
    with pytest.raises(DistError, match="the server refused the token"):
        Connection(variables, 0)
    assert store.joined == set()


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b'{"bytes": -1}',
        b'{"bytes": 1e999}',
        b'{"bytes": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"bytes": 0}',
        b'{"bytes": 0, "what": ["put"]}',
        b'{"bytes": 0, "what": "put"}',
        b'{"bytes": 9000000000, "what": "put", "key": "a"}',
        b'{"bytes": 0, "what": "get", "keys": [1]}',
        b'{"bytes": 0, "what": "get", "keys": 7}',
        b'{"bytes": 0, "what": "gather"}',
        b'{"bytes":0,"what":"gather","key":"a","place":0,"members":[0,1],"timeout_s":NaN}',
        b'{"bytes":0,"what":"gather","key":"a","place":0,"members":[0,9],"timeout_s":1}',
        b'{"bytes":0,"what":"gather","key":"a","place":1,"members":[0,1],"timeout_s":1}',
        b'{"bytes":0,"what":"gather","key":"a","place":-1,"members":[0],"timeout_s":1}',
        b'{"bytes":0,"what":"gather","key":"a","place":true,"members":[0],"timeout_s":1}',
    ],
)
def test_an_invalid_message_closes_only_its_own_connection(store: Store, line: bytes) -> None:
    variables = store.environment(0)
    address, token = variables["OPWRIGHT_NCCL_STORE"], variables["OPWRIGHT_NCCL_TOKEN"]
    with join("opwright-nccl", address, token, 0) as member:
        member.settimeout(60)
        member.sendall(line + b"\n")
        with contextlib.suppress(ConnectionResetError):
            assert member.recv(1) == b""
    other = Connection(store.environment(1), 1)
    other.put("key", "value")
    assert other.get(["key"])[0] == ["value"]
    other.close()


def test_a_rank_can_join_only_once(store: Store, connections: list[Connection]) -> None:
    with pytest.raises(DistError, match="a process of this rank has already joined"):
        Connection(store.environment(0), 0)


def test_the_oldest_values_are_dropped_beyond_the_limit(
    store: Store, connections: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = connections
    monkeypatch.setattr("opwright_nccl.store._MAX_KEPT_BYTES", 10)
    for key in ("a", "b", "c"):
        first.put(key, "12345")
    assert first.get(["a", "b", "c"])[0] == [None, "12345", "12345"]
    with pytest.raises(DistError, match="the launcher keeps it open until all processes have"):
        first.put("d", "12345678901")


def test_the_error_for_a_closed_store_names_it() -> None:
    opened = Store(1)
    variables = opened.environment(0)
    connection = Connection(variables, 0)
    opened.close()
    with pytest.raises(DistError, match="the rendezvous of the run must be reachable at 127"):
        Connection(variables, 0)
    with pytest.raises(DistError, match="the launcher keeps it open until all processes have"):
        connection.put("key", "value")
    connection.close()


def test_an_address_on_another_machine_is_refused() -> None:
    with pytest.raises(DistError, match="the address must belong to this machine, got '192.0.2.1'"):
        Store(1, "192.0.2.1")


def test_a_process_without_a_gpu_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("OPWRIGHT_NCCL_LIBRARY", "is not opened")
    assert launcher.main(["run", "-n", "3", str(script)]) == 1
    assert "each of 3 processes must have its own GPU, got" in capsys.readouterr().err
