#include "mpi_motion.h"

#include "library.h"

namespace opwright_mpi {

using opwright::Status;

MpiMotion::MpiMotion(Group* group, Motion motion, Reduce reduce, DLDataType dtype, int64_t n,
                     bool is_weighted)
    : Collective(group),
      motion_(motion),
      reduce_(reduce),
      join_(JoinOf(dtype)),
      n_(n),
      lane_bytes_(n * (dtype.bits / 8)),
      is_weighted_(is_weighted),
      letters_(std::make_unique<Letters>()) {
  letters_->sent.resize(static_cast<size_t>(SourceLanes(motion, group->size) * lane_bytes_));
  letters_->received.resize(static_cast<size_t>(group->size * lane_bytes_));
  if (motion == Motion::kScatter) joined_.resize(static_cast<size_t>(lane_bytes_));
  if (is_weighted) letters_->weights.resize(static_cast<size_t>(group->size));
}

MpiMotion::~MpiMotion() {
  // MPI still uses this memory, so it is leaked.
  if (!is_done_) static_cast<void>(letters_.release());
}

Status MpiMotion::Start(const char* who, const Source& source, double weight) {
  const Library& mpi = Mpi();
  Letters& letters = *letters_;
  source.Read(0, source.bytes(), letters.sent.data());
  if (is_weighted_) {
    letters.weight = weight;
    const int code =
        mpi.Iallgather_c(&letters.weight, sizeof(double), TypeByte(), letters.weights.data(),
                         sizeof(double), TypeByte(), group_->first, &letters.weight_request);
    OPWRIGHT_RETURN_IF_ERROR(group_->Started(who, code));
  }
  is_done_ = false;
  const auto send = motion_ == Motion::kGather ? mpi.Iallgather_c : mpi.Ialltoall_c;
  const int code = send(letters.sent.data(), lane_bytes_, TypeByte(), letters.received.data(),
                        lane_bytes_, TypeByte(), group_->first, &letters.request);
  return group_->Started(who, code);
}

// Returns 1 if both messages have arrived, or a negated MPI error code.
int MpiMotion::Test() {
  int both = 1;
  for (Request* request : {&letters_->weight_request, &letters_->request}) {
    if (*request == RequestNull()) continue;
    int one = 0;
    const int code = Mpi().Test(request, &one, nullptr);
    if (code != kSuccess) return -code;
    both &= one;
  }
  return both;
}

Status MpiMotion::Wait(const char* who, const Poll& poll, const Target* target) {
  OPWRIGHT_RETURN_IF_ERROR(group_->Wait(who, poll, [this] {
    const int code = group_->Progress();  // advances reductions that started earlier
    return code < 0 ? code : Test();
  }));
  is_done_ = true;
  if (target != nullptr) Deliver(*target);
  return Status::Ok();
}

void MpiMotion::Deliver(const Target& target) {
  if (motion_ != Motion::kScatter) {
    target.Write(0, target.bytes(), letters_->received.data());
    return;
  }
  std::vector<const void*> lanes;
  for (int r = 0; r < group_->size; ++r) {
    lanes.push_back(letters_->received.data() + r * lane_bytes_);
  }
  const double* weights = is_weighted_ ? letters_->weights.data() : nullptr;
  join_(reduce_, lanes.data(), group_->size, n_, weights, joined_.data());
  target.Write(0, target.bytes(), joined_.data());
}

}  // namespace opwright_mpi
