// Stores past the caches, for outputs that no cache would hold until they are read.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_STREAM_H_
#define OPWRIGHT_CPU_ELEMENTWISE_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace opwright_cpu {

// A usual store reads the line first that it overwrites: a third of the traffic of a copy. Below
// this size the next reader finds the output in the last cache and wins more than that.
constexpr int64_t kStreamBytes = int64_t{16} << 20;

// Elements that are made and stored at a time.
constexpr int64_t kStreamBlock = 256;

// Copies from a buffer that is in the first-level cache.
inline void StreamCopy(char* to, const char* from, int64_t bytes) {
#if defined(__SSE2__)
  constexpr int64_t kVector = sizeof(__m128i);
  const int64_t misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kVector);
  const int64_t head = std::min(bytes, (kVector - misaligned) % kVector);
  std::memcpy(to, from, static_cast<size_t>(head));
  int64_t done = head;
  for (; done + kVector <= bytes; done += kVector) {
    const __m128i vector = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + done), vector);
  }
  std::memcpy(to + done, from + done, static_cast<size_t>(bytes - done));
#else
  std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

// Before another thread may read what was stored: these stores are not ordered by themselves.
inline void EndStream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_STREAM_H_
