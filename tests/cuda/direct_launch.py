"""Launches a CUDA kernel directly on the emulated driver, with separate memory for each array.

A plan places many tensors in one block of memory, where sanitizers cannot detect an overrun from
one tensor into the next.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from samples import Call, Sample, metas_of, numpy_dtype

import opwright as ow
from opwright.kernel import PrepareContext
from opwright.op import Meta, OpDefinition
from opwright_cuda.launch.arguments import FAULT, WORKSPACE
from opwright_cuda.launch.plan import ActionCode

FAULT_BYTES: Final = 16


class Memory:
    """A device allocation of exactly `n_bytes` bytes, or a null pointer if 0."""

    def __init__(self, driver: ctypes.CDLL, n_bytes: int) -> None:
        self._driver = driver
        self.n_bytes = n_bytes
        self.address = ctypes.c_uint64()
        if n_bytes:
            assert driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(n_bytes)) == 0

    def write(self, data: bytes) -> None:
        ctypes.memmove(self.address.value or 0, data, len(data))

    def read(self) -> bytes:
        return ctypes.string_at(self.address.value, self.n_bytes) if self.n_bytes else b""

    def free(self) -> None:
        if self.n_bytes:
            self._driver.cuMemFree_v2(self.address)


class Launcher:
    """Calls the emulated driver in the same way as the native launcher."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL(os.environ["OPWRIGHT_CUDA_DRIVER"])

    def run(self, sample: Sample, called: Call) -> dict[str, list[Any]]:
        """Run a kernel; return its outputs by slot.

        Raises
        ------
        AssertionError
            If the emulator reports a fault, or the kernel reports an invalid value.
        NotImplementedError
            If the kernel calls cuBLASLt.
        """
        metas = metas_of(sample, called)
        record = prepare(sample, called, metas).attrs
        aliases = _aliases(sample.op_type)
        memories: list[Memory] = []
        by_slot: dict[str, list[Memory]] = {}
        # The slots are in the order of the operator, which can differ from the order in the case.
        for slot in (slot.name for slot in _definition(sample).proto.inputs):
            by_slot[slot] = [self._holding(array) for array in called.arrays.get(slot, ())]
            memories += by_slot[slot]
        for slot, listed in metas.items():
            if slot in aliases:
                by_slot[slot] = by_slot[aliases[slot]]
            else:
                by_slot[slot] = [Memory(self._driver, _bytes(meta)) for meta in listed]
            memories += by_slot[slot]
        extra = {
            WORKSPACE: Memory(self._driver, record["workspace"]),
            FAULT: Memory(self._driver, FAULT_BYTES),
        }
        extra[FAULT].write(bytes(FAULT_BYTES))
        self._do(sample, record, {**dict(enumerate(memories)), **extra})
        fault = extra[FAULT].read()
        assert fault == bytes(FAULT_BYTES), f"{sample}: a fault was reported: {fault!r}"
        outputs = {
            slot: [_array(memory.read(), meta) for memory, meta in zip(by_slot[slot], listed)]
            for slot, listed in metas.items()
        }
        for memory in {id(m): m for m in (*memories, *extra.values())}.values():
            memory.free()
        return outputs

    def _holding(self, array: Any) -> Memory:
        memory = Memory(self._driver, array.nbytes)
        memory.write(np.ascontiguousarray(array).tobytes())
        return memory

    def _do(
        self, sample: Sample, record: Mapping[str, Any], memories: Mapping[int, Memory]
    ) -> None:
        constants = bytearray(record["constants"])
        fixups = record["fixups"]
        for i in range(0, len(fixups), 3):
            argument, offset, place = fixups[i : i + 3]
            address = (memories[argument].address.value or 0) + offset
            constants[place : place + 8] = address.to_bytes(8, "little")
        # The constants are aligned for every parameter type, as in the driver.
        held = (ctypes.c_uint64 * (len(constants) // 8 + 1))()
        ctypes.memmove(held, bytes(constants), len(constants))

        def address_at(place: int) -> ctypes.c_uint64:
            return ctypes.c_uint64(int.from_bytes(constants[place : place + 8], "little"))

        numbers = iter(record["actions"])
        is_left_out = False
        for code in numbers:
            if code == ActionCode.LAUNCH:
                handle, *shape = (next(numbers) for _ in range(8))
                places = [next(numbers) for _ in range(next(numbers))]
                params = (ctypes.c_void_p * len(places))(
                    *(ctypes.addressof(held) + place for place in places)
                )
                if is_left_out:
                    is_left_out = False
                    continue
                status = self._driver.cuLaunchKernel(
                    ctypes.c_void_p(handle), *map(ctypes.c_uint, shape), None, params, None
                )
                assert status == 0, f"{sample}: the launch was refused"
            elif code == ActionCode.FILL:
                place, n_bytes, value = (next(numbers) for _ in range(3))
                self._driver.cuMemsetD8Async(
                    address_at(place), ctypes.c_ubyte(value), ctypes.c_size_t(n_bytes), None
                )
            elif code == ActionCode.UNLESS_SAME:
                one, other = (address_at(next(numbers)).value for _ in range(2))
                is_left_out = one == other
            else:
                raise NotImplementedError(f"{sample}: cuBLASLt products are not supported")
        self._wait(sample)

    def _wait(self, sample: Sample) -> None:
        status = self._driver.cuCtxSynchronize()
        if status != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            self._driver.emulator_set(b"sticky", ctypes.c_int64(0))
            raise AssertionError(f"{sample}: {(text.value or b'').decode()}")


def prepare(sample: Sample, called: Call, metas: Mapping[str, Sequence[Meta]]) -> Any:
    """Prepare the kernel of a sample; return the record of its launches."""
    context, definition = ow.current_context(), _definition(sample)
    entry = next(
        e
        for e in context.kernels.entries(sample.op_type)
        if (e.device, e.library) == ("cuda", sample.library) and e.dtype in {sample.dtype, "*"}
    )
    inputs = {
        slot.name: [Meta(a.shape, a.dtype.name) for a in called.arrays.get(slot.name, ())]
        for slot in definition.proto.inputs
    }
    attrs = {
        **dict.fromkeys(definition.proto.attr_protos),
        **definition.proto.fill_attrs(dict(called.attrs)),
    }
    outputs = {slot: list(listed) for slot, listed in metas.items()}
    return entry.load().prepare(
        PrepareContext(
            sample.op_type,
            inputs,
            outputs,
            attrs,
            device="cuda",
            options=context.options.fill(context.chosen_options),
        )
    )


def _definition(sample: Sample) -> OpDefinition:
    return ow.current_context().ops.get(sample.op_type)


def _aliases(op_type: str) -> dict[str, str]:
    outputs = ow.current_context().ops.get(op_type).proto.outputs
    return {slot.name: slot.aliases for slot in outputs if slot.aliases}


def _bytes(meta: Meta) -> int:
    return int(np.prod(meta.shape, dtype=np.int64)) * numpy_dtype(meta.dtype).itemsize


def _array(data: bytes, meta: Meta) -> Any:
    return np.frombuffer(data, numpy_dtype(meta.dtype)).reshape(meta.shape)
