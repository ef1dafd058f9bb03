// Single-threaded matrix products of one kernel, with sizes that are known only at run time.
#ifndef OPWRIGHT_CPU_MATMUL_ANY_SIZE_PRODUCT_H_
#define OPWRIGHT_CPU_MATMUL_ANY_SIZE_PRODUCT_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "matmul/gemm.h"
#include "onednn/dnnl.h"
#include "onednn/primitive.h"

namespace opwright_cpu {

// Computes c = a b by our own loops. In a transposed factor, columns are contiguous.
template <typename T>
class AnySizeProduct {
 public:
  static constexpr uint64_t kWorkspaceBytes = kGemmWorkspaceBytes<T>;

  opwright::Status Make(bool /*transpose_a*/, bool /*transpose_b*/) {
    return opwright::Status::Ok();
  }

  void Run(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
           void* workspace) const {
    Gemm<T>(size, a, b, c, workspace);
  }
};

// Computes c = a b through oneDNN. A primitive without fixed sizes is as fast as one of known
// sizes, and faster for a single row (measured); a primitive of each size would be compiled in the
// first run that needs it.
template <>
class AnySizeProduct<opwright::BFloat16> {
 public:
  static constexpr uint64_t kWorkspaceBytes = 0;

  // Returns an error if this processor lacks instructions for bfloat16.
  opwright::Status Make(bool transpose_a, bool transpose_b) {
    return PrepareWithMemory(
        this, [=](AnySizeProduct* made) { return made->MakePrimitive(transpose_a, transpose_b); });
  }

  void Run(const GemmSize& size, MatrixView<const opwright::BFloat16> a,
           MatrixView<const opwright::BFloat16> b, MatrixView<opwright::BFloat16> c, void*) const {
    Primitive sized = primitive_;
    sized.Add(DNNL_ARG_SRC, Desc(size.m, size.k, a.row_stride, a.column_stride));
    sized.Add(DNNL_ARG_WEIGHTS, Desc(size.k, size.n, b.row_stride, b.column_stride));
    sized.Add(DNNL_ARG_DST, Desc(size.m, size.n, c.row_stride, 1));
    Execution execution;
    execution.Bind(sized);
    execution.Run(1, nullptr, a.data, b.data, c.data);
  }

 private:
  static dnnl::memory::desc Desc(int64_t rows, int64_t columns, int64_t row_stride,
                                 int64_t column_stride) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::bf16,
                              dnnl::memory::dims{row_stride, column_stride});
  }

  static dnnl::memory::desc AnyDesc(bool is_transposed) {
    constexpr int64_t kAny = DNNL_RUNTIME_DIM_VAL;
    return is_transposed ? Desc(kAny, kAny, 1, kAny) : Desc(kAny, kAny, kAny, 1);
  }

  opwright::Status MakePrimitive(bool transpose_a, bool transpose_b) {
    const ThreadCount one(1);
    constexpr bool allow_empty = true;
    const dnnl::matmul::primitive_desc description(CpuEngine(), AnyDesc(transpose_a),
                                                   AnyDesc(transpose_b), AnyDesc(false),
                                                   UserScratchpad(), allow_empty);
    if (!description.get(true) || description.scratchpad_desc().get_size() > 0) {
      return opwright::Status::Unsupported("oneDNN has no bfloat16 product without fixed sizes");
    }
    primitive_ = Primitive(description);
    return opwright::Status::Ok();
  }

  Primitive primitive_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_ANY_SIZE_PRODUCT_H_
