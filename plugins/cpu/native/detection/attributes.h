// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_DETECTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_DETECTION_ATTRIBUTES_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

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

struct RoiPoolAttrs {
  double spatial_scale = 1.0;
  OPWRIGHT_ATTRIBUTES(spatial_scale);
};

struct RoiAlignAttrs {
  double spatial_scale = 1.0;
  int64_t sampling_ratio = -1;
  bool aligned = false;
  OPWRIGHT_ATTRIBUTES(spatial_scale, sampling_ratio, aligned);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_DETECTION_ATTRIBUTES_H_
