#include "movement/stream.h"

#include <algorithm>
#include <cstring>

#include "common/parallel.h"
#include "movement/tensors.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace opwright_cpu {
namespace {

constexpr int64_t kLine = 64;

#ifdef __SSE2__
// Stores whole lines, one after the other.
template <int64_t kBytes>
inline void StreamLines(const char* source, char* destination) {
  __m128i lines[kBytes / 16];
  std::memcpy(lines, source, kBytes);
  for (int64_t i = 0; i < kBytes / 16; ++i) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(destination) + i, lines[i]);
  }
}

// Bytes up to the next line, and whole lines behind them.
struct Lines {
  int64_t before;
  int64_t end;
};

Lines LinesOf(const char* destination, int64_t n) {
  const auto address = reinterpret_cast<uintptr_t>(destination);
  const auto before = std::min(n, static_cast<int64_t>((kLine - address % kLine) % kLine));
  return Lines{before, before + (n - before) / kLine * kLine};
}
#endif

void StreamZeros(char* destination, int64_t n) {
#ifdef __SSE2__
  const Lines lines = LinesOf(destination, n);
  std::memset(destination, 0, static_cast<size_t>(lines.before));
  const __m128i zero = _mm_setzero_si128();
  for (int64_t i = lines.before; i < lines.end; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(destination + i), zero);
  }
  std::memset(destination + lines.end, 0, static_cast<size_t>(n - lines.end));
  _mm_sfence();
#else
  std::memset(destination, 0, static_cast<size_t>(n));
#endif
}

}  // namespace

void StreamCopy(const char* source, char* destination, int64_t n) {
  int64_t done = 0;
#ifdef __SSE2__
  // Two pages at a time, as the C library does: the memory has two rows open at once, and stores of
  // whole lines never wait for each other. A tenth faster than one line after the other.
  constexpr int64_t kPage = 4096;
  constexpr int64_t kChunk = 2 * kLine;
  done = LinesOf(destination, n).before;
  std::memcpy(destination, source, static_cast<size_t>(done));
  for (; done + 2 * kPage <= n; done += 2 * kPage) {
    for (int64_t i = done; i < done + kPage; i += kChunk) {
      for (int64_t page = 0; page < 2; ++page) {
        __builtin_prefetch(source + i + page * kPage + kChunk);
        __builtin_prefetch(source + i + page * kPage + kChunk + kLine);
      }
      StreamLines<kChunk>(source + i, destination + i);
      StreamLines<kChunk>(source + i + kPage, destination + i + kPage);
    }
  }
#endif
  std::memcpy(destination + done, source + done, static_cast<size_t>(n - done));
}

void StreamFence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

void CopyBytes(const char* source, char* destination, int64_t n, int32_t n_threads) {
  if (source == destination) return;
  const bool stream = n >= kStreamBytes;
  ParallelFor(n_threads, n, kCopyGrainBytes, kLine, [=](int64_t begin, int64_t end) {
    if (stream) {
      StreamCopy(source + begin, destination + begin, end - begin);
      StreamFence();
    } else {
      std::memcpy(destination + begin, source + begin, static_cast<size_t>(end - begin));
    }
  });
}

void ZeroBytes(char* destination, int64_t n, int32_t n_threads) {
  const bool stream = n >= kStreamBytes;
  ParallelFor(n_threads, n, kCopyGrainBytes, kLine, [=](int64_t begin, int64_t end) {
    if (stream) {
      StreamZeros(destination + begin, end - begin);
    } else {
      std::memset(destination + begin, 0, static_cast<size_t>(end - begin));
    }
  });
}

}  // namespace opwright_cpu
