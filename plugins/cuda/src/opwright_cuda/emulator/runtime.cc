// Runs the threads of a block as fibers: a thread that waits gives the processor to the next one,
// and a barrier opens when all have come. Three orders (OPWRIGHT_EMULATOR_ORDER: ascending,
// descending, random) show what depends on an order; "threads" makes them real threads, for
// ThreadSanitizer.
#include "runtime.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fibers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace shim {

namespace {

constexpr int kWarp = 32;

enum class Wait { kNothing, kBlock, kWarp, kDone };

struct Lane {
  Wait wait = Wait::kNothing;
  int line = 0;
  unsigned mask = 0;
  unsigned turn = 0;  // how many exchanges it has had
};

struct WarpBuffer {
  uint64_t values[2][kWarp];
};

struct Shared {
  const void* key;
  std::unique_ptr<unsigned char[]> memory;  // its own allocation, so that overruns are seen
  void* aligned;
};

enum class Order { kAscending, kDescending, kRandom, kThreads };

Order TheOrder() {
  const char* text = std::getenv("OPWRIGHT_EMULATOR_ORDER");
  const std::string order = text == nullptr ? "ascending" : text;
  if (order == "descending") return Order::kDescending;
  if (order == "random") return Order::kRandom;
  if (order == "threads") return Order::kThreads;
  return Order::kAscending;
}

class Block;
thread_local const Thread* current_thread = nullptr;
thread_local Block* current_block = nullptr;

// One block at a time: its threads, what they wait for, what they share.
class Block {
 public:
  Block(const KernelEntry& kernel, const LaunchShape& shape, void* const* params)
      : kernel_(kernel),
        shape_(shape),
        params_(params),
        n_(static_cast<int>(shape.block.x * shape.block.y * shape.block.z)),
        threads_(static_cast<size_t>(n_)),
        lanes_(static_cast<size_t>(n_)),
        warps_(static_cast<size_t>((n_ + kWarp - 1) / kWarp)),
        order_kind_(TheOrder()) {
    for (int i = 0; i < n_; ++i) order_.push_back(i);
    if (order_kind_ == Order::kDescending) std::reverse(order_.begin(), order_.end());
  }

  const std::string& Run(const Dim& block) {
    error_.clear();
    for (int i = 0; i < n_; ++i) {
      const auto index = static_cast<unsigned>(i);
      Thread& thread = threads_[index];
      thread.block = block;
      thread.block_dim = shape_.block;
      thread.grid_dim = shape_.grid;
      thread.thread = {index % shape_.block.x, index / shape_.block.x % shape_.block.y,
                       index / (shape_.block.x * shape_.block.y)};
      thread.index = i;
      thread.lane = i % kWarp;
      lanes_[index] = Lane{};
    }
    shared_.clear();
    dynamic_.reset();
    if (order_kind_ == Order::kThreads) {
      RunThreads();
    } else {
      RunFibers();
    }
    return error_;
  }

  // As called from a kernel.
  void Barrier(int line) { Pause(Wait::kBlock, 0, line); }
  void WarpBarrier(unsigned mask, int line) { Pause(Wait::kWarp, mask, line); }
  uint64_t Exchange(unsigned mask, uint64_t value, int from, int line) {
    const Thread& me = *current_thread;
    Lane& lane = lanes_[static_cast<size_t>(me.index)];
    WarpBuffer& warp = warps_[static_cast<size_t>(me.index / kWarp)];
    uint64_t* values = warp.values[lane.turn++ % 2];
    values[me.lane] = value;
    Pause(Wait::kWarp, mask, line);
    const bool is_there = from >= 0 && from < kWarp && ((mask >> from) & 1u) != 0;
    return values[is_there ? from : me.lane];
  }
  uint64_t Ballot(unsigned mask, bool vote, int line) {
    const Thread& me = *current_thread;
    Lane& lane = lanes_[static_cast<size_t>(me.index)];
    WarpBuffer& warp = warps_[static_cast<size_t>(me.index / kWarp)];
    uint64_t* values = warp.values[lane.turn++ % 2];
    values[me.lane] = vote ? 1 : 0;
    Pause(Wait::kWarp, mask, line);
    uint64_t votes = 0;
    for (int i = 0; i < kWarp; ++i) {
      if (((mask >> i) & 1u) != 0) votes |= values[i] << i;
    }
    return votes;
  }
  void* SharedArray(const void* key, size_t bytes, size_t alignment) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Shared& shared : shared_) {
      if (shared.key == key) return shared.aligned;
    }
    shared_.push_back(NewShared(key, bytes, alignment));
    return shared_.back().aligned;
  }
  void* Dynamic() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!dynamic_) dynamic_ = std::make_unique<Shared>(NewShared(nullptr, shape_.shared_bytes, 16));
    return dynamic_->aligned;
  }

 private:
  static Shared NewShared(const void* key, size_t bytes, size_t alignment) {
    // Exactly so many bytes; operator new aligns to 16, which is the largest that is asked for.
    (void)alignment;
    Shared shared{key, std::unique_ptr<unsigned char[]>(new unsigned char[bytes]), nullptr};
    std::memset(shared.memory.get(), 0xff, bytes);  // NaN in every type
    shared.aligned = shared.memory.get();
    return shared;
  }

  void Pause(Wait wait, unsigned mask, int line) {
    Lane& lane = lanes_[static_cast<size_t>(current_thread->index)];
    if (order_kind_ == Order::kThreads) {
      WaitInThread(&lane, wait, mask, line);
      return;
    }
    lane.mask = mask;
    lane.line = line;
    lane.wait = wait;
    Leave(current_thread->index);
  }

  // -- as fibers
  static void Enter() {
    Block* block = current_block;
    block->Arrived();
    block->kernel_.call(block->params_);
    const int index = current_thread->index;
    block->lanes_[static_cast<size_t>(index)].wait = Wait::kDone;
    block->Leave(index);
  }

  void Arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &main_stack_, &main_stack_bytes_);
#endif
  }

  void Leave(int index) {
#if defined(__SANITIZE_ADDRESS__)
    const bool is_done = lanes_[static_cast<size_t>(index)].wait == Wait::kDone;
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(is_done ? nullptr : &fake, main_stack_, main_stack_bytes_);
#endif
    SwitchContext(&contexts()[static_cast<size_t>(index)], &main_);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, &main_stack_, &main_stack_bytes_);
#endif
  }

  void Resume(int index) {
    current_thread = &threads_[static_cast<size_t>(index)];
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stacks()[static_cast<size_t>(index)], kStackBytes);
#endif
    SwitchContext(&main_, &contexts()[static_cast<size_t>(index)]);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  static std::vector<Context>& contexts() {
    static thread_local std::vector<Context> contexts;
    return contexts;
  }
  static std::vector<char*>& stacks() {
    static thread_local std::vector<char*> stacks;
    return stacks;
  }

  void RunFibers() {
    current_block = this;
    while (stacks().size() < static_cast<size_t>(n_)) stacks().push_back(NewStack());
    if (contexts().size() < static_cast<size_t>(n_)) contexts().resize(static_cast<size_t>(n_));
    for (size_t i = 0; i < static_cast<size_t>(n_); ++i)
      MakeContext(&contexts()[i], stacks()[i], &Enter);
    if (order_kind_ == Order::kRandom) std::shuffle(order_.begin(), order_.end(), random_);
    bool has_moved = true;
    while (has_moved && error_.empty()) {
      has_moved = false;
      for (const int i : order_) {
        if (lanes_[static_cast<size_t>(i)].wait != Wait::kNothing) continue;
        Resume(i);
        has_moved = true;
      }
      if (Open()) has_moved = true;
    }
    if (error_.empty()) ReportStuck();
  }

  // Lets go on who waits for nothing more; false where nobody does.
  bool Open() {
    bool has_opened = false;
    for (int first = 0; first < n_; first += kWarp) has_opened = OpenWarp(first) || has_opened;
    const bool all = std::all_of(lanes_.begin(), lanes_.end(), [this](const Lane& lane) {
      return lane.wait == Wait::kBlock && lane.line == lanes_[0].line;
    });
    if (!all) return has_opened;
    for (Lane& lane : lanes_) lane.wait = Wait::kNothing;
    return true;
  }

  bool OpenWarp(int first) {
    const int n = std::min(kWarp, n_ - first);
    bool has_opened = false;
    for (int i = 0; i < n; ++i) {
      const Lane leader = lanes_[static_cast<size_t>(first + i)];
      if (leader.wait != Wait::kWarp) continue;
      bool is_whole = true;
      for (int k = 0; k < n; ++k) {
        const Lane& other = lanes_[static_cast<size_t>(first + k)];
        if (((leader.mask >> k) & 1u) == 0) continue;
        if (other.wait != Wait::kWarp || other.line != leader.line || other.mask != leader.mask) {
          is_whole = false;
        }
      }
      if (!is_whole) continue;
      for (int k = 0; k < n; ++k) {
        if (((leader.mask >> k) & 1u) != 0) {
          lanes_[static_cast<size_t>(first + k)].wait = Wait::kNothing;
        }
      }
      has_opened = true;
    }
    return has_opened;
  }

  // Nobody can go on: either all are done, or some wait for what never comes.
  void ReportStuck() {
    int n_done = 0;
    const Lane* waiting = nullptr;
    int n_with_it = 0;
    for (const Lane& lane : lanes_) {
      if (lane.wait == Wait::kDone) {
        ++n_done;
      } else if (waiting == nullptr) {
        waiting = &lane;
      }
    }
    if (waiting == nullptr) return;
    for (const Lane& lane : lanes_) {
      n_with_it += lane.wait == waiting->wait && lane.line == waiting->line ? 1 : 0;
    }
    char text[256];
    std::snprintf(text, sizeof(text),
                  "%d of %d threads wait at line %d (%s), %d wait elsewhere, %d have left",
                  n_with_it, n_, waiting->line,
                  waiting->wait == Wait::kBlock ? "__syncthreads" : "a warp's exchange",
                  n_ - n_with_it - n_done, n_done);
    error_ = text;
  }

  // -- as threads
  void RunThreads() {
    std::vector<std::thread> running;
    for (int i = 0; i < n_; ++i) {
      running.emplace_back([this, i] {
        current_block = this;
        current_thread = &threads_[static_cast<size_t>(i)];
        kernel_.call(params_);
        const std::lock_guard<std::mutex> lock(mutex_);
        lanes_[static_cast<size_t>(i)].wait = Wait::kDone;
      });
    }
    for (std::thread& thread : running) thread.join();
  }

  void WaitInThread(Lane* lane, Wait wait, unsigned mask, int line) {
    std::unique_lock<std::mutex> lock(mutex_);
    lane->mask = mask;
    lane->line = line;
    lane->wait = wait;
    if (Open()) opened_.notify_all();
    opened_.wait(lock, [lane] { return lane->wait == Wait::kNothing; });
  }

  const KernelEntry& kernel_;
  const LaunchShape& shape_;
  void* const* params_;
  const int n_;
  std::vector<Thread> threads_;
  std::vector<Lane> lanes_;
  std::vector<WarpBuffer> warps_;
  std::vector<int> order_;
  Order order_kind_;
  std::minstd_rand random_{1};
  std::deque<Shared> shared_;
  std::unique_ptr<Shared> dynamic_;
  std::string error_;
  Context main_;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable opened_;
};

const Thread* ThisThread() { return current_thread; }
void Barrier(int line) { current_block->Barrier(line); }
void WarpBarrier(unsigned mask, int line) { current_block->WarpBarrier(mask, line); }
uint64_t Exchange(unsigned mask, uint64_t value, int from, int line) {
  return current_block->Exchange(mask, value, from, line);
}
uint64_t Ballot(unsigned mask, bool vote, int line) {
  return current_block->Ballot(mask, vote, line);
}
void* SharedArray(const void* key, size_t bytes, size_t alignment) {
  return current_block->SharedArray(key, bytes, alignment);
}
void* Dynamic() { return current_block->Dynamic(); }

}  // namespace

const RuntimeTable& TheTable() {
  static const RuntimeTable table = {ThisThread, Barrier,     WarpBarrier, Exchange,
                                     Ballot,     SharedArray, Dynamic};
  return table;
}

const char* RunKernel(const KernelEntry& kernel, const LaunchShape& shape, void* const* params) {
  static thread_local std::string error;
  error.clear();
  Block block(kernel, shape, params);
  for (unsigned z = 0; z < shape.grid.z; ++z) {
    for (unsigned y = 0; y < shape.grid.y; ++y) {
      for (unsigned x = 0; x < shape.grid.x; ++x) {
        const std::string& wrong = block.Run({x, y, z});
        if (wrong.empty()) continue;
        error = std::string(kernel.name) + ", block (" + std::to_string(x) + ", " +
                std::to_string(y) + ", " + std::to_string(z) + "): " + wrong;
        return error.c_str();
      }
    }
  }
  return "";
}

}  // namespace shim
