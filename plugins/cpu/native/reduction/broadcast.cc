#include "reduction/broadcast.h"

#include <algorithm>
#include <cstring>

#include "common/parallel.h"

namespace opwright_cpu {
namespace {

// A repeated block is doubled up to this size in bytes. Beyond that, blocks of this size are copied
// from the same source, which stays in the L1 cache.
constexpr int64_t kDoubledBytes = 16384;

// Repeats the first `block` elements of `out` until it contains n copies of them.
template <typename T>
void Repeat(T* out, int64_t block, int64_t n) {
  const int64_t most = std::max<int64_t>(1, kDoubledBytes / (block * int64_t(sizeof(T)))) * block;
  const int64_t all = block * n;
  for (int64_t done = block; done < all;) {
    const int64_t length = std::min(std::min(done, most), all - done);
    std::memcpy(out + done, out, static_cast<size_t>(length) * sizeof(T));
    done += length;
  }
}

}  // namespace

Broadcast::Broadcast(const std::vector<int64_t>& dims, const std::vector<bool>& repeated,
                     size_t item_bytes)
    : numel_(Product(dims, 0, dims.size())), item_bytes_(item_bytes) {
  const std::vector<Span> spans = Collapse(dims, repeated);
  int64_t x_stride = 1, out_stride = 1;
  for (size_t i = spans.size(); i-- > 0;) {
    const Span& span = spans[i];
    loops_.insert(loops_.begin(), Loop{span.size, span.reduced ? 0 : x_stride, out_stride});
    out_stride *= span.size;
    if (!span.reduced) x_stride *= span.size;
  }
  // Threads divide as many of the outer loops as are needed for nearly equal shares.
  while (split_ + 1 < loops_.size() && n_pieces_ * loops_[split_].size < 64) {
    n_pieces_ *= loops_[split_++].size;
  }
}

// Runs iterations [begin, end) of one loop.
template <typename T>
void Broadcast::Write(size_t loop, int64_t begin, int64_t end, const T* x, T* out) const {
  const Loop& here = loops_[loop];
  const int64_t length = here.out_stride;
  const bool last = loop + 1 == loops_.size();
  if (here.x_stride == 0) {
    if (last) {
      std::fill(out + begin, out + end, *x);
      return;
    }
    Write(loop + 1, 0, loops_[loop + 1].size, x, out + begin * length);
    Repeat(out + begin * length, length, end - begin);
  } else if (last) {
    std::memcpy(out + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(T));
  } else if (loop + 2 == loops_.size()) {  // the inner loop repeats one value
    for (int64_t i = begin; i < end; ++i) {
      std::fill(out + i * length, out + (i + 1) * length, x[i]);
    }
  } else {
    for (int64_t i = begin; i < end; ++i) {
      Write(loop + 1, 0, loops_[loop + 1].size, x + i * here.x_stride, out + i * length);
    }
  }
}

template <typename T>
void Broadcast::RunAs(const T* x, T* out, int32_t n_threads) const {
  if (numel_ == 0) return;
  if (loops_.empty()) {
    *out = *x;
    return;
  }
  const int64_t size = loops_[split_].size;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / loops_[split_].out_stride);
  ParallelFor(n_threads, n_pieces_ * size, grain, 1, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t piece = begin / size;
      const int64_t first = begin % size;
      const int64_t count = std::min(size - first, end - begin);
      int64_t x_offset = 0, out_offset = 0;
      for (size_t loop = split_; loop-- > 0; piece /= loops_[loop].size) {
        x_offset += piece % loops_[loop].size * loops_[loop].x_stride;
        out_offset += piece % loops_[loop].size * loops_[loop].out_stride;
      }
      Write(split_, first, first + count, x + x_offset, out + out_offset);
      begin += count;
    }
  });
}

void Broadcast::Run(const void* x, void* out, int32_t n_threads) const {
  const auto run_as = [&](auto item) {
    using T = decltype(item);
    RunAs(static_cast<const T*>(x), static_cast<T*>(out), n_threads);
  };
  switch (item_bytes_) {
    case 1:
      return run_as(uint8_t{});
    case 2:
      return run_as(uint16_t{});
    case 4:
      return run_as(uint32_t{});
    default:
      return run_as(uint64_t{});
  }
}

}  // namespace opwright_cpu
