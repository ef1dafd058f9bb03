// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_ALGEBRA_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ALGEBRA_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct FftnAttrs {
  std::vector<int64_t> axis;
  std::string norm;
  OPWRIGHT_ATTRIBUTES(axis, norm);
};

struct CdistAttrs {
  double p = 2;
  OPWRIGHT_ATTRIBUTES(p);
};

struct IrfftAttrs {
  int64_t n = 1;
  OPWRIGHT_ATTRIBUTES(n);
};

struct TriangularAttrs {
  bool upper = true;
  bool transpose = false;
  bool unit_diagonal = false;
  bool left = true;
  OPWRIGHT_ATTRIBUTES(upper, transpose, unit_diagonal, left);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_ATTRIBUTES_H_
