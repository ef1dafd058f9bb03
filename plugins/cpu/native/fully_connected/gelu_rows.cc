#include "fully_connected/gelu_rows.h"

#include <opwright/functors.h>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <bool kTanh>
OPWRIGHT_CPU_INLINE float GeluOf(float x) {
  return kTanh ? functors::GeluTanh(x) : functors::Gelu(x);
}

template <bool kTanh>
OPWRIGHT_CPU_INLINE float GeluGradOf(float x, float grad) {
  return kTanh ? functors::GeluTanhGrad(x, grad) : functors::GeluGrad(x, grad);
}

// Prefetch distance in rows. Hardware prefetching stops at the end of each row, because it is
// part of a longer row.
constexpr int64_t kAhead = 8;

OPWRIGHT_CPU_INLINE void FetchRow(const float* row, int64_t n) {
  for (int64_t j = 0; j < n; j += 16) __builtin_prefetch(row + j);
}
OPWRIGHT_CPU_INLINE void FetchRowToWrite(const float* row, int64_t n) {
  for (int64_t j = 0; j < n; j += 16) __builtin_prefetch(row + j, 1, 2);
}

template <bool kTanh>
OPWRIGHT_CPU_CLONES void Activate(const GeluBlock& block) {
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* x = block.x + i * block.x_stride;
    float* activated = block.activated + i * block.n;
    FetchRow(x + kAhead * block.x_stride, block.n);
#pragma omp simd
    for (int64_t j = 0; j < block.n; ++j) activated[j] = GeluOf<kTanh>(x[j]);
  }
}

// The exponential in gelu and its derivative is computed only once.
template <bool kTanh>
OPWRIGHT_CPU_CLONES void ActivateAndDerive(const GeluBlock& block, const GeluBack& back) {
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* x = block.x + i * block.x_stride;
    const float* grad = back.grad + i * block.n;
    float* activated = block.activated + i * block.n;
    float* x_grad = back.x_grad + i * block.x_stride;
    FetchRowToWrite(x_grad + kAhead * block.x_stride, block.n);
    if (x != x_grad) FetchRow(x + kAhead * block.x_stride, block.n);
#pragma omp simd
    for (int64_t j = 0; j < block.n; ++j) {
      const float value = x[j], before = grad[j];
      activated[j] = GeluOf<kTanh>(value);
      x_grad[j] = GeluGradOf<kTanh>(value, before);
    }
  }
}

OPWRIGHT_CPU_CLONES void AddRows(const float* x, int64_t stride, int64_t rows, int64_t n,
                                 float* sums) {
  for (int64_t i = 0; i < rows; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) sums[j] += x[i * stride + j];
  }
}

}  // namespace

void ActivateRows(const GeluBlock& block, bool tanh) {
  if (tanh) {
    Activate<true>(block);
  } else {
    Activate<false>(block);
  }
}

void ActivateAndDeriveRows(const GeluBlock& block, bool tanh, const GeluBack& back) {
  if (tanh) {
    ActivateAndDerive<true>(block, back);
  } else {
    ActivateAndDerive<false>(block, back);
  }
  if (back.sums != nullptr) {
    AddRows(back.x_grad, block.x_stride, block.rows, block.n, back.sums);
  }
}

}  // namespace opwright_cpu
