// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_OPS_H_
#define OPWRIGHT_CPU_ELEMENTWISE_OPS_H_

#include <opwright/sdk.hpp>
#include <string>

namespace opwright_cpu {

struct NoAttrs {};
struct WithoutAttributes : opwright::Op<NoAttrs> {
  static void Make(opwright::OpMaker<NoAttrs>&) {}
};

struct AlphaAttrs {
  double alpha;
};
struct WithAlpha : opwright::Op<AlphaAttrs> {
  static void Make(opwright::OpMaker<AlphaAttrs>& op) {
    op.AddAttr(&AlphaAttrs::alpha, "alpha", "slope or limit below 0");
  }
};

struct ScaleAttrs {
  double scale;
  double bias;
};
struct Scale : opwright::Op<ScaleAttrs> {
  static void Make(opwright::OpMaker<ScaleAttrs>& op) {
    op.AddAttr(&ScaleAttrs::scale, "scale", "slope");
    op.AddAttr(&ScaleAttrs::bias, "bias", "what 0 becomes");
  }
};

struct ClipAttrs {
  double min;
  double max;
};
struct Clip : opwright::Op<ClipAttrs> {
  static void Make(opwright::OpMaker<ClipAttrs>& op) {
    op.AddAttr(&ClipAttrs::min, "min", "least value of out");
    op.AddAttr(&ClipAttrs::max, "max", "greatest value of out");
  }
};

struct GeluAttrs {
  std::string approximate;
};
struct Gelu : opwright::Op<GeluAttrs> {
  static void Make(opwright::OpMaker<GeluAttrs>& op) {
    op.AddAttr(&GeluAttrs::approximate, "approximate", "none or tanh");
  }
};

struct FillAttrs {
  double value;
};
struct Fill : opwright::Op<FillAttrs> {
  static void Make(opwright::OpMaker<FillAttrs>& op) {
    op.AddAttr(&FillAttrs::value, "value", "the value");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(abs, "abs", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(negative, "negative", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(sign, "sign", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(square, "square", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(clip, "clip", opwright_cpu::Clip);
OPWRIGHT_DECLARE_OP(exp, "exp", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(log, "log", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(sqrt, "sqrt", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(reciprocal, "reciprocal", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(erf, "erf", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(scale, "scale", opwright_cpu::Scale);

OPWRIGHT_DECLARE_OP(relu, "relu", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(sigmoid, "sigmoid", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(tanh, "tanh", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(softplus, "softplus", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(silu, "silu", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(gelu, "gelu", opwright_cpu::Gelu);
OPWRIGHT_DECLARE_OP(elu, "elu", opwright_cpu::WithAlpha);
OPWRIGHT_DECLARE_OP(leaky_relu, "leaky_relu", opwright_cpu::WithAlpha);

OPWRIGHT_DECLARE_OP(add, "add", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(subtract, "subtract", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(multiply, "multiply", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(divide, "divide", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(power, "power", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(maximum, "maximum", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(minimum, "minimum", opwright_cpu::WithoutAttributes);

OPWRIGHT_DECLARE_OP(equal, "equal", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(not_equal, "not_equal", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(less, "less", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(less_equal, "less_equal", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(greater, "greater", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(greater_equal, "greater_equal", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(logical_and, "logical_and", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(logical_or, "logical_or", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(logical_xor, "logical_xor", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(logical_not, "logical_not", opwright_cpu::WithoutAttributes);

OPWRIGHT_DECLARE_OP(where, "where", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(add_n, "add_n", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(cast, "cast", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(cast_like, "cast_like", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(assign, "assign", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(fill, "fill", opwright_cpu::Fill);
OPWRIGHT_DECLARE_OP(fill_like, "fill_like", opwright_cpu::Fill);

#endif  // OPWRIGHT_CPU_ELEMENTWISE_OPS_H_
