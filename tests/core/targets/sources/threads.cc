// A multithreaded acme.scale with OpenMP. The attribute `fault` selects a behavior. "count" writes
// the number of threads, "alone" refuses one thread, "crowd" refuses several threads, and "wait"
// takes 0.1 s; after a call of hold(), it waits for let_go() for at most one minute.
#include <unistd.h>

#include <atomic>

#include "scale.h"

#ifndef ESTIMATE
#define ESTIMATE 0
#endif

namespace {

std::atomic<bool> held{false};
std::atomic<bool> waiting{false};

struct State {
  double factor;
  bool counts;
  bool waits;
  int32_t n_threads;
  pid_t process;
  int64_t numel;
};

int64_t Numel(const DLTensor* tensor) {
  int64_t n = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) n *= tensor->shape[i];
  return n;
}

// A forked child must not touch objects made for several threads.
void CheckProcess(const void* prepared) {
  const auto* state = static_cast<const State*>(prepared);
  if (state->n_threads > 1 && state->process != getpid()) abort();
}

int32_t Prepare(ow_prepare* prepare) {
  auto* state = new State{1.0, false, false, prepare->n_threads, getpid(), Numel(prepare->args[0])};
  bool alone = false;
  bool crowd = false;
  for (uint64_t i = 0; i < prepare->n_attrs; ++i) {
    const ow_attr* attr = OW_AT(ow_attr, prepare->attrs, prepare->attr_stride, i);
    if (strcmp(attr->name, "factor") == 0) state->factor = attr->float_value;
    if (strcmp(attr->name, "fault") != 0) continue;
    state->counts = strcmp(attr->string.data, "count") == 0;
    state->waits = strcmp(attr->string.data, "wait") == 0;
    alone = strcmp(attr->string.data, "alone") == 0;
    crowd = strcmp(attr->string.data, "crowd") == 0;
  }
  if ((alone && prepare->n_threads == 1) || (crowd && prepare->n_threads > 1)) {
    delete state;
    scale_fail(prepare->message, prepare->message_bytes, "another count is wanted");
    return OW_REFUSED;
  }
  state->counts = state->counts || alone;
  prepare->estimate_ns = static_cast<uint64_t>(state->numel * ESTIMATE / prepare->n_threads);
  prepare->prepared = state;
  return OW_OK;
}

void Release(void* prepared) {
  CheckProcess(prepared);
  delete static_cast<State*>(prepared);
}

int32_t Bind(const ow_call* call, void** bound) {
  *bound = call->prepared;
  return OW_OK;
}

void Unbind(void*, void* bound) { CheckProcess(bound); }

int32_t Wait(const ow_call* call) {
  usleep(100000);
  waiting = true;
  for (int i = 0; held && i < 60000; ++i) usleep(1000);
  waiting = false;
  if (held) return scale_fail(call->message, call->message_bytes, "no other thread ran");
  return OW_OK;
}

int32_t Run(const ow_call* call) {
  const auto* state = static_cast<const State*>(call->prepared);
  CheckProcess(state);
  if (call->n_threads != state->n_threads) {
    return scale_fail(call->message, call->message_bytes, "another count than prepared for");
  }
  if (state->waits) {
    const int32_t status = Wait(call);
    if (status != OW_OK) return status;
  }
  const auto* x = static_cast<const double*>(call->args[0]->data);
  auto* out = static_cast<double*>(call->args[1]->data);
  const int64_t n = Numel(call->args[0]);
  if (n != state->numel) {
    return scale_fail(call->message, call->message_bytes, "another shape than prepared for");
  }
#pragma omp parallel for num_threads(call->n_threads)
  for (int64_t i = 0; i < n; ++i) out[i] = state->counts ? call->n_threads : state->factor * x[i];
  return OW_OK;
}

}  // namespace

EXPORT void hold() { held = true; }
EXPORT int is_waiting() { return held && waiting; }
EXPORT void let_go() { held = false; }

EXPORT int32_t opwright_plugin_v1(const ow_host*, const ow_plugin** out) {
  static ow_plugin plugin = scale_make_plugin();
  static ow_kernel kernels[2] = {plugin.kernels[0], plugin.kernels[1]};
  kernels[0].prepare = Prepare;
  kernels[0].release = Release;
  kernels[0].bind = Bind;
  kernels[0].unbind = Unbind;
  kernels[0].run = Run;
  plugin.kernels = kernels;
  *out = &plugin;
  return OW_OK;
}
