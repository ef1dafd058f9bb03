// Loops over the lines of an array, in either direction along the axis.
#ifndef OPWRIGHT_CPU_ALONG_AXIS_EACH_LINE_H_
#define OPWRIGHT_CPU_ALONG_AXIS_EACH_LINE_H_

#include <algorithm>
#include <cstdint>

#include "common/parallel.h"
#include "reduction/layout.h"

namespace opwright_cpu {

// Calls function(first element, step) for each line; a reversed line starts at its last element.
template <typename Function>
void EachLine(const Lines& lines, bool reverse, int32_t n_threads, const Function& function) {
  if (lines.numel() == 0) return;
  const int64_t step = reverse ? -lines.inner : lines.inner;
  const int64_t first = reverse ? lines.length - 1 : 0;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / 8 / lines.length);
  ParallelFor(n_threads, lines.count(), grain, 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) function(PlaceOf(lines, line, first), step);
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALONG_AXIS_EACH_LINE_H_
