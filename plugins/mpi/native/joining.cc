#include "joining.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <opwright/sdk/element.hpp>

namespace opwright_mpi {

namespace {

using opwright::NumberOf;
using opwright::ReadElement;
using opwright::WriteElement;

// Elements per chunk; a chunk stays in the L1 cache while it is reduced.
constexpr int64_t kBlock = 1024;

// If the compiler supports it, each loop has three versions, of which the loader selects one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OPWRIGHT_MPI_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define OPWRIGHT_MPI_CLONES
#endif

template <typename A>
OPWRIGHT_FUNCTOR A Plus(A a, A b) {
  if constexpr (std::is_integral_v<A>) {  // wraps, as in NumPy
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

// NaN propagates.
template <typename A>
OPWRIGHT_FUNCTOR A Greater(A a, A b) {
  return (a > b) | (a != a) ? a : b;
}
template <typename A>
OPWRIGHT_FUNCTOR A Less(A a, A b) {
  return (a < b) | (a != a) ? a : b;
}

template <typename T, typename A>
OPWRIGHT_FUNCTOR void AddPart(Reduce reduce, const T* part, int64_t n, const double* weight,
                              A* total) {
  if (weight != nullptr) {
    const A factor = static_cast<A>(*weight);
    for (int64_t i = 0; i < n; ++i) total[i] = Plus(total[i], ReadElement(part[i]) * factor);
  } else if (reduce == Reduce::kMax) {
    for (int64_t i = 0; i < n; ++i) total[i] = Greater(total[i], ReadElement(part[i]));
  } else if (reduce == Reduce::kMin) {
    for (int64_t i = 0; i < n; ++i) total[i] = Less(total[i], ReadElement(part[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) total[i] = Plus(total[i], ReadElement(part[i]));
  }
}

// Divides. If the divisor is a power of two, multiplies by its inverse, which is bitwise identical
// and several times as fast.
template <typename A>
OPWRIGHT_FUNCTOR void Divide(A divisor, int64_t n, A* total) {
  if constexpr (std::is_floating_point_v<A>) {
    int exponent = 0;
    if (std::frexp(divisor, &exponent) == A{0.5}) {
      const A factor = 1 / divisor;
      for (int64_t i = 0; i < n; ++i) total[i] = total[i] * factor;
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) total[i] = total[i] / divisor;
}

template <typename T>
OPWRIGHT_FUNCTOR void JoinBlocks(Reduce reduce, const void* const* parts, int64_t n_parts,
                                 int64_t n, const double* weights, T* out) {
  using A = NumberOf<T>;
  A divisor = static_cast<A>(n_parts);
  if (weights != nullptr) {
    double sum = 0;
    for (int64_t r = 0; r < n_parts; ++r) sum += weights[r];
    divisor = static_cast<A>(sum);
  }
  A total[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const T* part = static_cast<const T*>(parts[0]) + begin;
    const A first = weights == nullptr ? A{1} : static_cast<A>(weights[0]);
    for (int64_t i = 0; i < count; ++i) {
      total[i] = weights == nullptr ? ReadElement(part[i]) : ReadElement(part[i]) * first;
    }
    for (int64_t r = 1; r < n_parts; ++r) {
      AddPart(reduce, static_cast<const T*>(parts[r]) + begin, count,
              weights == nullptr ? nullptr : weights + r, total);
    }
    if (reduce == Reduce::kMean) Divide(divisor, count, total);
    for (int64_t i = 0; i < count; ++i) out[begin + i] = WriteElement<T>(total[i]);
  }
}

#define OPWRIGHT_MPI_JOIN(name, type)                                                     \
  OPWRIGHT_MPI_CLONES void name(Reduce reduce, const void* const* parts, int64_t n_parts, \
                                int64_t n, const double* weights, void* out) {            \
    JoinBlocks(reduce, parts, n_parts, n, weights, static_cast<type*>(out));              \
  }
OPWRIGHT_MPI_JOIN(JoinFloat16, opwright::Float16)
OPWRIGHT_MPI_JOIN(JoinBFloat16, opwright::BFloat16)
OPWRIGHT_MPI_JOIN(JoinFloat32, float)
OPWRIGHT_MPI_JOIN(JoinFloat64, double)
OPWRIGHT_MPI_JOIN(JoinInt32, int32_t)
OPWRIGHT_MPI_JOIN(JoinInt64, int64_t)

}  // namespace

Reduce ReduceOf(const std::string& name) {
  if (name == "mean") return Reduce::kMean;
  if (name == "max") return Reduce::kMax;
  return name == "min" ? Reduce::kMin : Reduce::kSum;
}

Join JoinOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return JoinBFloat16;
  if (dtype.code == kDLInt) return dtype.bits == 32 ? JoinInt32 : JoinInt64;
  if (dtype.bits == 16) return JoinFloat16;
  return dtype.bits == 32 ? JoinFloat32 : JoinFloat64;
}

}  // namespace opwright_mpi
