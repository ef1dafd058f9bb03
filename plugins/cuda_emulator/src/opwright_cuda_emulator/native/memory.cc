// The memory of the emulated driver; device memory is host memory that is registered for a GPU.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

using namespace emulator;

namespace {

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidContext = 201;

struct Allocation {
  size_t bytes = 0;
  int device = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<uint64_t, Allocation> allocations;
  size_t used_bytes = 0;
};

Memory& The() {
  static auto* memory = new Memory;
  return *memory;
}

using Guard = std::lock_guard<std::mutex>;

size_t TotalBytes() { return static_cast<size_t>(Setting("memory_bytes", int64_t{1} << 34)); }

int CopyLater(void* stream, void* destination, const void* source, size_t bytes) {
  return Enqueue(stream, [=] {
    std::memmove(destination, source, bytes);
    return std::string();
  });
}

}  // namespace

EMULATED cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  const size_t total = TotalBytes();
  const int device = std::max(0, CurrentDevice());
  if (bytes == 0) return kInvalidValue;
  {
    const Guard guard(The().mutex);
    if (The().used_bytes + bytes > total) return kOutOfMemory;
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) return kOutOfMemory;
    std::memset(memory, 0xff, bytes);  // NaN, to detect reads of unwritten memory
    *address = reinterpret_cast<uint64_t>(memory);
    The().allocations[*address] = {bytes, device};
    The().used_bytes += bytes;
  }
  Count("allocations", 1);
  return 0;
}
EMULATED cuMemFree_v2(uint64_t address) {
  {
    const Guard guard(The().mutex);
    const auto found = The().allocations.find(address);
    if (found == The().allocations.end()) return kInvalidValue;
    The().used_bytes -= found->second.bytes;
    The().allocations.erase(found);
    std::free(reinterpret_cast<void*>(address));
  }
  Count("allocations", -1);
  return 0;
}
EMULATED cuMemAllocAsync(uint64_t* address, size_t bytes, void*) {
  return cuMemAlloc_v2(address, bytes);
}
EMULATED cuMemFreeAsync(uint64_t address, void* stream) {
  return Enqueue(stream, [address] {
    return cuMemFree_v2(address) == 0 ? std::string() : std::string("memory was freed twice");
  });
}
EMULATED cuDeviceGetDefaultMemPool(void** pool, int) {
  static char only;
  *pool = &only;
  return 0;
}
EMULATED cuMemPoolSetAttribute(void*, int, void*) { return 0; }
EMULATED cuMemPoolTrimTo(void*, size_t) { return 0; }
EMULATED cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = TotalBytes();
  const Guard guard(The().mutex);
  *free_bytes = *total_bytes - std::min(The().used_bytes, *total_bytes);
  return 0;
}
EMULATED cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return *memory == nullptr ? kOutOfMemory : 0;
}
EMULATED cuMemFreeHost(void* memory) {
  std::free(memory);
  return 0;
}
EMULATED cuMemHostGetDevicePointer_v2(uint64_t* address, void* memory, unsigned) {
  *address = reinterpret_cast<uint64_t>(memory);
  return 0;
}
EMULATED cuPointerGetAttribute(void* value, int attribute, uint64_t address) {
  constexpr int kDeviceOrdinal = 9;
  if (CurrentDevice() < 0) return kInvalidContext;
  const Guard guard(The().mutex);
  auto found = The().allocations.upper_bound(address);
  if (attribute != kDeviceOrdinal || found == The().allocations.begin()) return kInvalidValue;
  --found;
  if (address >= found->first + found->second.bytes) return kInvalidValue;
  *static_cast<int*>(value) = found->second.device;
  return 0;
}

EMULATED cuMemcpyHtoDAsync_v2(uint64_t destination, const void* source, size_t bytes,
                              void* stream) {
  // Pageable memory is read before the call returns; pinned memory must exist until the copy runs.
  std::vector<char> kept(static_cast<const char*>(source),
                         static_cast<const char*>(source) + bytes);
  return Enqueue(stream, [destination, kept = std::move(kept)] {
    std::memcpy(reinterpret_cast<void*>(destination), kept.data(), kept.size());
    return std::string();
  });
}
EMULATED cuMemcpyDtoHAsync_v2(void* destination, uint64_t source, size_t bytes, void* stream) {
  return CopyLater(stream, destination, reinterpret_cast<void*>(source), bytes);
}
EMULATED cuMemcpyDtoDAsync_v2(uint64_t destination, uint64_t source, size_t bytes, void* stream) {
  return CopyLater(stream, reinterpret_cast<void*>(destination), reinterpret_cast<void*>(source),
                   bytes);
}
EMULATED cuMemsetD8Async(uint64_t destination, unsigned char value, size_t bytes, void* stream) {
  return Enqueue(stream, [=] {
    std::memset(reinterpret_cast<void*>(destination), value, bytes);
    return std::string();
  });
}
