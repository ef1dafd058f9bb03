// Runs collectives through shared memory, in chunks that pass through slots in order.
#ifndef OPWRIGHT_MPI_SHARED_EXCHANGE_H_
#define OPWRIGHT_MPI_SHARED_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "joining.h"
#include "motion.h"
#include "pieces.h"
#include "shared_memory.h"

namespace opwright_mpi {

// The buffer of a transfer that waits.
struct Room {
  std::unique_ptr<char[]> data;
  int64_t bytes = 0;
};

// An active collective.
struct Transfer {
  Motion motion = Motion::kReduce;
  Join join = nullptr;
  Reduce reduce = Reduce::kSum;
  int64_t bytes = 0;  // bytes per lane
  int64_t item = 1;   // bytes per element
  bool is_weighted = false;
  double weight = 1;

  // The following fields are private to the exchange. The pointers are valid only during a call of
  // the owner.
  const Source* source = nullptr;
  const Target* target = nullptr;
  // Holds elements until a slot is free, and results until a run waits for them.
  Room kept;
  bool has_kept_source = false;
  int64_t n_kept_results = 0;  // kept bytes of each lane
  int64_t first_chunk = 0;
  int64_t n_chunks = 0;
  bool is_dropped = false;  // whether it no longer has an owner
  bool is_done = true;
};

// Each process copies a chunk into its slot (push). Once all processes have pushed, each process
// reduces its part in place, in rank order, and then reads all reduced parts. In a small
// reduction, each process reduces the whole chunk. With one lane per process, a chunk has a piece
// of every lane. Without a reduction, processes read the data that other processes have pushed.
// None of these functions block.
class SharedExchange {
 public:
  SharedExchange(std::unique_ptr<SharedMemory> memory, int rank, int size);

  // Starts a transfer. After this returns, the source is read again only if it `stays` valid until
  // the transfer is done.
  void Start(Transfer* transfer, const Source& source, bool stays);
  // Sets the destination of the results that follow; nullptr discards them.
  void SetTarget(Transfer* transfer, const Target* target);
  // Attempts one step. Returns 1 if the transfer is done, 2 if a step was made, otherwise 0.
  int Advance(Transfer* wanted);
  // Stops using the memory of the caller, even if the transfer is unfinished.
  static void ForgetPointers(Transfer* transfer);
  // Takes over a transfer and finishes it without its owner.
  void Drop(std::unique_ptr<Transfer> transfer);

  // Publishes the plan of this process; ReadComparison later returns the plans of all processes.
  void PostComparison(int64_t digest, int64_t n_started);
  bool HasComparison() const;
  void ReadComparison(std::vector<int64_t>* all) const;

 private:
  struct Chunk {
    int64_t begin;  // offset within a lane, in bytes
    int64_t bytes;  // bytes per lane
    int64_t part;   // bytes of the part of a process, which is the stride of lanes
    bool is_small;

    int64_t PartBegin(int rank) const { return std::min(bytes, rank * part); }
    int64_t PartBytes(int rank) const { return PartBegin(rank + 1) - PartBegin(rank); }
  };

  // Returns the bytes of a lane per chunk.
  int64_t StrideOf(const Transfer& transfer) const;
  Chunk ChunkOf(const Transfer& transfer, int64_t number) const;
  Transfer* TransferOf(int64_t number) const;
  char* SlotOf(int rank, int64_t number) const;
  bool HaveAll(Counter Board::* counter, int64_t number, int64_t* least) const;
  int64_t FindFreeSlot();
  bool Push();
  bool JoinPart();
  bool Take(const Transfer* wanted);
  bool IsReady(const Transfer& transfer, const Chunk& chunk) const;
  Room FindRoom(int64_t bytes);
  void Keep(Transfer* transfer, int64_t lanes);
  void GiveBack(Transfer* transfer);
  void TakeParts(Transfer* transfer, const Chunk& chunk);
  void TakeLanes(Transfer* transfer, const Chunk& chunk);
  static void Give(Transfer* transfer, int64_t begin, int64_t bytes, const char* from);
  void JoinRange(const Transfer& transfer, int64_t number, int64_t begin, int64_t bytes, char* out);

  std::unique_ptr<SharedMemory> memory_;
  const int rank_;
  const int size_;
  const int64_t chunk_bytes_;
  Board& own_;
  std::deque<Transfer*> transfers_;  // transfers with unread chunks, in order
  std::vector<std::unique_ptr<Transfer>> dropped_;
  int64_t n_chunks_ = 0;  // number of chunks of all started transfers
  int64_t pushed_ = 0;
  int64_t joined_ = 0;
  int64_t taken_ = 0;
  int64_t compared_ = 0;
  // The progress of the slowest process, as last observed.
  mutable int64_t least_pushed_ = 0;
  mutable int64_t least_joined_ = 0;
  mutable int64_t least_taken_ = 0;
  std::vector<int64_t> slot_chunks_;  // the last chunk of each slot
  std::vector<const void*> parts_;
  std::vector<double> weights_;
  std::unique_ptr<char[]> small_;
  std::vector<Room> rooms_;  // free buffers, reused by the transfers of a step
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_SHARED_EXCHANGE_H_
