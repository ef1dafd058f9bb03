// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_INDEXING_ATTRIBUTES_H_
#define OPWRIGHT_CPU_INDEXING_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

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

struct EmbeddingBagAttrs {
  std::string mode;
  int64_t padding_index = -1;
  bool include_last_offset = false;
  OPWRIGHT_ATTRIBUTES(mode, padding_index, include_last_offset);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_ATTRIBUTES_H_
