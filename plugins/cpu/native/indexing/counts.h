// Parallel counting: each thread counts its part, then the counts are summed.
#ifndef OPWRIGHT_CPU_INDEXING_COUNTS_H_
#define OPWRIGHT_CPU_INDEXING_COUNTS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <opwright/sdk.hpp>

#include "common/parallel.h"

namespace opwright_cpu {

class Counts {
 public:
  Counts() = default;
  // Prepares to count n elements in `length` bins. Parts have more elements than there are bins, so
  // summing the counts is cheap.
  Counts(int64_t n, int64_t length, int32_t n_threads)
      : n_(n),
        length_(length),
        n_parts_(static_cast<int32_t>(
            std::clamp<int64_t>(n / std::max(kElementGrain, 2 * length), 1, n_threads))) {}

  uint64_t workspace_bytes() const {
    return n_parts_ == 1 ? 0 : static_cast<uint64_t>(n_parts_ * length_) * sizeof(int64_t);
  }
  uint64_t estimate_ns() const { return static_cast<uint64_t>(20 + (n_ + length_) / n_parts_); }

  // Calls count(begin, end, counts), which must add the occurrences in [begin, end) to `counts`.
  template <typename Count>
  void Run(const Count& count, int64_t* workspace, int64_t* out) const {
    if (n_parts_ == 1) {
      std::memset(out, 0, static_cast<size_t>(length_) * sizeof(int64_t));
      count(int64_t{0}, n_, out);
      return;
    }
    Parallel(n_parts_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(n_, 1, thread, n_threads);
      int64_t* counts = workspace + thread * length_;
      std::memset(counts, 0, static_cast<size_t>(length_) * sizeof(int64_t));
      count(part.begin, part.end, counts);
    });
    std::copy_n(workspace, length_, out);
    for (int32_t part = 1; part < n_parts_; ++part) {
      const int64_t* counts = workspace + part * length_;
      for (int64_t i = 0; i < length_; ++i) out[i] += counts[i];
    }
  }

 private:
  int64_t n_ = 0;
  int64_t length_ = 1;
  int32_t n_parts_ = 1;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_COUNTS_H_
