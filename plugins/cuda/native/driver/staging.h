// Pinned host memory for small copies to the device. The caller may reuse its array as soon as the
// copy is enqueued.
#ifndef OPWRIGHT_CUDA_DRIVER_STAGING_H_
#define OPWRIGHT_CUDA_DRIVER_STAGING_H_

#include <cstdint>
#include <mutex>

#include "driver/driver.h"

namespace opwright_cuda {

class Staging {
 public:
  // Larger copies are staged by the driver.
  static constexpr uint64_t kMaxBytes = 1 << 20;

  explicit Staging(const Driver& driver) : driver_(driver) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  Status Start();
  Status Copy(CUstream stream, CUdeviceptr destination, const void* source, uint64_t bytes);

 private:
  static constexpr int kBuffers = 4;
  struct Buffer {
    void* memory = nullptr;
    CUevent read = nullptr;  // recorded after the device has read the last contents
  };

  const Driver& driver_;
  std::mutex mutex_;
  Buffer buffers_[kBuffers];
  int next_ = 0;
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_DRIVER_STAGING_H_
