// The optimizers, and for each the operator that updates many parameters in one step: its slots
// are those of the optimizer, in the same order, each with a list but for the learning rate.
#ifndef OPWRIGHT_CPU_MOVEMENT_UPDATE_OPS_H_
#define OPWRIGHT_CPU_MOVEMENT_UPDATE_OPS_H_

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct SgdAttrs {
  double weight_decay;
};

struct SgdOp : opwright::Op<SgdAttrs> {
  static void Make(opwright::OpMaker<SgdAttrs>& op) {
    op.AddAttr(&SgdAttrs::weight_decay, "weight_decay", "factor of the parameter in its gradient");
  }
};

struct MomentumAttrs {
  double mu;
  bool nesterov;
};

struct MomentumOp : opwright::Op<MomentumAttrs> {
  static void Make(opwright::OpMaker<MomentumAttrs>& op) {
    op.AddAttr(&MomentumAttrs::mu, "mu", "share of the velocity that stays");
    op.AddAttr(&MomentumAttrs::nesterov, "nesterov", "whether the step looks ahead");
  }
};

struct AdamAttrs {
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay = 0;
};

struct AdamOp : opwright::Op<AdamAttrs> {
  static void Make(opwright::OpMaker<AdamAttrs>& op) {
    op.AddAttr(&AdamAttrs::beta1, "beta1", "share of the first moment that stays");
    op.AddAttr(&AdamAttrs::beta2, "beta2", "share of the second moment that stays");
    op.AddAttr(&AdamAttrs::epsilon, "epsilon", "added to the root of the second moment");
  }
};

struct AdamwOp : opwright::Op<AdamAttrs> {
  static void Make(opwright::OpMaker<AdamAttrs>& op) {
    AdamOp::Make(op);
    op.AddAttr(&AdamAttrs::weight_decay, "weight_decay", "share of the parameter to take away");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(sgd, "sgd", opwright_cpu::SgdOp);
OPWRIGHT_DECLARE_OP(momentum, "momentum", opwright_cpu::MomentumOp);
OPWRIGHT_DECLARE_OP(adam, "adam", opwright_cpu::AdamOp);
OPWRIGHT_DECLARE_OP(adamw, "adamw", opwright_cpu::AdamwOp);
OPWRIGHT_DECLARE_OP(multi_sgd, "std.multi_sgd", opwright_cpu::SgdOp);
OPWRIGHT_DECLARE_OP(multi_momentum, "std.multi_momentum", opwright_cpu::MomentumOp);
OPWRIGHT_DECLARE_OP(multi_adam, "std.multi_adam", opwright_cpu::AdamOp);
OPWRIGHT_DECLARE_OP(multi_adamw, "std.multi_adamw", opwright_cpu::AdamwOp);

#endif  // OPWRIGHT_CPU_MOVEMENT_UPDATE_OPS_H_
