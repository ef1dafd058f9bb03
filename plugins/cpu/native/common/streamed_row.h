// Stores rows of results past the caches while the next row is read, so memory is read and written
// continuously and does not wait for arithmetic.
#ifndef OPWRIGHT_CPU_COMMON_STREAMED_ROW_H_
#define OPWRIGHT_CPU_COMMON_STREAMED_ROW_H_

#include <algorithm>
#include <cstdint>

#include "common/clones.h"
#include "common/stream.h"

namespace opwright_cpu {

// Elements per cache line.
template <typename T>
constexpr int64_t kLineItems = kLineBytes / static_cast<int64_t>(sizeof(T));

// A row of n elements to be stored at `out`; result(i) computes element i. From element `head` on,
// the row has `whole` complete cache lines, of which `stored` have been stored.
template <typename T, typename Store, typename Result>
class StreamedRow {
 public:
  OPWRIGHT_CPU_INLINE StreamedRow(T* out, int64_t n, const Result& result)
      : result_(result),
        out_(out),
        n_(n),
        head_(std::min(BytesToLine(out) / static_cast<int64_t>(sizeof(T)), n)),
        whole_((n - head_) / kLineItems<T>) {}

  OPWRIGHT_CPU_INLINE int64_t waiting() const { return whole_ - stored_; }

  // Stores the next cache line, if one is left.
  OPWRIGHT_CPU_INLINE void StoreLine() {
    const int64_t first = head_ + stored_ * kLineItems<T>;
    alignas(kLineBytes) T results[kLineItems<T>];
#pragma omp simd
    for (int64_t i = 0; i < kLineItems<T>; ++i) results[i] = result_(first + i);
    Store::Store(reinterpret_cast<const char*>(results), reinterpret_cast<char*>(out_ + first));
    ++stored_;
  }

  OPWRIGHT_CPU_INLINE void StoreLines(int64_t n) {
    for (int64_t left = std::min(n, waiting()); left > 0; --left) StoreLine();
  }

  // Stores the remaining lines and the incomplete lines at both ends.
  OPWRIGHT_CPU_INLINE void Finish() {
    StoreLines(whole_);
    for (int64_t i = 0; i < head_; ++i) out_[i] = result_(i);
    for (int64_t i = head_ + whole_ * kLineItems<T>; i < n_; ++i) out_[i] = result_(i);
    head_ = n_ = whole_ = stored_ = 0;
  }

 private:
  Result result_;
  T* out_;
  int64_t n_;
  int64_t head_;
  int64_t whole_;
  int64_t stored_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_STREAMED_ROW_H_
