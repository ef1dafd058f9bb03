#include "driver/trial.h"

#include <algorithm>

namespace opwright_cuda {

namespace {

constexpr int kRuns = 3;  // timed runs, after a first run that loads the kernels
// The fill byte yields the value 0.011 in float32 and bfloat16, and 1.06 in float16. Zeros would
// use less power than real data.
constexpr unsigned char kFilling = 0x3c;

CUdeviceptr AddressOf(void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

Trial::~Trial() {
  if (stream_ != nullptr) driver_.StreamSynchronize(stream_);
  for (void* tensor : tensors_) driver_.MemFree(AddressOf(tensor));
  if (begin_ != nullptr) driver_.EventDestroy(begin_);
  if (end_ != nullptr) driver_.EventDestroy(end_);
  if (stream_ != nullptr) driver_.StreamDestroy(stream_);
}

Status Trial::Allocate(uint64_t bytes, void** memory) const {
  CUdeviceptr address = 0;
  const CUresult result = driver_.MemAlloc(&address, static_cast<size_t>(bytes));
  if (result != kSuccess) {
    return Status::Error("CUDA: trying a library's algorithms out takes ", bytes,
                         " bytes more, got ", ErrorText(driver_, result),
                         "; leave out the option cuda.tune");
  }
  *memory = reinterpret_cast<void*>(address);
  return Status::Ok();
}

Status Trial::Start(const std::vector<uint64_t>& bytes) {
  constexpr unsigned kApart = 1;  // independent of the default stream, which waits for others
  constexpr const char* kWhat = "trying algorithms out";
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.StreamCreate(&stream_, kApart), kWhat));
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.EventCreate(&begin_, 0), kWhat));
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.EventCreate(&end_, 0), kWhat));
  for (const uint64_t n : bytes) {
    void* memory = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(Allocate(n, &memory));
    tensors_.push_back(memory);
    const CUresult filled =
        driver_.MemsetD8Async(AddressOf(memory), kFilling, static_cast<size_t>(n), stream_);
    OPWRIGHT_RETURN_IF_ERROR(Check(driver_, filled, kWhat));
  }
  return Status::Ok();
}

Status Trial::TimeOnce(void* workspace, const Run& run, float* milliseconds) {
  constexpr const char* kWhat = "timing an algorithm";
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.EventRecord(begin_, stream_), kWhat));
  OPWRIGHT_RETURN_IF_ERROR(run(workspace, stream_));
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.EventRecord(end_, stream_), kWhat));
  OPWRIGHT_RETURN_IF_ERROR(Check(driver_, driver_.EventSynchronize(end_), kWhat));
  return Check(driver_, driver_.EventElapsedTime(milliseconds, begin_, end_), kWhat);
}

Status Trial::Time(uint64_t workspace_bytes, const Run& run, float* milliseconds) {
  void* workspace = nullptr;
  if (workspace_bytes != 0) OPWRIGHT_RETURN_IF_ERROR(Allocate(workspace_bytes, &workspace));
  float first = 0;
  Status status = TimeOnce(workspace, run, &first);
  *milliseconds = first;
  for (int i = 0; i < kRuns && status.ok(); ++i) {
    float next = 0;
    status = TimeOnce(workspace, run, &next);
    *milliseconds = i == 0 ? next : std::min(*milliseconds, next);
  }
  if (workspace != nullptr) {
    driver_.StreamSynchronize(stream_);
    driver_.MemFree(AddressOf(workspace));
  }
  return status;
}

}  // namespace opwright_cuda
