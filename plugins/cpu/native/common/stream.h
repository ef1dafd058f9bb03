// Stores past the caches, for results that no cache would hold until they are read.
#ifndef OPWRIGHT_CPU_COMMON_STREAM_H_
#define OPWRIGHT_CPU_COMMON_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/clones.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace opwright_cpu {

// From this size on nothing of the result is left in the caches when all is written, and ordinary
// stores only cost: each reads the line that it is about to overwrite.
constexpr int64_t kStreamBytes = int64_t{16} << 20;

constexpr int64_t kLineBytes = 64;

// What is computed between two rounds of stores: few lines, so that the processor's window reaches
// over them, and memory is read and written while it computes. With blocks of some kilobytes the
// two wait for each other, and a sigmoid takes half as long again.
constexpr int64_t kStreamBlockBytes = 4 * kLineBytes;

// How far from `destination` the next line begins.
inline int64_t BytesToLine(const void* destination) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(destination) % kLineBytes);
}

// Elements of a block of results, fewer where they lead up to the beginning of a line.
inline int64_t StreamCount(const void* destination, int64_t block, int64_t item_bytes) {
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(destination) % kLineBytes);
  return block - offset / item_bytes;
}

// Asks for n bytes that will be read soon: the processor's own fetching stops at every page, and
// loads that wait for memory fill its window.
OPWRIGHT_CPU_INLINE void FetchAhead(const void* source, int64_t n) {
  constexpr int64_t kAheadBytes = 2048;
  const char* ahead = static_cast<const char*>(source) + kAheadBytes;
  for (int64_t line = 0; line < n; line += kLineBytes) __builtin_prefetch(ahead + line);
}

// Stores whole lines, one after the other; `destination` is where a line begins.
template <int64_t kBytes>
OPWRIGHT_CPU_INLINE void StreamLines(const char* source, char* destination) {
#ifdef __SSE2__
  __m128i lines[kBytes / 16];
  std::memcpy(lines, source, kBytes);
  for (int64_t i = 0; i < kBytes / 16; ++i) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(destination) + i, lines[i]);
  }
#else
  std::memcpy(destination, source, kBytes);
#endif
}

// Copies n bytes out of a buffer in the first-level cache. Lines that the ends share with others
// are stored as usual. A fence must follow.
OPWRIGHT_CPU_INLINE void StreamBlock(const void* source, void* destination, int64_t n) {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(destination);
  int64_t done = std::min(n, BytesToLine(to));
  if (done > 0) std::memcpy(to, from, static_cast<size_t>(done));
  for (; done + kLineBytes <= n; done += kLineBytes)
    StreamLines<kLineBytes>(from + done, to + done);
  if (done < n) std::memcpy(to + done, from + done, static_cast<size_t>(n - done));
}

// Copies n bytes that do not overlap; a fence must follow. Two pages at a time, as the C library
// does: the memory has two rows open at once, and stores of whole lines never wait for each other.
// A tenth faster than one line after the other.
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

// Lets other threads see what was stored past the caches before what is stored from now on.
inline void StreamFence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_STREAM_H_
