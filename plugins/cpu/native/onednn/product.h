// Matrix products through oneDNN, with a bias and an activation behind them.
#ifndef OPWRIGHT_CPU_ONEDNN_PRODUCT_H_
#define OPWRIGHT_CPU_ONEDNN_PRODUCT_H_

#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>
#include <opwright/sdk.hpp>

#include "onednn/activation.h"
#include "onednn/matrix_shape.h"
#include "onednn/primitive.h"

namespace opwright_cpu {

// What a product looks like to oneDNN.
struct ProductRequest {
  MatrixShape shape;
  dnnl::memory::data_type dtype = dnnl::memory::data_type::f32;
  bool with_bias = false;
  Activation activation = Activation::kNone;
  bool pack_y = false;  // y may be kept in the layout that the primitive likes best
  int32_t n_threads = 1;
};

// out = activation(x y + bias). Transposed factors are read by their strides.
class Product {
 public:
  // Refuses where this machine has no instructions for the dtype.
  opwright::Status Make(const ProductRequest& request);

  const Primitive& primitive() const { return primitive_; }
  // Bytes of the packed y; 0 where y is read as it lies.
  uint64_t packed_bytes() const { return packed_bytes_; }
  void Pack(const void* y, void* packed, int32_t n_threads) const {
    Reorder(y_plain_, y, y_used_, packed, n_threads);
  }
  void Run(Execution& execution, int32_t n_threads, void* scratchpad, const void* x, const void* y,
           const void* bias, void* out) const {
    if (with_bias_) {
      execution.Run(n_threads, scratchpad, x, y, out, bias);
    } else {
      execution.Run(n_threads, scratchpad, x, y, out);
    }
  }

 private:
  Primitive primitive_;
  dnnl::memory::desc y_plain_;
  dnnl::memory::desc y_used_;
  uint64_t packed_bytes_ = 0;
  bool with_bias_ = false;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_PRODUCT_H_
