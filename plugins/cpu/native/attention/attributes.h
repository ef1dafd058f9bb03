// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_

#include <cstdint>
#include <optional>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct AttentionAttrs {
  bool causal;
  std::optional<double> scale;
  OPWRIGHT_ATTRIBUTES(causal, scale);
};

struct PackedAttentionAttrs {
  int64_t heads;
  bool causal;
  std::optional<double> scale;
  OPWRIGHT_ATTRIBUTES(heads, causal, scale);
};

struct RotaryAttrs {
  bool interleaved;
  OPWRIGHT_ATTRIBUTES(interleaved);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_
