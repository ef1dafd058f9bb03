#include "device/device.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "blas/blas.h"
#include "cudnn/cudnn.h"

namespace opwright_cuda {

namespace {

constexpr unsigned kMapped = 2;       // host memory with an address on the device
constexpr unsigned kNonBlocking = 1;  // a stream that is independent of the default stream
constexpr int kReleaseThreshold = 4;  // an attribute of memory pools

std::mutex& TextsMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::vector<std::string>& Texts() {
  static auto* texts = new std::vector<std::string>;
  return *texts;
}

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

bool IsSet(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && text[0] != '\0' && std::strcmp(text, "0") != 0;
}

int RegisterFault(const std::string& text) {
  const std::lock_guard<std::mutex> lock(TextsMutex());
  std::vector<std::string>& texts = Texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == text) return static_cast<int>(i);
  }
  texts.push_back(text);
  return static_cast<int>(texts.size()) - 1;
}

Current::Current(const Device& device) : driver_(device.driver()) {
  driver_.CtxGetCurrent(&before_);
  changed_ = before_ != device.context();
  if (changed_) driver_.CtxSetCurrent(device.context());
}

Current::~Current() {
  // If the thread had no context before, it keeps this context for the next call.
  if (changed_ && before_ != nullptr) driver_.CtxSetCurrent(before_);
}

Status Device::Open(int ordinal, std::unique_ptr<Device>* device) {
  std::unique_ptr<Device> made(new Device);
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&made->driver_));
  int n = 0;
  OPWRIGHT_RETURN_IF_ERROR(CountDevices(&n));
  OPWRIGHT_RETURN_IF_ERROR(CheckAnyDevice(n));
  OPWRIGHT_ENFORCE(ordinal >= 0 && ordinal < n, "CUDA: the index of a GPU must be in [0, ", n,
                   "), got ", ordinal, "; see nvidia-smi");
  made->ordinal_ = ordinal;
  OPWRIGHT_RETURN_IF_ERROR(made->Start());
  *device = std::move(made);
  return Status::Ok();
}

Status Device::Start() {
  const Driver& api = *driver_;
  is_blocking_ = IsSet("OPWRIGHT_CUDA_BLOCKING");
  OPWRIGHT_RETURN_IF_ERROR(Check(api, api.DeviceGet(&handle_, ordinal_), "finding the GPU"));
  OPWRIGHT_RETURN_IF_ERROR(
      Check(api, api.DevicePrimaryCtxRetain(&context_, handle_), "the GPU's context"));
  const Current current(*this);
  int has_pools = 0;
  api.DeviceGetAttribute(&has_pools, kMemoryPoolsSupported, handle_);
  if (has_pools != 0 && !IsSet("OPWRIGHT_CUDA_DEBUG_MEMORY")) {
    OPWRIGHT_RETURN_IF_ERROR(
        Check(api, api.DeviceGetDefaultMemPool(&pool_, handle_), "the memory pool"));
    // Freed memory stays in the pool of the process for reuse.
    uint64_t threshold = UINT64_MAX;
    OPWRIGHT_RETURN_IF_ERROR(Check(
        api, api.MemPoolSetAttribute(pool_, kReleaseThreshold, &threshold), "the memory pool"));
  }
  void* fault = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(
      Check(api, api.MemHostAlloc(&fault, sizeof(Fault), kMapped), "pinned host memory"));
  fault_ = static_cast<Fault*>(fault);
  *fault_ = Fault{};
  OPWRIGHT_RETURN_IF_ERROR(
      Check(api, api.MemHostGetDevicePointer(&fault_pointer_, fault, 0), "mapped host memory"));
  staging_ = std::make_unique<Staging>(api);
  return staging_->Start();
}

// Frees memory but keeps the context until the process exits, because a profiler (CUPTI) corrupts
// the heap if the context is destroyed earlier.
Device::~Device() {
  if (context_ == nullptr) return;
  const Current current(*this);
  cudnn_.reset();
  blas_.reset();
  staging_.reset();
  if (fault_ != nullptr) driver_->MemFreeHost(fault_);
  if (pool_ != nullptr) driver_->MemPoolTrimTo(pool_, 0);
}

Status Device::Allocate(uint64_t bytes, void** pointer) {
  const Driver& api = *driver_;
  const Current current(*this);
  const bool pooled = pool_ != nullptr && main_stream_ != nullptr;
  CUdeviceptr address = 0;
  const auto allocate = [&] {
    return pooled ? api.MemAllocAsync(&address, bytes, main_stream_)
                  : api.MemAlloc(&address, bytes);
  };
  CUresult result = allocate();
  if (result == kOutOfMemory && pooled) {  // frees by other threads may still be pending
    api.StreamSynchronize(main_stream_);
    api.MemPoolTrimTo(pool_, 0);
    result = allocate();
  }
  if (result == kOutOfMemory) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    api.MemGetInfo(&free_bytes, &total_bytes);
    return Status(OW_OUT_OF_MEMORY,
                  opwright::detail::Concat(
                      "CUDA: GPU ", ordinal_, " has no room for ", bytes, " bytes, ", free_bytes,
                      " of ", total_bytes,
                      " bytes are free; make the batch smaller, or give back "
                      "what CuPy keeps: cupy.get_default_memory_pool().free_all_blocks()"));
  }
  OPWRIGHT_RETURN_IF_ERROR(Check(api, result, "an allocation"));
  *pointer = reinterpret_cast<void*>(address);
  return Status::Ok();
}

void Device::Free(void* pointer) {
  const Current current(*this);
  // Errors here have already been reported, or mean that the process is exiting.
  if (pool_ != nullptr && main_stream_ != nullptr) {
    driver_->MemFreeAsync(Address(pointer), main_stream_);
  } else {
    driver_->MemFree(Address(pointer));
  }
}

Status Device::Copy(CUstream stream, void* destination, bool to_host, const void* source,
                    bool from_host, uint64_t bytes) {
  const Driver& api = *driver_;
  const Current current(*this);
  if (from_host && bytes <= Staging::kMaxBytes) {
    return staging_->Copy(stream, Address(destination), source, bytes);
  }
  CUresult result;
  if (from_host) {
    result = api.MemcpyHtoDAsync(Address(destination), source, bytes, stream);
  } else if (to_host) {
    result = api.MemcpyDtoHAsync(destination, Address(source), bytes, stream);
  } else {
    result = api.MemcpyDtoDAsync(Address(destination), Address(source), bytes, stream);
  }
  return Check(api, result, "a copy");
}

Status Device::MakeStream(CUstream* stream) {
  const Current current(*this);
  OPWRIGHT_RETURN_IF_ERROR(
      Check(*driver_, driver_->StreamCreate(stream, kNonBlocking), "making a stream"));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (main_stream_ == nullptr) main_stream_ = *stream;
  return Status::Ok();
}

Status Device::Wait(CUstream stream) {
  const Current current(*this);
  OPWRIGHT_RETURN_IF_ERROR(Check(
      *driver_, stream != nullptr ? driver_->StreamSynchronize(stream) : driver_->CtxSynchronize(),
      "waiting for the GPU"));
  return TakeFault();
}

Status Device::TakeFault() {
  const std::lock_guard<std::mutex> lock(mutex_);
  volatile Fault* fault = fault_;
  if (fault->is_set == 0) return Status::Ok();
  const long long value = fault->value;
  const auto which = static_cast<size_t>(fault->text);
  fault->is_set = 0;
  const std::lock_guard<std::mutex> texts_lock(TextsMutex());
  std::string text = which < Texts().size() ? Texts()[which] : "a kernel reports {value}";
  const size_t at = text.find("{value}");
  if (at != std::string::npos) text.replace(at, 7, std::to_string(value));
  return Status::Error(text);
}

void Device::Lose(const std::string& text) {
  const int number = RegisterFault(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (loss_.empty()) loss_ = text;
  has_lost_graphs_.store(true);
  volatile Fault* fault = fault_;
  fault->text = number;
  fault->is_set = 1;
}

Status Device::CheckGraphs() {
  if (!has_lost_graphs_.load(std::memory_order_relaxed)) return Status::Ok();
  const std::lock_guard<std::mutex> lock(mutex_);
  return Status::Error("CUDA: the graphs of GPU ", ordinal_,
                       " cannot be replayed any more since an operator failed: ", loss_);
}

Status Device::GetBlas(const Blas** blas) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!blas_) {
    const Current current(*this);
    OPWRIGHT_RETURN_IF_ERROR(Blas::Open(*driver_, &blas_));
  }
  *blas = blas_.get();
  return Status::Ok();
}

Status Device::GetCudnn(Cudnn** cudnn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!cudnn_) {
    const Current current(*this);
    OPWRIGHT_RETURN_IF_ERROR(Cudnn::Open(*driver_, &cudnn_));
  }
  *cudnn = cudnn_.get();
  return Status::Ok();
}

}  // namespace opwright_cuda
