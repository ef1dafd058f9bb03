#include "shared_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace opwright_mpi {

namespace {

constexpr int64_t kLine = 64;

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

char* Allocate(int64_t bytes) { return new char[static_cast<size_t>(bytes)]; }

}  // namespace

SharedExchange::SharedExchange(std::unique_ptr<SharedMemory> memory, int rank, int size)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      chunk_bytes_(kSlotBytes / size / kLine * kLine * size),
      own_(memory_->board(rank)),
      slot_chunks_(static_cast<size_t>(memory_->n_slots()), -1),
      parts_(static_cast<size_t>(size)),
      weights_(static_cast<size_t>(size)),
      small_(Allocate(kSmallBytes)) {}

void SharedExchange::Start(Transfer* transfer, const Source& source, bool stays) {
  transfer->source = &source;
  transfer->has_kept_source = false;
  transfer->n_kept_results = 0;
  transfer->first_chunk = n_chunks_;
  const int64_t stride = StrideOf(*transfer);
  transfer->n_chunks = (transfer->bytes + stride - 1) / stride;
  transfer->is_done = transfer->n_chunks == 0;
  if (transfer->is_done) return;
  n_chunks_ += transfer->n_chunks;
  transfers_.push_back(transfer);
  while (Push() || JoinPart()) {
  }
  if (stays) return;
  const int64_t rest = std::max(int64_t{0}, pushed_ - transfer->first_chunk) * stride;
  if (rest < transfer->bytes) {
    Keep(transfer, SourceLanes(transfer->motion, size_));
    for (int64_t lane = 0; lane < SourceLanes(transfer->motion, size_); ++lane) {
      const int64_t begin = lane * transfer->bytes + rest;
      source.Read(begin, transfer->bytes - rest, transfer->kept.data.get() + begin);
    }
    transfer->has_kept_source = true;
  }
  transfer->source = nullptr;
}

void SharedExchange::SetTarget(Transfer* transfer, const Target* target) {
  transfer->target = target;
  if (target != nullptr && transfer->n_kept_results != 0) {
    for (int64_t lane = 0; lane < TargetLanes(transfer->motion, size_); ++lane) {
      const int64_t begin = lane * transfer->bytes;
      target->Write(begin, transfer->n_kept_results, transfer->kept.data.get() + begin);
    }
  }
  transfer->n_kept_results = 0;
  GiveBack(transfer);
}

int SharedExchange::Advance(Transfer* wanted) {
  if (wanted->is_done) return 1;
  if (Take(wanted)) return wanted->is_done ? 1 : 2;
  return JoinPart() || Push() ? 2 : 0;
}

void SharedExchange::ForgetPointers(Transfer* transfer) {
  transfer->source = nullptr;
  transfer->target = nullptr;
}

void SharedExchange::Drop(std::unique_ptr<Transfer> transfer) {
  if (transfer->is_done) return;
  ForgetPointers(transfer.get());
  transfer->is_dropped = true;
  dropped_.push_back(std::move(transfer));
}

int64_t SharedExchange::StrideOf(const Transfer& transfer) const {
  return chunk_bytes_ / SourceLanes(transfer.motion, size_);
}

SharedExchange::Chunk SharedExchange::ChunkOf(const Transfer& transfer, int64_t number) const {
  Chunk chunk{};
  const int64_t stride = StrideOf(transfer);
  chunk.begin = (number - transfer.first_chunk) * stride;
  chunk.bytes = std::min(stride, transfer.bytes - chunk.begin);
  chunk.part = RoundUp((chunk.bytes + size_ - 1) / size_, kLine);
  if (stride != chunk_bytes_) chunk.part = RoundUp(chunk.bytes, kLine);
  chunk.is_small = transfer.motion == Motion::kReduce && transfer.bytes * size_ <= kSmallBytes;
  return chunk;
}

// Returns the smallest sufficient free buffer, or a new buffer.
Room SharedExchange::FindRoom(int64_t bytes) {
  auto best = rooms_.end();
  for (auto room = rooms_.begin(); room != rooms_.end(); ++room) {
    if (room->bytes < bytes) continue;
    if (best == rooms_.end() || room->bytes < best->bytes) best = room;
  }
  if (best == rooms_.end()) return {std::unique_ptr<char[]>(Allocate(bytes)), bytes};
  Room room = std::move(*best);
  rooms_.erase(best);
  return room;
}

// Allocates buffers for lanes that wait for a slot or for their owner; existing contents are kept.
void SharedExchange::Keep(Transfer* transfer, int64_t lanes) {
  const int64_t bytes = lanes * transfer->bytes;
  Room& kept = transfer->kept;
  if (kept.bytes >= bytes) return;
  Room room = FindRoom(bytes);
  if (kept.bytes != 0) {
    std::memcpy(room.data.get(), kept.data.get(), static_cast<size_t>(kept.bytes));
    rooms_.push_back(std::move(kept));
  }
  kept = std::move(room);
}

// Makes the buffers of a finished transfer reusable once its owner has received the results.
void SharedExchange::GiveBack(Transfer* transfer) {
  if (!transfer->is_done || transfer->n_kept_results != 0 || transfer->kept.bytes == 0) return;
  rooms_.push_back(std::exchange(transfer->kept, Room{}));
}

// Returns the transfer of a chunk that has been started but not read.
Transfer* SharedExchange::TransferOf(int64_t number) const {
  const auto found =
      std::find_if(transfers_.begin(), transfers_.end(), [number](const Transfer* transfer) {
        return number < transfer->first_chunk + transfer->n_chunks;
      });
  return *found;
}

char* SharedExchange::SlotOf(int rank, int64_t number) const {
  return memory_->slot(rank, memory_->board(rank).headers[number % kHeaders].slot);
}

// Returns whether each process has reached chunk `number`.
bool SharedExchange::HaveAll(Counter Board::* counter, int64_t number, int64_t* least) const {
  if (*least > number) return true;
  int64_t slowest = n_chunks_;
  for (int r = 0; r < size_ && slowest > number; ++r) {
    slowest = std::min(slowest, (memory_->board(r).*counter).value.load(std::memory_order_acquire));
  }
  if (slowest <= number) return false;  // other processes were not checked
  *least = slowest;
  return true;
}

// Returns the first free slot, which is most likely in the cache, or -1 if all slots are in use.
int64_t SharedExchange::FindFreeSlot() {
  for (size_t slot = 0; slot < slot_chunks_.size(); ++slot) {
    if (HaveAll(&Board::taken, slot_chunks_[slot], &least_taken_)) {
      return static_cast<int64_t>(slot);
    }
  }
  return -1;
}

bool SharedExchange::Push() {
  if (pushed_ == n_chunks_) return false;
  const Transfer& transfer = *TransferOf(pushed_);
  if (transfer.source == nullptr && !transfer.has_kept_source) return false;  // its run has failed
  const int64_t slot = FindFreeSlot();
  if (slot < 0) return false;
  const Chunk chunk = ChunkOf(transfer, pushed_);
  for (int64_t lane = 0; lane < SourceLanes(transfer.motion, size_); ++lane) {
    char* to = memory_->slot(rank_, slot) + lane * chunk.part;
    const int64_t begin = lane * transfer.bytes + chunk.begin;
    if (transfer.source != nullptr) {
      transfer.source->Read(begin, chunk.bytes, to);
    } else {
      std::memcpy(to, transfer.kept.data.get() + begin, static_cast<size_t>(chunk.bytes));
    }
  }
  own_.headers[pushed_ % kHeaders] = {slot, transfer.weight};
  slot_chunks_[static_cast<size_t>(slot)] = pushed_;
  own_.pushed.value.store(++pushed_, std::memory_order_release);
  return true;
}

bool SharedExchange::JoinPart() {
  if (joined_ == pushed_) return false;
  const Transfer& transfer = *TransferOf(joined_);
  const Chunk chunk = ChunkOf(transfer, joined_);
  if (!chunk.is_small && JoinsLanes(transfer.motion)) {
    if (!HaveAll(&Board::pushed, joined_, &least_pushed_)) return false;
    const bool has_lanes = transfer.motion == Motion::kScatter;
    const int64_t begin = has_lanes ? rank_ * chunk.part : chunk.PartBegin(rank_);
    const int64_t bytes = has_lanes ? chunk.bytes : chunk.PartBytes(rank_);
    JoinRange(transfer, joined_, begin, bytes, SlotOf(rank_, joined_) + begin);
  }
  own_.joined.value.store(++joined_, std::memory_order_release);
  return true;
}

void SharedExchange::JoinRange(const Transfer& transfer, int64_t number, int64_t begin,
                               int64_t bytes, char* out) {
  for (int r = 0; r < size_; ++r) {
    parts_[static_cast<size_t>(r)] = SlotOf(r, number) + begin;
    weights_[static_cast<size_t>(r)] = memory_->board(r).headers[number % kHeaders].weight;
  }
  transfer.join(transfer.reduce, parts_.data(), size_, bytes / transfer.item,
                transfer.is_weighted ? weights_.data() : nullptr, out);
}

bool SharedExchange::Take(const Transfer* wanted) {
  if (taken_ == joined_) return false;
  Transfer* transfer = transfers_.front();
  const bool may_take = transfer->is_dropped || transfer->first_chunk <= wanted->first_chunk;
  if (!may_take) return false;
  const Chunk chunk = ChunkOf(*transfer, taken_);
  if (!IsReady(*transfer, chunk)) return false;
  const bool is_kept = transfer->target == nullptr && transfer != wanted && !transfer->is_dropped;
  if (is_kept) {
    Keep(transfer, TargetLanes(transfer->motion, size_));
    transfer->n_kept_results += chunk.bytes;
  }
  if (is_kept || transfer->target != nullptr) {
    transfer->motion == Motion::kReduce ? TakeParts(transfer, chunk) : TakeLanes(transfer, chunk);
  }
  own_.taken.value.store(++taken_, std::memory_order_release);
  if (taken_ == transfer->first_chunk + transfer->n_chunks) {
    transfer->is_done = true;
    transfers_.pop_front();
    GiveBack(transfer);
    const auto is_gone = [](const auto& dropped) { return dropped->is_done; };
    dropped_.erase(std::remove_if(dropped_.begin(), dropped_.end(), is_gone), dropped_.end());
  }
  return true;
}

// Returns whether the next chunk can be read.
bool SharedExchange::IsReady(const Transfer& transfer, const Chunk& chunk) const {
  if (transfer.motion == Motion::kScatter) return true;  // this process has reduced its lane
  if (chunk.is_small || !JoinsLanes(transfer.motion)) {
    return HaveAll(&Board::pushed, taken_, &least_pushed_);
  }
  return HaveAll(&Board::joined, taken_, &least_joined_);
}

void SharedExchange::Give(Transfer* transfer, int64_t begin, int64_t bytes, const char* from) {
  if (transfer->target != nullptr) {
    transfer->target->Write(begin, bytes, from);
  } else {
    std::memcpy(transfer->kept.data.get() + begin, from, static_cast<size_t>(bytes));
  }
}

void SharedExchange::TakeParts(Transfer* transfer, const Chunk& chunk) {
  if (chunk.is_small) {
    JoinRange(*transfer, taken_, 0, chunk.bytes, small_.get());
    Give(transfer, chunk.begin, chunk.bytes, small_.get());
    return;
  }
  for (int r = 0; r < size_; ++r) {
    const int64_t begin = chunk.PartBegin(r);
    const int64_t bytes = chunk.PartBytes(r);
    if (bytes != 0) Give(transfer, chunk.begin + begin, bytes, SlotOf(r, taken_) + begin);
  }
}

void SharedExchange::TakeLanes(Transfer* transfer, const Chunk& chunk) {
  const int64_t own = transfer->motion == Motion::kGather ? 0 : rank_ * chunk.part;
  if (transfer->motion == Motion::kScatter) {
    Give(transfer, chunk.begin, chunk.bytes, SlotOf(rank_, taken_) + own);
    return;
  }
  for (int r = 0; r < size_; ++r) {
    Give(transfer, r * transfer->bytes + chunk.begin, chunk.bytes, SlotOf(r, taken_) + own);
  }
}

void SharedExchange::PostComparison(int64_t digest, int64_t n_started) {
  int64_t (&entry)[2] = own_.comparisons[compared_ & 1];
  entry[0] = digest;
  entry[1] = n_started;
  own_.compared.value.store(++compared_, std::memory_order_release);
}

bool SharedExchange::HasComparison() const {
  for (int r = 0; r < size_; ++r) {
    const auto& theirs = memory_->board(r).compared.value;
    if (theirs.load(std::memory_order_acquire) < compared_) return false;
  }
  return true;
}

void SharedExchange::ReadComparison(std::vector<int64_t>* all) const {
  for (int r = 0; r < size_; ++r) {
    const int64_t (&entry)[2] = memory_->board(r).comparisons[(compared_ - 1) & 1];
    std::copy_n(entry, 2, all->begin() + 2 * r);
  }
}

}  // namespace opwright_mpi
