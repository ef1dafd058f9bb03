#include "collective.h"

#include "mpi_motion.h"
#include "mpi_reduction.h"
#include "shared_collective.h"

namespace opwright_mpi {

std::unique_ptr<Collective> Collective::Make(Group* group, Motion motion, Reduce reduce,
                                             DLDataType dtype, int64_t n, bool is_weighted) {
  if (group->exchange() != nullptr) {
    return std::make_unique<SharedCollective>(group, motion, reduce, dtype, n, is_weighted);
  }
  if (motion == Motion::kReduce) {
    return std::make_unique<MpiReduction>(group, reduce, dtype, n, is_weighted);
  }
  return std::make_unique<MpiMotion>(group, motion, reduce, dtype, n, is_weighted);
}

opwright::Status Collective::Run(const char* who, const Poll& poll, const Source& source,
                                 const Target& target, double weight) {
  OPWRIGHT_RETURN_IF_ERROR(Start(who, source, weight));
  return Wait(who, poll, &target);
}

}  // namespace opwright_mpi
