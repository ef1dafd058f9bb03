// The operator acme.cos_sim, its gradient, and kernels for both: a plugin wholly in C++.
#include <cmath>
#include <opwright/sdk.hpp>

struct CosSimAttrs {
  float scale;
};

struct CosSim : opwright::Op<CosSimAttrs> {
  static void Make(opwright::OpMaker<CosSimAttrs>& op) {
    op.AddComment("Cosine similarity of rows, out = scale * <a, b> / (|a| |b|).");
    op.AddInput("a", "float [n, k]");
    op.AddInput("b", "float [n, k]").SameDtypeAs("a");
    op.AddOutput("out", "float [n, 1]").SameDtypeAs("a");
    op.AddAttr(&CosSimAttrs::scale, "scale", "the range of out is [-scale, scale]")
        .Default(1.0f)
        .GreaterThan(0.0f);
    op.Gradient("acme.cos_sim_grad", {"a", "b"});
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

// What both kernels need of one row. Sums are in double: a float sum of k products would lose half
// of its digits at k = 10^4.
struct RowSums {
  double dot = 0;
  double norms = 0;  // |a| |b|
  double a_square = 0;
  double b_square = 0;
};

template <typename T>
RowSums SumRow(const T* a, const T* b, int64_t k) {
  RowSums sums;
  for (int64_t j = 0; j < k; ++j) {
    const double x = static_cast<double>(a[j]);
    const double y = static_cast<double>(b[j]);
    sums.dot += x * y;
    sums.a_square += x * x;
    sums.b_square += y * y;
  }
  sums.norms = std::sqrt(sums.a_square) * std::sqrt(sums.b_square);
  return sums;
}

// d/da (scale <a, b> / (|a| |b|)) = scale (b / (|a| |b|) - <a, b> a / (|a|^3 |b|)), times the
// gradient that comes in. A row of zeros has no angle; its similarity and gradient are 0.
template <typename T>
void GradientRow(const T* a, const T* b, int64_t k, double factor, const RowSums& sums,
                 double a_square, T* a_grad) {
  const double along_b = sums.norms > 0 ? factor / sums.norms : 0;
  const double along_a = sums.norms > 0 ? -along_b * sums.dot / a_square : 0;
  for (int64_t j = 0; j < k; ++j) {
    a_grad[j] =
        static_cast<T>(along_b * static_cast<double>(b[j]) + along_a * static_cast<double>(a[j]));
  }
}

}  // namespace

template <typename T>
struct CosSimKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const CosSimAttrs& attrs) {
    const int64_t n = ctx.input(0).dim(0);
    const int64_t k = ctx.input(0).dim(1);
    const T* a = ctx.input(0).data<T>();
    const T* b = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    for (int64_t i = 0; i < n; ++i) {
      const RowSums sums = SumRow(a + i * k, b + i * k, k);
      const double scale = static_cast<double>(attrs.scale);
      out[i] = static_cast<T>(sums.norms > 0 ? scale * sums.dot / sums.norms : 0);
    }
    return opwright::Status::Ok();
  }
};

// The slots of the gradient are derived from those above: a, b, out_grad give a_grad, b_grad. An
// absent out_grad is zero, an output is absent where nobody wants it.
template <typename T>
struct CosSimGradKernel {
  static opwright::Status Run(const opwright::RunContext& ctx, const CosSimAttrs& attrs) {
    const int64_t n = ctx.input(0).dim(0);
    const int64_t k = ctx.input(0).dim(1);
    const T* a = ctx.input(0).data<T>();
    const T* b = ctx.input(1).data<T>();
    const T* out_grad = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* a_grad = ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr;
    T* b_grad = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    for (int64_t i = 0; i < n; ++i) {
      const T* x = a + i * k;
      const T* y = b + i * k;
      const RowSums sums = SumRow(x, y, k);
      const double gradient = out_grad != nullptr ? static_cast<double>(out_grad[i]) : 0.0;
      const double factor = static_cast<double>(attrs.scale) * gradient;
      if (a_grad != nullptr) GradientRow(x, y, k, factor, sums, sums.a_square, a_grad + i * k);
      if (b_grad != nullptr) GradientRow(y, x, k, factor, sums, sums.b_square, b_grad + i * k);
    }
    return opwright::Status::Ok();
  }
};

OPWRIGHT_REGISTER_OP(acme_cos_sim, "acme.cos_sim", CosSim);
OPWRIGHT_REGISTER_KERNEL(acme_cos_sim, "cpu", CosSimKernel, float, double);
OPWRIGHT_REGISTER_GRADIENT_KERNEL(acme_cos_sim, "cpu", CosSimGradKernel, float, double);
OPWRIGHT_PLUGIN("acme", acme_cos_sim);
