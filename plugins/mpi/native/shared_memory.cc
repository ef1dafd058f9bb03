#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace opwright_mpi {

namespace {

constexpr int64_t kPage = 4096;

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

int SlotsOf(int n) {
  return static_cast<int>(
      std::clamp<int64_t>(kMostBytes / (kSlotBytes * n), 2, static_cast<int64_t>(kMostSlots)));
}

// The memory consists of the key, the boards and the slots.
int64_t BoardsBegin() { return static_cast<int64_t>(sizeof(Counter)); }
int64_t SlotsBegin(int n) {
  return RoundUp(BoardsBegin() + n * static_cast<int64_t>(sizeof(Board)), kPage);
}
int64_t BytesOf(int n) { return SlotsBegin(n) + n * SlotsOf(n) * kSlotBytes; }

// Opens the descriptor of another process. Checks that the descriptor is a file of the right size,
// since the pid can belong to any process on this machine.
int OpenDescriptor(const Offer& offer) {
  const std::string path =
      "/proc/" + std::to_string(offer.pid) + "/fd/" + std::to_string(offer.descriptor);
  const int place = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (place < 0) return -1;
  struct stat found{};
  int descriptor = -1;
  if (fstat(place, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == offer.bytes) {
    const std::string own = "/proc/self/fd/" + std::to_string(place);
    descriptor = open(own.c_str(), O_RDWR | O_CLOEXEC);
  }
  close(place);
  return descriptor;
}

}  // namespace

std::string FindChoice(bool* may_share) {
  constexpr const char* kVariable = "OPWRIGHT_MPI_SHARED_MEMORY";
  const char* choice = std::getenv(kVariable);
  const std::string text = choice == nullptr ? "1" : choice;
  *may_share = text == "1";
  if (text == "0" || text == "1") return "";
  return std::string(kVariable) + " must be 0 or 1, got '" + text + "'; leave it unset for 1";
}

SharedMemory::SharedMemory(int n, int descriptor, const Offer& offer)
    : n_(n), n_slots_(SlotsOf(n)), descriptor_(descriptor), offer_(offer) {}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, static_cast<size_t>(offer_.bytes));
  CloseDescriptor();
}

std::unique_ptr<SharedMemory> SharedMemory::Make(int n) {
  const int descriptor = memfd_create("opwright-mpi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return nullptr;
  Offer offer{1, getpid(), descriptor, BytesOf(n), {0, 0}};
  std::unique_ptr<SharedMemory> memory(new SharedMemory(n, descriptor, offer));
  // Sealed against shrinking, since a read beyond its end would kill the process.
  const bool is_good = getrandom(memory->offer_.key, sizeof(offer.key), 0) == sizeof(offer.key) &&
                       ftruncate(descriptor, offer.bytes) == 0 &&
                       fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (!is_good || !memory->Map()) return nullptr;
  std::memcpy(memory->base_, memory->offer_.key, sizeof(offer.key));
  return memory;
}

std::unique_ptr<SharedMemory> SharedMemory::Open(const Offer& offer, int n) {
  if (offer.bytes != BytesOf(n)) return nullptr;
  const int descriptor = OpenDescriptor(offer);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<SharedMemory> memory(new SharedMemory(n, descriptor, offer));
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !memory->Map()) return nullptr;
  if (std::memcmp(memory->base_, offer.key, sizeof(offer.key)) != 0) return nullptr;
  return memory;
}

bool SharedMemory::Map() {
  const auto bytes = static_cast<size_t>(offer_.bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<char*>(memory);
  madvise(memory, bytes, MADV_DONTFORK);  // a forked child does not take part
  return true;
}

void SharedMemory::CloseDescriptor() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

Board& SharedMemory::board(int rank) const {
  return reinterpret_cast<Board*>(base_ + BoardsBegin())[rank];
}

char* SharedMemory::slot(int rank, int64_t index) const {
  return base_ + SlotsBegin(n_) + (rank * n_slots_ + index) * kSlotBytes;
}

}  // namespace opwright_mpi
