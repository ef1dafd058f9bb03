from typing import Final

KERNELS: Final[tuple[tuple[str, str, str | tuple[str, ...], str, int], ...]]
