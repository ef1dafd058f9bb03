// Stores that bypass the caches, for results that would be evicted before they are read.
#ifndef OPWRIGHT_CPU_COMMON_STREAM_H_
#define OPWRIGHT_CPU_COMMON_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/clones.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace opwright_cpu {

// The first lines of a result of at least this size are evicted before the last lines are written.
// Ordinary stores would then be slower, because each reads the line that it is about to overwrite.
constexpr int64_t kStreamBytes = int64_t{16} << 20;

constexpr int64_t kLineBytes = 64;

// Bytes computed between two rounds of stores. The block fits into the processor's out-of-order
// window, so computation overlaps with loads and stores. With blocks of a few kilobytes, they would
// alternate, and a sigmoid would take 1.5 times as long.
constexpr int64_t kStreamBlockBytes = 8 * kLineBytes;

// Returns the distance in bytes from `destination` to the next cache line.
inline int64_t BytesToLine(const void* destination) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(destination) % kLineBytes);
}

// Returns the number of elements in the next block of results. If `destination` is not the
// beginning of a cache line, the block is shorter, so it ends at a line boundary.
inline int64_t StreamCount(const void* destination, int64_t block, int64_t item_bytes) {
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(destination) % kLineBytes);
  return offset == 0 ? block : block - offset / item_bytes;  // a division costs as much as a block
}

OPWRIGHT_CPU_INLINE void FetchLines(const void* source, int64_t n) {
  const char* from = static_cast<const char*>(source);
  for (int64_t line = 0; line < n; line += kLineBytes) __builtin_prefetch(from + line);
}

// The prefetch distance. The hardware prefetcher stops at every page boundary, and loads that wait
// for memory fill the out-of-order window.
constexpr int64_t kAheadBytes = 2048;

// Prefetches the n bytes that lie kAheadBytes beyond `source`.
OPWRIGHT_CPU_INLINE void FetchAhead(const void* source, int64_t n) {
  FetchLines(static_cast<const char*>(source) + kAheadBytes, n);
}

// Stores complete cache lines one after the other; `destination` is the beginning of a line.
template <int64_t kBytes>
OPWRIGHT_CPU_INLINE void StreamLines(const char* source, char* destination) {
#ifdef __SSE2__
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(destination);
#pragma GCC unroll 8
  for (int64_t i = 0; i < kBytes / 16; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
#else
  std::memcpy(destination, source, kBytes);
#endif
}

// Stores one complete cache line, in versions for the oldest instruction set and two newer ones.
// The function uses few, wide stores: each occupies one of about 50 store-buffer entries, and a
// full buffer stalls the core. This is 10 to 20 % faster than four stores per line.
struct LineStore {
  static OPWRIGHT_CPU_INLINE void Store(const char* source, char* destination) {
    StreamLines<kLineBytes>(source, destination);
  }
};

// Function clones share their source and so cannot use different stores. A function that computes
// and stores is therefore an always-inlined template with the store as its parameter. The template
// is instantiated in three functions with these attributes, among which ForThisProcessor chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OPWRIGHT_CPU_AVX2 __attribute__((target("arch=x86-64-v3")))
#define OPWRIGHT_CPU_AVX512 __attribute__((target("arch=x86-64-v4")))

struct HalfLineStore {
  __attribute__((target("avx"))) static inline void Store(const char* source, char* destination) {
    for (int64_t i = 0; i < kLineBytes; i += 32) {
      const auto* from = reinterpret_cast<const __m256i*>(source + i);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(destination + i), _mm256_loadu_si256(from));
    }
  }
};

struct WholeLineStore {
  __attribute__((target("avx512f"))) static inline void Store(const char* source,
                                                              char* destination) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), _mm512_loadu_si512(source));
  }
};

template <typename Function>
Function ForThisProcessor(Function oldest, Function avx2, Function avx512) noexcept {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return avx512;
  return __builtin_cpu_supports("x86-64-v3") ? avx2 : oldest;
}
#else
#define OPWRIGHT_CPU_AVX2
#define OPWRIGHT_CPU_AVX512

using HalfLineStore = LineStore;
using WholeLineStore = LineStore;

template <typename Function>
Function ForThisProcessor(Function oldest, Function, Function) noexcept {
  return oldest;
}
#endif

namespace detail {

// Stores n bytes, a multiple of the line size; the destination is the beginning of a line.
template <typename Store>
OPWRIGHT_CPU_INLINE void StoreLinesBy(const char* source, char* destination, int64_t n) {
  for (int64_t i = 0; i < n; i += kLineBytes) Store::Store(source + i, destination + i);
}

inline void StoreLines(const char* source, char* destination, int64_t n) {
  StoreLinesBy<LineStore>(source, destination, n);
}
OPWRIGHT_CPU_AVX2 inline void StoreLinesAvx2(const char* source, char* destination, int64_t n) {
  StoreLinesBy<HalfLineStore>(source, destination, n);
}
OPWRIGHT_CPU_AVX512 inline void StoreLinesAvx512(const char* source, char* destination, int64_t n) {
  StoreLinesBy<WholeLineStore>(source, destination, n);
}

inline const auto store_lines = ForThisProcessor<void (*)(const char*, char*, int64_t)>(
    &StoreLines, &StoreLinesAvx2, &StoreLinesAvx512);

}  // namespace detail

// Copies n bytes out of a buffer in the first-level cache. Incomplete lines at both ends are stored
// as usual. A fence must follow.
inline void StreamBlock(const void* source, void* destination, int64_t n) {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(destination);
  const int64_t head = std::min(n, BytesToLine(to));
  const int64_t whole = (n - head) & -kLineBytes;
  if (head > 0) std::memcpy(to, from, static_cast<size_t>(head));
  detail::store_lines(from + head, to + head, whole);
  const int64_t done = head + whole;
  if (done < n) std::memcpy(to + done, from + done, static_cast<size_t>(n - done));
}

// Copies n bytes between buffers that do not overlap; a fence must follow. Like the C library, this
// copies two pages at a time, so two DRAM rows are open at once, and stores of complete lines do
// not wait for each other. This is 10 % faster than copying line by line.
inline void StreamCopy(const char* source, char* destination, int64_t n) {
  constexpr int64_t kPage = 4096;
  constexpr int64_t kChunk = 2 * kLineBytes;
  int64_t done = std::min(n, BytesToLine(destination));
  std::memcpy(destination, source, static_cast<size_t>(done));
  for (; done + 2 * kPage <= n; done += 2 * kPage) {
    for (int64_t i = done; i < done + kPage; i += kChunk) {
      for (int64_t page = 0; page < 2; ++page) {
        __builtin_prefetch(source + i + page * kPage + kChunk);
        __builtin_prefetch(source + i + page * kPage + kChunk + kLineBytes);
      }
      StreamLines<kChunk>(source + i, destination + i);
      StreamLines<kChunk>(source + i + kPage, destination + i + kPage);
    }
  }
  std::memcpy(destination + done, source + done, static_cast<size_t>(n - done));
}

// Makes streaming stores visible to other threads before any later store.
inline void StreamFence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_STREAM_H_
