// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_METRICS_ATTRIBUTES_H_
#define OPWRIGHT_CPU_METRICS_ATTRIBUTES_H_

#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct EditDistanceAttrs {
  bool normalized;
  OPWRIGHT_ATTRIBUTES(normalized);
};

struct AccuracyAttrs {
  int64_t k;
  OPWRIGHT_ATTRIBUTES(k);
};

struct AucAttrs {
  int64_t num_thresholds;
  OPWRIGHT_ATTRIBUTES(num_thresholds);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_METRICS_ATTRIBUTES_H_
