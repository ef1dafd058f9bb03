#include "movement/cut.h"

#include "movement/attributes.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// As in Python's slice.indices, negative positions count from the end, and all positions are
// clipped to existing elements.
int64_t FirstPosition(int64_t start, int64_t step, int64_t length) {
  const int64_t least = step < 0 ? -1 : 0;
  const int64_t most = step < 0 ? length - 1 : length;
  if (start < 0) return start < -length ? least : start + length;
  return start > most ? most : start;
}

}  // namespace

Cut CutOf(const SliceAttrs& attrs, const std::vector<int64_t>& shape) {
  Cut cut{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1)};
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    const size_t axis = FrontAxis(attrs.axes[i], shape.size());
    cut.step[axis] = attrs.steps.empty() ? 1 : attrs.steps[i];
    cut.start[axis] = FirstPosition(attrs.starts[i], cut.step[axis], shape[axis]);
  }
  return cut;
}

Box BoxOf(const Cut& cut, const std::vector<int64_t>& whole, const std::vector<int64_t>& shape,
          int64_t item) {
  Box box;
  const std::vector<int64_t> compact = CompactStrides(whole);
  for (size_t i = 0; i < whole.size(); ++i) {
    // If only one element is left, the step is unused, since its product might overflow.
    box.strides.push_back(shape[i] > 1 ? compact[i] * cut.step[i] * item : 0);
    box.offset += compact[i] * cut.start[i] * item;
  }
  return box;
}

}  // namespace opwright_cpu
