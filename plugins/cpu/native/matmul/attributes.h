// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_MATMUL_ATTRIBUTES_H_
#define OPWRIGHT_CPU_MATMUL_ATTRIBUTES_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct MatmulAttrs {
  bool transpose_x = false;
  bool transpose_y = false;
  OPWRIGHT_ATTRIBUTES(transpose_x, transpose_y);
};

struct GroupedMatmulAttrs {
  bool transpose_weight = false;
  OPWRIGHT_ATTRIBUTES(transpose_weight);
};

// Axis i of a factor is axis axes[i] of the given array. Axis i of the output is axis out_axes[i]
// of the product. An empty list means that axes are not permuted.
struct FoldedMatmulAttrs {
  std::vector<int64_t> x_axes;
  std::vector<int64_t> y_axes;
  std::vector<int64_t> out_axes;
  OPWRIGHT_ATTRIBUTES(x_axes, y_axes, out_axes);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_ATTRIBUTES_H_
