// Kernels that run before and after NCCL calls: packing and unpacking of buckets, and progress of
// collectives.
#include "kernel.h"

#include "parts.h"
#include "progress.h"

using namespace opwright_cuda;
using opwright_nccl::Parts;
using opwright_nccl::Progress;

namespace {

// ---- Codes, which are sent in place of numbers ------------------------------------------------

struct Plain {
  template <typename A>
  static OW_INLINE A Encode(A x, A) {
    return x;
  }
  template <typename A>
  static OW_INLINE A Decode(A x, A) {
    return x;
  }
};

// The code of a mean. Numbers are weighted during packing and divided by the sum of weights at the
// end.
struct Weighted {
  template <typename A>
  static OW_INLINE A Encode(A x, A weight) {
    return x * weight;
  }
  template <typename A>
  static OW_INLINE A Decode(A x, A divisor) {
    return x / divisor;
  }
};

// Converts floats to order-preserving integers, since maximum and minimum of NCCL do not propagate
// NaN.
OW_INLINE int32_t BitsOf(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
OW_INLINE int64_t BitsOf(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
OW_INLINE float FloatOf(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
OW_INLINE double FloatOf(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
// Inverts all bits except the sign, for negative numbers only.
OW_INLINE int32_t Turn(int32_t bits) { return bits >= 0 ? bits : bits ^ 0x7fffffff; }
OW_INLINE int64_t Turn(int64_t bits) { return bits >= 0 ? bits : bits ^ 0x7fffffffffffffffLL; }

template <bool is_max>
struct Ordered {
  template <typename F, typename A>
  static OW_INLINE A Encode(F x, A) {
    const A most = static_cast<A>(sizeof(A) == 4 ? 0x7fffffffLL : 0x7fffffffffffffffLL);
    if (x != x) return is_max ? most : -most - 1;
    return Turn(BitsOf(x));
  }
  template <typename A>
  static OW_INLINE auto Decode(A key, A) {
    return FloatOf(Turn(key));
  }
};
using Greatest = Ordered<true>;
using Least = Ordered<false>;

}  // namespace

// Threads process the elements of the parts in order. These functions return the offset of an
// element in the tensor and in memory of parts.
OW_INLINE int64_t PlaceInTensor(int64_t i, const Parts& of) {
  if (of.parts == 1 || of.outer == 1) return i;
  const int64_t at = i % of.run;
  const int64_t row = i / of.run;
  return ((row % of.outer) * of.parts + row / of.outer) * of.run + at;
}
OW_INLINE int64_t PlaceInParts(int64_t i, const Parts& of) {
  const int64_t part = of.outer * of.run;
  return of.stride == part ? i : i / part * of.stride + i % part;
}

#define OPWRIGHT_NCCL_EACH(i, n)                                                       \
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; \
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)

template <typename T, typename A, typename Code>
__global__ void pack(const T* x, A* to, Parts of, A weight) {
  OPWRIGHT_NCCL_EACH(i, of.outer * of.parts * of.run) {
    const int64_t place = PlaceInTensor(i, of);
    const Compute<T> value = place < of.n ? Load(x[place]) : Compute<T>(0);
    to[PlaceInParts(i, of)] = Code::Encode(value, weight);
  }
}

// The sum of weights is either one of the reduced numbers or an argument.
template <typename A, typename T, typename Code>
__global__ void unpack(const A* from, T* out, Parts of, const A* sum, A divisor) {
  const A by = sum != nullptr ? *sum : divisor;
  OPWRIGHT_NCCL_EACH(i, of.outer * of.parts * of.run) {
    const int64_t place = PlaceInTensor(i, of);
    if (place < of.n) out[place] = Store<T>(Code::Decode(from[PlaceInParts(i, of)], by));
  }
}

template <typename T>
__global__ void divide(const T* x, T* parts, Parts of) {
  OPWRIGHT_NCCL_EACH(i, of.outer * of.parts * of.run) {
    const int64_t place = PlaceInTensor(i, of);
    parts[PlaceInParts(i, of)] = place < of.n ? x[place] : T(0);
  }
}

template <typename T>
__global__ void join(const T* parts, T* x, Parts of) {
  OPWRIGHT_NCCL_EACH(i, of.outer * of.parts * of.run) {
    const int64_t place = PlaceInTensor(i, of);
    if (place < of.n) x[place] = parts[PlaceInParts(i, of)];
  }
}

// Each block writes one of several ranges, which are `stride` apart, with one element per thread.
template <typename T>
__global__ void put(T* to, T value, int64_t stride) {
  to[blockIdx.x * stride + threadIdx.x] = value;
}

__global__ void put_part(int64_t* part, const int64_t* rows, int32_t rank, int32_t n) {
  int64_t before = 0;
  int64_t total = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (i < rank) before += rows[i];
    total += rows[i];
  }
  part[0] = before;
  part[1] = rows[rank];
  part[2] = total;
}

// ---- Progress of collectives
// ---------------------------------------------------------------------

__global__ void begin(Progress* progress, int32_t operation) {
  volatile Progress& of_group = *progress;
  of_group.operation = operation;
  of_group.begun = of_group.begun + 1;
}

__global__ void end(Progress* progress) {
  volatile Progress& of_group = *progress;
  of_group.ended = of_group.ended + 1;
}

__global__ void fingerprint(const Progress* progress, int64_t digest, int64_t* own) {
  own[0] = digest;
  own[1] = progress->begun;
}

// If plans differ, the stream waits for the host, which aborts later work first.
__global__ void compare(Progress* progress, const int64_t* all, int32_t n) {
  volatile Progress& of_group = *progress;
  for (int32_t i = 1; i < n; ++i) {
    if (all[2 * i] == all[0] && all[2 * i + 1] == all[1]) continue;
    for (int32_t which = 0; which < 2; ++which) {
      of_group.first[which] = all[which];
      of_group.other[which] = all[2 * i + which];
    }
    of_group.differs = i;
    while (of_group.released == 0) {
#if defined(__CUDACC_RTC__)
      __nanosleep(1000);
#endif
    }
    return;
  }
}
