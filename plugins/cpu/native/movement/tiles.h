// Transposes small tiles in registers at memory speed, unlike a loop over single items.
#ifndef OPWRIGHT_CPU_MOVEMENT_TILES_H_
#define OPWRIGHT_CPU_MOVEMENT_TILES_H_

#include <cstdint>
#include <cstring>

#include "common/clones.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace opwright_cpu {

// Every x86-64 and AArch64 processor has registers of 16 bytes. Wider registers would not help,
// since tiles of this size are already faster than memory.
template <typename T>
struct Register {
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of dependent types there
  typedef T Vector __attribute__((vector_size(16)));
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(T));
};

// Interleaves the items of the low (or high) halves of two registers.
template <typename T>
OPWRIGHT_CPU_INLINE typename Register<T>::Vector Interleave(typename Register<T>::Vector a,
                                                            typename Register<T>::Vector b,
                                                            bool high) {
  typename Register<T>::Vector mask;
  constexpr int kLanes = Register<T>::kLanes;
  for (int i = 0; i < kLanes; ++i) {
    const int lane = i / 2 + (high ? kLanes / 2 : 0);
    mask[i] = static_cast<T>(i % 2 == 0 ? lane : kLanes + lane);
  }
  return __builtin_shuffle(a, b, mask);
}

// Stores a register; a streaming store bypasses the caches and needs 16-byte alignment.
template <bool kStream, typename Vector>
OPWRIGHT_CPU_INLINE void Store(char* destination, Vector value) {
#ifdef __SSE2__
  if constexpr (kStream) {
    __m128i bits;
    std::memcpy(&bits, &value, 16);
    _mm_stream_si128(reinterpret_cast<__m128i*>(destination), bits);
    return;
  }
#endif
  std::memcpy(destination, &value, 16);
}

// Transposes a square tile whose side is the number of items per register, by log2(lanes) perfect
// shuffles of the rows. Strides are distances between rows, in bytes.
template <typename T, bool kStream>
OPWRIGHT_CPU_INLINE void TransposeTile(const char* source, int64_t source_stride, char* destination,
                                       int64_t destination_stride) {
  using Vector = typename Register<T>::Vector;
  constexpr int kLanes = Register<T>::kLanes;
  Vector rows[kLanes];
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], source + i * source_stride, 16);
  for (int step = 1; step < kLanes; step *= 2) {
    Vector mixed[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      mixed[2 * i] = Interleave<T>(rows[i], rows[i + kLanes / 2], false);
      mixed[2 * i + 1] = Interleave<T>(rows[i], rows[i + kLanes / 2], true);
    }
    for (int i = 0; i < kLanes; ++i) rows[i] = mixed[i];
  }
  for (int i = 0; i < kLanes; ++i) Store<kStream>(destination + i * destination_stride, rows[i]);
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_TILES_H_
