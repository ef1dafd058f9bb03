#include "mpi_reduction.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "library.h"

namespace opwright_mpi {

using opwright::Status;

namespace {

constexpr size_t kAlignment = 64;

char* Allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  auto* memory = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void MpiReduction::Free::operator()(char* memory) const { std::free(memory); }

MpiReduction::MpiReduction(Group* group, Reduce reduce, DLDataType dtype, int64_t n,
                           bool is_weighted)
    : Collective(group),
      reduce_(reduce),
      join_(JoinOf(dtype)),
      n_(n),
      item_(dtype.bits / 8),
      is_small_(n * item_ * group->size <= kSmallBytes),
      is_weighted_(is_weighted) {
  part_ = is_small_ ? n : (n + group->size - 1) / group->size;
  const int64_t padded = part_ * group->size;
  elements_.reset(Allocate((is_small_ ? n : padded) * item_));
  received_.reset(Allocate(padded * item_));
  for (int r = 0; r < group->size; ++r) {
    received_parts_.push_back(received_.get() + r * part_ * item_);
  }
  if (!is_small_) {
    std::memset(elements_.get() + n * item_, 0, static_cast<size_t>((padded - n) * item_));
    joined_.resize(static_cast<size_t>(part_ * item_));
  }
  if (is_weighted) weights_.resize(static_cast<size_t>(group->size));
}

MpiReduction::~MpiReduction() {
  const std::lock_guard<std::mutex> lock(group_->mutex);
  group_->Remove(this);
  if (stage_ == Stage::kIdle) return;
  // MPI still reads and writes this memory, so it is leaked.
  static_cast<void>(elements_.release());
  static_cast<void>(received_.release());
  static_cast<void>(new std::vector<char>(std::move(joined_)));
  static_cast<void>(new std::vector<double>(std::move(weights_)));
}

Status MpiReduction::Start(const char* who, const Source& source, double weight) {
  const Library& mpi = Mpi();
  source.Read(0, source.bytes(), elements_.get());
  if (is_weighted_) {
    weight_ = weight;
    const int code = mpi.Iallgather_c(&weight_, sizeof(double), TypeByte(), weights_.data(),
                                      sizeof(double), TypeByte(), group_->first, &weight_request_);
    OPWRIGHT_RETURN_IF_ERROR(group_->Started(who, code));
  }
  const int64_t bytes = part_ * item_;
  const auto send = is_small_ ? mpi.Iallgather_c : mpi.Ialltoall_c;
  const int code = send(elements_.get(), bytes, TypeByte(), received_.get(), bytes, TypeByte(),
                        group_->first, &request_);
  OPWRIGHT_RETURN_IF_ERROR(group_->Started(who, code));
  stage_ = Stage::kFirst;
  group_->Add(this);
  const int advanced = group_->Progress();
  return advanced < 0 ? group_->Started(who, -advanced) : Status::Ok();
}

int MpiReduction::TestFirst(bool* done) {
  int both = 1;
  for (Request* request : {&weight_request_, &request_}) {
    if (*request == RequestNull()) continue;
    int one = 0;
    const int code = Mpi().Test(request, &one, nullptr);
    if (code != kSuccess) return code;
    both &= one;
  }
  *done = both != 0;
  return kSuccess;
}

int MpiReduction::Advance() {
  bool done = false;
  if (stage_ == Stage::kIdle) return kSuccess;
  const int code = TestFirst(&done);
  if (code != kSuccess || !done) return code;
  if (stage_ == Stage::kLast) {
    stage_ = Stage::kIdle;
    return kSuccess;
  }
  if (is_small_) {
    JoinReceived(n_, elements_.get());
    stage_ = Stage::kIdle;
    return kSuccess;
  }
  JoinReceived(part_, joined_.data());
  stage_ = Stage::kLast;
  const int64_t bytes = part_ * item_;
  return Mpi().Iallgather_c(joined_.data(), bytes, TypeByte(), elements_.get(), bytes, TypeByte(),
                            group_->second, &request_);
}

void MpiReduction::JoinReceived(int64_t n, char* out) {
  join_(reduce_, received_parts_.data(), group_->size, n, is_weighted_ ? weights_.data() : nullptr,
        out);
}

Status MpiReduction::Wait(const char* who, const Poll& poll, const Target* target) {
  OPWRIGHT_RETURN_IF_ERROR(group_->Wait(who, poll, [this] {
    const int code = group_->Progress();
    return code < 0 ? code : static_cast<int>(IsDone());
  }));
  if (target != nullptr) target->Write(0, target->bytes(), elements_.get());
  return Status::Ok();
}

}  // namespace opwright_mpi
