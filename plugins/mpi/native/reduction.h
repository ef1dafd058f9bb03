// One reduction over a group: started, moved on while others compute, awaited.
#ifndef OPWRIGHT_MPI_REDUCTION_H_
#define OPWRIGHT_MPI_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "group.h"
#include "joining.h"

namespace opwright_mpi {

// Large tensors are divided into one part for each process: all send it their part (first), it
// joins them and sends the result to all (second). This moves 2 (n - 1) / n of the bytes for n
// processes, as a ring does, and joins in the order of ranks. Small ones are sent to all, and all
// join them: one message instead of two. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of
// collective communication operations in MPICH", 2005.
class Reduction {
 public:
  // Of `n` elements; with `is_weighted` a mean weights each process.
  Reduction(Group* group, Reduce reduce, DLDataType dtype, int64_t n, bool is_weighted);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  // Where the elements are put before Start, and where the result is behind the wait.
  char* elements() const { return elements_.get(); }

  opwright::Status Start(const char* who, double weight);
  opwright::Status Wait(const char* who, const Poll& poll);

  // Goes on as far as it can without waiting; returns an error code of MPI, or kSuccess.
  int Advance();
  bool IsDone() const { return stage_ == Stage::kIdle; }
  bool HasBegunLastPart() const { return stage_ != Stage::kFirst; }
  Group* group() const { return group_; }

 private:
  enum class Stage { kIdle, kFirst, kLast };
  struct Free {
    void operator()(char* memory) const;
  };

  int TestFirst(bool* done);

  Group* group_;
  Reduce reduce_;
  Join join_;
  int64_t n_;
  int64_t item_;
  int64_t part_ = 0;  // elements of the part of each process
  bool is_small_;
  bool is_weighted_;
  Stage stage_ = Stage::kIdle;
  std::unique_ptr<char, Free> elements_;
  std::unique_ptr<char, Free> received_;
  std::vector<char> joined_;  // this process's part of the result
  double weight_ = 1;
  std::vector<double> weights_;
  Request request_ = RequestNull();
  Request weight_request_ = RequestNull();
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_REDUCTION_H_
