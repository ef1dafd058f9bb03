// The base header of every opwright-cuda kernel. NVRTC compiles it for the GPU. For other
// compilers, the emulator's shim.h replaces the CUDA built-ins, so the same source runs on the CPU.
//
// Kernels use only features that both compilers support. Shared memory is declared with OW_SHARED,
// the 16-bit types are our own, and integer types have the names of <cstdint>.
#ifndef OPWRIGHT_CUDA_KERNEL_H_
#define OPWRIGHT_CUDA_KERNEL_H_

#if defined(__CUDACC_RTC__)

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

// An array of `n` elements shared by the threads of a block.
#define OW_SHARED(type, name, n) __shared__ type name[n]
// The dynamic shared memory of the launch.
#define OW_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char ow_dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(ow_dynamic_shared)

#else

#include "shim.h"

#endif

#include "opwright/functors.h"

#include "fault.h"

#define OW_INLINE __device__ __forceinline__

namespace opwright_cuda {

namespace functors = opwright::functors;

// ---- Types of 16 bits: computed in float, rounded once when they are stored ---------------------

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

#if defined(__CUDACC_RTC__)

OW_INLINE float Widen(Half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
OW_INLINE Half HalfOf(float x) {
  Half half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(x));
  return half;
}
OW_INLINE Half HalfOf(double x) {
  Half half;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(half.bits) : "d"(x));
  return half;
}
OW_INLINE float FloatOfBits(uint32_t bits) { return __uint_as_float(bits); }
OW_INLINE uint32_t BitsOfFloat(float x) { return __float_as_uint(x); }

#else

OW_INLINE float FloatOfBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
OW_INLINE uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(x));
  return bits;
}
OW_INLINE float Widen(Half x) {
  _Float16 half;
  memcpy(&half, &x.bits, sizeof(half));
  return static_cast<float>(half);
}
template <typename T>
OW_INLINE Half HalfOf(T x) {
  const _Float16 half = static_cast<_Float16>(x);
  Half made;
  memcpy(&made.bits, &half, sizeof(half));
  return made;
}

#endif

OW_INLINE float Widen(BFloat16 x) { return FloatOfBits(static_cast<uint32_t>(x.bits) << 16); }
// Rounds to nearest, ties to even; NaN stays NaN.
OW_INLINE BFloat16 BFloat16Of(float x) {
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
  BFloat16 made;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made.bits) : "f"(x));
  return made;
#else
  const uint32_t bits = BitsOfFloat(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}
// Converts through a float with a sticky last bit, so x is rounded only once.
OW_INLINE BFloat16 BFloat16Of(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back == x || x != x || nearest - nearest != 0.0f) return BFloat16Of(nearest);
  uint32_t bits = BitsOfFloat(nearest);
  const bool is_larger = (back > x) == (x > 0.0);  // compares magnitudes
  if (is_larger) --bits;
  return BFloat16Of(FloatOfBits(bits | 1u));
}

// The compute type of a storage type, with loads and stores.
template <typename T>
struct ComputeTraits {
  using Type = T;
};
template <>
struct ComputeTraits<Half> {
  using Type = float;
};
template <>
struct ComputeTraits<BFloat16> {
  using Type = float;
};
template <typename T>
using Compute = typename ComputeTraits<T>::Type;

template <typename T>
OW_INLINE T Load(T x) {
  return x;
}
OW_INLINE float Load(Half x) { return Widen(x); }
OW_INLINE float Load(BFloat16 x) { return Widen(x); }

template <typename T, typename From>
struct Storer {
  static OW_INLINE T Store(From x) { return static_cast<T>(x); }
};
template <typename From>
struct Storer<Half, From> {
  static OW_INLINE Half Store(From x) { return HalfOf(static_cast<float>(x)); }
};
template <>
struct Storer<Half, double> {
  static OW_INLINE Half Store(double x) { return HalfOf(x); }
};
template <typename From>
struct Storer<BFloat16, From> {
  static OW_INLINE BFloat16 Store(From x) { return BFloat16Of(static_cast<float>(x)); }
};
template <>
struct Storer<BFloat16, double> {
  static OW_INLINE BFloat16 Store(double x) { return BFloat16Of(x); }
};

template <typename T, typename From>
OW_INLINE T Store(From x) {
  return Storer<T, From>::Store(x);
}

// Returns `x` after a round trip through T so that fused kernels round like separate kernels.
template <typename T, typename From>
OW_INLINE Compute<T> Rounded(From x) {
  return Load(Store<T>(x));
}

// Returns the rounded product x * y; the compiler does not contract it with an addition.
OW_INLINE float RoundedProduct(float x, float y) { return __fmul_rn(x, y); }
OW_INLINE double RoundedProduct(double x, double y) { return __dmul_rn(x, y); }

// ---- Properties of types
// ---------------------------------------------------------------------------

template <typename A, typename B>
struct IsSame {
  static constexpr bool value = false;
};
template <typename A>
struct IsSame<A, A> {
  static constexpr bool value = true;
};
template <typename T>
struct IsFloat {
  static constexpr bool value = IsSame<T, float>::value || IsSame<T, double>::value ||
                                IsSame<T, Half>::value || IsSame<T, BFloat16>::value;
};
template <typename T>
struct IsSigned {
  static constexpr bool value = static_cast<T>(-1) < static_cast<T>(0);
};

// ---- Vectors, indices
// ----------------------------------------------------------------------------

// `n` elements, read and written as one vector if their size in bytes is a power of 2, otherwise in
// chunks of power-of-2 sizes.
template <typename T, int n>
struct alignas((sizeof(T) * n) & ~(sizeof(T) * n - 1)) Vector {
  T at[n];
};

// Forces a single vector store; the compiler splits an assignment if its elements are computed far
// apart.
template <typename T, int n>
OW_INLINE void StoreWhole(Vector<T, n>* to, const Vector<T, n>& vector) {
#if defined(__CUDACC_RTC__)
  if constexpr (sizeof(vector) == 16) {
    uint32_t words[4];
    memcpy(words, &vector, sizeof(words));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
    return;
  }
#endif
  *to = vector;
}

OW_INLINE int64_t GlobalIndex() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
OW_INLINE int64_t GridThreads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

constexpr int kMaxRank = 8;

// Divides by a constant known on the host, for dividends below 2**31, by the multiplication method
// of Granlund and Montgomery. Created by opwright_cuda.launch.indexing.
struct Divider {
  uint32_t divisor;
  uint32_t multiplier;
  uint32_t shift;
};

OW_INLINE uint32_t QuotientOf(uint32_t x, Divider by) {
  const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(x) * by.multiplier) >> 32);
  return (high + x) >> by.shift;
}

// Reports an invalid value unless one has been reported; the kernel then continues.
OW_INLINE void Report(Fault* fault, int text, int64_t value) {
  if (atomicCAS(&fault->is_set, 0, 1) != 0) return;
  fault->text = text;
  fault->value = value;
  __threadfence_system();
}

}  // namespace opwright_cuda

using opwright_cuda::BFloat16;
using opwright_cuda::Half;

#endif  // OPWRIGHT_CUDA_KERNEL_H_
