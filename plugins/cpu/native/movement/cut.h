// The positions of a slice's elements, for slice, its gradient and slice_scatter.
#ifndef OPWRIGHT_CPU_MOVEMENT_CUT_H_
#define OPWRIGHT_CPU_MOVEMENT_CUT_H_

#include <cstdint>
#include <vector>

#include "movement/attributes.h"

namespace opwright_cpu {

// The first position and the step along every axis.
struct Cut {
  std::vector<int64_t> start;
  std::vector<int64_t> step;
};

Cut CutOf(const SliceAttrs& attrs, const std::vector<int64_t>& shape);

// A box in a compact tensor, as byte strides and a byte offset.
struct Box {
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

Box BoxOf(const Cut& cut, const std::vector<int64_t>& whole, const std::vector<int64_t>& shape,
          int64_t item);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_CUT_H_
