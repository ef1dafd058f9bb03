// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_ALONG_AXIS_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ALONG_AXIS_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct CumulativeAttrs {
  int64_t axis;
  bool exclusive;
  bool reverse;
  OPWRIGHT_ATTRIBUTES(axis, exclusive, reverse);
};

struct SortAttrs {
  int64_t axis;
  bool descending;
  OPWRIGHT_ATTRIBUTES(axis, descending);
};

struct SearchsortedAttrs {
  std::string side;
  bool rows;
  std::string dtype;
  OPWRIGHT_ATTRIBUTES(side, rows, dtype);
};

struct TopKAttrs {
  int64_t k;
  int64_t axis;
  bool largest;
  OPWRIGHT_ATTRIBUTES(k, axis, largest);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALONG_AXIS_ATTRIBUTES_H_
