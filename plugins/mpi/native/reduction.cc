#include "reduction.h"

#include "mpi_reduction.h"
#include "shared_reduction.h"

namespace opwright_mpi {

std::unique_ptr<Reduction> Reduction::Make(Group* group, Reduce reduce, DLDataType dtype, int64_t n,
                                           bool is_weighted) {
  if (group->exchange() != nullptr) {
    return std::make_unique<SharedReduction>(group, reduce, dtype, n, is_weighted);
  }
  return std::make_unique<MpiReduction>(group, reduce, dtype, n, is_weighted);
}

opwright::Status Reduction::Run(const char* who, const Poll& poll, const Source& source,
                                const Target& target, double weight) {
  OPWRIGHT_RETURN_IF_ERROR(Start(who, source, weight));
  return Wait(who, poll, &target);
}

}  // namespace opwright_mpi
