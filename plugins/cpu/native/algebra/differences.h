// Weighted sums of vector differences, with one weight per pair of vectors.
#ifndef OPWRIGHT_CPU_ALGEBRA_DIFFERENCES_H_
#define OPWRIGHT_CPU_ALGEBRA_DIFFERENCES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "algebra/vectors.h"
#include "common/clones.h"

namespace opwright_cpu {

constexpr int64_t kOwnRows = 4;    // own vectors whose sums stay in registers
constexpr int64_t kOwnBlock = 16;  // own vectors that share a padded copy of other vectors
constexpr int64_t kOthers = 64;    // other vectors that are read together

template <typename T>
constexpr int64_t kLanes = static_cast<int64_t>(64 / sizeof(T));

// One of the two inputs (`own`) with its gradient, the other input, and the strides of the distance
// matrix along the vectors of both.
template <typename T>
struct Side {
  const T* own;
  const T* other;
  T* grad;
  int64_t n_own, n_other;
  int64_t own_step, other_step;
  const T* out;
  const T* out_grad;
};

// Copies vectors of k elements, each padded with zeros to a multiple of the SIMD width.
template <typename T>
void LayOut(const T* from, int64_t count, int64_t k, int64_t chunks, T* to) {
  for (int64_t j = 0; j < count; ++j) {
    T* row = to + j * chunks * kLanes<T>;
    std::copy_n(from + j * k, k, row);
    std::fill(row + k, row + chunks * kLanes<T>, T(0));
  }
}

// Computes the weight of each difference, gradient / distance. Sets out-of-range weights and the
// weights of equal vectors to 0. Returns the number of out-of-range weights.
template <typename T>
OPWRIGHT_CPU_CLONES int64_t Weigh(int64_t n, const T* distances, const T* grads, T* weights) {
  constexpr T kMost = sizeof(T) == 4 ? T(1e18) : T(1e150), kLeast = 1 / kMost;
  int64_t n_extreme = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_none = (distances[i] == 0) | (grads[i] == 0);
    const T weight = grads[i] / (is_none ? T(1) : distances[i]), size = std::abs(weight);
    const bool is_extreme = ((size < kLeast) | (size > kMost)) & !is_none;
    weights[i] = (distances[i] == 0) | is_extreme ? T(0) : weight;
    n_extreme += is_extreme;
  }
  return n_extreme;
}

// Adds the weighted differences between kOwnRows own vectors and all other vectors to the sums of
// the own vectors, for the elements of one SIMD vector.
template <typename T, bool kSquares>
OPWRIGHT_CPU_CLONES void AddLanes(const T* own, const T* others, int64_t count, int64_t step,
                                  const T (*weights)[kOthers], T* sums) {
  using V = typename Vector<T>::Type;
  V x[kOwnRows], total[kOwnRows];
  for (int64_t i = 0; i < kOwnRows; ++i) {
    Get(own + i * step, x[i]);
    Get(sums + i * step, total[i]);
  }
  for (int64_t j = 0; j < count; ++j) {
    V y;
    Get(others + j * step, y);
    for (int64_t i = 0; i < kOwnRows; ++i) {
      const V apart = x[i] - y, terms = apart * weights[i][j];
      if (kSquares) {
        total[i] += terms;
      } else {
        const V weight = weights[i][j] - V{};
        total[i] += apart > 0 ? weight : (apart < 0 ? -weight : terms);
      }
    }
  }
  for (int64_t i = 0; i < kOwnRows; ++i) Put(total[i], sums + i * step);
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_DIFFERENCES_H_
