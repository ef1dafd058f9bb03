// Collectives that use memory shared by the processes of a group.
#ifndef OPWRIGHT_MPI_SHARED_COLLECTIVE_H_
#define OPWRIGHT_MPI_SHARED_COLLECTIVE_H_

#include <cstdint>
#include <memory>

#include "collective.h"
#include "shared_exchange.h"

namespace opwright_mpi {

class SharedCollective : public Collective {
 public:
  SharedCollective(Group* group, Motion motion, Reduce reduce, DLDataType dtype, int64_t n,
                   bool is_weighted);
  ~SharedCollective() override;

  opwright::Status Start(const char* who, const Source& source, double weight) override;
  opwright::Status Wait(const char* who, const Poll& poll, const Target* target) override;
  opwright::Status Run(const char* who, const Poll& poll, const Source& source,
                       const Target& target, double weight) override;
  bool IsDone() const override { return transfer_->is_done; }

 private:
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_SHARED_COLLECTIVE_H_
