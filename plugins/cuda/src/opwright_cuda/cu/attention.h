// The mask of attention.
#ifndef OPWRIGHT_CUDA_ATTENTION_H_
#define OPWRIGHT_CUDA_ATTENTION_H_

#include "kernel.h"
#include "layout.h"
#include "reduce.h"

namespace opwright_cuda {

// The mask of the scores. At most one of the two pointers is not null. `rows` gives the mask offset
// of each line.
template <typename T>
struct Mask {
  const bool* allowed;
  const T* added;
  Layout<1> rows;
  int64_t key_stride;
  int64_t queries;  // queries per unit; query i sees the keys 0 to i if `causal`
  int32_t causal;

  OW_INLINE int64_t Begin(int64_t line) const {
    int64_t offset = 0;
    if (allowed != nullptr || added != nullptr) Locate<int64_t>(rows, line, &offset);
    return offset;
  }
  OW_INLINE Compute<T> Apply(int64_t begin, int64_t query, int64_t key, Compute<T> score) const {
    using C = Compute<T>;
    const int64_t at = begin + key * key_stride;
    const bool hidden = (causal != 0 && key > query) || (allowed != nullptr && !allowed[at]);
    if (added == nullptr) return hidden ? Lowest<C>() : score;
    const C offset = Load(added[at]);
    return hidden || offset == Lowest<C>() ? Lowest<C>() : score + offset;
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_ATTENTION_H_
