// Slices listed by index. add_slices.cu creates the list; kernels read it to combine slices in
// order.
#ifndef OPWRIGHT_CUDA_LISTED_H_
#define OPWRIGHT_CUDA_LISTED_H_

#include "kernel.h"

namespace opwright_cuda {

// The sizes of the list, in which the ranges of indices are consecutive, in any order.
struct Used {
  int32_t n_slices;
  int32_t n_positions;  // number of indices that have slices
};

// The listed slices. If the pointers are null, every block searches `index`.
struct Listed {
  const int32_t* counts;
  const int32_t* ends;
  int32_t* list;  // the positions of an index in any order
  const int32_t* present;
  const Used* used;
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LISTED_H_
