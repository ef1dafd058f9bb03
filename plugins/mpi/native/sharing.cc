// Determines whether all processes of a group can share memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "group.h"
#include "library.h"

namespace opwright_mpi {

using opwright::Status;

Status Group::Gather(const char* who, const Poll& poll, const void* own, int64_t bytes, void* all) {
  const auto* begin = static_cast<const char*>(own);
  auto sent = std::make_unique<std::vector<char>>(begin, begin + bytes);
  auto received = std::make_unique<std::vector<char>>(static_cast<size_t>(bytes * size));
  Request request = RequestNull();
  const int code = Mpi().Iallgather_c(sent->data(), bytes, TypeByte(), received->data(), bytes,
                                      TypeByte(), control, &request);
  if (code != kSuccess) return FailMpi(who, code);
  Status status = Wait(who, poll, &request);
  if (status.ok()) {
    std::copy(received->begin(), received->end(), static_cast<char*>(all));
  } else {  // MPI still uses this memory, so it is leaked
    static_cast<void>(sent.release());
    static_cast<void>(received.release());
  }
  return status;
}

Status Group::ShareMemory() {
  constexpr const char* kWho = "connect";
  bool may_share = false;
  const std::string fault = FindChoice(&may_share);
  if (!fault.empty()) return Status::Error(fault);
  if (size < 2) return Status::Ok();
  const Poll never_ends = [] { return Status::Ok(); };
  std::unique_ptr<SharedMemory> memory;
  Offer own{};
  own.is_wanted = static_cast<int64_t>(may_share);
  if (rank == 0 && own.is_wanted != 0) {
    memory = SharedMemory::Make(size);
    if (memory != nullptr) own = memory->offer();
  }
  std::vector<Offer> offers(static_cast<size_t>(size));
  OPWRIGHT_RETURN_IF_ERROR(Gather(kWho, never_ends, &own, sizeof(own), offers.data()));
  const bool all_want = std::all_of(offers.begin(), offers.end(),
                                    [](const Offer& offer) { return offer.is_wanted != 0; });
  if (!all_want || offers[0].pid == 0) return Status::Ok();
  if (rank != 0) memory = SharedMemory::Open(offers[0], size);
  const auto is_mapped = static_cast<int64_t>(memory != nullptr);
  std::vector<int64_t> mapped(static_cast<size_t>(size));
  OPWRIGHT_RETURN_IF_ERROR(Gather(kWho, never_ends, &is_mapped, sizeof(is_mapped), mapped.data()));
  if (std::find(mapped.begin(), mapped.end(), 0) != mapped.end()) return Status::Ok();
  memory->CloseDescriptor();
  exchange_ = std::make_unique<SharedExchange>(std::move(memory), rank, size);
  return Status::Ok();
}

}  // namespace opwright_mpi
