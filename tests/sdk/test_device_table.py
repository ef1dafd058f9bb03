"""The function table of a C++ device class: which functions it has, and how they fail."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from abi_tables import ERROR, OK, OUT_OF_MEMORY, Device, Error
from plugin_host import Library

TORN = "the rope is torn"


@pytest.fixture(scope="module")
def library(compiler: Any) -> Path:
    return compiler.build("devices.cc")


class Table:
    """Calls the functions of a device as the host does."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self._message = ctypes.create_string_buffer(512)
        self._error = Error(ctypes.cast(self._message, ctypes.c_void_p), 512)
        self.state = self.make("open", ctypes.byref(row), 0)

    def call(self, name: str, *arguments: Any) -> tuple[int, str]:
        """Call a function; return its status and message."""
        self._message.value = b""
        code = getattr(self.row, name)(*arguments, ctypes.byref(self._error))
        return code, self._message.value.decode()

    def make(self, name: str, *arguments: Any) -> Any:
        made = ctypes.c_void_p()
        assert self.call(name, *arguments, ctypes.byref(made)) == (OK, "")
        return made


@pytest.fixture(scope="module")
def host(library: Path) -> Library:
    """Return a host that exists as long as the library can call it."""
    return Library(library)


@pytest.fixture
def let(library: Path) -> Iterator[Callable[[bytes, bytes], None]]:
    """Return a function that makes functions of the devices fail, like `Devices.let`."""
    set_fault = ctypes.CDLL(str(library)).set_fault
    yield set_fault
    set_fault(b"", b"")


@pytest.fixture
def rows(host: Library) -> dict[str, Any]:
    found = ctypes.cast(host.plugin.devices, ctypes.POINTER(Device))
    return {found[i].name.decode(): found[i] for i in range(host.plugin.n_devices)}


GRAPHS = {"begin_capture", "end_capture", "replay", "graph_destroy"}
STREAMS = {
    "stream_create", "stream_destroy", "stream_synchronize", "event_create", "event_destroy",
    "event_record", "event_wait", "event_synchronize",
}  # fmt: skip
HOST = {"allocate_host", "free_host"}


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("plain", {*STREAMS, *GRAPHS, *HOST, "memory_info"}),
        ("queued", GRAPHS),
        ("recorded", {*HOST, "memory_info"}),
    ],
)
def test_functions_that_a_class_does_not_override_are_null(rows, name, lacking):
    functions = [field for field, _ in Device._fields_[6:]]
    assert {f for f in functions if not getattr(rows[name], f)} == lacking


def test_the_options_reach_the_table(rows):
    shared, plain = rows["shared"], rows["plain"]
    assert (shared.flags, shared.alignment, shared.dlpack_code) == (2 | 8, 128, 1)
    assert (plain.flags, plain.alignment, plain.dlpack_code) == (1, 64, 12)


def test_a_device_with_host_memory_uses_one_copy_function(rows):
    table = Table(rows["shared"])
    source, target = (ctypes.create_string_buffer(text, 4) for text in (b"abc", b"xyz"))
    copied = table.call("copy", table.state, None, target, 1, source, 1, ctypes.c_uint64(4))
    assert (copied, target.value) == ((OK, ""), b"abc")
    table.row.close(table.state)


def test_optional_functions_succeed_and_fail_like_all_other_functions(rows, let):
    table = Table(rows["queued"])
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    asked = (table.state, ctypes.byref(free), ctypes.byref(total))
    assert table.call("memory_info", *asked) == (OK, "")
    assert (free.value, total.value) == (7, 9)
    pinned = table.make("allocate_host", table.state, ctypes.c_uint64(16))
    table.row.free_host(table.state, pinned)
    let(b"MemoryInfo", b"throws")
    assert table.call("memory_info", *asked) == (ERROR, TORN)
    let(b"AllocateHost", b"throws bad_alloc")
    asked = (table.state, ctypes.c_uint64(16), ctypes.byref(ctypes.c_void_p()))
    assert table.call("allocate_host", *asked) == (OUT_OF_MEMORY, "out of memory")
    table.row.close(table.state)


def test_events_order_two_streams_and_fail_like_all_other_functions(rows, let):
    table = Table(rows["queued"])
    one, other = (table.make("stream_create", table.state) for _ in range(2))
    event = table.make("event_create", table.state)
    assert table.call("event_record", table.state, event, one) == (OK, "")
    assert table.call("event_wait", table.state, event, other) == (OK, "")
    made = (table.state, ctypes.byref(ctypes.c_void_p()))
    let(b"CreateEvent", b"forgets")
    assert table.call("event_create", *made) == (ERROR, "CreateEvent must set its result, got NULL")
    let(b"RecordEvent", b"fails")
    told = (ERROR, "the rope is torn in RecordEvent")
    assert table.call("event_record", table.state, event, one) == told
    let(b"WaitEvent", b"throws")
    assert table.call("event_wait", table.state, event, other) == (ERROR, TORN)
    let(b"SynchronizeEvent", b"throws 42")
    code, text = table.call("event_synchronize", table.state, event)
    assert (code, text) == (ERROR, "threw no std::exception")
    table.row.event_destroy(table.state, event)
    for stream in (one, other):
        table.row.stream_destroy(table.state, stream)
    table.row.close(table.state)


def test_a_destructor_that_throws_is_logged(rows, let, host):
    table = Table(rows["plain"])
    let(b"close", b"fails")
    table.row.close(table.state)
    logged = (40, "test: the destructor of a device must not fail, got: stuck")
    assert host.logged == [logged]


# -- compiler errors -------------------------------------------------------------------------------

LACKING = """
#include <opwright/sdk.hpp>
using opwright::Status;
struct Almost : opwright::Device {
  explicit Almost(int32_t) {}
  Status Allocate(uint64_t, void**) override { return Status::Ok(); }
  void Free(void*) override {}
  Status CopyFromHost(void*, const void*, uint64_t) override { return Status::Ok(); }
  Status CopyToHost(void*, const void*, uint64_t) override { return Status::Ok(); }
  Status CopyWithin(void*, const void*, uint64_t) override { return Status::Ok(); }
};
struct Whole : Almost {
  using Almost::Almost;
  Status Synchronize() override { return Status::Ok(); }
};
struct HalfPinned : Whole {
  using Whole::Whole;
  void FreeHost(void*) override {}
};
struct NoBase {};
struct NoNumber : Whole {
  NoNumber() : Whole(0) {}
};
OPWRIGHT_REGISTER_DEVICE(a, "a", Almost);
OPWRIGHT_REGISTER_DEVICE(b, "b", HalfPinned);
OPWRIGHT_REGISTER_DEVICE(c, "c", NoBase);
OPWRIGHT_REGISTER_DEVICE(d, "d", NoNumber);
"""


def test_the_compiler_names_the_missing_members_of_a_class(compiler, tmp_path):
    file = tmp_path / "lacking.cc"
    file.write_text(LACKING)
    with pytest.raises(AssertionError) as caught:
        compiler.check(file)
    for text in (
        "virtual opwright::Status opwright::DeviceBase::Synchronize()",
        "AllocateHost and FreeHost are overridden together or not at all",
        "a device derives from opwright::Device, StreamDevice or GraphDevice",
        "no matching function for call to ‘NoNumber::NoNumber(const int32_t&)’",
    ):
        assert text in str(caught.value)
