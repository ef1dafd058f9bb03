#include "shared_reduction.h"

#include <mutex>
#include <utility>

namespace opwright_mpi {

using opwright::Status;

SharedReduction::SharedReduction(Group* group, Reduce reduce, DLDataType dtype, int64_t n,
                                 bool is_weighted)
    : Reduction(group), transfer_(std::make_unique<Transfer>()) {
  transfer_->join = JoinOf(dtype);
  transfer_->reduce = reduce;
  transfer_->item = dtype.bits / 8;
  transfer_->bytes = n * transfer_->item;
  transfer_->is_weighted = is_weighted;
}

SharedReduction::~SharedReduction() {
  const std::lock_guard<std::mutex> lock(group_->mutex);
  group_->exchange()->Drop(std::move(transfer_));
}

Status SharedReduction::Start(const char* who, const Source& source, double weight) {
  transfer_->weight = weight;
  group_->exchange()->Start(transfer_.get(), source, /*stays=*/false);
  return group_->Started(who, kSuccess);
}

Status SharedReduction::Wait(const char* who, const Poll& poll, const Target* target) {
  SharedExchange* exchange = group_->exchange();
  exchange->SetTarget(transfer_.get(), target);
  Status status = group_->Wait(who, poll, [&] { return exchange->Advance(transfer_.get()); });
  SharedExchange::ForgetPointers(transfer_.get());
  return status;
}

Status SharedReduction::Run(const char* who, const Poll& poll, const Source& source,
                            const Target& target, double weight) {
  transfer_->weight = weight;
  group_->exchange()->Start(transfer_.get(), source, /*stays=*/true);
  OPWRIGHT_RETURN_IF_ERROR(group_->Started(who, kSuccess));
  return Wait(who, poll, &target);
}

}  // namespace opwright_mpi
