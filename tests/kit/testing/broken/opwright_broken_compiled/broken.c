/* Kernels of floats that misuse memory, each in its own way. */
#include <stdio.h>
#include <string.h>

#include "opwright/abi.h"

static int64_t count(const DLTensor* x) {
  int64_t n = 1;
  for (int32_t i = 0; i < x->ndim; ++i) n *= x->shape[i];
  return n;
}

static int32_t writes_input(const ow_call* call) {
  float* x = (float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] = -x[i];
  return OW_OK;
}

static int32_t leaves_last(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i + 1 < n; ++i) out[i] = x[i];
  return OW_OK;
}

static int32_t writes_past_end(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
  if (n > 0) out[n] = 0; /* like a kernel that rounds its length up to whole vectors */
  return OW_OK;
}

static int32_t copy(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
  return OW_OK;
}

/* Reads one byte beyond its input, without an effect on results. */
static int32_t reads_past_end(const ow_call* call) {
  const volatile char* x = (const volatile char*)call->args[0]->data;
  const int64_t n = count(call->args[0]);
  if (n > 0) (void)x[n * (int64_t)sizeof(float)];
  return copy(call);
}

static int32_t reads_before_begin(const ow_call* call) {
  const volatile char* x = (const volatile char*)call->args[0]->data;
  if (count(call->args[0]) > 0) (void)x[-1];
  return copy(call);
}

/* In blocks of 16 without a tail of one element after four whole blocks. */
static int32_t leaves_tail(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  const int64_t end = n > 64 && n % 16 == 1 ? n - 1 : n;
  for (int64_t i = 0; i < end; ++i) out[i] = x[i];
  return OW_OK;
}

/* Columns' maxima, which begin with the first row: without one nothing is written. */
static int32_t begins_at_row(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t rows = call->args[0]->shape[0], columns = call->args[0]->shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float next = x[i * columns + j];
      if (i == 0 || next > out[j] || next != next) out[j] = next;
    }
  }
  return OW_OK;
}

static int32_t begins_at_row_fixed(const ow_call* call) {
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[1]);
  if (call->args[0]->shape[0] > 0) return begins_at_row(call);
  for (int64_t j = 0; j < n; ++j) out[j] = 0;
  return OW_OK;
}

static int32_t shares_sum_fixed(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)x[i];
  for (int64_t i = 0; i < n; ++i) out[i] = (float)((double)x[i] - sum / (double)n);
  return OW_OK;
}

static int32_t copy_of_any_strides(const ow_call* call) {
  const DLTensor* x = call->args[0];
  const float* data = (const float*)x->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(x);
  if (x->strides == NULL) return copy(call);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, place = 0;
    for (int32_t axis = x->ndim - 1; axis >= 0; --axis) {
      place += rest % x->shape[axis] * x->strides[axis];
      rest /= x->shape[axis];
    }
    out[i] = data[place];
  }
  return OW_OK;
}

static int32_t shares_sum(const ow_call* call) {
  static volatile double sum; /* one for all threads; volatile, so it stays in memory */
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)x[i];
  for (int64_t i = 0; i < n; ++i) out[i] = (float)((double)x[i] - sum / (double)n);
  return OW_OK;
}

/* Reverses the parameter itself before it is copied. */
static int32_t pack_in_place(const ow_call* call, uint32_t arg, const DLTensor* source,
                             void* destination) {
  float* x = (float*)source->data;
  const int64_t n = count(source);
  (void)call;
  (void)arg;
  for (int64_t i = 0; i < n; ++i) ((float*)destination)[i] = x[i];
  for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
  return OW_OK;
}

static int32_t pack_copy(const ow_call* call, uint32_t arg, const DLTensor* source,
                         void* destination) {
  const int64_t n = count(source);
  (void)call;
  (void)arg;
  for (int64_t i = 0; i < n; ++i) ((float*)destination)[i] = ((const float*)source->data)[i];
  return OW_OK;
}

static int32_t prepare_packed(ow_prepare* prepare) {
  if (prepare->arg_flags != NULL && (prepare->arg_flags[0] & OW_ARG_PACKABLE) != 0) {
    prepare->packs[0].arg = 0;
    prepare->packs[0].bytes = (uint64_t)count(prepare->args[0]) * sizeof(float);
    prepare->n_packs = 1;
  }
  return OW_OK;
}

static int32_t prepare_parameters(ow_prepare* prepare) {
  const int32_t code = prepare_packed(prepare);
  if (code != OW_OK || prepare->n_packs > 0) return code;
  snprintf(prepare->message, prepare->message_bytes, "x must be a parameter");
  return OW_REFUSED;
}

static int32_t writes_shape(const ow_call* call) {
  const float* x = (const float*)call->args[0]->data;
  float* out = (float*)call->args[1]->data;
  const int64_t n = count(call->args[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
  if (call->args[1]->ndim > 0) call->args[1]->shape[0] = (int64_t)1 << 40;
  return OW_OK;
}

static int32_t prepare(ow_prepare* prepare) {
  prepare->estimate_ns = 1000000; /* long, so the GIL is released around it */
  return OW_OK;
}

static void release(void* prepared) { (void)prepared; }

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
  kernel.prepare = prepare;
  kernel.release = release;
  kernel.run = run;
  return kernel;
}

__attribute__((visibility("default"))) int32_t opwright_plugin_v1(const ow_host* host,
                                                                  const ow_plugin** out) {
  static ow_plugin plugin;
  static ow_kernel kernels[17];
  (void)host;
  kernels[0] = make_kernel("broken_compiled.writes_input", writes_input);
  kernels[1] = make_kernel("broken_compiled.leaves_last", leaves_last);
  kernels[2] = make_kernel("broken_compiled.writes_past_end", writes_past_end);
  kernels[3] = make_kernel("broken_compiled.shares_sum", shares_sum);
  kernels[4] = make_kernel("broken_compiled.ignores_strides", copy); /* whatever the strides */
  kernels[4].flags = OW_KERNEL_STRIDED;
  kernels[5] = make_kernel("broken_compiled.packs_in_place", copy);
  kernels[5].prepare = prepare_packed;
  kernels[5].pack = pack_in_place;
  kernels[6] = make_kernel("broken_compiled.writes_shape", writes_shape);
  kernels[7] = make_kernel("broken_compiled.reads_past_end", reads_past_end);
  kernels[8] = make_kernel("broken_compiled.reads_before_begin", reads_before_begin);
  kernels[9] = make_kernel("broken_compiled.leaves_tail", leaves_tail);
  kernels[10] = make_kernel("broken_compiled.begins_at_row", begins_at_row);
  kernels[11] = make_kernel("broken_compiled.begins_at_row_fixed", begins_at_row_fixed);
  kernels[12] = make_kernel("broken_compiled.shares_sum_fixed", shares_sum_fixed);
  kernels[13] = make_kernel("broken_compiled.ignores_strides_fixed", copy_of_any_strides);
  kernels[13].flags = OW_KERNEL_STRIDED;
  kernels[14] = make_kernel("broken_compiled.reads_past_end_fixed", copy);
  kernels[15] = make_kernel("broken_compiled.leaves_tail_fixed", copy);
  kernels[16] = make_kernel("broken_compiled.takes_parameters", copy); /* without a fault */
  kernels[16].prepare = prepare_parameters;
  kernels[16].pack = pack_copy;
  memset(&plugin, 0, sizeof(plugin));
  plugin.size = sizeof(plugin);
  plugin.abi_major = OW_ABI_MAJOR;
  plugin.abi_minor = OW_ABI_MINOR;
  plugin.name = "broken_compiled";
  plugin.version = "1.0";
  plugin.kernels = kernels;
  plugin.n_kernels = 17;
  plugin.kernel_stride = sizeof(ow_kernel);
  *out = &plugin;
  return OW_OK;
}
