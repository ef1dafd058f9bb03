/* The custom call of opwright in programs of XLA: finds the plan of a call, and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi.h"
#include "plans.h"

/* A Python function that adds the plan of a call; on failure, returns a nonzero status and a
 * message. */
typedef int32_t (*resolve_fn)(const char* text, uint64_t length, uint64_t high, uint64_t low,
                              char* message, uint64_t message_bytes);

enum { kMessageBytes = 4096, kFew = 48 };
enum { kOutOfMemory = 3 }; /* OW_OUT_OF_MEMORY */

static resolve_fn resolve;
static _Atomic int has_ended;

/* Sets the function that resolves calls; NULL at the end of the interpreter. */
EXPORTED void opwright_jax_start(resolve_fn function) {
  resolve = function;
  atomic_store(&has_ended, function == NULL);
}

static ffi_error* fail(const ffi_frame* frame, int32_t code, const char* message) {
  ffi_error_create args = {sizeof(args), NULL, message, code};
  return frame->api->error_create(&args);
}

/* Reports an interface version with the layout that this library was built for. */
static int answer_metadata(const ffi_frame* frame) {
  for (ffi_extension* at = frame->extensions; at != NULL; at = at->next) {
    if (at->type != FFI_EXTENSION_METADATA) continue;
    ffi_metadata* metadata = ((ffi_metadata_extension*)at)->metadata;
    const ffi_version* version = frame->api == NULL ? NULL : &frame->api->version;
    metadata->version.major = FFI_MAJOR;
    /* jaxlib 0.6, the oldest supported version, does not report its version. */
    metadata->version.minor =
        version != NULL && version->major == FFI_MAJOR ? version->minor : FFI_OLDEST_MINOR;
    metadata->traits = 0;
    return 1;
  }
  return 0;
}

/* The attributes: `call` is the text of the call, `high` and `low` are its digest. */
typedef struct call_attrs {
  const ffi_span* text;
  plan_key key;
} call_attrs;

static uint64_t number_at(const ffi_attrs* attrs, int64_t i) {
  uint64_t number;
  memcpy(&number, ((const ffi_scalar*)attrs->items[i])->value, sizeof(number));
  return number;
}

static int read_attrs(const ffi_frame* frame, call_attrs* call) {
  static const char* const names[] = {"call", "high", "low"};
  enum { kS64 = 5 };
  const ffi_attrs* attrs = &frame->attrs;
  if (attrs->size != 3) return 0;
  for (int i = 0; i < 3; ++i) {
    const ffi_span* name = attrs->names[i];
    if (attrs->types[i] != (i == 0 ? FFI_ATTR_STRING : FFI_ATTR_SCALAR)) return 0;
    if (name->length != strlen(names[i]) || memcmp(name->data, names[i], name->length)) return 0;
    if (i > 0 && ((const ffi_scalar*)attrs->items[i])->dtype != kS64) return 0;
  }
  call->text = attrs->items[0];
  call->key = (plan_key){number_at(attrs, 1), number_at(attrs, 2)};
  return 1;
}

static ffi_error* add_plan(const ffi_frame* frame, const call_attrs* call) {
  char message[kMessageBytes] = {0};
  if (resolve == NULL || atomic_load(&has_ended)) {
    return fail(frame, FFI_INTERNAL, "opwright: the interpreter has ended; no plan can be made");
  }
  const int32_t status = resolve(call->text->data, call->text->length, call->key.high,
                                 call->key.low, message, sizeof(message));
  if (status == 0) return NULL;
  message[kMessageBytes - 1] = '\0';
  return fail(frame, FFI_INVALID_ARGUMENT, message);
}

static const char* const kForeign =
    "opwright: the custom call must have the attributes of this version of opwright-jax";

EXPORTED ffi_error* opwright_jax_instantiate(ffi_frame* frame) {
  if (answer_metadata(frame)) return NULL;
  call_attrs call;
  if (!read_attrs(frame, &call)) return fail(frame, FFI_INVALID_ARGUMENT, kForeign);
  plan_slot* known = plan_enter(call.key);
  if (known == NULL) return add_plan(frame, &call);
  plan_leave(known);
  return NULL;
}

/* Returns the element size in bytes of a dtype that opwright supports, otherwise 0. */
static uint64_t item_bytes(int32_t dtype) {
  static const uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 0, 8, 2};
  return dtype >= 0 && dtype < (int32_t)sizeof(bytes) ? bytes[dtype] : 0;
}

/* The address of each buffer. 0 if the plan has other sizes: the text of an
   exported program is not trusted. */
static int read_buffers(const ffi_buffers* buffers, uint32_t n, const uint64_t* bytes,
                        void** data) {
  if (buffers->size != (int64_t)n) return 0;
  for (uint32_t i = 0; i < n; ++i) {
    const ffi_buffer* buffer = buffers->items[i];
    uint64_t size = item_bytes(buffer->dtype);
    for (int64_t d = 0; d < buffer->rank; ++d) size *= (uint64_t)buffer->dims[d];
    if (buffers->types[i] != FFI_BUFFER || size != bytes[i]) return 0;
    data[i] = buffer->data;
  }
  return 1;
}

static ffi_error* run_slot(const ffi_frame* frame, const plan_slot* slot) {
  const size_t n = (size_t)slot->n_args + slot->n_results + slot->n_feeds;
  void* few[kFew];
  void** data = n <= kFew ? few : malloc(n * sizeof(*data));
  if (data == NULL) return fail(frame, FFI_OUT_OF_MEMORY, "opwright: out of memory");
  void** results = data + slot->n_args;
  void** feeds = results + slot->n_results;
  ffi_error* error = NULL;
  if (read_buffers(&frame->args, slot->n_args, slot->bytes, data) &&
      read_buffers(&frame->results, slot->n_results, slot->bytes + slot->n_args, results)) {
    for (uint32_t i = 0; i < slot->n_feeds; ++i) feeds[i] = data[slot->order[i]];
    char message[kMessageBytes];
    message[0] = '\0';
    const int32_t status = slot->run(slot->plan, feeds, results, message, sizeof(message));
    message[kMessageBytes - 1] = '\0';
    if (status != 0) {
      error = fail(frame, status == kOutOfMemory ? FFI_OUT_OF_MEMORY : FFI_INTERNAL, message);
    }
  } else {
    error = fail(frame, FFI_INVALID_ARGUMENT,
                 "opwright: the arrays of the custom call do not match its text");
  }
  if (data != few) free(data);
  return error;
}

EXPORTED ffi_error* opwright_jax_execute(ffi_frame* frame) {
  if (answer_metadata(frame)) return NULL;
  call_attrs call;
  if (!read_attrs(frame, &call)) return fail(frame, FFI_INVALID_ARGUMENT, kForeign);
  plan_slot* slot = plan_enter(call.key);
  if (__builtin_expect(slot == NULL, 0)) {
    ffi_error* error = add_plan(frame, &call);
    if (error != NULL) return error;
    slot = plan_enter(call.key);
    if (slot == NULL) {
      return fail(frame, FFI_INTERNAL, "opwright: too many plans run at the same time");
    }
  }
  ffi_error* error = run_slot(frame, slot);
  plan_leave(slot);
  return error;
}

/* Does nothing; used to measure the cost of a custom call alone. */
EXPORTED ffi_error* opwright_jax_execute_nothing(ffi_frame* frame) {
  (void)answer_metadata(frame);
  return NULL;
}
