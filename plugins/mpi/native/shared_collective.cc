#include "shared_collective.h"

#include <mutex>
#include <utility>

namespace opwright_mpi {

using opwright::Status;

SharedCollective::SharedCollective(Group* group, Motion motion, Reduce reduce, DLDataType dtype,
                                   int64_t n, bool is_weighted)
    : Collective(group), transfer_(std::make_unique<Transfer>()) {
  transfer_->motion = motion;
  transfer_->join = JoinOf(dtype);
  transfer_->reduce = reduce;
  transfer_->item = dtype.bits / 8;
  transfer_->bytes = n * transfer_->item;
  transfer_->is_weighted = is_weighted;
}

SharedCollective::~SharedCollective() {
  const std::lock_guard<std::mutex> lock(group_->mutex);
  group_->exchange()->Drop(std::move(transfer_));
}

Status SharedCollective::Start(const char* who, const Source& source, double weight) {
  transfer_->weight = weight;
  group_->exchange()->Start(transfer_.get(), source, /*stays=*/false);
  return group_->Started(who, kSuccess);
}

Status SharedCollective::Wait(const char* who, const Poll& poll, const Target* target) {
  SharedExchange* exchange = group_->exchange();
  exchange->SetTarget(transfer_.get(), target);
  Status status = group_->Wait(who, poll, [&] { return exchange->Advance(transfer_.get()); });
  SharedExchange::ForgetPointers(transfer_.get());
  return status;
}

Status SharedCollective::Run(const char* who, const Poll& poll, const Source& source,
                             const Target& target, double weight) {
  transfer_->weight = weight;
  group_->exchange()->Start(transfer_.get(), source, /*stays=*/true);
  OPWRIGHT_RETURN_IF_ERROR(group_->Started(who, kSuccess));
  return Wait(who, poll, &target);
}

}  // namespace opwright_mpi
