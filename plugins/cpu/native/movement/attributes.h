// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_
#define OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

using opwright::NoAttrs;

struct AxisAttrs {
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

struct TransposeAttrs {
  std::vector<int64_t> axes;
  OPWRIGHT_ATTRIBUTES(axes);
};

struct SliceAttrs {
  std::vector<int64_t> axes;
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> steps;
  OPWRIGHT_ATTRIBUTES(axes, starts, ends, steps);
};

struct PadAttrs {
  std::vector<int64_t> paddings;
  std::string mode;
  double value;
  OPWRIGHT_ATTRIBUTES(paddings, mode, value);
};

struct EmbeddingAttrs {
  int64_t padding_index;
  OPWRIGHT_ATTRIBUTES(padding_index);
};

struct OneHotAttrs {
  int64_t depth;
  OPWRIGHT_ATTRIBUTES(depth);
};

struct LengthAttrs {
  int64_t length;
  OPWRIGHT_ATTRIBUTES(length);
};

struct HistogramAttrs {
  int64_t bins;
  double min;
  double max;
  OPWRIGHT_ATTRIBUTES(bins, min, max);
};

struct NmsAttrs {
  double iou_threshold;
  double score_threshold;
  int64_t limit;
  OPWRIGHT_ATTRIBUTES(iou_threshold, score_threshold, limit);
};

struct BatchedNmsAttrs {
  double iou_threshold;
  double score_threshold;
  int64_t limit;
  int64_t class_limit;
  OPWRIGHT_ATTRIBUTES(iou_threshold, score_threshold, limit, class_limit);
};

struct MulticlassNmsAttrs {
  double score_threshold;
  double iou_threshold;
  int64_t nms_top_k;
  int64_t keep_top_k;
  double nms_eta;
  int64_t background_label;
  bool normalized;
  int64_t class_top_k;
  OPWRIGHT_ATTRIBUTES(score_threshold, iou_threshold, nms_top_k, keep_top_k, nms_eta,
                      background_label, normalized, class_top_k);
};

struct PriorBoxAttrs {
  std::vector<double> min_sizes;
  std::vector<double> max_sizes;
  std::vector<double> aspect_ratios;
  std::vector<double> variance;
  std::vector<double> steps;
  bool flip;
  bool clip;
  bool max_size_second;
  double offset;
  OPWRIGHT_ATTRIBUTES(min_sizes, max_sizes, aspect_ratios, variance, steps, flip, clip,
                      max_size_second, offset);
};

struct UniformAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double min;
  double max;
  OPWRIGHT_ATTRIBUTES(seed, stream, min, max);
};

struct NormalAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double mean;
  double std;
  OPWRIGHT_ATTRIBUTES(seed, stream, mean, std);
};

struct SeedAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  OPWRIGHT_ATTRIBUTES(seed, stream);
};

struct SeedPartAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(seed, stream, axis);
};

struct DropoutPartAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double probability;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(seed, stream, probability, axis);
};

struct RandintAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  int64_t low;
  int64_t high;
  OPWRIGHT_ATTRIBUTES(seed, stream, low, high);
};

struct DropoutAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double probability;
  bool training;
  OPWRIGHT_ATTRIBUTES(seed, stream, probability, training);
};

struct SgdAttrs {
  std::optional<double> weight_decay;  // of sgd only
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
  std::optional<double> weight_decay;  // of adamw and lamb only
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
  std::optional<double> epsilon;  // of proximal_adagrad only
  OPWRIGHT_ATTRIBUTES(l1, l2, epsilon);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_
