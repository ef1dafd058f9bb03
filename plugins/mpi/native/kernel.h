// Code shared by the collective kernels.
#ifndef OPWRIGHT_MPI_KERNEL_H_
#define OPWRIGHT_MPI_KERNEL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective.h"
#include "group.h"
#include "library.h"
#include "opwright/sdk.hpp"

namespace opwright_mpi {

inline void ConfigureBlocking(opwright::KernelOptions& options) {
  options.library = "mpi";
  options.blocks = true;
}

inline Poll PollOf(const opwright::RunContext& ctx) {
  return [&ctx] { return ctx.Poll(); };
}

// Finds the group, which this engine must have connected; a group of one process is allowed.
inline opwright::Status FindMembers(const std::string& name, Group** group) {
  *group = FindGroup(name);
  if (*group != nullptr) return opwright::Status::Ok();
  if (FindGroup("world") != nullptr) {
    return opwright::Status::Refused("MPI must connect group '", name,
                                     "' with this process, got none");
  }
  return opwright::Status::Unsupported("a group '", name, "' of processes that MPI connects; ",
                                       "`opwright-mpi run` does, and in one process alone ",
                                       "OPWRIGHT_DIST_ENGINE=mpi");
}

// Waits until the plans of all processes are compared.
inline opwright::Status Enter(Group* group, const char* who, const opwright::RunContext& ctx) {
  OPWRIGHT_RETURN_IF_ERROR(group->Check(who));
  return group->EndComparison(who, PollOf(ctx));
}

// Finishes a collective whose run failed before its wait.
inline opwright::Status EndEarlierRun(const char* who, const opwright::RunContext& ctx,
                                      Collective* collective) {
  return collective->IsDone() ? opwright::Status::Ok()
                              : collective->Wait(who, PollOf(ctx), nullptr);
}

// The MPI buffers persist between runs, since MPI may still use them if a run fails while it waits.
struct Buffers {
  std::vector<char> sent;
  std::vector<char> received;
  std::unique_ptr<Request> request = std::make_unique<Request>(RequestNull());
  Buffers() = default;
  Buffers(Buffers&&) = default;
  Buffers& operator=(Buffers&&) = delete;
  ~Buffers() {
    if (request == nullptr || *request == RequestNull()) return;
    static_cast<void>(new std::vector<char>(std::move(sent)));
    static_cast<void>(new std::vector<char>(std::move(received)));
    static_cast<void>(request.release());
  }
};

// Calls `start` and waits for the collective that it starts.
template <typename Start>
opwright::Status Exchange(Group* group, const char* who, const opwright::RunContext& ctx,
                          Buffers& buffers, const Start& start) {
  const int code = start(buffers.request.get());
  OPWRIGHT_RETURN_IF_ERROR(group->Started(who, code));
  OPWRIGHT_RETURN_IF_ERROR(group->Wait(who, PollOf(ctx), buffers.request.get()));
  *buffers.request = RequestNull();
  return opwright::Status::Ok();
}

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_KERNEL_H_
