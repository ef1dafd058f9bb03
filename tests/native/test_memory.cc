// Tests the alignment and reuse of host memory, and the bound on freed memory.
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/device/host_memory.h"
#include "tests.h"

namespace {

using opwright::AllocateHost;
using opwright::FreeHost;

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool IsAligned(const void* block, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

void BlocksAreAlignedAndWritable() {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{100}, 3 * kMiB, 9 * kMiB}) {
    for (const uint64_t alignment : {uint64_t{1}, uint64_t{64}, uint64_t{4096}}) {
      void* block = AllocateHost(bytes, alignment);
      CHECK(block != nullptr);
      CHECK(IsAligned(block, alignment));
      std::memset(block, 1, bytes);
      FreeHost(block);
    }
  }
  FreeHost(nullptr);
}

void RequestsThatAreTooLargeReturnNull() {
  CHECK(AllocateHost(UINT64_MAX) == nullptr);
  CHECK(AllocateHost(uint64_t{1} << 60) == nullptr);
}

void ALargeFreedBlockIsReused() {
  void* first = AllocateHost(8 * kMiB);
  FreeHost(first);
  void* again = AllocateHost(8 * kMiB - 1000);
  CHECK(again == first);
  void* other = AllocateHost(8 * kMiB);  // the freed block is already in use
  CHECK(other != first);
  FreeHost(again);
  FreeHost(other);
}

void ABlockIsNotReusedForAMuchSmallerRequest() {
  void* large = AllocateHost(64 * kMiB);
  FreeHost(large);
  void* small = AllocateHost(2 * kMiB);
  CHECK(small != large);
  FreeHost(small);
}

void OnlyAPartOfFreedMemoryIsKept() {
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(AllocateHost(100 * kMiB));
  const std::set<void*> before(blocks.begin(), blocks.end());
  CHECK_EQ(before.size(), size_t{10});
  for (void* block : blocks) FreeHost(block);  // 1000 MiB; at most 256 may be kept
}

void ThreadsShareTheBlocks() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        auto* block = static_cast<unsigned char*>(AllocateHost(2 * kMiB));
        CHECK(block != nullptr);
        block[0] = static_cast<unsigned char>(t);
        block[2 * kMiB - 1] = static_cast<unsigned char>(t);
        CHECK_EQ(block[0], block[2 * kMiB - 1]);
        FreeHost(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void AddMemoryTests(check::Tests* tests) {
  tests->push_back({"blocks are aligned and writable", BlocksAreAlignedAndWritable});
  tests->push_back({"requests that are too large return null", RequestsThatAreTooLargeReturnNull});
  tests->push_back({"a large freed block is reused", ALargeFreedBlockIsReused});
  tests->push_back({"a block is not reused for a much smaller request",
                    ABlockIsNotReusedForAMuchSmallerRequest});
  tests->push_back({"only a part of freed memory is kept", OnlyAPartOfFreedMemoryIsKept});
  tests->push_back({"threads share the blocks", ThreadsShareTheBlocks});
}
