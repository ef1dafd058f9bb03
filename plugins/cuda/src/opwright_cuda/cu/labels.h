// Class ids as labels.
#ifndef OPWRIGHT_CUDA_LABELS_H_
#define OPWRIGHT_CUDA_LABELS_H_

#include "kernel.h"

namespace opwright_cuda {

// A view of int32 or int64 class ids. A label out of range is reported and ignored.
struct Labels {
  const void* ids;
  Fault* fault;
  int64_t n_classes;
  int64_t ignored;
  int32_t is_wide;
  int32_t can_ignore;
  int32_t text;

  // Returns the class of a line, or -1 if it is ignored.
  OW_INLINE int64_t At(int64_t line) const { return IdOf(Read(line)); }
  // Read and IdOf are the two steps of At; other reads can be issued between them.
  OW_INLINE int64_t Read(int64_t line) const {
    return is_wide ? static_cast<const int64_t*>(ids)[line]
                   : static_cast<const int32_t*>(ids)[line];
  }
  OW_INLINE int64_t IdOf(int64_t id) const {
    if (can_ignore && id == ignored) return -1;
    if (id >= 0 && id < n_classes) return id;
    Report(fault, text, id);
    return -1;
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LABELS_H_
