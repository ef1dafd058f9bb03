// Code shared by structural steps: frames, signals, and scalars that the host reads.
#ifndef OPWRIGHT_RUNTIME_STRUCTURAL_H_
#define OPWRIGHT_RUNTIME_STRUCTURAL_H_

#include <cstring>

#include "runtime/plan/instance.h"

namespace opwright {

inline Instance& InstanceOf(const ow_call* call) {
  return *static_cast<const StepHandle*>(call->run_handle)->instance;
}

template <typename Detail>
const Detail& DetailOf(const ow_call* call) {
  // The frame's `prepared` is the StepDetail* of the plan's step.
  return *static_cast<const Detail*>(static_cast<const StepDetail*>(call->prepared));
}

// Runs the instance of a child plan and gives back the instances of chained plans. After a failure,
// the instances are kept, because one of them identifies the failed operator.
inline int32_t RunAsChild(Instance* instance, RunState* state) {
  const size_t n_before = state->chain.size();
  ++state->depth;
  const int32_t status = instance->Run(state);
  --state->depth;
  while (status == OW_OK && state->chain.size() > n_before) state->chain.pop_back();
  return status;
}

inline int32_t Poll(RunState* state) {
  return state->hooks == nullptr ? OW_OK : state->hooks->poll(state);
}

// Reads a one-element value from any device.
template <typename T>
int32_t ReadNumber(Instance* instance, uint32_t value, const ow_error& error, T* result) {
  const DLTensor& tensor = instance->tensor(value);
  const uint32_t index = instance->plan().values[value].device;
  Device& device = *instance->plan().devices[index].device;
  if (device.is_host()) {
    std::memcpy(result, tensor.data, sizeof(T));
    return OW_OK;
  }
  void* stream = instance->stream(index);
  const int32_t status = device.Copy(stream, result, true, tensor.data, false, sizeof(T), &error);
  return status == OW_OK ? device.Synchronize(stream, &error) : status;
}

inline int32_t ReadCondition(Instance* instance, uint32_t value, const ow_error& error,
                             bool* result) {
  uint8_t byte = 0;
  const int32_t status = ReadNumber(instance, value, error, &byte);
  *result = byte != 0;
  return status;
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_STRUCTURAL_H_
