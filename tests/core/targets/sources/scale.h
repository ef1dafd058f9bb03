/* A plugin of one operator, acme.scale: out = factor * x. MODE chooses its fault. */
#ifndef SCALE_H_
#define SCALE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opwright/abi.h"
#include "proto.h" /* kScaleProto, written by the tests */

#ifndef PLUGIN_NAME
#define PLUGIN_NAME "acme"
#endif

/* The attribute `fault` selects the failing function. */
typedef struct scale_state {
  double factor;
  const char* fault;
} scale_state;

static int alive_states = 0;

static int scale_fail(char* message, uint64_t bytes, const char* text) {
  snprintf(message, bytes, "%s", text);
  return OW_ERROR;
}

static const char* scale_find_fault(const char* text) {
  static const char* const faults[] = {"flags",      "prepare",  "refuse", "bind",
                                       "run",        "silent",   "memory", "throw_prepare",
                                       "throw_bind", "throw_run"};
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) {
    if (strcmp(text, faults[i]) == 0) return faults[i];
  }
  return "";
}

#ifdef __cplusplus
#include <stdexcept>
#define SCALE_THROW(state, where)                                                              \
  do {                                                                                         \
    if (strcmp((state)->fault, "throw_" where) == 0) throw std::runtime_error(where " threw"); \
  } while (0)
#else
#define SCALE_THROW(state, where) (void)0
#endif

static int32_t scale_prepare(ow_prepare* prepare) {
  scale_state* state = (scale_state*)calloc(1, sizeof(scale_state));
  state->fault = "";
  for (uint64_t i = 0; i < prepare->n_attrs; ++i) {
    const ow_attr* attr = OW_AT(ow_attr, prepare->attrs, prepare->attr_stride, i);
    if (strcmp(attr->name, "factor") == 0) state->factor = attr->float_value;
    if (strcmp(attr->name, "fault") == 0) state->fault = scale_find_fault(attr->string.data);
  }
  int32_t status = OW_OK;
  if (strcmp(state->fault, "prepare") == 0) {
    status = scale_fail(prepare->message, prepare->message_bytes, "prepare went wrong");
  } else if (strcmp(state->fault, "refuse") == 0) {
    scale_fail(prepare->message, prepare->message_bytes, "not in the mood");
    status = OW_REFUSED;
  } else if (strcmp(state->fault, "flags") == 0) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < prepare->slot_begin[prepare->n_slots]; ++i) {
      used += (uint64_t)snprintf(prepare->message + used, prepare->message_bytes - used, "%u ",
                                 prepare->arg_flags[i]);
    }
    status = OW_REFUSED;
  } else if (strcmp(state->fault, "memory") == 0) {
    status = OW_OUT_OF_MEMORY;
  }
  if (status != OW_OK) {
    free(state);
    return status;
  }
  SCALE_THROW(state, "prepare");
  ++alive_states;
  prepare->prepared = state;
  return OW_OK;
}

static void scale_release(void* prepared) {
  --alive_states;
  free(prepared);
}

static int32_t scale_bind(const ow_call* call, void** bound) {
  const scale_state* state = (const scale_state*)call->prepared;
  SCALE_THROW(state, "bind");
  *bound = NULL;
  if (strcmp(state->fault, "bind") != 0) return OW_OK;
  return scale_fail(call->message, call->message_bytes, "bind went wrong");
}

static void scale_unbind(void* prepared, void* bound) {
  (void)prepared;
  (void)bound;
}

static int32_t scale_run(const ow_call* call) {
  const scale_state* state = (const scale_state*)call->prepared;
  SCALE_THROW(state, "run");
  if (strcmp(state->fault, "silent") == 0) return 77;
  if (strcmp(state->fault, "run") == 0) {
    return scale_fail(call->message, call->message_bytes, "run went wrong");
  }
  const DLTensor* x = call->args[0];
  const DLTensor* out = call->args[1];
  int64_t n = 1;
  for (int32_t i = 0; i < x->ndim; ++i) n *= x->shape[i];
  for (int64_t i = 0; i < n; ++i) {
    if (x->dtype.bits == 32) {
      ((float*)out->data)[i] = (float)state->factor * ((const float*)x->data)[i];
    } else {
      ((double*)out->data)[i] = state->factor * ((const double*)x->data)[i];
    }
  }
  return OW_OK;
}

/* The gradient: inputs x (shape only), out_grad; output x_grad. */
static int32_t scale_grad_run(const ow_call* call) {
  const scale_state* state = (const scale_state*)call->prepared;
  const DLTensor* grad = call->args[1];
  for (int64_t i = 0; i < grad->shape[0]; ++i) {
    ((double*)call->args[2]->data)[i] = state->factor * ((const double*)grad->data)[i];
  }
  return call->args[0]->data == NULL ? OW_OK : OW_ERROR;
}

static int32_t scale_infer(const ow_infer* infer) {
  const DLTensor* x = infer->inputs[0];
  const DLDataType as_proto_says = {0, 0, 0};
  if (x->ndim == 3) {
    return scale_fail(infer->message, infer->message_bytes, "x must not have 3 dimensions");
  }
  return infer->host->set_output(infer, 0, 0, x->ndim, x->shape, as_proto_says);
}

static const DLDataType scale_dtypes[] = {{kDLFloat, 32, 1}, {kDLFloat, 64, 1}};
static const ow_reuse scale_reuse[] = {{"out", "x"}};

static ow_kernel scale_make_kernel(const char* op_type) {
  ow_kernel kernel;
  memset(&kernel, 0, sizeof(kernel));
  kernel.size = sizeof(kernel);
  kernel.op_type = op_type;
  kernel.device = "cpu";
  kernel.dtypes = scale_dtypes;
  kernel.n_dtypes = 2;
  kernel.priority = 50;
  kernel.prepare = scale_prepare;
  kernel.release = scale_release;
  kernel.bind = scale_bind;
  kernel.unbind = scale_unbind;
  kernel.run = scale_run;
  return kernel;
}

static ow_op scale_make_op(void) {
  ow_op op;
  memset(&op, 0, sizeof(op));
  op.size = sizeof(op);
  op.type = "acme.scale";
  op.proto = kScaleProto;
  op.proto_bytes = sizeof(kScaleProto);
  op.infer = scale_infer;
  op.gradient_type = "acme.scale_grad";
  return op;
}

static ow_plugin scale_make_plugin(void) {
  static ow_op ops[1];
  static ow_kernel kernels[2];
  ow_plugin plugin;
  memset(&plugin, 0, sizeof(plugin));
  ops[0] = scale_make_op();
  kernels[0] = scale_make_kernel("acme.scale");
  kernels[0].may_reuse = scale_reuse;
  kernels[0].n_may_reuse = 1;
  kernels[1] = scale_make_kernel("acme.scale_grad");
  kernels[1].run = scale_grad_run;
  plugin.size = sizeof(plugin);
  plugin.abi_major = OW_ABI_MAJOR;
  plugin.abi_minor = OW_ABI_MINOR;
  plugin.name = PLUGIN_NAME;
  plugin.version = "1.0";
  plugin.ops = ops;
  plugin.n_ops = 1;
  plugin.op_stride = sizeof(ow_op);
  plugin.kernels = kernels;
  plugin.n_kernels = 2;
  plugin.kernel_stride = sizeof(ow_kernel);
  return plugin;
}

#ifdef __cplusplus
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#endif /* SCALE_H_ */
