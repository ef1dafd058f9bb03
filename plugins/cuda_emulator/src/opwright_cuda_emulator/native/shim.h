// Replaces the CUDA built-ins, so a kernel runs on the CPU, block by block, with the threads of a
// block as fibers (runtime.cc). Detected errors are uninitialized reads of shared memory (NaN),
// barriers that some threads do not reach, misaligned accesses and, with sanitizers, out-of-bounds
// accesses and overflows. Errors that depend on timing or on real parallelism between blocks are
// not detected.
#ifndef OPWRIGHT_CUDA_EMULATOR_SHIM_H_
#define OPWRIGHT_CUDA_EMULATOR_SHIM_H_

#include <cstddef>
// Disables the Bessel and similar functions of libstdc++; parsing them would dominate the compile
// time of a small kernel.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime.h"

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__

#define OW_INLINE_ inline __attribute__((always_inline))

#define OW_SHARED(type, name, n) \
  static char name##_key;        \
  type* const name =             \
      static_cast<type*>(shim::Runtime().shared(&name##_key, sizeof(type) * (n), alignof(type)))
#define OW_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(shim::Runtime().dynamic())

namespace shim {

// Set by the loader of the kernel library.
inline const RuntimeTable*& TheRuntime() {
  static const RuntimeTable* table = nullptr;
  return table;
}
inline const RuntimeTable& Runtime() { return *TheRuntime(); }

// Every lane of `mask` provides a value and gets the value of lane `from`, or its own value if
// `from` is not in its group.
template <typename T>
T Exchange(unsigned mask, T value, int from, int line) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "shuffles move up to 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Runtime().exchange(mask, bits, from, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline int Lane() { return Runtime().thread()->lane; }

template <typename T>
T ShuffleXor(unsigned mask, T value, int lanes, int width, int line) {
  const int from = Lane() ^ lanes;
  return Exchange(mask, value, from / width == Lane() / width ? from : Lane(), line);
}
template <typename T>
T ShuffleDown(unsigned mask, T value, int lanes, int width, int line) {
  const int from = Lane() + lanes;
  return Exchange(mask, value, from / width == Lane() / width ? from : Lane(), line);
}
template <typename T>
T ShuffleUp(unsigned mask, T value, int lanes, int width, int line) {
  const int from = Lane() - lanes;
  return Exchange(mask, value, from >= Lane() / width * width ? from : Lane(), line);
}
template <typename T>
T Shuffle(unsigned mask, T value, int lane, int width, int line) {
  return Exchange(mask, value, Lane() / width * width + (lane & (width - 1)), line);
}
struct SyncWarp {
  int line;
  void operator()(unsigned mask = 0xffffffffu) const { Runtime().warp_barrier(mask, line); }
};
inline unsigned Ballot(unsigned mask, bool vote, int line) {
  return static_cast<unsigned>(Runtime().ballot(mask, vote, line));
}

// Unpacks kernel parameters as cuLaunchKernel takes them, and calls the kernel for one thread.
template <auto kernel>
struct Entry;
template <typename... P, void (*kernel)(P...)>
struct Entry<kernel> {
  static constexpr size_t kSizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
  template <size_t... i>
  static void CallWith(void* const* params, std::index_sequence<i...>) {
    kernel(*static_cast<P*>(params[i])...);
  }
  static void Call(void* const* params) { CallWith(params, std::index_sequence_for<P...>()); }
  static constexpr KernelEntry Make(const char* name) {
    return KernelEntry{name, &Call, kSizes, sizeof...(P)};
  }
};

}  // namespace shim

// Declares an entry that the driver can find.
#define OW_ENTRY extern "C" __attribute__((visibility("default"))) const shim::KernelEntry

extern "C" __attribute__((visibility("default"))) inline
    __attribute__((used)) void ow_attach(const shim::RuntimeTable* table) {
  shim::TheRuntime() = table;
}

#define threadIdx (shim::Runtime().thread()->thread)
#define blockIdx (shim::Runtime().thread()->block)
#define blockDim (shim::Runtime().thread()->block_dim)
#define gridDim (shim::Runtime().thread()->grid_dim)
constexpr int warpSize = 32;

#define __syncthreads() shim::Runtime().barrier(__LINE__)
#define __syncwarp(...) shim::SyncWarp{__LINE__}(__VA_ARGS__)
#define OW_SHUFFLE_(function, mask, value, lane, width, ...) \
  shim::function(mask, value, lane, width, __LINE__)
#define __shfl_xor_sync(...) OW_SHUFFLE_(ShuffleXor, __VA_ARGS__, 32, 0)
#define __shfl_down_sync(...) OW_SHUFFLE_(ShuffleDown, __VA_ARGS__, 32, 0)
#define __shfl_up_sync(...) OW_SHUFFLE_(ShuffleUp, __VA_ARGS__, 32, 0)
#define __shfl_sync(...) OW_SHUFFLE_(Shuffle, __VA_ARGS__, 32, 0)
#define __ballot_sync(mask, vote) shim::Ballot(mask, vote, __LINE__)
#define __any_sync(mask, vote) (shim::Ballot(mask, vote, __LINE__) != 0)
#define __all_sync(mask, vote) (shim::Ballot(mask, !(vote), __LINE__) == 0)

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Each operation is atomic, even if the threads of a block are real threads. Binding a reference to
// each address makes the compiler check its alignment, which atomic accesses do not do.
template <typename T>
OW_INLINE_ T atomicCAS(T* address, std::common_type_t<T> expected, std::common_type_t<T> value) {
  T& place = *address;
  T found = expected;
  __atomic_compare_exchange(&place, &found, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return found;
}
template <typename T>
OW_INLINE_ T atomicAdd(T* address, std::common_type_t<T> value) {
  T& place = *address;
  T found;
  __atomic_load(&place, &found, __ATOMIC_RELAXED);
  T sum = found + value;
  while (
      !__atomic_compare_exchange(&place, &found, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    sum = found + value;
  }
  return found;
}
template <typename T>
OW_INLINE_ T atomicOr(T* address, std::common_type_t<T> value) {
  T& place = *address;
  return __atomic_fetch_or(&place, value, __ATOMIC_RELAXED);
}
template <typename T>
OW_INLINE_ T atomicExch(T* address, std::common_type_t<T> value) {
  T& place = *address;
  return __atomic_exchange_n(&place, value, __ATOMIC_RELAXED);
}
template <typename T>
OW_INLINE_ T atomicMax(T* address, std::common_type_t<T> value) {
  T& place = *address;
  T found = __atomic_load_n(&place, __ATOMIC_RELAXED);
  while (found < value && !__atomic_compare_exchange_n(&place, &found, value, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return found;
}

template <typename T>
OW_INLINE_ T __ldg(const T* address) {
  return *address;
}
OW_INLINE_ uint32_t __umulhi(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>((static_cast<uint64_t>(x) * y) >> 32);
}
OW_INLINE_ int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
OW_INLINE_ int __ffs(int x) { return __builtin_ffs(x); }
OW_INLINE_ int __popc(unsigned x) { return __builtin_popcount(x); }

// Names that CUDA declares in the global namespace.
using std::fabs;
using std::fma;
using std::isinf;
using std::isnan;
OW_INLINE_ float __fmul_rn(float x, float y) { return x * y; }
OW_INLINE_ double __dmul_rn(double x, double y) { return x * y; }
OW_INLINE_ float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
OW_INLINE_ double rsqrt(double x) { return 1.0 / std::sqrt(x); }
template <typename T>
OW_INLINE_ T min(T x, T y) {
  return y < x ? y : x;
}
template <typename T>
OW_INLINE_ T max(T x, T y) {
  return x < y ? y : x;
}

#undef OW_INLINE_

#endif  // OPWRIGHT_CUDA_EMULATOR_SHIM_H_
