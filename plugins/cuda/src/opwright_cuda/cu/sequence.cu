// Masking, reversal, pooling and packing of padded sequences [n, steps, inner]. check_lengths
// reports lengths out of range; all other kernels clamp lengths.
#include "functions.h"
#include "lengths.h"

using namespace opwright_cuda;

struct Padded {
  int64_t n;
  int64_t steps;
  int64_t inner;
};

template <typename Index>
OW_INLINE int64_t LengthOf(const Index* lengths, int64_t i, int64_t steps) {
  const auto length = static_cast<int64_t>(lengths[i]);
  return length < 0 ? 0 : length > steps ? steps : length;
}

template <typename Index>
__global__ void sequence_mask(bool* out, const Index* lengths, Padded p) {
  for (int64_t k = GlobalIndex(); k < p.n * p.steps; k += GridThreads()) {
    const int64_t i = k / p.steps;
    out[k] = k - i * p.steps < LengthOf(lengths, i, p.steps);
  }
}

// T is any type with the size of an element.
template <typename T, typename Index>
__global__ void sequence_reverse(T* out, const T* x, const Index* lengths, Padded p) {
  const int64_t of_one = p.steps * p.inner;
  for (int64_t k = GlobalIndex(); k < p.n * of_one; k += GridThreads()) {
    const int64_t i = k / of_one, step = (k - i * of_one) / p.inner;
    const int64_t length = LengthOf(lengths, i, p.steps);
    out[k] = step < length ? x[k + (length - 1 - 2 * step) * p.inner] : x[k];
  }
}

// The kinds of sequence_pool.
constexpr int32_t kMean = 1, kRoot = 2, kGreatest = 3, kFirst = 4, kLast = 5;

// Returns the divisor for the sum of a sequence.
template <typename C>
OW_INLINE C DivisorOf(int64_t length, int32_t kind) {
  const C count = static_cast<C>(length);
  return kind == kMean ? count : kind == kRoot ? functors::Sqrt(count) : C(1);
}

template <typename T, typename Index>
__global__ void sequence_pool(T* out, const T* x, const Index* lengths, Padded p, int32_t kind) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < p.n * p.inner; k += GridThreads()) {
    const int64_t i = k / p.inner, length = LengthOf(lengths, i, p.steps);
    const T* const from = x + i * p.steps * p.inner + (k - i * p.inner);
    C made = C(0);
    if (length > 0 && kind >= kGreatest) {
      made = Load(from[kind == kLast ? (length - 1) * p.inner : 0]);
      for (int64_t s = 1; kind == kGreatest && s < length; ++s) {
        const C other = Load(from[s * p.inner]);
        if (other > made || other != other) made = other;  // NaN propagates
      }
    } else if (length > 0) {
      for (int64_t s = 0; s < length; ++s) made += Load(from[s * p.inner]);
      made = made / DivisorOf<C>(length, kind);
    }
    out[k] = Store<T>(made);
  }
}

template <typename C>
OW_INLINE bool IsBest(C x, C best) {
  return x == best || (x != x && best != best);
}

// `x` and `out` are read only for kGreatest, for which equal maxima share the gradient equally.
template <typename T, typename Index>
__global__ void sequence_pool_grad(T* x_grad, const T* x, const T* out, const T* out_grad,
                                   const Index* lengths, Padded p, int32_t kind) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < p.n * p.inner; k += GridThreads()) {
    const int64_t i = k / p.inner, length = LengthOf(lengths, i, p.steps);
    const int64_t begin = i * p.steps * p.inner + (k - i * p.inner);
    C share = Load(out_grad[k]);
    if (kind == kGreatest) {
      int64_t n_best = 0;
      for (int64_t s = 0; s < length; ++s) {
        n_best += IsBest(Load(x[begin + s * p.inner]), Load(out[k])) ? 1 : 0;
      }
      share = share / static_cast<C>(n_best > 0 ? n_best : 1);
    } else if (length > 0) {
      share = share / DivisorOf<C>(length, kind);
    }
    for (int64_t s = 0; s < p.steps; ++s) {
      const int64_t place = begin + s * p.inner;
      bool gets = s < length;
      if (kind == kGreatest) gets = gets && IsBest(Load(x[place]), Load(out[k]));
      if (kind == kFirst) gets = gets && s == 0;
      if (kind == kLast) gets = gets && s == length - 1;
      x_grad[place] = Store<T>(gets ? share : C(0));
    }
  }
}

// Computes the first row of each packed sequence in one block. begins[n] is the end of the last
// sequence, which must be `rows`.
template <typename Index>
__global__ void sequence_begins(int64_t* begins, const Index* lengths, Padded p, int64_t rows,
                                Fault* fault, int32_t text) {
  constexpr int kThreads = 256;
  OW_SHARED(int64_t, sums, kThreads);
  const int64_t share = (p.n + kThreads - 1) / kThreads, wanted = threadIdx.x * share;
  const int64_t first = wanted < p.n ? wanted : p.n;
  const int64_t last = first + share < p.n ? first + share : p.n;
  int64_t sum = 0;
  for (int64_t i = first; i < last; ++i) sum += LengthOf(lengths, i, p.steps);
  sums[threadIdx.x] = sum;
  __syncthreads();
  int64_t begin = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) begin += sums[t];
  for (int64_t i = first; i < last; ++i) {
    begins[i] = begin;
    begin += LengthOf(lengths, i, p.steps);
  }
  if (threadIdx.x == kThreads - 1 && begin != rows) Report(fault, text, begin);
}

// T is any type with the size of an element; `rows` counts the packed rows.
template <typename T, typename Index>
__global__ void sequence_unpack(T* padded, const T* packed, const Index* lengths,
                                const int64_t* begins, Padded p, int64_t rows) {
  const int64_t of_one = p.steps * p.inner;
  for (int64_t k = GlobalIndex(); k < p.n * of_one; k += GridThreads()) {
    const int64_t i = k / of_one, rest = k - i * of_one, step = rest / p.inner;
    const bool is_there = step < LengthOf(lengths, i, p.steps) && begins[i] + step < rows;
    padded[k] = is_there ? packed[begins[i] * p.inner + rest] : T(0);
  }
}

template <typename T, typename Index>
__global__ void sequence_pack(T* packed, const T* padded, const Index* lengths,
                              const int64_t* begins, Padded p, int64_t rows) {
  const int64_t of_one = p.steps * p.inner;
  for (int64_t k = GlobalIndex(); k < p.n * of_one; k += GridThreads()) {
    const int64_t i = k / of_one, rest = k - i * of_one, step = rest / p.inner;
    const bool is_there = step < LengthOf(lengths, i, p.steps) && begins[i] + step < rows;
    if (is_there) packed[begins[i] * p.inner + rest] = padded[k];
  }
}
