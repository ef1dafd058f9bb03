// Tests kernels prepared for several threads in a forked child, and a bind that fails.
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "check.h"
#include "plans.h"
#include "tests.h"

namespace {

using plans::Maker;
using plans::Role;

int n_freed = 0;  // number of freed states and bound objects

int32_t MakeState(ow_prepare* prepare) {
  prepare->prepared = new int32_t(prepare->n_threads);
  return OW_OK;
}

void Release(void* prepared) {
  ++n_freed;
  delete static_cast<int32_t*>(prepared);
}

int32_t Bind(const ow_call* call, void** bound) {
  *bound = new int32_t(call->n_threads);
  return OW_OK;
}

int32_t RefuseToBind(const ow_call* call, void**) {
  std::snprintf(call->message, call->message_bytes, "no room");
  return OW_OUT_OF_MEMORY;
}

void Unbind(void*, void* bound) {
  ++n_freed;
  delete static_cast<int32_t*>(bound);
}

// Writes the thread count of the call, which must equal the thread count in prepare and bind.
int32_t Count(const ow_call* call) {
  const int32_t n = *static_cast<const int32_t*>(call->prepared);
  if (call->n_threads != n || *static_cast<const int32_t*>(call->bound) != n) return OW_ERROR;
  static_cast<float*>(call->args[0]->data)[0] = static_cast<float>(n);
  return OW_OK;
}

ow_kernel MakeTable(int32_t (*bind)(const ow_call*, void**)) {
  ow_kernel kernel{};
  kernel.size = sizeof(kernel);
  kernel.op_type = "count";
  kernel.prepare = MakeState;
  kernel.release = Release;
  kernel.bind = bind;
  kernel.unbind = Unbind;
  kernel.run = Count;
  return kernel;
}

std::shared_ptr<const opwright::Plan> CountingPlan(const ow_kernel* kernel, int32_t n_threads) {
  opwright::PrepareRequest request;
  request.device = opwright::HostDevice();
  request.outputs = {{{{8}, plans::kFloat32}}};
  request.n_threads = n_threads;
  Maker make;
  const uint32_t out = make.Outside(Role::kFetch, "out");
  make.Kernel(opwright::PrepareNative(kernel, request, nullptr), {}, {out});
  return make.Build();
}

void AForkedChildDoesNotFreeMultithreadedKernels() {
  static const ow_kernel kernel = MakeTable(Bind);
  for (const int32_t n_threads : {1, 2}) {
    auto plan = CountingPlan(&kernel, n_threads);
    CHECK_EQ(plans::Run(plan, nullptr, {}).fetches[0][0], static_cast<float>(n_threads));
    const pid_t child = fork();
    if (child == 0) {
      plan = nullptr;
      opwright::FreeRetired();
      _exit(n_freed == (n_threads == 1 ? 2 : 0) ? 0 : 1);  // a state and a bound object
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(n_freed, 0);
    plan = nullptr;
    opwright::FreeRetired();
    CHECK_EQ(n_freed, 2);
    n_freed = 0;
  }
}

void TheErrorOfAFailedBindNamesItsOperator() {
  static const ow_kernel kernel = MakeTable(RefuseToBind);
  const auto plan = CountingPlan(&kernel, 1);
  for (int i = 0; i < 2; ++i) {
    bool thrown = false;
    try {
      plans::Run(plan, nullptr, {});
    } catch (const opwright::BindError& error) {
      thrown = true;
      CHECK_EQ(error.op_index, 0);
      CHECK_EQ(error.reason, std::string("no room"));
      CHECK(error.kind() == opwright::ErrorKind::kOutOfMemory);
    }
    CHECK(thrown);
  }
}

}  // namespace

void AddForkTests(check::Tests* tests) {
  tests->push_back(
      {"AForkedChildDoesNotFreeMultithreadedKernels", AForkedChildDoesNotFreeMultithreadedKernels});
  tests->push_back(
      {"TheErrorOfAFailedBindNamesItsOperator", TheErrorOfAFailedBindNamesItsOperator});
}
