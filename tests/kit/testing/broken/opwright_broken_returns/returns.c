/* Copies of floats, and a look-up, that kill the process or never end. */
#include <stdlib.h>
#include <string.h>

#include "opwright/abi.h"

static int64_t count(const DLTensor* x) {
  int64_t n = 1;
  for (int32_t i = 0; i < x->ndim; ++i) n *= x->shape[i];
  return n;
}

static int32_t copy(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
  return OW_OK;
}

/* Reads the first element before it looks whether there is one: data of no elements is NULL. */
static int32_t faults(const ow_call* call) {
  if (((const volatile float*)call->args[0]->data)[0] > 100.0f) return OW_ERROR;
  return copy(call);
}

static int32_t aborts(const ow_call* call) {
  if (count(call->args[0]) == 0) abort();
  return copy(call);
}

/* Holds the GIL, like a short native run: no thread of Python could end it. */
static int32_t spins(const ow_call* call) {
  volatile int64_t n = count(call->args[0]);
  while (n == 9) {
  }
  return copy(call);
}

/* Looks at no position before it reads there. */
static int32_t picks(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  const int64_t* index = (const int64_t*)call->args[1]->data;
  float* out = (float*)call->args[2]->data;
  const int64_t n = count(call->args[1]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[index[i]];
  return OW_OK;
}

static ow_kernel make_kernel(const char* op_type, ow_run_fn run) {
  static const DLDataType dtypes[] = {{kDLFloat, 32, 1}};
  ow_kernel kernel;
  memset(&kernel, 0, sizeof(kernel));
  kernel.size = sizeof(kernel);
  kernel.op_type = op_type;
  kernel.device = "cpu";
  kernel.dtypes = dtypes;
  kernel.n_dtypes = 1;
  kernel.priority = 50;
  kernel.run = run;
  return kernel;
}

__attribute__((visibility("default"))) int32_t opwright_plugin_v1(const ow_host* host,
                                                                  const ow_plugin** out) {
  static ow_plugin plugin;
  static ow_kernel kernels[4];
  (void)host;
  kernels[0] = make_kernel("broken_returns.faults", faults);
  kernels[1] = make_kernel("broken_returns.aborts", aborts);
  kernels[2] = make_kernel("broken_returns.spins", spins);
  kernels[3] = make_kernel("broken_returns.picks", picks);
  memset(&plugin, 0, sizeof(plugin));
  plugin.size = sizeof(plugin);
  plugin.abi_major = OW_ABI_MAJOR;
  plugin.abi_minor = OW_ABI_MINOR;
  plugin.name = "broken_returns";
  plugin.version = "1.0";
  plugin.kernels = kernels;
  plugin.n_kernels = 4;
  plugin.kernel_stride = sizeof(ow_kernel);
  *out = &plugin;
  return OW_OK;
}
