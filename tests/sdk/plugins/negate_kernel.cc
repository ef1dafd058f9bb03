#include <opwright/sdk.hpp>

#include "negation.hpp"

template <typename T>
struct NegateKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) {
    for (int64_t i = 0; i < ctx.output(0).numel(); ++i) {
      ctx.output(0).data<T>()[i] = static_cast<T>(-ctx.input(0).data<T>()[i]);
    }
    return opwright::Status::Ok();
  }
};

OPWRIGHT_REGISTER_KERNEL(negate, "cpu", NegateKernel, float, int8_t);
