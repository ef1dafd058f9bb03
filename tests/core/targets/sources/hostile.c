/* The plugin with kernels that break the rules of the border: `fault` selects one. */
#include "scale.h"

static const int64_t kAbsurd = (int64_t)1 << 40;

static const char* const kFaults[] = {
    "workspace",  "estimate",    "n_packs",       "pack_bytes",  "pack_alignment",
    "pack_twice", "pack_other",  "prepare_bytes", "unsupported", "prepare_shape",
    "bind_shape", "run_shape",   "run_rank",      "run_data",    "run_bytes",
    "leaves",     "leaves_last", "pack_frame",    "crash"};

static const char* find_fault(const ow_attr* attrs, uint64_t n, uint64_t stride) {
  for (uint64_t i = 0; i < n; ++i) {
    const ow_attr* attr = OW_AT(ow_attr, attrs, stride, i);
    if (strcmp(attr->name, "fault") == 0) return attr->string.data;
  }
  return "";
}

static int is(const char* fault, const char* name) { return strcmp(fault, name) == 0; }

static int32_t fill_message(char* message, uint64_t bytes) {
  memset(message, 0xFF, bytes); /* no UTF-8, and no end */
  return OW_ERROR;
}

static void add_pack(ow_prepare* prepare, uint32_t arg, uint64_t bytes, uint32_t alignment) {
  const ow_pack wish = {arg, alignment, bytes};
  prepare->packs[prepare->n_packs++] = wish;
}

static void ask_for_packs(ow_prepare* prepare, const char* fault) {
  static ow_pack own[1] = {{0, 64, 64}};
  if (is(fault, "n_packs")) prepare->n_packs = 1000;
  if (is(fault, "pack_bytes")) add_pack(prepare, 0, (uint64_t)1 << 63, 64);
  if (is(fault, "pack_alignment")) add_pack(prepare, 0, 64, 48);
  if (is(fault, "pack_other")) add_pack(prepare, 1, 64, 64);
  if (is(fault, "pack_twice")) {
    add_pack(prepare, 0, 64, 64);
    add_pack(prepare, 0, 64, 64);
  }
  if (is(fault, "pack_frame")) {
    prepare->packs = own; /* not the provided room */
    prepare->n_packs = 1;
    prepare->pack_capacity = 1000;
  }
}

static int32_t hostile_prepare(ow_prepare* prepare) {
  const char* fault = find_fault(prepare->attrs, prepare->n_attrs, prepare->attr_stride);
  if (is(fault, "prepare_crash")) *(volatile int*)NULL = 1;
  if (is(fault, "prepare_bytes")) return fill_message(prepare->message, prepare->message_bytes);
  if (is(fault, "unsupported")) {
    scale_fail(prepare->message, prepare->message_bytes, "no AVX-999 here");
    return OW_UNSUPPORTED;
  }
  const int32_t status = scale_prepare(prepare);
  if (status != OW_OK) return status;
  scale_state* state = (scale_state*)prepare->prepared;
  for (size_t i = 0; i < sizeof(kFaults) / sizeof(kFaults[0]); ++i) {
    if (is(fault, kFaults[i])) state->fault = kFaults[i];
  }
  if (is(fault, "workspace")) prepare->workspace_bytes = (uint64_t)1 << 63;
  if (is(fault, "estimate")) prepare->estimate_ns = UINT64_MAX;
  if (is(fault, "prepare_shape")) {
    for (uint32_t i = 0; i < prepare->slot_begin[prepare->n_slots]; ++i) {
      prepare->args[i]->shape[0] = prepare->args[i]->strides[0] = kAbsurd;
      prepare->args[i]->ndim = 99;
    }
    prepare->args = NULL;
    prepare->message = NULL;
  }
  ask_for_packs(prepare, fault);
  return OW_OK;
}

static int32_t hostile_pack(const ow_call* call, uint32_t arg, const DLTensor* source,
                            void* destination) {
  (void)call;
  (void)arg;
  memcpy(destination, source->data, 8 * (size_t)source->shape[0]);
  return OW_OK;
}

static int32_t hostile_bind(const ow_call* call, void** bound) {
  *bound = NULL;
  if (is(((const scale_state*)call->prepared)->fault, "bind_shape")) {
    call->args[1]->shape[0] = kAbsurd;
  }
  return OW_OK;
}

static int32_t hostile_run(const ow_call* call) {
  const char* fault = ((const scale_state*)call->prepared)->fault;
  DLTensor* out = call->args[1];
  if (is(fault, "crash")) *(volatile int*)NULL = 1;
  if (is(fault, "run_bytes")) return fill_message(call->message, call->message_bytes);
  if (is(fault, "leaves")) return OW_OK;
  if (is(fault, "leaves_last")) {
    memcpy(out->data, call->args[0]->data, (size_t)(out->dtype.bits / 8 * (out->shape[0] - 1)));
    return OW_OK;
  }
  const int32_t status = scale_run(call);
  if (is(fault, "run_shape")) out->shape[0] = kAbsurd;
  if (is(fault, "run_rank")) out->ndim = 1000;
  if (is(fault, "run_data")) call->args[0]->data = NULL;
  return status;
}

static int32_t hostile_infer(const ow_infer* infer) {
  const char* fault = find_fault(infer->attrs, infer->n_attrs, infer->attr_stride);
  const DLDataType as_proto_says = {0, 0, 0};
  const DLDataType odd = {kDLFloat, 33, 1};
  const DLDataType wide = {kDLFloat, 64, 4};
  const int64_t negative[] = {-5};
  const int64_t endless[] = {kAbsurd, kAbsurd};
  const DLTensor* x = infer->inputs[0];
  const ow_host* host = infer->host;
  if (is(fault, "infer_bytes")) return fill_message(infer->message, infer->message_bytes);
  /* The result of set_output is ignored. */
  if (is(fault, "infer_bits")) host->set_output(infer, 0, 0, x->ndim, x->shape, odd);
  if (is(fault, "infer_lanes")) host->set_output(infer, 0, 0, x->ndim, x->shape, wide);
  if (is(fault, "infer_rank")) host->set_output(infer, 0, 0, 65, x->shape, as_proto_says);
  if (is(fault, "infer_null")) host->set_output(infer, 0, 0, 1, NULL, as_proto_says);
  if (is(fault, "infer_slot")) host->set_output(infer, 7, 0, x->ndim, x->shape, as_proto_says);
  if (is(fault, "infer_negative")) host->set_output(infer, 0, 0, 1, negative, as_proto_says);
  if (is(fault, "infer_endless")) host->set_output(infer, 0, 0, 2, endless, as_proto_says);
  host->set_output(infer, 0, 0, x->ndim, x->shape, as_proto_says);
  return OW_OK;
}

/* nonzero of one axis; the length of x selects the misuse of resize. */
static int32_t hostile_nonzero(const ow_call* call) {
  const int64_t absurd[] = {1, (int64_t)1 << 62};
  const int64_t shape[] = {1, 4};
  const int64_t length = call->args[0]->shape[0];
  if (length == 1) return call->host->resize(call, 1, 2, NULL);
  if (length == 2) return call->host->resize(call, 1, 2, absurd);
  if (length == 3) return call->host->resize(call, 1, -1, shape);
  const int32_t status = call->host->resize(call, 1, 2, shape);
  if (status != OW_OK) return status;
  if (length == 4) return OW_OK; /* nothing is written */
  for (int64_t i = 0; i < 4; ++i) ((int64_t*)call->args[1]->data)[i] = i;
  call->args[1]->shape[1] = kAbsurd;
  return OW_OK;
}

EXPORT int32_t opwright_plugin_v1(const ow_host* host, const ow_plugin** out) {
  static const DLDataType wide[] = {{kDLFloat, 64, 1}};
  static ow_plugin plugin;
  static ow_op ops[1];
  static ow_kernel kernels[3];
  (void)host;
  plugin = scale_make_plugin();
  ops[0] = plugin.ops[0];
  ops[0].infer = hostile_infer;
  kernels[0] = plugin.kernels[0];
  kernels[0].prepare = hostile_prepare;
  kernels[0].bind = hostile_bind;
  kernels[0].pack = hostile_pack;
  kernels[0].run = hostile_run;
  kernels[1] = plugin.kernels[1];
  kernels[2] = scale_make_kernel("nonzero");
  kernels[2].dtypes = wide;
  kernels[2].n_dtypes = 1;
  kernels[2].prepare = NULL;
  kernels[2].release = NULL;
  kernels[2].bind = NULL;
  kernels[2].unbind = NULL;
  kernels[2].run = hostile_nonzero;
  plugin.ops = ops;
  plugin.kernels = kernels;
  plugin.n_kernels = 3;
  *out = &plugin;
  return OW_OK;
}

/* For the tests: the number of prepared kernels not yet released. */
EXPORT int count_states(void) { return alive_states; }
