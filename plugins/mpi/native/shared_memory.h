// Memory that all processes of a group have mapped, where they run on one machine.
#ifndef OPWRIGHT_MPI_SHARED_MEMORY_H_
#define OPWRIGHT_MPI_SHARED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace opwright_mpi {

// Bytes of each slot, and how many slots a process has at most. A chunk of so many bytes and what
// it is joined with stay in the second-level cache.
constexpr int64_t kSlotBytes = 256 * 1024;
constexpr int kMostSlots = 16;
// Of all processes together.
constexpr int64_t kMostBytes = int64_t{64} << 20;
// Chunks of which a process still keeps the header: more than there are slots.
constexpr int64_t kHeaders = 64;

// A number that one process writes and the others read, in a cache line of its own.
struct alignas(64) Counter {
  std::atomic<int64_t> value{0};
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

struct ChunkHeader {
  int64_t slot;
  double weight;
};

// What one process writes, beside its slots.
struct alignas(64) Board {
  Counter pushed;             // chunks whose elements are in a slot
  Counter joined;             // chunks of which its own part is joined
  Counter taken;              // chunks whose result it has read
  Counter compared;           // comparisons of plans that it has begun
  int64_t comparisons[2][2];  // digest and started collectives, of the last two
  ChunkHeader headers[kHeaders];
};

// What the others need to know of the process that made the memory.
struct Offer {
  int64_t is_wanted;  // of the process itself: 0 where its user wants no shared memory
  int64_t pid;        // 0 where it offers none
  int64_t descriptor;
  int64_t bytes;
  int64_t key[2];  // at the begin of the memory: another machine may have the same pid
};

// Anonymous memory, which has no name that a killed process could leave behind: the others open
// the descriptor of the process that has made it.
class SharedMemory {
 public:
  // Makes memory for `n` processes; nullptr where the system refuses.
  static std::unique_ptr<SharedMemory> Make(int n);
  // Maps what another process of this machine offers; nullptr where it is not that memory.
  static std::unique_ptr<SharedMemory> Open(const Offer& offer, int n);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  Offer offer() const { return offer_; }
  // Called when all have mapped it: from then on it exists as long as one process maps it.
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

// Whether this process may share memory: OPWRIGHT_MPI_SHARED_MEMORY is not 0. Returns the error in
// that variable, or an empty text.
std::string FindChoice(bool* may_share);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_SHARED_MEMORY_H_
