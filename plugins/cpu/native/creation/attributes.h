// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_CREATION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_CREATION_ATTRIBUTES_H_

#include <cstdint>
#include <optional>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

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

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CREATION_ATTRIBUTES_H_
