#include "memory.h"

#include <map>
#include <mutex>

#include "library.h"

namespace opwright_nccl {

using opwright::Status;

namespace {

std::mutex buckets_mutex;

std::map<const void*, Bucket*>& Buckets() {
  static auto* buckets = new std::map<const void*, Bucket*>;
  return *buckets;
}

}  // namespace

Memory::~Memory() {
  if (pointer_ == nullptr) return;
  const Within within(device_);
  Cuda().CtxSynchronize();  // the last launched graph can still use it
  Nccl().MemFree(pointer_);
}

Status Memory::Allocate(void* device, int64_t bytes) {
  if (bytes == 0) return Status::Ok();
  device_ = device;
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver());
  const Within within(device);
  const int code = Nccl().MemAlloc(&pointer_, static_cast<size_t>(bytes));
  OPWRIGHT_ENFORCE(code == kSuccess, "NCCL has no room for ", bytes, " bytes: ", ErrorText(code));
  return Status::Ok();
}

Bucket::~Bucket() {
  const std::lock_guard<std::mutex> lock(buckets_mutex);
  for (auto entry = Buckets().begin(); entry != Buckets().end();) {
    entry = entry->second == this ? Buckets().erase(entry) : std::next(entry);
  }
}

void KeepBucket(const void* handle, Bucket* bucket) {
  const std::lock_guard<std::mutex> lock(buckets_mutex);
  Buckets()[handle] = bucket;
}

Bucket* FindBucket(const void* handle) {
  const std::lock_guard<std::mutex> lock(buckets_mutex);
  const auto found = Buckets().find(handle);
  return found == Buckets().end() ? nullptr : found->second;
}

}  // namespace opwright_nccl
