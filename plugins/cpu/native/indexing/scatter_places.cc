#include <utility>

#include "indexing/scatter.h"

namespace opwright_cpu {

Reduction ReductionOf(const std::string& name) {
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  return name == "min" ? Reduction::kMin : Reduction::kNone;
}

void Scattered::Prepare(const opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
  const std::vector<int64_t> x = ctx.input(0).shape().dims();
  const std::vector<int64_t> index = ctx.input(1).shape().dims();
  n_index_ = ctx.input(1).numel();
  n_updates_ = ctx.input(2).numel();
  std::vector<WalkAxis> axes;
  if (!attrs.axis) {
    rows_ = IndexedRows(x, index);
    count_ = rows_->count;
    axes = {WalkAxis{rows_->n, rows_->row, 1, rows_->row}, WalkAxis{rows_->row, 1, 0, 1}};
    walk_ = AxisWalk(std::move(axes), 0, count_);
    return;
  }
  const std::vector<int64_t> dims = IndexedDims(ctx.input(0).shape());
  const std::vector<int64_t> lengths = IndexedDims(ctx.input(1).shape());
  const size_t axis = FrontAxis(*attrs.axis, dims.size());
  count_ = dims[axis];
  const std::vector<int64_t> x_strides = CompactStrides(dims);
  const std::vector<int64_t> strides = CompactStrides(lengths);
  for (size_t i = 0; i < dims.size(); ++i) {
    axes.push_back(WalkAxis{lengths[i], x_strides[i], strides[i], strides[i]});
  }
  walk_ = AxisWalk(std::move(axes), axis, count_);
}

}  // namespace opwright_cpu
