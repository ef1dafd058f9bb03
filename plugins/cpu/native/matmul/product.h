// Matrix products through oneDNN, followed by a bias and an activation.
#ifndef OPWRIGHT_CPU_MATMUL_PRODUCT_H_
#define OPWRIGHT_CPU_MATMUL_PRODUCT_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

#include "matmul/matrix_shape.h"
#include "onednn/activation.h"
#include "onednn/dnnl.h"
#include "onednn/primitive.h"

namespace opwright_cpu {

// The operands of a product.
struct ProductRequest {
  MatrixShape shape;
  dnnl::memory::data_type dtype = dnnl::memory::data_type::f32;      // dtype of both factors
  dnnl::memory::data_type out_dtype = dnnl::memory::data_type::f32;  // dtype of out and bias
  bool with_bias = false;
  const Eltwise* activation = nullptr;  // NULL for no activation
  bool pack_y = false;                  // y may be stored in the layout preferred by the primitive
  int32_t n_threads = 1;
};

// Computes out = activation(x y + bias), split into one part per thread: a range of matrices of the
// batch, of rows or of columns. Each part is a separate single-threaded primitive. Transposed
// factors are read through their strides.
class Product {
 public:
  // Returns an error if this processor lacks instructions for the dtype.
  opwright::Status Make(const ProductRequest& request);

  bool empty() const { return parts_.empty(); }
  uint64_t workspace_bytes() const { return scratchpad_bytes_ * parts_.size(); }
  // Returns the size of the packed y, or 0 if y is read in place.
  uint64_t packed_bytes() const { return packed_bytes_; }
  void Pack(const void* y, void* packed) const;

 private:
  friend class ProductExecution;

  struct Part {
    MatrixShape shape;
    Primitive primitive;
    dnnl::memory::desc y_plain;
    dnnl::memory::desc y_used;
    // The byte offsets of the part in each array and in the packed y.
    int64_t x = 0, y = 0, packed = 0, bias = 0, out = 0;
  };
  opwright::Status AddPart(const ProductRequest& request, const MatrixPart& from);
  void LayPackedParts();

  std::vector<Part> parts_;
  uint64_t scratchpad_bytes_ = 0;  // scratchpad size of one part
  uint64_t packed_bytes_ = 0;
  bool with_bias_ = false;
};

// The memory objects of a product in one running instance.
class ProductExecution {
 public:
  void Bind(const Product& product);
  void Run(char* workspace, const void* x, const void* y, const void* bias, void* out);

 private:
  const Product* product_ = nullptr;
  std::vector<Execution> executions_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_PRODUCT_H_
