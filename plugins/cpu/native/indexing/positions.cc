#include "indexing/positions.h"

#include <algorithm>

namespace opwright_cpu {
namespace {

template <typename Index>
OPWRIGHT_CPU_CLONES bool AllWithin(const Index* index, int64_t n, int64_t least, int64_t count) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong |= index[i] < least || index[i] >= count;
  return wrong == 0;
}

}  // namespace

opwright::Status Positions::Check(const char* slot, int64_t least, int64_t count) const {
  bool all = true;
  Visit([&](const auto* index) { all = AllWithin(index, n_, least, count); });
  if (all) return opwright::Status::Ok();
  int64_t i = 0;
  while ((*this)[i] >= least && (*this)[i] < count) ++i;
  return opwright::Status::Error(slot, " must be in [", least, ", ", count, "), got ", (*this)[i]);
}

}  // namespace opwright_cpu
