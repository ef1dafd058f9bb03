// A plugin for test_bundles.cc with bundle.add on the CPU: out = x + y in float32, equal shapes.
#include <cstdio>

#include "opwright/abi.h"

namespace {

int64_t Count(const DLTensor* tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

bool IsLike(const DLTensor* one, const DLTensor* other) {
  bool same = one->ndim == other->ndim && one->dtype.code == kDLFloat && one->dtype.bits == 32;
  for (int32_t i = 0; same && i < one->ndim; ++i) same = one->shape[i] == other->shape[i];
  return same;
}

int32_t Prepare(ow_prepare* prepare) {
  const bool fits = prepare->n_slots == 3 && prepare->n_inputs == 2 &&
                    prepare->slot_begin[1] == 1 && prepare->slot_begin[2] == 2 &&
                    prepare->slot_begin[3] == 3 && IsLike(prepare->args[0], prepare->args[1]) &&
                    IsLike(prepare->args[1], prepare->args[2]) &&
                    IsLike(prepare->args[2], prepare->args[0]);
  if (fits) return OW_OK;
  std::snprintf(prepare->message, prepare->message_bytes, "takes two tensors of one shape");
  return OW_REFUSED;
}

void (*on_run)() = nullptr;

int32_t Run(const ow_call* call) {
  if (on_run != nullptr) on_run();
  const auto* x = static_cast<const float*>(call->args[0]->data);
  const auto* y = static_cast<const float*>(call->args[1]->data);
  auto* out = static_cast<float*>(call->args[2]->data);
  for (int64_t i = 0; i < Count(call->args[2]); ++i) out[i] = x[i] + y[i];
  return OW_OK;
}

// Refuses all arguments, like a kernel for a different processor.
int32_t Refuse(ow_prepare* prepare) {
  std::snprintf(prepare->message, prepare->message_bytes, "needs a better processor");
  return OW_UNSUPPORTED;
}

ow_kernel MakeKernel(const char* library, int32_t (*prepare)(ow_prepare*)) {
  ow_kernel kernel{};
  kernel.size = sizeof(kernel);
  kernel.op_type = "bundle.add";
  kernel.device = "cpu";
  kernel.library = library;
  kernel.priority = 50;
  kernel.prepare = prepare;
  kernel.release = [](void*) {};
  kernel.run = Run;
  return kernel;
}

}  // namespace

// Sets a function that each run of the kernel calls first; NULL removes it.
extern "C" __attribute__((visibility("default"))) void bundle_set_on_run(void (*function)()) {
  on_run = function;
}

extern "C" __attribute__((visibility("default"))) int32_t
opwright_plugin_v1(const ow_host*, const ow_plugin** plugin) {
  static const ow_kernel kernels[] = {MakeKernel("plain", Prepare), MakeKernel("better", Refuse)};
  static ow_plugin made{};
  made.size = sizeof(made);
  made.abi_major = OW_ABI_MAJOR;
  made.abi_minor = OW_ABI_MINOR;
  made.name = "bundle";
  made.version = "1.0";
  made.kernels = kernels;
  made.n_kernels = 2;
  made.kernel_stride = sizeof(ow_kernel);
  *plugin = &made;
  return OW_OK;
}
