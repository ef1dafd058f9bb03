// Softmax and its losses, with one work-group for each line. Element k of line l is at (l / inner *
// length + k) * inner + l % inner; there is one class id per line.
#define FIRST_OF(LINE, LENGTH, INNER) ((LINE) / (INNER) * (LENGTH) * (INNER) + (LINE) % (INNER))

T largest_of_line(__global const T* line, const ulong length, const ulong inner,
                  __local T* scratch) {
  T largest = -INFINITY;
  for (size_t k = get_local_id(0); k < length; k += get_local_size(0)) {
    largest = fmax(largest, line[k * inner]);
  }
  return largest_of_group(largest, scratch);
}

// Returns the sum of exp(x - maximum), and writes its terms to `powers` unless that is null. fmax
// ignores NaN, but this sum does not, so a line with NaN has a sum of NaN.
T total_of_line(__global const T* line, __global T* powers, const ulong length,
                const ulong inner, const T largest, __local T* scratch) {
  T total = 0;
  for (size_t k = get_local_id(0); k < length; k += get_local_size(0)) {
    const T power = exp(line[k * inner] - largest);
    if (powers) powers[k * inner] = power;
    total += power;
  }
  return sum_of_group(total, scratch);
}

__kernel void softmax(__global const T* xs, __global T* outs, const ulong length,
                      const ulong inner, __local T* scratch) {
  const size_t first = FIRST_OF(get_group_id(0), length, inner);
  const T largest = largest_of_line(xs + first, length, inner, scratch);
  const T total = total_of_line(xs + first, outs + first, length, inner, largest, scratch);
  for (size_t k = get_local_id(0); k < length; k += get_local_size(0)) {
    outs[first + k * inner] /= total;
  }
}

__kernel void softmax_grad(__global const T* outs, __global const T* out_grads,
                           __global T* x_grads, const ulong length, const ulong inner,
                           __local T* scratch) {
  const size_t first = FIRST_OF(get_group_id(0), length, inner);
  T product = 0;
  for (size_t k = get_local_id(0); k < length; k += get_local_size(0)) {
    product += outs[first + k * inner] * out_grads[first + k * inner];
  }
  product = sum_of_group(product, scratch);
  for (size_t k = get_local_id(0); k < length; k += get_local_size(0)) {
    const size_t i = first + k * inner;
    x_grads[i] = (out_grads[i] - product) * outs[i];
  }
}

// `fault` stores the first line with an invalid class id, which the host reads. `softmax` can be
// null.
#define SOFTMAX_LOSS(NAME, ID)                                                                  \
  __kernel void NAME(__global const T* logits, __global const ID* labels, __global T* outs,     \
                     __global T* softmax, __global uint* fault, const ulong length,             \
                     const ulong inner, const long ignored, __local T* scratch) {               \
    const size_t line = get_group_id(0), first = FIRST_OF(line, length, inner);                 \
    const long label = labels[line];                                                            \
    const bool is_class = label >= 0 && label < (long)length && label != ignored;               \
    __global const T* x = logits + first;                                                       \
    const T largest = largest_of_line(x, length, inner, scratch);                               \
    __global T* powers = softmax ? softmax + first : 0;                                         \
    const T total = total_of_line(x, powers, length, inner, largest, scratch);                  \
    for (size_t k = get_local_id(0); powers && k < length; k += get_local_size(0)) {            \
      powers[k * inner] /= total;                                                               \
    }                                                                                           \
    if (get_local_id(0) != 0) return;                                                           \
    if (!is_class && label != ignored) atomic_min(fault, (uint)line);                           \
    outs[line] = is_class ? log(total) - (x[label * inner] - largest) : (T)0;                   \
  }

SOFTMAX_LOSS(softmax_loss_of_int, int)
SOFTMAX_LOSS(softmax_loss_of_long, long)

#define SOFTMAX_LOSS_GRAD(NAME, ID)                                                             \
  __kernel void NAME(const ulong n, __global const ID* labels, __global const T* softmax,       \
                     __global const T* out_grads, __global T* logits_grads,                     \
                     __global uint* fault, const ulong length, const ulong inner,               \
                     const long ignored) {                                                      \
    const size_t i = get_global_id(0);                                                          \
    if (i >= n) return;                                                                         \
    const size_t line = i / (length * inner) * inner + i % inner;                               \
    const long k = i / inner % length, label = labels[line];                                    \
    if (label == ignored) {                                                                     \
      logits_grads[i] = 0;                                                                      \
      return;                                                                                   \
    }                                                                                           \
    if (label < 0 || label >= (long)length) atomic_min(fault, (uint)line);                      \
    logits_grads[i] = (softmax[i] - (T)(k == label)) * out_grads[line];                         \
  }

SOFTMAX_LOSS_GRAD(softmax_loss_grad_of_int, int)
SOFTMAX_LOSS_GRAD(softmax_loss_grad_of_long, long)

// Cross entropy of probabilities [lines, length].
#define CROSS_ENTROPY(NAME, ID)                                                                 \
  __kernel void NAME(const ulong n, __global const T* xs, __global const ID* labels,            \
                     __global T* outs, __global uint* fault, const ulong length,                \
                     const T epsilon) {                                                         \
    const size_t line = get_global_id(0);                                                       \
    if (line >= n) return;                                                                      \
    const long label = labels[line];                                                            \
    if (label < 0 || label >= (long)length) {                                                   \
      atomic_min(fault, (uint)line);                                                            \
      outs[line] = 0;                                                                           \
      return;                                                                                   \
    }                                                                                           \
    const T x = xs[line * length + label];                                                      \
    outs[line] = -log(x < epsilon ? epsilon : x);                                               \
  }

CROSS_ENTROPY(cross_entropy_of_int, int)
CROSS_ENTROPY(cross_entropy_of_long, long)

#define CROSS_ENTROPY_GRAD(NAME, ID)                                                            \
  __kernel void NAME(const ulong n, __global const T* xs, __global const ID* labels,            \
                     __global const T* out_grads, __global T* x_grads, __global uint* fault,    \
                     const ulong length, const T epsilon) {                                     \
    const size_t i = get_global_id(0);                                                          \
    if (i >= n) return;                                                                         \
    const size_t line = i / length;                                                             \
    const long k = i % length, label = labels[line];                                            \
    if (label < 0 || label >= (long)length) atomic_min(fault, (uint)line);                      \
    x_grads[i] = k == label && !(xs[i] < epsilon) ? -out_grads[line] / xs[i] : (T)0;            \
  }

CROSS_ENTROPY_GRAD(cross_entropy_grad_of_int, int)
CROSS_ENTROPY_GRAD(cross_entropy_grad_of_long, long)
