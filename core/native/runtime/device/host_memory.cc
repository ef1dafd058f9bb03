#include "runtime/device/host_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#endif

namespace opwright {
namespace {

// From here on a block is mapped by the system for this request alone.
constexpr uint64_t kLargeBytes = uint64_t{1} << 20;
// A page of the large kind. Fewer pages are cleared and looked up faster.
constexpr uint64_t kHugePage = uint64_t{2} << 20;

void* AllocateNew(uint64_t bytes, uint64_t alignment) noexcept {
  // A request near 2^64 would wrap inside the allocator's own rounding.
  if (bytes > static_cast<uint64_t>(INT64_MAX) - kHugePage) return nullptr;
  const bool is_huge = bytes >= 2 * kHugePage;
  const uint64_t boundary = std::max({alignment, is_huge ? kHugePage : 0, sizeof(void*)});
  void* block = nullptr;
  if (posix_memalign(&block, boundary, std::max<uint64_t>(bytes, 1)) != 0) return nullptr;
#if defined(__linux__)
  if (is_huge) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish only
#endif
  return block;
}

#if defined(__linux__)

// The bytes that a block of the C library has room for.
uint64_t RoomOf(void* block) noexcept { return malloc_usable_size(block); }

// Freed large blocks. Whoever finds it locked goes without: so it holds nobody up, and a child of
// fork, where the thread that held the lock is gone, does not hang.
class KeptBlocks {
 public:
  void* Take(uint64_t bytes, uint64_t alignment) noexcept {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    for (size_t i = 0; i < count_; ++i) {
      const uint64_t room = RoomOf(blocks_[i]);
      const bool fits = room >= bytes && room - bytes <= bytes / 8 + kHugePage;
      if (!fits || reinterpret_cast<uintptr_t>(blocks_[i]) % alignment != 0) continue;
      void* block = blocks_[i];
      blocks_[i] = blocks_[--count_];
      bytes_ -= room;
      return block;
    }
    return nullptr;
  }

  bool Keep(void* block) noexcept {
    const uint64_t room = RoomOf(block);
    if (room < kLargeBytes) return false;
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || count_ == blocks_.size() || bytes_ + room > kMostKeptBytes) {
      return false;
    }
    blocks_[count_++] = block;
    bytes_ += room;
    return true;
  }

 private:
  std::mutex mutex_;
  std::array<void*, 16> blocks_{};
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

// Never destroyed: tensors may outlive every static at exit. In memory that cannot be lacking.
KeptBlocks& Kept() noexcept {
  alignas(KeptBlocks) static std::array<std::byte, sizeof(KeptBlocks)> place;
  static auto* kept = new (place.data()) KeptBlocks;
  return *kept;
}

#endif

}  // namespace

void* AllocateHost(uint64_t bytes, uint64_t alignment) noexcept {
#if defined(__linux__)
  if (bytes >= kLargeBytes) {
    void* block = Kept().Take(bytes, alignment);
    if (block != nullptr) return block;
  }
#endif
  return AllocateNew(bytes, alignment);
}

void FreeHost(void* block) noexcept {
#if defined(__linux__)
  if (block != nullptr && Kept().Keep(block)) return;
#endif
  std::free(block);
}

}  // namespace opwright
