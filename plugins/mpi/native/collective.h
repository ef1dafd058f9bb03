// One asynchronous collective of a group: start, progress, wait.
#ifndef OPWRIGHT_MPI_COLLECTIVE_H_
#define OPWRIGHT_MPI_COLLECTIVE_H_

#include <cstdint>
#include <memory>

#include "group.h"
#include "joining.h"
#include "motion.h"
#include "pieces.h"

namespace opwright_mpi {

// One object can run many collectives of equal size. Every transport reduces elements in rank
// order.
class Collective {
 public:
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  // Makes a collective for lanes of `n` elements; with `is_weighted`, a mean weights each process.
  static std::unique_ptr<Collective> Make(Group* group, Motion motion, Reduce reduce,
                                          DLDataType dtype, int64_t n, bool is_weighted);

  // When this returns, the caller may reuse the source.
  virtual opwright::Status Start(const char* who, const Source& source, double weight) = 0;
  // Writes the result; after a failed run, which has no target, writes nothing.
  virtual opwright::Status Wait(const char* who, const Poll& poll, const Target* target) = 0;
  // Runs Start and Wait; the target may be the source.
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
