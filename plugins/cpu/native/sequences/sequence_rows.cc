#include <cmath>

#include "common/clones.h"
#include "sequences/sequence_pool.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kSumLanes = 32;  // number of parallel sums for a single column

template <typename T>
OPWRIGHT_CPU_INLINE T Greater(T x, T best) {
  return x > best || x != x ? x : best;
}

template <typename T>
OPWRIGHT_CPU_INLINE bool IsBest(T x, T best) {
  return (x == best) | ((x != x) & (best != best));
}

template <typename T>
OPWRIGHT_CPU_INLINE T SumLine(const T* x, int64_t n) {
  T lanes[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (int64_t j = 0; j < kSumLanes; ++j) lanes[j] += x[i + j];
  }
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  for (; i < n; ++i) sum += x[i];
  return sum;
}

template <typename T>
OPWRIGHT_CPU_INLINE T MaxLine(const T* x, int64_t n) {
  T lanes[kSumLanes];
  for (T& lane : lanes) lane = x[0];
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (int64_t j = 0; j < kSumLanes; ++j) lanes[j] = Greater(x[i + j], lanes[j]);
  }
  T best = x[0];
  for (const T lane : lanes) best = Greater(lane, best);
  for (; i < n; ++i) best = Greater(x[i], best);
  return best;
}

template <typename T>
OPWRIGHT_CPU_INLINE void ShareLine(const T* x, T best, T grad, int64_t n, T* x_grad) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += IsBest(x[i], best);
  const T share = grad / static_cast<T>(std::max<int64_t>(count, 1));
  for (int64_t i = 0; i < n; ++i) x_grad[i] = IsBest(x[i], best) ? share : T{0};
}

}  // namespace

PoolKind PoolKindOf(const std::string& name) {
  if (name == "sum") return PoolKind::kSum;
  if (name == "mean") return PoolKind::kMean;
  if (name == "sqrt") return PoolKind::kSqrt;
  if (name == "max") return PoolKind::kMax;
  return name == "first" ? PoolKind::kFirst : PoolKind::kLast;
}

double DivisorOf(PoolKind kind, int64_t length) {
  if (kind == PoolKind::kMean) return static_cast<double>(length);
  return kind == PoolKind::kSqrt ? std::sqrt(static_cast<double>(length)) : 1.0;
}

template <typename T>
OPWRIGHT_CPU_CLONES void SumRows(const T* x, int64_t length, int64_t stride, int64_t width,
                                 T* out) {
  if (stride == 1) {
    out[0] = SumLine(x, length);
    return;
  }
  for (int64_t j = 0; j < width; ++j) out[j] = x[j];
  int64_t s = 1;
  for (; s + 4 <= length; s += 4) {  // four rows per load and store of the sums
    const T* a = x + s * stride;
    const T* b = a + stride;
    const T* c = b + stride;
    const T* d = c + stride;
    for (int64_t j = 0; j < width; ++j) out[j] += (a[j] + b[j]) + (c[j] + d[j]);
  }
  for (; s < length; ++s) {
    for (int64_t j = 0; j < width; ++j) out[j] += x[s * stride + j];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void MaxRows(const T* x, int64_t length, int64_t stride, int64_t width,
                                 T* out) {
  if (stride == 1) {
    out[0] = MaxLine(x, length);
    return;
  }
  for (int64_t j = 0; j < width; ++j) out[j] = x[j];
  for (int64_t s = 1; s < length; ++s) {
    for (int64_t j = 0; j < width; ++j) out[j] = Greater(x[s * stride + j], out[j]);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void SpreadRows(const T* out_grad, T divisor, int64_t length, int64_t stride,
                                    int64_t width, T* x_grad) {
  if (stride == 1) {
    const T value = out_grad[0] / divisor;
    for (int64_t s = 0; s < length; ++s) x_grad[s] = value;
    return;
  }
  for (int64_t j = 0; j < width; ++j) x_grad[j] = out_grad[j] / divisor;
  for (int64_t s = 1; s < length; ++s) {
    for (int64_t j = 0; j < width; ++j) x_grad[s * stride + j] = x_grad[j];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ShareRows(const T* x, const T* out, const T* out_grad, int64_t length,
                                   int64_t stride, int64_t width, T* x_grad) {
  if (stride == 1) {
    ShareLine(x, out[0], out_grad[0], length, x_grad);
    return;
  }
  T shares[kPoolWidth];
  for (int64_t j = 0; j < width; ++j) shares[j] = 0;
  for (int64_t s = 0; s < length; ++s) {
    for (int64_t j = 0; j < width; ++j)
      shares[j] += IsBest(x[s * stride + j], out[j]) ? T{1} : T{0};
  }
  for (int64_t j = 0; j < width; ++j) shares[j] = out_grad[j] / (shares[j] > 1 ? shares[j] : T{1});
  for (int64_t s = 0; s < length; ++s) {
    const int64_t row = s * stride;
    for (int64_t j = 0; j < width; ++j) {
      x_grad[row + j] = IsBest(x[row + j], out[j]) ? shares[j] : T{0};
    }
  }
}

#define OPWRIGHT_CPU_SEQUENCE_ROWS(T)                                      \
  template void SumRows<T>(const T*, int64_t, int64_t, int64_t, T*);       \
  template void MaxRows<T>(const T*, int64_t, int64_t, int64_t, T*);       \
  template void SpreadRows<T>(const T*, T, int64_t, int64_t, int64_t, T*); \
  template void ShareRows<T>(const T*, const T*, const T*, int64_t, int64_t, int64_t, T*);
OPWRIGHT_CPU_SEQUENCE_ROWS(float)
OPWRIGHT_CPU_SEQUENCE_ROWS(double)
#undef OPWRIGHT_CPU_SEQUENCE_ROWS

}  // namespace opwright_cpu
