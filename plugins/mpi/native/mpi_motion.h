// Collectives other than reductions, implemented with MPI messages.
#ifndef OPWRIGHT_MPI_MPI_MOTION_H_
#define OPWRIGHT_MPI_MPI_MOTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collective.h"

namespace opwright_mpi {

// One MPI collective, in which each process sends a different lane to every other process, or the
// same lane to all of them.
class MpiMotion : public Collective {
 public:
  MpiMotion(Group* group, Motion motion, Reduce reduce, DLDataType dtype, int64_t n,
            bool is_weighted);
  ~MpiMotion() override;

  opwright::Status Start(const char* who, const Source& source, double weight) override;
  opwright::Status Wait(const char* who, const Poll& poll, const Target* target) override;
  bool IsDone() const override { return is_done_; }

 private:
  // The MPI buffers and requests.
  struct Letters {
    std::vector<char> sent;
    std::vector<char> received;
    std::vector<double> weights;
    double weight = 1;
    Request request = RequestNull();
    Request weight_request = RequestNull();
  };

  int Test();
  void Deliver(const Target& target);

  const Motion motion_;
  const Reduce reduce_;
  const Join join_;
  const int64_t n_;  // elements per lane
  const int64_t lane_bytes_;
  const bool is_weighted_;
  bool is_done_ = true;
  std::unique_ptr<Letters> letters_;
  std::vector<char> joined_;
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_MPI_MOTION_H_
