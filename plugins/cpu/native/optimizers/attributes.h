// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_ATTRIBUTES_H_
#define OPWRIGHT_CPU_OPTIMIZERS_ATTRIBUTES_H_

#include <optional>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct SgdAttrs {
  std::optional<double> weight_decay;  // set for sgd only
  OPWRIGHT_ATTRIBUTES(weight_decay);
};

struct MomentumAttrs {
  double mu;
  bool nesterov;
  OPWRIGHT_ATTRIBUTES(mu, nesterov);
};

struct AdamAttrs {
  double beta1;
  double beta2;
  double epsilon;
  std::optional<double> weight_decay;  // set for adamw and lamb only
  OPWRIGHT_ATTRIBUTES(beta1, beta2, epsilon, weight_decay);
};

struct NadamAttrs {
  double beta1;
  double beta2;
  double epsilon;
  double momentum_decay;
  OPWRIGHT_ATTRIBUTES(beta1, beta2, epsilon, momentum_decay);
};

struct LionAttrs {
  double beta1;
  double beta2;
  double weight_decay;
  OPWRIGHT_ATTRIBUTES(beta1, beta2, weight_decay);
};

struct EpsilonAttrs {
  double epsilon;
  OPWRIGHT_ATTRIBUTES(epsilon);
};

struct RhoAttrs {
  double rho;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(rho, epsilon);
};

struct RmspropAttrs {
  double rho;
  double epsilon;
  double momentum;
  bool centered;
  OPWRIGHT_ATTRIBUTES(rho, epsilon, momentum, centered);
};

struct MaxNormAttrs {
  double max_norm;
  OPWRIGHT_ATTRIBUTES(max_norm);
};

struct PenaltyAttrs {
  double l1;
  double l2;
  std::optional<double> epsilon;  // set for proximal_adagrad only
  OPWRIGHT_ATTRIBUTES(l1, l2, epsilon);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_ATTRIBUTES_H_
