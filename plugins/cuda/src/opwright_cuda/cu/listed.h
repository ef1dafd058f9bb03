// Slices listed by their positions: made by add_slices.cu, read by all that combine slices in
// order.
#ifndef OPWRIGHT_CUDA_LISTED_H_
#define OPWRIGHT_CUDA_LISTED_H_

#include "kernel.h"

namespace opwright_cuda {

// What positions take up of the list: one after the other, in any order.
struct Used {
  int32_t n_slices;
  int32_t n_positions;  // that have slices
};

// Where the slices are listed, or null: then every block looks for its own in `index`.
struct Listed {
  const int32_t* counts;
  const int32_t* ends;
  int32_t* list;  // those of a position in any order
  const int32_t* present;
  const Used* used;
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LISTED_H_
