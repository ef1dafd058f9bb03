// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_RECURRENT_ATTRIBUTES_H_
#define OPWRIGHT_CPU_RECURRENT_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct RecurrentAttrs {
  bool bidirectional;
  bool batch_first;
  std::optional<std::string> activation;  // set for rnn only
  OPWRIGHT_ATTRIBUTES(bidirectional, batch_first, activation);
};

struct LstmTrainAttrs {
  bool batch_first;
  int64_t part_steps;
  OPWRIGHT_ATTRIBUTES(batch_first, part_steps);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_ATTRIBUTES_H_
