// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_OPS_H_
#define OPWRIGHT_CPU_ELEMENTWISE_OPS_H_

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct NoAttrs {};

struct WithoutAttributes : opwright::Op<NoAttrs> {
  static void Make(opwright::OpMaker<NoAttrs>&) {}
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(add, "add", opwright_cpu::WithoutAttributes);

#endif  // OPWRIGHT_CPU_ELEMENTWISE_OPS_H_
