// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_REDUCTION_OPS_H_
#define OPWRIGHT_CPU_REDUCTION_OPS_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <vector>

namespace opwright_cpu {

struct Plain : opwright::Op<opwright::NoAttrs> {
  static void Make(opwright::OpMaker<opwright::NoAttrs>&) {}
};

struct AxesAttrs {
  std::vector<int64_t> axis;
};

struct OverAxes : opwright::Op<AxesAttrs> {
  static void Make(opwright::OpMaker<AxesAttrs>& op) {
    op.AddAttr(&AxesAttrs::axis, "axis", "axes to reduce; none given: all")
        .Default(std::vector<int64_t>{});
  }
};

struct AxisAttrs {
  int64_t axis;
};

struct AlongAxis : opwright::Op<AxisAttrs> {
  static void Make(opwright::OpMaker<AxisAttrs>& op) {
    op.AddAttr(&AxisAttrs::axis, "axis", "the axis").Default(-1);
  }
};

struct CrossEntropyAttrs {
  bool soft_label;
  double epsilon;
};

struct CrossEntropy : opwright::Op<CrossEntropyAttrs> {
  static void Make(opwright::OpMaker<CrossEntropyAttrs>& op) {
    op.AddAttr(&CrossEntropyAttrs::soft_label, "soft_label", "label holds distributions")
        .Default(false);
    op.AddAttr(&CrossEntropyAttrs::epsilon, "epsilon", "least probability").Default(1e-37);
  }
};

struct SoftmaxLossAttrs {
  bool soft_label;
  int64_t ignore_index;
  int64_t axis;
};

struct SoftmaxLoss : opwright::Op<SoftmaxLossAttrs> {
  static void Make(opwright::OpMaker<SoftmaxLossAttrs>& op) {
    op.AddAttr(&SoftmaxLossAttrs::soft_label, "soft_label", "label holds distributions")
        .Default(false);
    op.AddAttr(&SoftmaxLossAttrs::ignore_index, "ignore_index", "class id without loss")
        .Default(-100);
    op.AddAttr(&SoftmaxLossAttrs::axis, "axis", "the axis of the classes").Default(-1);
  }
};

struct LayerNormAttrs {
  int64_t begin_norm_axis;
  double epsilon;
};

struct LayerNorm : opwright::Op<LayerNormAttrs> {
  static void Make(opwright::OpMaker<LayerNormAttrs>& op) {
    op.AddAttr(&LayerNormAttrs::begin_norm_axis, "begin_norm_axis", "first normalised axis")
        .Default(1);
    op.AddAttr(&LayerNormAttrs::epsilon, "epsilon", "added to the variance").Default(1e-5);
  }
};

struct BatchNormAttrs {
  double momentum;
  double epsilon;
  bool training;
};

struct BatchNorm : opwright::Op<BatchNormAttrs> {
  static void Make(opwright::OpMaker<BatchNormAttrs>& op) {
    op.AddAttr(&BatchNormAttrs::momentum, "momentum", "share that stays").Default(0.9);
    op.AddAttr(&BatchNormAttrs::epsilon, "epsilon", "added to the variance").Default(1e-5);
    op.AddAttr(&BatchNormAttrs::training, "training", "use the batch's statistics").Default(false);
  }
};

struct CosSimAttrs {
  double scale;
  int64_t axis;
  double epsilon;
};

struct CosSim : opwright::Op<CosSimAttrs> {
  static void Make(opwright::OpMaker<CosSimAttrs>& op) {
    op.AddAttr(&CosSimAttrs::scale, "scale", "range of the result").Default(1.0);
    op.AddAttr(&CosSimAttrs::axis, "axis", "the axis of the vectors").Default(-1);
    op.AddAttr(&CosSimAttrs::epsilon, "epsilon", "least norm").Default(1e-12);
  }
};

struct AccuracyAttrs {
  int64_t k;
};

struct Accuracy : opwright::Op<AccuracyAttrs> {
  static void Make(opwright::OpMaker<AccuracyAttrs>& op) {
    op.AddAttr(&AccuracyAttrs::k, "k", "how many of the best classes count").Default(1);
  }
};

struct TopKAttrs {
  int64_t k;
  int64_t axis;
  bool largest;
};

struct TopK : opwright::Op<TopKAttrs> {
  static void Make(opwright::OpMaker<TopKAttrs>& op) {
    op.AddAttr(&TopKAttrs::k, "k", "how many").Required();
    op.AddAttr(&TopKAttrs::axis, "axis", "the axis that is searched").Default(-1);
    op.AddAttr(&TopKAttrs::largest, "largest", "the greatest or the least").Default(true);
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(sum, "sum", opwright_cpu::OverAxes);
OPWRIGHT_DECLARE_OP(mean, "mean", opwright_cpu::OverAxes);
OPWRIGHT_DECLARE_OP(max, "max", opwright_cpu::OverAxes);
OPWRIGHT_DECLARE_OP(min, "min", opwright_cpu::OverAxes);
OPWRIGHT_DECLARE_OP(argmax, "argmax", opwright_cpu::AlongAxis);
OPWRIGHT_DECLARE_OP(argmin, "argmin", opwright_cpu::AlongAxis);
OPWRIGHT_DECLARE_OP(sum_like, "sum_like", opwright_cpu::Plain);
OPWRIGHT_DECLARE_OP(expand_like, "expand_like", opwright_cpu::Plain);
OPWRIGHT_DECLARE_OP(expand, "expand", opwright_cpu::Plain);
OPWRIGHT_DECLARE_OP(softmax, "softmax", opwright_cpu::AlongAxis);
OPWRIGHT_DECLARE_OP(log_softmax, "log_softmax", opwright_cpu::AlongAxis);
OPWRIGHT_DECLARE_OP(cross_entropy, "cross_entropy", opwright_cpu::CrossEntropy);
OPWRIGHT_DECLARE_OP(softmax_with_cross_entropy, "softmax_with_cross_entropy",
                    opwright_cpu::SoftmaxLoss);
OPWRIGHT_DECLARE_OP(sigmoid_cross_entropy_with_logits, "sigmoid_cross_entropy_with_logits",
                    opwright_cpu::Plain);
OPWRIGHT_DECLARE_OP(mse, "mse", opwright_cpu::Plain);
OPWRIGHT_DECLARE_OP(layer_norm, "layer_norm", opwright_cpu::LayerNorm);
OPWRIGHT_DECLARE_OP(batch_norm, "batch_norm", opwright_cpu::BatchNorm);
OPWRIGHT_DECLARE_OP(cos_sim, "cos_sim", opwright_cpu::CosSim);
OPWRIGHT_DECLARE_OP(accuracy, "accuracy", opwright_cpu::Accuracy);
OPWRIGHT_DECLARE_OP(top_k, "top_k", opwright_cpu::TopK);

#endif  // OPWRIGHT_CPU_REDUCTION_OPS_H_
