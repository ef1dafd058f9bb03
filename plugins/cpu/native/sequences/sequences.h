// Sequences of different lengths in one padded tensor [n, t, ...].
#ifndef OPWRIGHT_CPU_SEQUENCES_SEQUENCES_H_
#define OPWRIGHT_CPU_SEQUENCES_SEQUENCES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include <opwright/sdk.hpp>

#include "indexing/positions.h"
#include "movement/tensors.h"

namespace opwright_cpu {

struct SequenceAttrs {
  std::optional<int64_t> max_length;
  OPWRIGHT_ATTRIBUTES(max_length);
};

// A padded tensor, viewed as n sequences of `steps` rows.
struct Padded {
  int64_t n = 0;
  int64_t steps = 0;
  int64_t row_bytes = 0;
  std::vector<int64_t> shape;

  Padded() = default;
  explicit Padded(const opwright::Meta& meta) : shape(meta.shape().dims()) {
    n = shape[0];
    steps = shape[1];
    row_bytes = Product(shape, 2, shape.size()) * ItemBytes(meta.dtype());
  }

  int64_t bytes() const { return n * steps * row_bytes; }

  // Returns an error unless all lengths are in [0, steps].
  opwright::Status Check(const Positions& lengths) const {
    return lengths.Check("lengths", 0, steps + 1);
  }

  // Calls function(begin, end) in parallel on ranges of sequences.
  template <typename Function>
  void Each(int32_t n_threads, const Function& function) const {
    ParallelFor(n_threads, n, kCopyGrainBytes / (steps * row_bytes + 1) + 1, 1, function);
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SEQUENCES_SEQUENCES_H_
