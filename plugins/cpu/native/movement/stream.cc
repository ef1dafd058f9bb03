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
#ifdef __SSE2__
  const Lines lines = LinesOf(destination, n);
  std::memcpy(destination, source, static_cast<size_t>(lines.before));
  for (int64_t i = lines.before; i < lines.end; i += kLine) {
    __m128i line[4];
    std::memcpy(line, source + i, kLine);
    for (int part = 0; part < 4; ++part) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(destination + i + 16 * part), line[part]);
    }
  }
  std::memcpy(destination + lines.end, source + lines.end, static_cast<size_t>(n - lines.end));
  _mm_sfence();  // another thread may read what was written as soon as this returns
#else
  std::memcpy(destination, source, static_cast<size_t>(n));
#endif
}

void CopyBytes(const char* source, char* destination, int64_t n, int32_t n_threads) {
  if (source == destination) return;
  const bool stream = n >= kStreamBytes;
  ParallelFor(n_threads, n, kCopyGrainBytes, kLine, [=](int64_t begin, int64_t end) {
    if (stream) {
      StreamCopy(source + begin, destination + begin, end - begin);
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
