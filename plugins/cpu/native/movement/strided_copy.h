// Copies a box of items from one set of strides to another, for transpose, concat, split, slice and
// pad.
#ifndef OPWRIGHT_CPU_MOVEMENT_STRIDED_COPY_H_
#define OPWRIGHT_CPU_MOVEMENT_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opwright_cpu {

// One axis of a box, with the number of items and the byte strides in source and destination. A
// source stride may be 0 (the item is repeated) or negative (items are read backward).
struct CopyAxis {
  int64_t length;
  int64_t source;
  int64_t destination;
};

// A prepared copy of a box. Axes are sorted by their stride in the destination, merged if they are
// contiguous in both tensors, and split into units of work. Items are only moved, so the copy
// depends on the item size (1, 2, 4 or 8 bytes) but not on the dtype.
class StridedCopy {
 public:
  StridedCopy() = default;
  StridedCopy(int64_t item_bytes, std::vector<CopyAxis> axes);

  int64_t bytes() const { return bytes_; }

  // Copies the box in up to n_threads threads.
  void Run(const char* source, char* destination, int32_t n_threads) const;

  // Copies one thread's share, for callers inside a parallel region.
  void RunPart(const char* source, char* destination, int32_t thread, int32_t n_threads) const;

 private:
  using Kernel = void (*)(const char* source, char* destination, const CopyAxis& outer,
                          const CopyAxis& inner);

  void Simplify();
  void SplitUnits();

  int64_t item_bytes_ = 1;
  int64_t bytes_ = 0;
  std::vector<CopyAxis> axes_;  // iterated item by item, outermost first
  CopyAxis outer_{1, 0, 0};     // the two axes of a unit of work
  CopyAxis inner_{1, 0, 0};
  int64_t outer_piece_ = 1;  // lengths of a unit along both axes
  int64_t inner_piece_ = 1;
  int64_t n_outer_pieces_ = 0;
  int64_t n_inner_pieces_ = 0;
  int64_t n_units_ = 0;
  bool is_tiled_ = false;
  bool stream_ = false;  // whether stores bypass the caches
  Kernel kernel_ = nullptr;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_STRIDED_COPY_H_
