// Reductions implemented with MPI messages.
#ifndef OPWRIGHT_MPI_MPI_REDUCTION_H_
#define OPWRIGHT_MPI_MPI_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collective.h"

namespace opwright_mpi {

// Large tensors are divided into one part per process. First, every process receives its part from
// all processes. Second, every process reduces these parts and sends the result to all processes.
// For n processes this moves 2 (n - 1) / n of the bytes, like a ring, but reduces in rank order.
// Small tensors are sent to all processes and reduced by each of them, which takes one message
// instead of two. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", 2005.
class MpiReduction : public Collective {
 public:
  MpiReduction(Group* group, Reduce reduce, DLDataType dtype, int64_t n, bool is_weighted);
  ~MpiReduction() override;

  opwright::Status Start(const char* who, const Source& source, double weight) override;
  opwright::Status Wait(const char* who, const Poll& poll, const Target* target) override;
  bool IsDone() const override { return stage_ == Stage::kIdle; }

  // Makes progress without waiting; returns an MPI error code or kSuccess.
  int Advance();
  bool HasBegunLastPart() const { return stage_ != Stage::kFirst; }

 private:
  enum class Stage { kIdle, kFirst, kLast };
  struct Free {
    void operator()(char* memory) const;
  };

  int TestFirst(bool* done);
  void JoinReceived(int64_t n, char* out);

  Reduce reduce_;
  Join join_;
  int64_t n_;
  int64_t item_;
  int64_t part_ = 0;  // elements in the part of a process
  bool is_small_;
  bool is_weighted_;
  Stage stage_ = Stage::kIdle;
  std::unique_ptr<char, Free> elements_;
  std::unique_ptr<char, Free> received_;
  std::vector<const void*> received_parts_;
  std::vector<char> joined_;  // the part of the result that this process reduces
  double weight_ = 1;
  std::vector<double> weights_;
  Request request_ = RequestNull();
  Request weight_request_ = RequestNull();
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_MPI_REDUCTION_H_
