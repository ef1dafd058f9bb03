// Batches of matrices that are broadcast to the batch shape of an output.
#ifndef OPWRIGHT_CPU_ALGEBRA_STACKS_H_
#define OPWRIGHT_CPU_ALGEBRA_STACKS_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

class Stacks {
 public:
  Stacks() = default;
  Stacks(const opwright::Shape& out, const opwright::Shape& in) {
    int64_t stride = in.dim(-1) * in.dim(-2);
    for (int32_t i = 3; i <= out.rank(); ++i) {
      const int64_t length = i <= in.rank() ? in.dim(-i) : 1;
      axes_.push_back({out.dim(-i), length == 1 ? 0 : stride});
      stride *= length;
    }
  }

  // Returns the offset of the input matrix that belongs to output matrix `number`.
  int64_t OffsetOf(int64_t number) const {
    int64_t offset = 0;
    for (const Axis& axis : axes_) {
      offset += number % axis.length * axis.stride;
      number /= axis.length;
    }
    return offset;
  }

 private:
  struct Axis {
    int64_t length;  // length of the output's axis
    int64_t stride;  // stride of the input, 0 if it is broadcast
  };
  std::vector<Axis> axes_;  // innermost first
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_STACKS_H_
