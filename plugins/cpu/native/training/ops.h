// The operators of this room: `fc` of opwright-std, and those that the package's passes emit.
#ifndef OPWRIGHT_CPU_TRAINING_OPS_H_
#define OPWRIGHT_CPU_TRAINING_OPS_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <string>

namespace opwright_cpu {

struct FcAttrs {
  int64_t num_flatten_dims;
  std::string activation;
};

struct Fc : opwright::Op<FcAttrs> {
  static void Make(opwright::OpMaker<FcAttrs>& op) {
    op.AddAttr(&FcAttrs::num_flatten_dims, "num_flatten_dims", "axes of x that out keeps");
    op.AddAttr(&FcAttrs::activation, "activation", "operator behind the sum");
  }
};

struct FcInputGradAttrs {
  std::string activation;
};

// grad [m, n], weight [k, n], activated? [m, k] -> x_grad [m, k], bias_grad? [k]
struct FcInputGrad : opwright::Op<FcInputGradAttrs> {
  static void Make(opwright::OpMaker<FcInputGradAttrs>& op) {
    op.AddAttr(&FcInputGradAttrs::activation, "activation", "that made activated");
  }
};

struct FcSgdAttrs {
  double weight_decay;
};

// param [k, n], x [m, k], grad [m, n], learning_rate [1], bias? [n] -> param_out, bias_out?
struct FcSgd : opwright::Op<FcSgdAttrs> {
  static void Make(opwright::OpMaker<FcSgdAttrs>& op) {
    op.AddAttr(&FcSgdAttrs::weight_decay, "weight_decay", "as of sgd");
  }
};

struct SoftmaxCrossEntropyAttrs {
  double epsilon;
  int64_t ignore_index;
  double loss_grad;
  std::string source;
};

// logits [m, c], label [m] -> softmax? [m, c], loss? [m], logits_grad [m, c]
struct SoftmaxCrossEntropy : opwright::Op<SoftmaxCrossEntropyAttrs> {
  static void Make(opwright::OpMaker<SoftmaxCrossEntropyAttrs>& op) {
    op.AddAttr(&SoftmaxCrossEntropyAttrs::epsilon, "epsilon", "least probability");
    op.AddAttr(&SoftmaxCrossEntropyAttrs::ignore_index, "ignore_index", "class without loss");
    op.AddAttr(&SoftmaxCrossEntropyAttrs::loss_grad, "loss_grad", "gradient of each loss");
    op.AddAttr(&SoftmaxCrossEntropyAttrs::source, "source", "operator that messages name");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(fc, "fc", opwright_cpu::Fc);
OPWRIGHT_DECLARE_OP(fc_input_grad, "cpu.fc_input_grad", opwright_cpu::FcInputGrad);
OPWRIGHT_DECLARE_OP(fc_sgd, "cpu.fc_sgd", opwright_cpu::FcSgd);
OPWRIGHT_DECLARE_OP(softmax_cross_entropy, "std.softmax_cross_entropy",
                    opwright_cpu::SoftmaxCrossEntropy);

#endif  // OPWRIGHT_CPU_TRAINING_OPS_H_
