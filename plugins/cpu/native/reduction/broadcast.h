// Repeats an array along axes, the reverse of a reduction.
#ifndef OPWRIGHT_CPU_REDUCTION_BROADCAST_H_
#define OPWRIGHT_CPU_REDUCTION_BROADCAST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reduction/layout.h"

namespace opwright_cpu {

class Broadcast {
 public:
  Broadcast() = default;
  // Broadcasts to `dims` by repeating along axes in `repeated`; item_bytes must be 1, 2, 4 or 8.
  Broadcast(const std::vector<int64_t>& dims, const std::vector<bool>& repeated, size_t item_bytes);

  void Run(const void* x, void* out, int32_t n_threads) const;

 private:
  // A run of adjacent axes with its strides; the source stride is 0 if the run is repeated.
  struct Loop {
    int64_t size;
    int64_t x_stride;
    int64_t out_stride;
  };

  template <typename T>
  void RunAs(const T* x, T* out, int32_t n_threads) const;
  template <typename T>
  void Write(size_t loop, int64_t begin, int64_t end, const T* x, T* out) const;

  std::vector<Loop> loops_;
  size_t split_ = 0;      // index of the loop that threads divide
  int64_t n_pieces_ = 1;  // number of times that this loop is run
  int64_t numel_ = 0;
  size_t item_bytes_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_BROADCAST_H_
