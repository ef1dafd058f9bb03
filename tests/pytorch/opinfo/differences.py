"""What opwright computes otherwise than PyTorch, NumPy or ONNX, on purpose, and why.

Each row has expressions, which `evaluation` evaluates for docs/differences.md, so that the page
shows what this release of each library does; the column of ONNX is read from its specification.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """A choice: expressions for each library, an empty one where it has no such operator."""

    topic: str
    ours: str
    pytorch: str
    numpy: str
    onnx: str
    why: str


HALVES = "0.5, 1.5, 2.5"

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "gradient of `maximum(x, y)` where x = y",
        "slopes(ops.maximum, 1.0, 1.0)",
        "torch_slopes(torch.maximum, 1.0, 1.0)",
        "",
        "",
        "a gradient chooses the operand that was taken, the first of two equal ones "
        "(decision 0035)",
    ),
    Difference(
        "gradient of `maximum(NaN, 1)`",
        "slopes(ops.maximum, nan, 1.0)",
        "torch_slopes(torch.maximum, nan, 1.0)",
        "",
        "",
        "a weight that had no part in a NaN is not moved by it",
    ),
    Difference(
        "`sign(NaN)`",
        "ops.sign(f(nan))",
        "torch.sign(t(nan))",
        "np.sign(f(nan))",
        "not specified",
        "NaN is never hidden (decision 0060)",
    ),
    Difference(
        "gradient of `abs(NaN)`",
        "slopes(ops.abs, nan)",
        "torch_slopes(torch.abs, nan)",
        "",
        "",
        "the same",
    ),
    Difference(
        "dtype of a sum of uint8",
        "ops.sum(u(200, 100)).dtype",
        "torch.sum(torch.tensor([200, 100], dtype=torch.uint8)).dtype",
        "np.sum(u(200, 100)).dtype",
        "refuses uint8",
        "unsigned numbers stay unsigned, 64 bits wide (decision 0059)",
    ),
    Difference(
        "dtype of indices of `max_pool2d`",
        "ops.max_pool2d(image, kernel=2, returns='index').dtype",
        "pooled(torch.tensor(image), 2, return_indices=True)[1].dtype",
        "",
        "int64",
        "half the memory; an image never has 2³¹ elements",
    ),
    Difference(
        "indices of `max_pool2d` in the second image",
        "ops.max_pool2d(image, kernel=2, returns='index')[1].ravel()",
        "pooled(torch.tensor(image), 2, return_indices=True)[1][1].ravel()",
        "",
        "counted over the whole tensor",
        "an index counts within one channel, as in PyTorch, and does not depend on the batch",
    ),
    Difference(
        "`round` half way",
        f"ops.round(f({HALVES}))",
        f"torch.round(t({HALVES}))",
        f"np.round(f({HALVES}))",
        "to even",
        "all to even",
    ),
    Difference(
        "`median` of an even count",
        "ops.median(f(1, 2, 3, 4))",
        "torch.median(t(1, 2, 3, 4))",
        "np.median(f(1, 2, 3, 4))",
        "",
        "the mean of the two in the middle, as in statistics; `kthvalue` is a `sort` and a `slice`",
    ),
    Difference(
        "`std` by default",
        "ops.std(f(1, 2, 3))",
        "torch.std(t(1, 2, 3))",
        "np.std(f(1, 2, 3))",
        "",
        "divides by n, as NumPy; `correction=1` for n - 1",
    ),
    Difference(
        "division of whole numbers by `//`",
        "ops.floor_divide(i(-7), i(2))",
        "torch.tensor([-7]) // 2",
        "i(-7) // 2",
        "-3, towards 0",
        "rounds down, as Python does",
    ),
    Difference(
        "a whole number `//` 0",
        "ops.floor_divide(i(1), i(0))",
        "torch.tensor([1]) // 0",
        "i(1) // 0",
        "not specified",
        "a plan does not end in the middle for one element",
    ),
    Difference(
        "dtype of int64 / int64",
        "ops.divide(i(7), i(2)).dtype",
        "(torch.tensor([7]) / 2).dtype",
        "(i(7) / i(2)).dtype",
        "int64, rounded towards 0",
        "fractions of whole numbers are float32, the dtype of parameters (decision 0149)",
    ),
    Difference(
        "mean of int64",
        "ops.mean(i(1, 2))",
        "torch.mean(torch.tensor([1, 2]))",
        "np.mean(i(1, 2))",
        "1, of int64",
        "the same",
    ),
    Difference(
        "dtype of `exp` of int8",
        "ops.exp(i(1).astype(np.int8)).dtype",
        "torch.exp(torch.tensor([1], dtype=torch.int8)).dtype",
        "np.exp(i(1).astype(np.int8)).dtype",
        "refuses int8",
        "the same",
    ),
    Difference(
        "`avg_pool2d` of int64, a mean of 1.5",
        "ops.avg_pool2d(ones.astype(np.int64) * i(1, 2), kernel=2).ravel()",
        "torch.nn.functional.avg_pool2d(torch.tensor([[[[1, 2], [1, 2]]]]), 2).ravel()",
        "",
        "refuses int64",
        "the same",
    ),
    Difference(
        "`argmax` without an axis",
        "ops.argmax(f22)",
        "torch.argmax(torch.tensor(f22))",
        "np.argmax(f22)",
        "axis 0",
        "the last axis, of classes",
    ),
    Difference(
        "`avg_pool2d` by default over a border",
        "ops.avg_pool2d(ones, kernel=2, paddings=1, strides=2).ravel()",
        "torch.nn.functional.avg_pool2d(torch.tensor(ones), 2, 2, 1).ravel()",
        "",
        "does not count the border",
        "as ONNX; `count_include_pad=True` for the other",
    ),
    Difference(
        "`hard_sigmoid(1)` by default",
        "ops.hard_sigmoid(f(1))",
        "torch.nn.functional.hardsigmoid(t(1))",
        "",
        "0.7",
        "slope 0.2, as ONNX; `alpha=1/6` for PyTorch's",
    ),
    Difference(
        "`silu(-inf)`",
        "ops.silu(f(-inf))",
        "torch.nn.functional.silu(t(-inf))",
        "",
        "NaN",
        "the limit, instead of infinity times 0",
    ),
    Difference(
        "`softsign(inf)`",
        "ops.softsign(f(inf))",
        "torch.nn.functional.softsign(t(inf))",
        "",
        "NaN",
        "the limit",
    ),
    Difference(
        "`hypot(inf, NaN)`",
        "ops.hypot(f(inf), f(nan))",
        "torch.hypot(t(inf), t(nan))",
        "np.hypot(f(inf), f(nan))",
        "",
        "NaN is never hidden (decision 0060)",
    ),
    Difference(
        "`heaviside(NaN, 2)`",
        "ops.heaviside(f(nan), f(2))",
        "torch.heaviside(t(nan), t(2))",
        "np.heaviside(f(nan), f(2))",
        "",
        "the same",
    ),
    Difference(
        "`softmax` of a line of which a mask leaves nothing",
        "ops.masked_softmax(f(1, 2), np.array([False, False]))",
        "torch.masked.softmax(t(1, 2), 0, mask=torch.tensor([False, False]))",
        "",
        "",
        "0, so that rows of padding stay finite",
    ),
    Difference(
        "`polygamma(1, -inf)`",
        "ops.polygamma(f(-inf), n=1)",
        "torch.polygamma(1, t(-inf))",
        "",
        "",
        "the limit of the poles, as SciPy",
    ),
    Difference(
        "`mish(-inf)`",
        "ops.mish(f(-inf))",
        "torch.nn.functional.mish(t(-inf))",
        "",
        "NaN",
        "the limit",
    ),
    Difference(
        "gradient of `round`, `floor`, `ceil`",
        "slopes(ops.floor, 1.5)",
        "torch_slopes(torch.floor, 1.5)",
        "",
        "",
        "a loss that depends on a parameter through steps alone is a mistake",
    ),
    Difference(
        "gradient of `mod(x, y)`",
        "slopes(ops.mod, 1.5, 1.0)",
        "torch_slopes(torch.remainder, 1.5, 1.0)",
        "",
        "",
        "a line with steps, whose slopes say nothing of them",
    ),
    Difference(
        "float32 + float64",
        "ops.add(f(1), np.ones(1)).dtype",
        "(t(1) + torch.ones(1, dtype=torch.float64)).dtype",
        "(f(1) + np.ones(1)).dtype",
        "refuses it",
        "a float64 among float32 is a mistake that halves the speed; `cast` says it",
    ),
    Difference(
        "0 in `reshape(x, [0, 3])`, x of [2, 3]",
        "list(ops.reshape(np.ones((2, 3)), shape=[0, 3]).shape)",
        "list(torch.ones(2, 3).reshape(0, 3).shape)",
        "list(np.ones((2, 3)).reshape(0, 3).shape)",
        "[2, 3]",
        "0 stands for the length that the axis had, as in ONNX",
    ),
    Difference(
        "the vector of `padding_index` in `embedding`",
        "ops.embedding(ones[0, 0], i(0), padding_index=0).ravel()",
        "torch.nn.functional.embedding(torch.tensor([0]), torch.ones(2, 2), 0).ravel()",
        "",
        "",
        "0 whatever the table has there",
    ),
    Difference(
        "attention of a query that sees no key",
        "ops.scaled_dot_product_attention(q, q, q, np.array([[False]])).ravel()",
        "attention(*[torch.tensor(q)] * 3, attn_mask=torch.tensor([[False]])).ravel()",
        "",
        "NaN",
        "weights 0, so that rows of padding stay finite",
    ),
    Difference(
        "gradient of `ctc_loss` by logarithms",
        "ow.grad(lambda x: ops.sum(ops.ctc_loss(x, i([1]))))(f([[0, 0]])).ravel()",
        "torch_slopes(ctc_loss, [[[0.0, 0.0]]])",
        "",
        "",
        "the derivative; behind log_softmax both are the same",
    ),
    Difference(
        "gradient of `scatter` by two updates of one place",
        "slopes(lambda x: ops.scatter(f(0), i(0, 0), x), [1.0, 2.0])",
        "torch_slopes(lambda x: torch.zeros(1).scatter(0, torch.tensor([0, 0]), x), [1.0, 2.0])",
        "",
        "",
        "the gradient goes to the element that was written, the last one",
    ),
    Difference(
        "gradient of `as_strided_scatter` by what is overwritten",
        "slopes(lambda x: ops.scatter(x, i(0), f(5)), [1.0, 2.0])",
        "torch_slopes(lambda x: torch.as_strided_scatter(x, t(5), (1,), (1,)), [1.0, 2.0])",
        "",
        "",
        "the first of two elements is overwritten, and has no part in the result",
    ),
    Difference(
        "gradient of `cholesky_solve` by the triangle that is not read",
        "slopes(by_triangle, [[1.0, 0.0], [2.0, 1.0]])[0][0, 1]",
        "torch_slopes(lambda x: torch.cholesky_solve(t([1], [1]), x), [[1.0, 0.0], [2.0, 1.0]])"
        "[0][0, 1]",
        "",
        "",
        "what is not read has no part in the result",
    ),
    Difference(
        "dtypes of indices: `sort`, `top_k`, `argmax`",
        "ops.sort(f(2, 1), returns=['out', 'indices'])[1].dtype",
        "torch.sort(t(2, 1))[1].dtype",
        "np.argsort(f(2, 1)).dtype",
        "int64",
        "the same everywhere",
    ),
)
