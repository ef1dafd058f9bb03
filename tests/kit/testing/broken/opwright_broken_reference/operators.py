"""A correct kernel, and fast kernels that fail in the tail, past a block or with packed inputs."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as

_WIDTH = 8
_BLOCK = 256


def twice(x, out):
    np.multiply(x, 2, out=out)


def fast_tail(x, out):
    flat, target = x.reshape(-1), out.reshape(-1)
    whole = flat.size - flat.size % _WIDTH
    np.multiply(flat[:whole], 2, out=target[:whole])
    target[whole:] = flat[whole:]


def fast_large(x, out):
    flat, target = x.reshape(-1), out.reshape(-1)
    np.multiply(flat, 2, out=target)
    target[_BLOCK:] += 1


class Doubled:
    """Packs a parameter with its values doubled, but returns other inputs unchanged."""

    def __init__(self):
        self.kept = None

    @classmethod
    def prepare(cls, ctx):
        kernel = cls()
        ctx.pack("x", kernel.pack)
        return kernel

    def __call__(self, x, out):
        if isinstance(x, _Packed):
            np.copyto(out, x.doubled)
        else:
            np.multiply(x, 2, out=out)


class _Packed:
    def __init__(self, doubled):
        self.doubled = doubled


class PacksWithoutEnd(Doubled):
    def pack(self, x):
        doubled = x.reshape(-1) * 2
        doubled[doubled.size - doubled.size % _WIDTH :] = 0
        return _Packed(doubled.reshape(x.shape))


class PacksOnce(Doubled):
    def pack(self, x):
        if self.kept is None:
            self.kept = _Packed(x * 2)
        return self.kept


def _make(name):
    return (
        OpMaker(f"broken_reference.{name}")
        .add_comment("Twice, out = 2 * x.")
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only values matter here"))
    )


TAIL = _make("tail")
LARGE = _make("large")
PACKED_END = _make("packed_end")
PACKED_ONCE = _make("packed_once")
