"""The server of a run is robust against unauthorized and slow clients, and damaged messages."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import opwright_dist as dist
from opwright_dist.rendezvous import MalformedError, Peer, Server, join
from opwright_dist.rendezvous import server as served

WHO = "opwright-test"


class Echo(Server):
    """A server that answers ``say TEXT`` with the text and ``all N`` with N bytes."""

    def __init__(self, size: int) -> None:
        self.left: list[int | None] = []
        super().__init__(WHO, size, "127.0.0.1")

    def environment(self, rank: int) -> dict[str, str]:
        return {"address": self.address, "token": self.token, "rank": str(rank)}

    def parse(self, line: bytes) -> tuple[bytes, int]:
        return line, 0

    def answer(self, peer: Peer, message: bytes, data: bytes) -> None:
        word, _, rest = message.partition(b" ")
        if word == b"say":
            peer.send(rest + b"\n")
        elif word == b"all":
            peer.send(bytes(int(rest)))
        else:
            raise MalformedError("unknown word")

    def leave(self, peer: Peer) -> None:
        self.left.append(peer.rank)


@pytest.fixture
def server() -> Iterator[Echo]:
    opened = Echo(3)
    yield opened
    opened.close()


def connect(server: Echo, rank: int | None) -> socket.socket:
    connection = join(WHO, server.address, server.token, rank)
    connection.settimeout(60)
    return connection


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(b"say " + text + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        data = connection.recv(4096)
        if not data:
            break
        answer += data
    return answer


def visit(server: Echo) -> socket.socket:
    """Return a connection on which nothing has been sent."""
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_a_client_with_the_token_is_answered(server: Echo) -> None:
    with connect(server, 0) as first, connect(server, None) as second:
        assert ask(first, b"a") == b"a\n"
        assert ask(second, b"b") == b"b\n"


def test_a_wrong_token_is_refused(server: Echo) -> None:
    with pytest.raises(
        dist.DistError, match="got: the server refused the token; the launcher keeps it"
    ):
        join(WHO, server.address, "0" * 32, 0)
    with connect(server, 0) as first:
        assert ask(first, b"a") == b"a\n"


@pytest.mark.parametrize("rank", [0, 3, 999_999])
def test_a_rank_can_join_only_once_and_must_belong_to_the_run(server: Echo, rank: int) -> None:
    with (
        connect(server, 0),
        pytest.raises(dist.DistError, match="a process of this rank has already joined"),
    ):
        join(WHO, server.address, server.token, rank)


def test_an_invalid_hello_closes_only_its_connection(server: Echo) -> None:
    token = server.token.encode()
    lines = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"\xff\xfe\n",
        b"opwright " + token + b" " + b"9" * 5000 + b"\n",
        b"opwright " + token + b" -1\n",
        b"opwright " + token + b"\n",
        b"opwright " + b"0" * 5000 + b" 0\n",
        b"cmd=initack pmiid=" + b"9" * 5000 + b"\n",
        b"x" * 100_000,
    ]
    with connect(server, 0) as first:
        for line in lines:
            with visit(server) as stranger:
                try:
                    stranger.sendall(line)
                except ConnectionError:
                    continue
                assert is_closed(stranger)
        assert ask(first, b"a") == b"a\n"


def test_random_bytes_close_only_their_connection(server: Echo) -> None:
    draw = random.Random(1)
    with connect(server, 0) as first:
        for _ in range(50):
            with connect(server, None) as other:
                try:
                    other.sendall(draw.randbytes(draw.randrange(1, 20_000)) + b"\n")
                    assert is_closed(other)
                except ConnectionError:
                    continue
        assert ask(first, b"a") == b"a\n"


def test_a_line_beyond_the_limit_closes_its_connection(server: Echo) -> None:
    with connect(server, 0) as first, connect(server, 1) as second:
        with contextlib.suppress(ConnectionError):
            first.sendall(b"say " + b"x" * 2_000_000)
        assert is_closed(first)
        assert ask(second, b"a") == b"a\n"
        assert server.left == [0]


def test_a_client_that_never_reads_does_not_block_other_clients_or_use_memory(
    server: Echo,
) -> None:
    with connect(server, 0) as lazy, connect(server, 1) as other:
        lazy.setblocking(False)
        request = b"all 60000\n" * 1000
        n_blocked = 0
        while n_blocked < 20:  # until the server accepts no more data
            try:
                lazy.send(request)
                n_blocked = 0
            except BlockingIOError:
                n_blocked += 1
                assert ask(other, b"a") == b"a\n"
        waiting = next(peer for peer in server._peers if peer.rank == 0)
        assert waiting._n_waiting < 200_000
        lazy.settimeout(60)
        assert sum(len(lazy.recv(65_536)) for _ in range(100)) > 0  # it continues from its position


def test_many_unauthorized_clients_do_not_block_the_processes_of_a_run(server: Echo) -> None:
    ended = threading.Event()

    def crowd() -> None:
        held = []
        while not ended.is_set():
            with contextlib.suppress(OSError):
                held.append(visit(server))
            if len(held) > 300:
                held.pop(0).close()
        for stranger in held:
            stranger.close()

    threads = [threading.Thread(target=crowd) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for rank in range(3):
            with connect(server, rank) as member:
                assert ask(member, b"a") == b"a\n"
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert sum(not peer.has_joined for peer in list(server._peers)) <= served._MAX_STRANGERS


def test_the_connection_of_a_client_that_does_not_send_a_token_in_time_is_closed(
    server: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_HELLO_S", 0.1)
    with visit(server) as silent, visit(server) as slow:
        slow.sendall(b"opwr")
        assert is_closed(silent)
        assert is_closed(slow)


def test_the_connection_of_a_client_that_stops_within_a_message_is_closed(
    server: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_STALL_S", 0.1)
    with connect(server, 0) as idle, connect(server, 1) as stuck:
        stuck.sendall(b"say half of")
        assert is_closed(stuck)
        assert ask(idle, b"a") == b"a\n"


def test_messages_sent_before_a_connection_is_closed_are_processed(server: Echo) -> None:
    with connect(server, 2) as member:
        member.sendall(b"say a\nsay b\n")
        member.shutdown(socket.SHUT_WR)
        assert is_closed(member)
    while not server.left:
        time.sleep(0.01)
    assert server.left == [2]


def test_a_server_on_socket_pairs_does_not_need_a_port() -> None:
    class Inherited(Echo):
        def __init__(self) -> None:
            self.left = []
            Server.__init__(self, WHO, 1, None)

    opened = Inherited()
    with opened.open_pair(0) as connection:
        assert ask(connection, b"a") == b"a\n"
        with pytest.raises(
            dist.DistError, match="the server must have an address to listen at, got None"
        ):
            opened.environment(0)
        opened.close()
        assert connection.recv(1) == b""


def test_closing_the_server_closes_connections(server: Echo) -> None:
    with connect(server, 0) as member:
        server.close()
        assert is_closed(member)
    server.close()
    with pytest.raises(dist.DistError, match="the rendezvous of the run must be reachable at 127."):
        join(WHO, "127.0.0.1:1", server.token, 0)
