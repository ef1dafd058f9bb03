// Memory mapped by all processes of a group on one machine.
#ifndef OPWRIGHT_MPI_SHARED_MEMORY_H_
#define OPWRIGHT_MPI_SHARED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace opwright_mpi {

// Bytes per slot, and maximum slots per process. A chunk of this size and its operands fit in the
// L2 cache.
constexpr int64_t kSlotBytes = 256 * 1024;
constexpr int kMostSlots = 16;
// The maximum total size over all processes.
constexpr int64_t kMostBytes = int64_t{64} << 20;
// Number of chunk headers that a process keeps, which exceeds the number of slots.
constexpr int64_t kHeaders = 64;

// A number in a separate cache line that one process writes and others read.
struct alignas(64) Counter {
  std::atomic<int64_t> value{0};
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

struct ChunkHeader {
  int64_t slot;
  double weight;
};

// The data that one process writes, apart from its slots.
struct alignas(64) Board {
  Counter pushed;             // chunks whose elements are in a slot
  Counter joined;             // chunks of which this process has reduced its part
  Counter taken;              // chunks whose result this process has read
  Counter compared;           // started comparisons of plans
  int64_t comparisons[2][2];  // digest and started collectives of the last two comparisons
  ChunkHeader headers[kHeaders];
};

// What a process tells the other processes about the memory that it created.
struct Offer {
  int64_t is_wanted;  // 0 if the user disabled shared memory
  int64_t pid;        // 0 if the process has no memory
  int64_t descriptor;
  int64_t bytes;
  int64_t key[2];  // also at the start of the memory, since pids repeat on other machines
};

// Anonymous memory, so a killed process does not leave a file behind. Other processes open the
// descriptor of the creating process.
class SharedMemory {
 public:
  // Creates memory for `n` processes; returns nullptr on failure.
  static std::unique_ptr<SharedMemory> Make(int n);
  // Maps the memory of another process on this machine; returns nullptr if the descriptor refers to
  // different memory.
  static std::unique_ptr<SharedMemory> Open(const Offer& offer, int n);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  Offer offer() const { return offer_; }
  // Must be called after all processes have mapped the memory, which then exists until the last
  // mapping ends.
  void CloseDescriptor();

  int n_slots() const { return n_slots_; }
  Board& board(int rank) const;
  char* slot(int rank, int64_t index) const;

 private:
  SharedMemory(int n, int descriptor, const Offer& offer);
  bool Map();

  int n_;
  int n_slots_;
  int descriptor_;
  Offer offer_;
  char* base_ = nullptr;
};

// Sets `may_share` to whether OPWRIGHT_MPI_SHARED_MEMORY is 1, which is the default. Returns an
// error about this variable or an empty string.
std::string FindChoice(bool* may_share);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_SHARED_MEMORY_H_
