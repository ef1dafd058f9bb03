// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_ONEDNN_OPS_H_
#define OPWRIGHT_CPU_ONEDNN_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct MatmulAttrs {
  bool transpose_x = false;
  bool transpose_y = false;
};

struct MatmulOp : opwright::Op<MatmulAttrs> {
  static void Make(opwright::OpMaker<MatmulAttrs>& maker) {
    maker.AddAttr(&MatmulAttrs::transpose_x, "transpose_x", "whether x is transposed first");
    maker.AddAttr(&MatmulAttrs::transpose_y, "transpose_y", "whether y is transposed first");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(matmul, "matmul", opwright_cpu::MatmulOp);

#endif  // OPWRIGHT_CPU_ONEDNN_OPS_H_
