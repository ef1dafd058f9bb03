#include "movement/stream.h"

#include <algorithm>
#include <cstring>

#include "common/parallel.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

void StreamZeros(char* destination, int64_t n) {
  static constexpr char kZeros[kLineBytes] = {};
  int64_t done = std::min(n, BytesToLine(destination));
  std::memset(destination, 0, static_cast<size_t>(done));
  for (; done + kLineBytes <= n; done += kLineBytes) {
    StreamLines<kLineBytes>(kZeros, destination + done);
  }
  std::memset(destination + done, 0, static_cast<size_t>(n - done));
  StreamFence();
}

}  // namespace

void CopyBytes(const char* source, char* destination, int64_t n, int32_t n_threads) {
  if (source == destination) return;
  const bool stream = n >= kStreamBytes;
  ParallelFor(n_threads, n, kCopyGrainBytes, kLineBytes, [=](int64_t begin, int64_t end) {
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
  ParallelFor(n_threads, n, kCopyGrainBytes, kLineBytes, [=](int64_t begin, int64_t end) {
    if (stream) {
      StreamZeros(destination + begin, end - begin);
    } else {
      std::memset(destination + begin, 0, static_cast<size_t>(end - begin));
    }
  });
}

}  // namespace opwright_cpu
