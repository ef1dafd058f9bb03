#include "pooling/places.h"

#include <algorithm>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

// Returns the greatest position; a negative position becomes a huge unsigned integer.
OPWRIGHT_CPU_CLONES uint32_t Greatest(const int32_t* places, int64_t n) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < n; ++i) greatest = std::max(greatest, static_cast<uint32_t>(places[i]));
  return greatest;
}

}  // namespace

bool PlaceCheck::Admits(const int32_t* places, int64_t n) {
  if (n == 0 || Greatest(places, n) < count_) return true;
  const int32_t* wrong =
      std::find_if(places, places + n, [this](int32_t at) { return at < 0 || at >= count_; });
  wrong_.store(*wrong, std::memory_order_relaxed);
  return false;
}

opwright::Status PlaceCheck::ToStatus() const {
  const int64_t wrong = wrong_.load(std::memory_order_relaxed);
  if (wrong == kNone) return opwright::Status::Ok();
  return opwright::Status::Error("index must be in [0, ", count_, "), got ", wrong);
}

}  // namespace opwright_cpu
