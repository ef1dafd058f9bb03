// One run of a plan: its state, and the caller's memory and hooks.
#ifndef OPWRIGHT_RUNTIME_RUN_H_
#define OPWRIGHT_RUNTIME_RUN_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/status.h"

namespace opwright {

struct RunState;

// A kernel's bind failed while an instance was built, before any step of its plan.
struct BindError : Error {
  BindError(ErrorKind kind, const std::string& who, std::string message, const Plan& plan,
            int32_t failed_op)
      : Error(kind, Concat(who, ": bind failed: ", message)),
        reason(std::move(message)),
        describe(plan.describe),
        op_index(failed_op) {}

  std::string reason;  // the kernel's message
  std::shared_ptr<void> describe;
  int32_t op_index;
};

// Hooks of the calling language; either all or none of them are set.
struct RunHooks {
  void (*release)(RunState* state);  // lets other threads of the caller's language run
  void (*acquire)(RunState* state);
  int32_t (*poll)(RunState* state);  // unless OW_OK, the run stops; the caller has the reason
  int32_t (*start)(RunState* state, Instance* instance);  // called before each plan of a chain
  // After a failed recording, converts the error that is set, if any, to a message. If the error
  // must not be dropped, returns a status other than OW_OK and leaves the error set.
  int32_t (*forget_error)(RunState* state, char* message, uint64_t message_bytes);
};

struct RunState {
  const RunHooks* hooks = nullptr;
  // Borrowed from the caller, since counting references would cost 10 ns per call.
  const std::shared_ptr<Scope>* scope = nullptr;
  void* user = nullptr;
  int32_t released = 0;  // nested releases; hooks see only the outermost

  // The plans of a chain after the first plan, and the last instance, which has the fetches.
  std::vector<Lease> chain;
  Instance* last = nullptr;
  int32_t depth = 0;  // depth of the running child plan; a chain in a child has no fetches

  // The first failure.
  const Plan* failed_plan = nullptr;
  int32_t failed_op = -1;
  int32_t status = OW_OK;
  std::string message;
  std::shared_ptr<const BindError> bind_error;  // set if a chain's next plan could not be bound
};

// The structural steps; they have the signature of a kernel's run.
int32_t RunCopy(const ow_call* call);
int32_t RunSync(const ow_call* call);
int32_t RunPoll(const ow_call* call);
int32_t RunRelease(const ow_call* call);
int32_t RunAcquire(const ow_call* call);
int32_t RunCheck(const ow_call* call);
int32_t RunCall(const ow_call* call);
int32_t RunBranch(const ow_call* call);
int32_t RunLoop(const ow_call* call);
int32_t RunContinue(const ow_call* call);
int32_t RunFeedsRead(const ow_call* call);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_RUN_H_
