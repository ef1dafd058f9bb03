// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>

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

struct EditDistanceAttrs {
  bool normalized;
  OPWRIGHT_ATTRIBUTES(normalized);
};

struct RecurrentAttrs {
  bool bidirectional;
  bool batch_first;
  std::optional<std::string> activation;  // of rnn only
  OPWRIGHT_ATTRIBUTES(bidirectional, batch_first, activation);
};

struct LstmTrainAttrs {
  bool batch_first;
  int64_t part_steps;
  OPWRIGHT_ATTRIBUTES(batch_first, part_steps);
};

struct RotaryAttrs {
  bool interleaved;
  OPWRIGHT_ATTRIBUTES(interleaved);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ATTENTION_ATTRIBUTES_H_
