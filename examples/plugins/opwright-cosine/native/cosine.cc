// The operator cosine.similarity, its gradient, and the CPU kernels for both.
#include "cosine.h"

#include <opwright/sdk.hpp>

struct CosineAttrs {
  double scale;
};

struct Cosine : opwright::Op<CosineAttrs> {
  static void Make(opwright::OpMaker<CosineAttrs>& op) {
    op.AddComment("Cosine similarity of rows, out = scale * <a, b> / (|a| |b|); 0 for rows of 0.");
    op.AddInput("a", "rows, [n, k]").Dtypes("float32", "float64");
    op.AddInput("b", "as many rows, [n, k]").SameDtypeAs("a");
    op.AddOutput("out", "a similarity for each row, [n, 1]").SameDtypeAs("a");
    op.AddAttr(&CosineAttrs::scale, "scale", "the range of out is [-scale, scale]")
        .Default(1.0)
        .GreaterThan(0.0);
    op.SetVersion(2);  // opwright_cosine/upgrades.py reads version 1
    op.Gradient("cosine.similarity_grad", {"a", "b"});
  }

  static opwright::Status InferShape(opwright::InferShapeContext& ctx) {
    OPWRIGHT_ENFORCE(ctx.input(0).rank() == 2, "a must have 2 dimensions, got ",
                     ctx.input(0).rank());
    OPWRIGHT_ENFORCE(ctx.input(0).shape() == ctx.input(1).shape(),
                     "a and b must have one shape, got ", ctx.input(0).shape(), " and ",
                     ctx.input(1).shape());
    return ctx.output(0).SetShape({ctx.input(0).dim(0), 1});
  }
};

namespace {

template <typename T>
cosine::Sums SumRow(const T* a, const T* b, int64_t k) {
  cosine::Add add;
  cosine::Sums sums = cosine::Add::Identity();
  for (int64_t j = 0; j < k; ++j) sums = add(sums, cosine::TermOf(a[j], b[j]));
  return sums;
}

}  // namespace

template <typename T>
struct CosineKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const CosineAttrs& attrs) {
    const int64_t n = ctx.input(0).dim(0);
    const int64_t k = ctx.input(0).dim(1);
    const T* a = ctx.input(0).data<T>();
    const T* b = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    const cosine::Similarity similarity{attrs.scale};
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(similarity(SumRow(a + i * k, b + i * k, k)));
    }
    return opwright::Status::Ok();
  }
};

// The slots of the gradient are derived from the slots above: a, b, out_grad give a_grad, b_grad.
// An output that is not requested is absent.
template <typename T>
struct CosineGradKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const CosineAttrs& attrs) {
    const int64_t n = ctx.input(0).dim(0);
    const int64_t k = ctx.input(0).dim(1);
    const T* a = ctx.input(0).data<T>();
    const T* b = ctx.input(1).data<T>();
    const T* out_grad = ctx.input(2).data<T>();
    T* a_grad = ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr;
    T* b_grad = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    for (int64_t i = 0; i < n; ++i) {
      const cosine::Sums sums = SumRow(a + i * k, b + i * k, k);
      const double factor = attrs.scale * static_cast<double>(out_grad[i]);
      const cosine::Gradient a_gradient(sums, sums.a_square, factor);
      const cosine::Gradient b_gradient(sums, sums.b_square, factor);
      for (int64_t j = i * k; j < (i + 1) * k; ++j) {
        if (a_grad != nullptr) a_grad[j] = a_gradient.At(a[j], b[j]);
        if (b_grad != nullptr) b_grad[j] = b_gradient.At(b[j], a[j]);
      }
    }
    return opwright::Status::Ok();
  }
};

OPWRIGHT_REGISTER_OP(cosine_similarity, "cosine.similarity", Cosine);
OPWRIGHT_REGISTER_KERNEL(cosine_similarity, "cpu", CosineKernel, float, double);
OPWRIGHT_REGISTER_GRADIENT_KERNEL(cosine_similarity, "cpu", CosineGradKernel, float, double);
OPWRIGHT_PLUGIN("cosine", cosine_similarity);
