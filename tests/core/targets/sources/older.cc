// A kernel of acme.scale that does not read the attribute `offset` unless OFFSET is defined.
#include "opwright/sdk.hpp"

struct ScaleAttrs {
  double factor;
#ifdef OFFSET
  double offset;
  OPWRIGHT_ATTRIBUTES(factor, offset);
#else
  static constexpr double offset = 0;
  OPWRIGHT_ATTRIBUTES(factor);
#endif
};

template <typename T>
struct ScaleKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const ScaleAttrs& attrs) {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    for (int64_t i = 0; i < ctx.input(0).numel(); ++i) {
      out[i] = static_cast<T>(attrs.factor * static_cast<double>(x[i]) + attrs.offset);
    }
    return opwright::Status::Ok();
  }
};

OPWRIGHT_REGISTER_KERNEL_FOR("acme.scale", "cpu", ScaleKernel, double);
OPWRIGHT_PLUGIN("acme");
