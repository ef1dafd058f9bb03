// Kernels for operators that other packages describe.
#include <opwright/sdk.hpp>

using opwright::Status;

struct ScaleAttrs {
  double factor;
  std::vector<int32_t> sizes;
  std::optional<int64_t> shift;
  OPWRIGHT_ATTRIBUTES(factor, sizes, shift);  // on two lines, as clang-format breaks long lines
};

template <typename T>
struct ScaleKernel {
  static Status Run(const opwright::RunContext& ctx, const ScaleAttrs& attrs) {
    const auto more =
        static_cast<double>(attrs.shift.value_or(0)) + static_cast<double>(attrs.sizes.size());
    ctx.output(0).data<T>()[0] =
        static_cast<T>(static_cast<double>(ctx.input(0).data<T>()[0]) * attrs.factor + more);
    return Status::Ok();
  }
};

// Run is generic in its attributes, so the type in Prepare determines which attributes are read.
template <typename T>
class PlainKernel {
 public:
  Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    rank_ = ctx.input(0).rank();
    return Status::Ok();
  }
  template <typename Attrs>
  Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    ctx.output(0).data<float>()[0] = static_cast<float>(rank_);
    return Status::Ok();
  }

 private:
  int32_t rank_ = 0;
};

OPWRIGHT_REGISTER_KERNEL_FOR("other.scale", "cpu", ScaleKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("other.plain_grad", "cpu", PlainKernel, opwright::AnyDtype);
OPWRIGHT_PLUGIN("test");
