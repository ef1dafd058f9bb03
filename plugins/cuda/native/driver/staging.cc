#include "driver/staging.h"

#include <cstring>

namespace opwright_cuda {

namespace {

constexpr unsigned kDisableTiming = 2;

}  // namespace

Staging::~Staging() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.read != nullptr) driver_.EventDestroy(buffer.read);
    if (buffer.memory != nullptr) driver_.MemFreeHost(buffer.memory);
  }
}

Status Staging::Start() {
  for (Buffer& buffer : buffers_) {
    OPWRIGHT_RETURN_IF_ERROR(
        Check(driver_, driver_.MemHostAlloc(&buffer.memory, kMaxBytes, 0), "pinned host memory"));
    OPWRIGHT_RETURN_IF_ERROR(
        Check(driver_, driver_.EventCreate(&buffer.read, kDisableTiming), "an event"));
  }
  return Status::Ok();
}

Status Staging::Copy(CUstream stream, CUdeviceptr destination, const void* source, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Buffer& buffer = buffers_[next_];
  next_ = (next_ + 1) % kBuffers;
  // An event that was never recorded counts as complete.
  OPWRIGHT_RETURN_IF_ERROR(
      Check(driver_, driver_.EventSynchronize(buffer.read), "waiting for a copy"));
  std::memcpy(buffer.memory, source, bytes);
  OPWRIGHT_RETURN_IF_ERROR(
      Check(driver_, driver_.MemcpyHtoDAsync(destination, buffer.memory, bytes, stream), "a copy"));
  return Check(driver_, driver_.EventRecord(buffer.read, stream), "an event");
}

}  // namespace opwright_cuda
