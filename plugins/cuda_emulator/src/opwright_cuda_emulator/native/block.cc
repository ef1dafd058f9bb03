#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fibers.h"
#include "sanitizers.h"

namespace shim {

namespace {

constexpr size_t kDynamicAlignment = 16;       // as declared in kernel.h
constexpr uint64_t kUndefined = ~uint64_t{0};  // NaN in every float type

Order TheOrder() {
  const char* text = std::getenv("OPWRIGHT_EMULATOR_ORDER");
  const std::string order = text == nullptr ? "ascending" : text;
  if (order == "descending") return Order::kDescending;
  if (order == "random") return Order::kRandom;
  return Order::kAscending;
}

Fibers& TheFibers() {
  static thread_local Fibers fibers;
  return fibers;
}

bool Has(unsigned mask, int lane) { return ((mask >> lane) & 1u) != 0; }

}  // namespace

thread_local Block* Block::current = nullptr;
thread_local const Thread* Block::current_thread = nullptr;

Block::Block(const KernelEntry& kernel, const LaunchShape& shape, void* const* params)
    : kernel_(kernel),
      shape_(shape),
      params_(params),
      n_(static_cast<int>(shape.block.x * shape.block.y * shape.block.z)),
      order_kind_(TheOrder()),
      threads_(static_cast<size_t>(n_)),
      lanes_(static_cast<size_t>(n_)) {
  for (int i = 0; i < n_; ++i) {
    const auto index = static_cast<unsigned>(i);
    Thread& thread = threads_[index];
    thread.block_dim = shape_.block;
    thread.grid_dim = shape_.grid;
    thread.thread = {index % shape_.block.x, index / shape_.block.x % shape_.block.y,
                     index / (shape_.block.x * shape_.block.y)};
    thread.index = i;
    thread.lane = i % kWarp;
  }
  for (int i = 0; i < (n_ + kWarp - 1) / kWarp; ++i) warps_.push_back(i);
  if (order_kind_ == Order::kDescending) std::reverse(warps_.begin(), warps_.end());
}

const std::string& Block::Run(const Dim& block) {
  error_.clear();
  is_misaligned_ = false;
  for (Thread& thread : threads_) thread.block = block;
  std::fill(lanes_.begin(), lanes_.end(), Lane{});
  shared_.clear();
  dynamic_.reset();
  RunThreads();
  return error_;
}

// ---- Called from a kernel
// ------------------------------------------------------------------------

void Block::Barrier(int line) {
  Lane& me = lane(current_thread->index);
  // Two alternating tokens suffice, since all threads leave this barrier before any thread can
  // reach the barrier after the next.
  char* token = tokens_ + me.turn++ % 2;
  Release(token);
  Meet(Wait::kBlock, 0, line);
  Acquire(token);
}

void Block::WarpBarrier(unsigned mask, int line) {
  Lane& me = lane(current_thread->index);
  Release(me.tokens + ++me.turn % 2);
  MeetWarp(mask, line);
  Lane* warp = &lane(current_thread->index / kWarp * kWarp);
  for (int k = 0; k < kWarp && kWatchesThreads; ++k) {
    if (Has(me.mask, k)) Acquire(warp[k].tokens + (me.turns >> k) % 2);
  }
}

uint64_t Block::Exchange(unsigned mask, uint64_t value, int from, int line) {
  Lane& me = lane(current_thread->index);
  me.value = value;
  me.from = from;
  MeetWarp(mask, line);
  return me.taken;
}

uint64_t Block::Ballot(unsigned mask, bool vote, int line) {
  Exchange(mask, vote ? 1 : 0, current_thread->lane, line);
  return lane(current_thread->index).votes;
}

void* Block::SharedArray(const void* key, size_t bytes, size_t alignment) {
  const Unseen unseen;
  for (const Shared& shared : shared_) {
    if (shared.key == key) return shared.array;
  }
  shared_.push_back(NewShared(key, bytes, alignment));
  return shared_.back().array;
}

void* Block::Dynamic() {
  const Unseen unseen;
  if (!dynamic_) {
    dynamic_ = std::make_unique<Shared>(NewShared(nullptr, shape_.shared_bytes, kDynamicAlignment));
  }
  return dynamic_->array;
}

// CUDA guarantees shared memory only the alignment of the array type, so a larger alignment is
// deliberately avoided. The array ends at the end of its allocation. Under AddressSanitizer, the
// array also begins at the start of its allocation, to detect negative indices.
Block::Shared Block::NewShared(const void* key, size_t bytes, size_t alignment) {
  const size_t begin = kWatchesMemory ? 0 : alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(2 * alignment, sizeof(void*)), begin + bytes) != 0) {
    throw std::bad_alloc();
  }
  unsigned char* array = static_cast<unsigned char*>(memory) + begin;
  std::memset(array, 0xff, bytes);  // NaN in every float type
  return {key, std::unique_ptr<void, Free>(memory), array};
}

void Block::StopMisaligned() {
  const Dim& thread = current_thread->thread;
  is_misaligned_ = true;
  error_ = "thread (" + std::to_string(thread.x) + ", " + std::to_string(thread.y) + ", " +
           std::to_string(thread.z) +
           ") reads or writes at an address that is misaligned for the type; "
           "-fsanitize=address,undefined among the compiler's flags shows the line";
  TheFibers().Leave(lane(current_thread->index).fiber);
}

// ---- Meeting
// -------------------------------------------------------------------------------------

void Block::MeetWarp(unsigned mask, int line) {
  const Thread& me = *current_thread;
  const int n = std::min(kWarp, n_ - me.index / kWarp * kWarp);
  const unsigned there = n == kWarp ? ~0u : (1u << n) - 1;
  Meet(Wait::kWarp, mask & there, line);
}

void Block::Meet(Wait wait, unsigned mask, int line) {
  Lane& me = lane(current_thread->index);
  me.mask = mask;
  me.line = line;
  me.wait = wait;
  TheFibers().Leave(me.fiber);
}

bool Block::OpenAll() {
  const bool all = std::all_of(lanes_.begin(), lanes_.end(), [this](const Lane& lane) {
    return lane.wait == Wait::kBlock && lane.line == lanes_[0].line;
  });
  if (!all) return false;
  for (Lane& lane : lanes_) lane.wait = Wait::kNothing;
  return true;
}

bool Block::OpenWarp(int first) {
  const int n = std::min(kWarp, n_ - first);
  bool has_opened = false;
  for (int i = 0; i < n; ++i) {
    const Lane& leader = lane(first + i);
    // A lane that is not in its own mask does not synchronize with other lanes.
    if (leader.wait != Wait::kWarp || !Has(leader.mask, i)) continue;
    bool is_whole = true;
    for (int k = 0; k < n && is_whole; ++k) {
      const Lane& other = lane(first + k);
      is_whole = !Has(leader.mask, k) || (other.wait == Wait::kWarp && other.line == leader.line &&
                                          other.mask == leader.mask);
    }
    if (!is_whole) continue;
    OpenGroup(first, n, leader.mask);
    has_opened = true;
  }
  return has_opened;
}

void Block::OpenGroup(int first, int n, unsigned mask) {
  uint64_t votes = 0;
  unsigned turns = 0;
  for (int k = 0; k < n; ++k) {
    if (!Has(mask, k)) continue;
    votes |= (lane(first + k).value & 1) << k;
    turns |= (lane(first + k).turn & 1) << k;
  }
  for (int k = 0; k < n; ++k) {
    if (!Has(mask, k)) continue;
    Lane& me = lane(first + k);
    const bool is_there = me.from >= 0 && me.from < n && Has(mask, me.from);
    me.taken = is_there ? lane(first + me.from).value : kUndefined;
    me.votes = votes;
    me.turns = turns;
    me.wait = Wait::kNothing;
  }
}

// No thread can continue. Either all threads are done, or some are deadlocked.
void Block::ReportStuck() {
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
                "%d of %d threads wait at line %d (%s), %d wait elsewhere, %d have left", n_with_it,
                n_, waiting->line,
                waiting->wait == Wait::kBlock ? "__syncthreads" : "a warp's exchange",
                n_ - n_with_it - n_done, n_done);
  error_ = text;
}

// ---- Running
// -----------------------------------------------------------------------------------

// A fiber runs threads one after another, since threads that never wait do not need their own
// stack.
void Block::Enter() {
  TheFibers().Arrived();
  while (true) {
    Acquire(&current->begun_);
    current->kernel_.call(current->params_);
    Release(&current->ended_);
    Lane& lane = current->lane(current_thread->index);
    lane.wait = Wait::kDone;
    const int fiber = lane.fiber;
    if (!current->BeginNext(fiber)) TheFibers().LeaveIdle(fiber);
  }
}

void Block::RunThreads() {
  current = this;
  TheFibers().BeginBlock();
  Release(&begun_);
  bool has_moved = true;
  while (has_moved && error_.empty()) {
    has_moved = false;
    if (order_kind_ == Order::kRandom) std::shuffle(warps_.begin(), warps_.end(), random_);
    for (const int warp : warps_) {
      while (RunWarp(warp * kWarp)) has_moved = true;
    }
    if (OpenAll()) has_moved = true;
  }
  Acquire(&ended_);
  current_thread = nullptr;
  if (error_.empty()) ReportStuck();
  if (!error_.empty()) TheFibers().GiveUp();
}

// Runs a warp until it waits for another warp; exchanges within the warp do not stop it.
bool Block::RunWarp(int first) {
  first_ = first;
  n_order_ = std::min(kWarp, n_ - first);
  for (int k = 0; k < n_order_; ++k) {
    order_[static_cast<size_t>(k)] = order_kind_ == Order::kDescending ? n_order_ - 1 - k : k;
  }
  if (order_kind_ == Order::kRandom) {
    std::shuffle(order_.begin(), order_.begin() + n_order_, random_);
  }
  bool has_moved = false;
  for (next_ = 0; next_ < n_order_;) {
    if (!error_.empty()) return false;
    const int i = first + order_[static_cast<size_t>(next_++)];
    if (lane(i).wait != Wait::kNothing) continue;
    if (lane(i).fiber < 0) lane(i).fiber = TheFibers().Take(&Enter);
    if (lane(i).fiber < 0) {
      error_ = "there is no memory for the stacks of its threads";
      return false;
    }
    current_thread = &threads_[static_cast<size_t>(i)];
    TheFibers().Resume(lane(i).fiber);
    has_moved = true;
  }
  return OpenWarp(first) || has_moved;
}

// Called by a fiber whose thread is done; the fiber continues with the next unstarted thread.
bool Block::BeginNext(int fiber) {
  if (next_ == n_order_ || kWatchesThreads) return false;
  const int i = first_ + order_[static_cast<size_t>(next_)];
  if (lane(i).wait != Wait::kNothing || lane(i).fiber >= 0) return false;
  ++next_;
  lane(i).fiber = fiber;
  current_thread = &threads_[static_cast<size_t>(i)];
  return true;
}

}  // namespace shim
