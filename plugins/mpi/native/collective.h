// An asynchronous collective of a group, with start, progress and wait.
#ifndef OPWRIGHT_MPI_COLLECTIVE_H_
#define OPWRIGHT_MPI_COLLECTIVE_H_

#include <cstdint>
#include <memory>

#include "group.h"
#include "joining.h"
#include "motion.h"
#include "pieces.h"

namespace opwright_mpi {

// One object can run many collectives of the same size. Every transport reduces elements in rank
// order.
class Collective {
 public:
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  // Creates a collective for lanes of `n` elements; with `is_weighted`, a mean weights the
  // processes.
  static std::unique_ptr<Collective> Make(Group* group, Motion motion, Reduce reduce,
                                          DLDataType dtype, int64_t n, bool is_weighted);

  // The caller can reuse the source after this returns.
  virtual opwright::Status Start(const char* who, const Source& source, double weight) = 0;
  // Writes the result, or discards the result of a failed run if `target` is null.
  virtual opwright::Status Wait(const char* who, const Poll& poll, const Target* target) = 0;
  // Calls Start and Wait; the target can be the source.
  virtual opwright::Status Run(const char* who, const Poll& poll, const Source& source,
                               const Target& target, double weight);
  virtual bool IsDone() const = 0;
  Group* group() const { return group_; }

 protected:
  explicit Collective(Group* group) : group_(group) {}
  Group* const group_;
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_COLLECTIVE_H_
