"""NVRTC, NVIDIA's compiler as a library, through cuda-bindings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from opwright.errors import KernelError, PluginError
from opwright_cuda.source import Source
from opwright_cuda.toolchain import Image

OPTIONS: Final = ("-std=c++17", "-lineinfo", "-default-device")
"""For every source. No fast arithmetic and no flush to zero: results are those of the CPU."""


class Nvrtc:
    """Compiles for any architecture, whether or not there is such a GPU."""

    @cached_property
    def _api(self) -> Any:
        try:
            from cuda.bindings import nvrtc

            nvrtc.nvrtcVersion()
        except (ImportError, RuntimeError) as error:  # the latter where its library is missing
            raise PluginError(
                f"CUDA: kernels are compiled by NVRTC, got {type(error).__name__}: {error}; "
                "pip install cuda-bindings nvidia-cuda-nvrtc"
            ) from error
        return nvrtc

    @cached_property
    def version(self) -> str:
        """``"nvrtc 13.0"``."""
        _, major, minor = self._api.nvrtcVersion()
        return f"nvrtc {major}.{minor}"

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        """Return the cubin of each expression; see `opwright_cuda.toolchain.Compiler`."""
        api = self._api
        names = [name.encode() for name, _ in source.headers]
        texts = [text.encode() for _, text in source.headers]
        options = (f"-arch={arch}", *OPTIONS, *source.options)
        program = self._checked(
            api.nvrtcCreateProgram(
                source.text.encode(), source.name.encode(), len(names), texts, names
            )
        )
        try:
            for expression in expressions:
                self._checked(api.nvrtcAddNameExpression(program, expression.encode()))
            encoded = [option.encode() for option in options]
            (result,) = api.nvrtcCompileProgram(program, len(encoded), encoded)
            if result != api.nvrtcResult.NVRTC_SUCCESS:
                raise KernelError(
                    f"{source.name}: {self.version} cannot compile {', '.join(expressions)} with "
                    f"{' '.join(options)}:\n{self._log(program)}"
                )
            size = self._checked(api.nvrtcGetCUBINSize(program))
            cubin = bytearray(size)
            self._checked(api.nvrtcGetCUBIN(program, cubin))
            lowered = (
                self._checked(api.nvrtcGetLoweredName(program, expression.encode())).decode()
                for expression in expressions
            )
            return Image(bytes(cubin), tuple(lowered))
        finally:
            api.nvrtcDestroyProgram(program)

    def _log(self, program: Any) -> str:
        size = self._checked(self._api.nvrtcGetProgramLogSize(program))
        log = bytearray(size)
        self._checked(self._api.nvrtcGetProgramLog(program, log))
        return bytes(log).rstrip(b"\0").decode(errors="replace").strip()

    def _checked(self, answer: tuple[Any, ...]) -> Any:
        """Return the value of an answer, without the result that comes first."""
        result, *values = answer
        if result != self._api.nvrtcResult.NVRTC_SUCCESS:
            raise KernelError(f"NVRTC failed with {result.name}; report it with the kernel's name")
        return values[0] if values else None
