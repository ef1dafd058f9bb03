// Kernels that run their work on the threads of the host.
#include <opwright/sdk.hpp>

using opwright::Status;

struct SharesAttrs {
  int64_t fails;
};

struct Shares : opwright::Op<SharesAttrs> {
  static void Make(opwright::OpMaker<SharesAttrs>& op) {
    op.AddComment("out = x + 1, element by element in a share of its own.");
    op.AddInput("x", "float64 [n]");
    op.AddOutput("out", "float64 [n]").SameDtypeAs("x");
    op.AddAttr(&SharesAttrs::fails, "fails", "the share from which on all of them throw")
        .Required();
  }
  static Status InferShape(opwright::InferShapeContext& ctx) {
    return ctx.output(0).SetShape(ctx.input(0).shape());
  }
};

template <typename T>
struct SharesKernel {
  static Status Prepare(opwright::PrepareContext&, const SharesAttrs& attrs) {
    if (attrs.fails >= 0) return Status::Ok();
    return Status::Unsupported("a processor with ", -attrs.fails, " units is needed");
  }
  static Status Run(const opwright::RunContext& ctx, const SharesAttrs& attrs) {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const auto n = static_cast<int32_t>(ctx.input(0).numel());
    opwright::Parallel(ctx.n_threads(), n, [&](int32_t share) {
      if (share >= attrs.fails) throw opwright::Exception("share ", share, " failed");
      out[share] += x[share] + 1;
    });
    return Status::Ok();
  }
};

OPWRIGHT_REGISTER_OP(shares, "test.shares", Shares);
OPWRIGHT_REGISTER_KERNEL(shares, "cpu", SharesKernel, double);
OPWRIGHT_PLUGIN("test", shares);
