// Checked steps, in which a kernel fails if it leaves an output unwritten or changes the
// descriptions of its arguments.
#ifndef OPWRIGHT_RUNTIME_CHECKED_STEPS_H_
#define OPWRIGHT_RUNTIME_CHECKED_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opwright/abi.h"

namespace opwright {

class Instance;
struct PlanStep;

// Bits of Plan::checks, for kernels of the host.
constexpr uint32_t kCheckTensors = 1;  // fields, dims and strides of arguments must not change
constexpr uint32_t kCheckOutputs = 2;  // every element of an output must be written
constexpr uint32_t kItemAligned = 4;   // not a check: arena values may be only item-aligned
constexpr uint32_t kCheckAll = kCheckTensors | kCheckOutputs;

// The descriptions of a step's arguments, as they were before its kernel was called.
class ShownTensors {
 public:
  ShownTensors(const Instance& instance, const PlanStep& step, const ow_call& call);

  // Undoes the kernel's changes and returns their description; empty if there are none.
  std::string Restore() const;

 private:
  bool HasChanged(uint32_t arg) const;

  const Instance& instance_;
  const PlanStep& step_;
  const ow_call& call_;
  std::vector<DLTensor> before_;
};

// Fills a tensor on the host with marks, values that a kernel does not write by chance.
void MarkUnwritten(const DLTensor& tensor);

// Runs the step of a frame with the checks of its plan.
int32_t RunChecked(const ow_call* call);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_CHECKED_STEPS_H_
