// Memory for tensors, and a timer, to benchmark cuDNN engines and cuBLASLt algorithms on a GPU.
#ifndef OPWRIGHT_CUDA_DRIVER_TRIAL_H_
#define OPWRIGHT_CUDA_DRIVER_TRIAL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "driver/driver.h"

namespace opwright_cuda {

// Times launches on the current context; frees its allocations on destruction.
class Trial {
 public:
  // A function that enqueues one run, with a workspace, on a stream.
  using Run = std::function<Status(void*, CUstream)>;

  explicit Trial(const Driver& driver) : driver_(driver) {}
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Allocates tensors of these sizes, filled with small values.
  Status Start(const std::vector<uint64_t>& bytes);
  const std::vector<void*>& tensors() const { return tensors_; }
  // Times a few runs and returns the shortest duration.
  Status Time(uint64_t workspace_bytes, const Run& run, float* milliseconds);

 private:
  Status Allocate(uint64_t bytes, void** memory) const;
  Status TimeOnce(void* workspace, const Run& run, float* milliseconds);

  const Driver& driver_;
  std::vector<void*> tensors_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_DRIVER_TRIAL_H_
