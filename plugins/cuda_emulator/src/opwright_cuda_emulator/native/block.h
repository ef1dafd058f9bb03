// One block of a kernel, with its threads, barriers and shared memory.
#ifndef OPWRIGHT_CUDA_EMULATOR_BLOCK_H_
#define OPWRIGHT_CUDA_EMULATOR_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime.h"

namespace shim {

constexpr int kWarp = 32;

enum class Order { kAscending, kDescending, kRandom };

enum class Wait { kNothing, kBlock, kWarp, kDone };

// The state of one thread, which includes what it waits for and the values that it exchanges in a
// warp.
struct Lane {
  Wait wait = Wait::kNothing;
  int line = 0;
  int fiber = -1;  // the fiber on which it runs, once it has begun
  unsigned mask = 0;
  uint64_t value = 0;
  int from = 0;
  uint64_t taken = 0;  // the value of lane `from`
  uint64_t votes = 0;  // the lowest bit of each lane's value
  // For ThreadSanitizer: `turn` selects one of the two tokens of this lane. `turns` has one bit for
  // each lane in `mask`, which is the turn of that lane when the lanes exchange values.
  unsigned turn = 0;
  unsigned turns = 0;
  char tokens[2] = {0, 0};
};

class Block {
 public:
  Block(const KernelEntry& kernel, const LaunchShape& shape, void* const* params);

  // Runs one block; returns an error message or an empty string.
  const std::string& Run(const Dim& block);
  // Returns whether the error is a misaligned access.
  bool IsMisaligned() const { return is_misaligned_; }

  // The following functions are called from a kernel.
  void Barrier(int line);
  void WarpBarrier(unsigned mask, int line);
  uint64_t Exchange(unsigned mask, uint64_t value, int from, int line);
  uint64_t Ballot(unsigned mask, bool vote, int line);
  void* SharedArray(const void* key, size_t bytes, size_t alignment);
  void* Dynamic();
  // Handles a trap in the running thread; the thread and the block do not continue.
  void StopMisaligned();

  // The block and the emulated thread that this thread of the process is running.
  static thread_local Block* current;
  static thread_local const Thread* current_thread;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Shared {
    const void* key;
    std::unique_ptr<void, Free> memory;  // a separate allocation, to detect overruns
    void* array;                         // points into `memory`
  };

  static Shared NewShared(const void* key, size_t bytes, size_t alignment);
  static void Enter();

  Lane& lane(int index) { return lanes_[static_cast<size_t>(index)]; }
  void Meet(Wait wait, unsigned mask, int line);
  void MeetWarp(unsigned mask, int line);
  void RunThreads();
  bool RunWarp(int first);
  bool BeginNext(int fiber);
  bool OpenAll();
  bool OpenWarp(int first);
  void OpenGroup(int first, int n, unsigned mask);
  void ReportStuck();

  const KernelEntry& kernel_;
  const LaunchShape& shape_;
  void* const* params_;
  const int n_;
  const Order order_kind_;
  std::vector<Thread> threads_;
  std::vector<Lane> lanes_;
  std::vector<int> warps_;          // in execution order
  std::array<int, kWarp> order_{};  // the order in which the threads of a warp run
  int first_ = 0;                   // first thread of the running warp
  int n_order_ = 0;
  int next_ = 0;  // index into `order_`
  std::minstd_rand random_{1};
  std::deque<Shared> shared_;
  std::unique_ptr<Shared> dynamic_;
  std::string error_;
  bool is_misaligned_ = false;
  // Used for ThreadSanitizer.
  char tokens_[2] = {0, 0};
  char begun_ = 0;
  char ended_ = 0;
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_BLOCK_H_
