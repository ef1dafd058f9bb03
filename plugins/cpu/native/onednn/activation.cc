#include "onednn/activation.h"

#include <opwright/functors.h>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

OPWRIGHT_CPU_CLONES void SiluInPlace(float* numbers, int64_t n) {
  for (int64_t i = 0; i < n; ++i) numbers[i] = opwright::functors::Silu(numbers[i]);
}

}  // namespace

OwnActivation FindOwnActivation(std::string_view op) {
  return op == "silu" ? &SiluInPlace : nullptr;
}

}  // namespace opwright_cpu
