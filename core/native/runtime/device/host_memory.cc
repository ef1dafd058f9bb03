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

// For requests of at least this size, the C library maps a new block each time.
constexpr uint64_t kLargeBytes = uint64_t{1} << 20;
// The size of huge pages. Fewer pages are faster to clear and translate.
constexpr uint64_t kHugePage = uint64_t{2} << 20;

void* AllocateNew(uint64_t bytes, uint64_t alignment) noexcept {
  // A request near 2^64 would overflow when the allocator rounds it up.
  if (bytes > static_cast<uint64_t>(INT64_MAX) - kHugePage) return nullptr;
  const bool is_huge = bytes >= 2 * kHugePage;
  const uint64_t boundary = std::max({alignment, is_huge ? kHugePage : 0, sizeof(void*)});
  void* block = nullptr;
  if (posix_memalign(&block, boundary, std::max<uint64_t>(bytes, 1)) != 0) return nullptr;
#if defined(__linux__)
  if (is_huge) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only a hint
#endif
  return block;
}

#if defined(__linux__)

// Returns the usable bytes of a block of the C library.
uint64_t RoomOf(void* block) noexcept { return malloc_usable_size(block); }

// Freed large blocks that are kept. A thread ignores them while they are locked, so no thread
// waits. So a forked child does not hang if a thread of its parent held the lock.
class KeptBlocks {
 public:
  void* Take(uint64_t bytes, uint64_t alignment) noexcept {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    for (size_t i = 0; i < count_; ++i) {
      const uint64_t room = RoomOf(blocks_[i]);
      const bool fits = room >= bytes && room - bytes <= bytes / 8 + kHugePage;
      if (!fits || reinterpret_cast<uintptr_t>(blocks_[i]) % alignment != 0) continue;
      return Remove(i);
    }
    return nullptr;
  }

  bool Keep(void* block) noexcept {
    const uint64_t room = RoomOf(block);
    if (room < kLargeBytes) return false;
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || room > kMostKeptBytes) return false;
    // Blocks that have not been used recently probably have sizes that are no longer requested.
    while (count_ == blocks_.size() || bytes_ + room > kMostKeptBytes) std::free(Remove(0));
    blocks_[count_++] = block;
    bytes_ += room;
    return true;
  }

  uint64_t Free() noexcept {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return 0;
    const uint64_t freed = bytes_;
    while (count_ > 0) std::free(Remove(0));
    return freed;
  }

  uint64_t bytes() noexcept {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    return lock.owns_lock() ? bytes_ : 0;
  }

 private:
  void* Remove(size_t i) noexcept {
    void* block = blocks_[i];
    std::copy(blocks_.begin() + i + 1, blocks_.begin() + count_, blocks_.begin() + i);
    --count_;
    bytes_ -= RoomOf(block);
    return block;
  }

  std::mutex mutex_;
  std::array<void*, 16> blocks_{};  // the block that was freed last is at the end
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

// Never destroyed and in static memory, since tensors may outlive every static at exit.
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

uint64_t KeptHostBytes() noexcept {
#if defined(__linux__)
  return Kept().bytes();
#else
  return 0;
#endif
}

uint64_t FreeKeptHost() noexcept {
#if defined(__linux__)
  const uint64_t freed = Kept().Free();
  malloc_trim(0);
  return freed;
#else
  return 0;
#endif
}

}  // namespace opwright
