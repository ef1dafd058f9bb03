// Properties of a fully connected layer after gelu, which its kernels determine in prepare.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_GELU_LAYER_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_GELU_LAYER_H_

#include "fully_connected/attributes.h"
#include "fully_connected/partition.h"
#include "gemm/gemm.h"

namespace opwright_cpu {

// The sizes for x [m, k] and a weight [k, n], or [n, k] if it is transposed.
struct GeluLayer {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool tanh = false;  // whether gelu uses its tanh approximation
  bool is_turned = false;
  PanelGemm product{};

  // Sets the sizes from the weight and an array that has as many elements as the layer output.
  // Rejects a weight if the number of its rows is not a multiple of the vector width, or if its
  // products would need packed operands.
  opwright::Status Describe(const opwright::Meta& weight, const opwright::Meta& out,
                            const GeluFcAttrs& attrs) {
    constexpr int64_t kVector = 16;
    is_turned = attrs.transpose_weight;
    k = weight.dim(is_turned ? 1 : 0);
    n = weight.dim(is_turned ? 0 : 1);
    if (k <= 0 || n <= 0 || k % kVector != 0 || n % kVector != 0 || k * n > kMostWeights) {
      return opwright::Status::Refused("is for weights of whole vectors of ", kVector,
                                       " numbers and at most ", kMostWeights, ", got ", k, " x ",
                                       n);
    }
    m = out.numel() / n;
    tanh = attrs.approximate == "tanh";
    product = BestPanelGemm();
    return opwright::Status::Ok();
  }
};

// Writes the transpose [columns, rows] of a matrix [rows, columns] whose rows are `stride` elements
// apart. `rows` must be a multiple of the vector width; one cache line of rows is processed at a
// time.
inline void TransposeRows(const float* from, int64_t stride, int64_t rows, int64_t columns,
                          float* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t first = 0; first < rows; first += kBlock) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = first; i < first + kBlock; ++i) to[j * rows + i] = from[i * stride + j];
    }
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_GELU_LAYER_H_
