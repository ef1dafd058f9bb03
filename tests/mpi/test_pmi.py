"""The server of PMI: what it answers, and that strangers cannot confuse it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import opwright_dist as dist
from opwright_mpi.pmi import PmiServer, map_nodes


class Client:
    """A process that speaks PMI by lines."""

    def __init__(self, server: PmiServer) -> None:
        host, port = server.environment(0)["PMI_PORT"].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.file = self.socket.makefile("r")
        server.clients.append(self)

    def ask(self, text: str, n_lines: int = 1) -> list[str]:
        self.socket.sendall(text.encode() + b"\n")
        return [self.file.readline().rstrip("\n") for _ in range(n_lines)]


@pytest.fixture
def server() -> Iterator[PmiServer]:
    server = PmiServer([0, 0])
    server.clients = []
    yield server
    server.close()
    for client in server.clients:
        client.file.close()
        client.socket.close()


def join(server: PmiServer, rank: int) -> Client:
    client = Client(server)
    assert client.ask(f"cmd=initack pmiid={rank}", 4) == [
        "cmd=initack rc=0",
        "cmd=set size=2",
        f"cmd=set rank={rank}",
        "cmd=set debug=0",
    ]
    return client


def test_what_one_process_puts_the_other_gets_after_the_barrier(server: PmiServer) -> None:
    first, second = join(server, 0), join(server, 1)
    assert first.ask("cmd=put kvsname=opwright key=a value=(1,2)=3") == [
        "cmd=put_result rc=0 msg=success"
    ]
    first.socket.sendall(b"cmd=barrier_in\n")
    assert second.ask("cmd=barrier_in") == ["cmd=barrier_out rc=0"]
    assert first.file.readline() == "cmd=barrier_out rc=0\n"
    assert second.ask("cmd=get kvsname=opwright key=a")[0].endswith(" value=(1,2)=3")
    assert second.ask("cmd=get kvsname=opwright key=b")[0].startswith("cmd=get_result rc=-1")
    second.ask("cmd=finalize")
    assert (server.joined, server.finalized) == ({0, 1}, {1})


@pytest.mark.parametrize(
    "words",
    [
        b"cmd=initack pmiid=2\n",
        b"cmd=initack pmiid=-1\n",
        b"cmd=initack\n",
        b"cmd=get key=PMI_process_mapping\n",
        b"GET / HTTP/1.1\n",
        b"\xff\xfe\n",
        b"cmd=initack pmiid=1\ncmd=spawn\n",
        b"cmd=initack pmiid=1\n" + b"x" * 100_000,
    ],
)
def test_who_does_not_speak_the_protocol_is_turned_away(server: PmiServer, words: bytes) -> None:
    stranger = Client(server)
    try:
        stranger.socket.sendall(words)
        assert not stranger.file.read() or words.startswith(b"cmd=initack pmiid=1")
    except (ConnectionResetError, BrokenPipeError):
        pass
    join(server, 0)


def test_a_number_is_taken_once(server: PmiServer) -> None:
    join(server, 0)
    assert Client(server).ask("cmd=initack pmiid=0") == [""]


def test_processes_that_go_do_not_end_it(server: PmiServer) -> None:
    first = join(server, 0)
    first.socket.sendall(b"cmd=barrier_in\n")
    first.file.close()
    first.socket.close()
    second = join(server, 1)
    second.socket.sendall(b"cmd=barrier_in\n")
    assert second.ask("cmd=get_appnum", 2)[-1] == "cmd=appnum appnum=0 rc=0"


def test_closing_it_ends_connections(server: PmiServer) -> None:
    client = join(server, 0)
    server.close()
    assert client.file.read() == ""
    server.close()


def test_machines_are_written_as_blocks() -> None:
    assert map_nodes([0, 0, 1]) == "(vector,(0,1,2),(1,1,1))"
    assert map_nodes([0, 1, 0]) == "(vector,(0,1,1),(1,1,1),(0,1,1))"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(dist.DistError, match=r"address must be one of this machine, got '192.0.2"):
        PmiServer([0], "192.0.2.1")


def test_an_abort_is_noted(server: PmiServer) -> None:
    client = join(server, 1)
    client.socket.sendall(b"cmd=abort exitcode=1\n")
    client.ask("cmd=get_appnum")
    assert server.aborted == {1}
