/*
 * The C interface between opwright and compiled plugins: operators, kernels and devices as tables.
 *
 * This header is normative. It needs C11 or C++17, <stddef.h>, <stdint.h> and DLPack's header, and
 * a plugin that includes it does not link opwright.
 *
 * How this interface changes
 * --------------------------
 * - Versions are (major, minor). The major number is part of the entry symbol's name: a library of
 *   another major version is not loaded. A different minor number is never refused.
 * - A struct of this interface begins with `size`, the sizeof that its writer was compiled with, or
 *   is frozen for the whole major version (ow_string, ow_reuse, ow_pack, ow_error).
 * - Fields are only appended, never moved, never redefined. A reader checks
 *   OW_HAS(pointer, field) before it reads a field that an older writer lacks. The fields of minor
 *   version 0 may be read without that check.
 * - Reserved fields and unknown flag bits are written as 0 and ignored when read.
 * - An array of structs is passed as pointer, count and element stride, because the reader's sizeof
 *   may differ from the writer's. OW_AT(type, pointer, stride, i) finds an element.
 * - Members have a fixed width, no struct has implicit padding, and every size is a multiple of 8.
 *
 * Rules for every call
 * --------------------
 * - Exceptions and longjmp must not leave a function. It returns OW_OK or another OW_ status; if it
 *   fails, it writes a NUL-terminated message, possibly empty, of at most message_bytes.
 * - Strings are UTF-8 and end with NUL. Objects that a table points to live as long as the library.
 * - No code of a library runs before its entry function: no static constructor with effects.
 *
 * Threads
 * -------
 * - run uses at most ow_call.n_threads threads, from ow_host.parallel; others would compete.
 *   opwright chooses one count for all kernels of a plan, from the sum of their estimates. In
 *   deterministic plans it is a fixed count, independent of the host's number of threads.
 * - A process made by fork() runs with one thread, since thread libraries do not survive it.
 *   Kernels prepared for more threads are not run, unbound or released there.
 */
#ifndef OPWRIGHT_ABI_H_
#define OPWRIGHT_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "dlpack/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OW_ABI_MAJOR 1
#define OW_ABI_MINOR 1

/* True if the struct that `p` points to is new enough to contain `field`. */
#define OW_HAS(p, field) \
  ((p)->size >= (uint64_t)((const char*)(&(p)->field + 1) - (const char*)(p)))

/* Element `i` of an array of structs whose writer's sizeof was `stride`. */
#define OW_AT(type, p, stride, i) \
  ((const type*)(const void*)((const char*)(p) + (uint64_t)(i) * (uint64_t)(stride)))

/* ---- Statuses ------------------------------------------------------------------------------- */
#define OW_OK 0            /* done */
#define OW_ERROR 1         /* failed, with the reason as the message */
#define OW_REFUSED 2       /* prepare only: unsupported by this kernel; the next is tried */
#define OW_OUT_OF_MEMORY 3 /* the device could not allocate the requested memory */
#define OW_UNSUPPORTED 4   /* unsupported by an optional function, or since 1.1 by this machine */

/* ---- Small frozen structs ------------------------------------------------------------------- */
typedef struct ow_string {
  const char* data; /* ends with NUL, which `length` does not count */
  uint64_t length;
} ow_string;

/* Output slot `output` may reuse the memory of input slot `input` if nothing reads that later. */
typedef struct ow_reuse {
  const char* output;
  const char* input;
} ow_reuse;

/* A request to pack argument `arg`: see ow_kernel.pack. */
typedef struct ow_pack {
  uint32_t arg;       /* index into ow_prepare.args */
  uint32_t alignment; /* of the packed copy, a power of two; 0 means 64 */
  uint64_t bytes;     /* size of the packed copy */
} ow_pack;

/* The buffer for the message of a function without a call frame. */
typedef struct ow_error {
  char* message;
  uint64_t message_bytes;
} ow_error;

/* ---- Attributes ----------------------------------------------------------------------------- */
/* The numbers of AttrType in opwright/framework.proto. */
#define OW_ATTR_INT 1
#define OW_ATTR_FLOAT 2
#define OW_ATTR_STRING 3
#define OW_ATTR_BOOL 4
#define OW_ATTR_INTS 5
#define OW_ATTR_FLOATS 6
#define OW_ATTR_STRINGS 7
#define OW_ATTR_BOOLS 8
#define OW_ATTR_BLOCK 9

/* One attribute. Defaults are filled in; an attribute that is absent is not in the array. */
typedef struct ow_attr {
  uint64_t size;
  const char* name;
  int32_t type; /* OW_ATTR_ */
  uint32_t reserved;
  uint64_t count;           /* elements of a list; 1 for a scalar */
  int64_t int_value;        /* INT; BOOL as 0 or 1; BLOCK as its index */
  double float_value;       /* FLOAT */
  ow_string string;         /* STRING */
  const int64_t* ints;      /* INTS */
  const double* floats;     /* FLOATS */
  const ow_string* strings; /* STRINGS */
  const uint8_t* bools;     /* BOOLS, each 0 or 1 */
} ow_attr;

/* ---- Frames --------------------------------------------------------------------------------- */
typedef struct ow_host ow_host;
typedef struct ow_device ow_device;
typedef struct ow_kernel ow_kernel;

/*
 * Arguments, in every frame: one flat array of tensors, inputs before outputs, slots in the order
 * of the OpProto. The tensors of slot s are args[slot_begin[s]] to args[slot_begin[s + 1] - 1]:
 * none for an absent optional slot, one for a plain slot, the whole list for a duplicable slot.
 *
 * Guarantees: `shape` and `strides` are never NULL, also for rank 0; strides count elements and are
 * compact row-major unless the kernel has OW_KERNEL_STRIDED; `data` is NULL for a tensor without
 * elements and for a shape-only slot; on an addressable device `byte_offset` is 0; memory of the
 * arena is aligned to 64 bytes, or to ow_device.alignment where that is more, feeds and
 * persistables at least to the item. Kernels never change a tensor's fields.
 */

/* Bits of ow_prepare.arg_flags. */
#define OW_ARG_PACKABLE 1u   /* a persistable that the plan does not write: pack is allowed */
#define OW_ARG_SHAPE_ONLY 2u /* has a shape and a dtype, but no data */
#define OW_ARG_DYNAMIC 4u    /* an output whose -1 dims the kernel sets by ow_host.resize */
#define OW_ARG_UNREAD 8u     /* an output that nothing reads: it need not be written; since 1.1 */

/* Bits of ow_prepare.out_flags, and of ow_prepare.flags. */
#define OW_PREPARED_NOT_CAPTURABLE 1u /* overrides OW_KERNEL_CAPTURABLE for this result */
#define OW_PREPARE_DETERMINISTIC 1u   /* n_threads is the fixed count; use only ow_host's threads */

/* Arguments and results of prepare. The frame and its arrays live until it returns. */
typedef struct ow_prepare {
  uint64_t size;
  const ow_host* host;
  const ow_kernel* kernel;
  const ow_device* device; /* NULL for the host */
  void* device_state;      /* from ow_device.open; NULL for the host */
  const char* op_type;
  DLTensor* const* args; /* data is NULL; dims of dynamic outputs may be -1 */
  const uint32_t* slot_begin;
  const uint32_t* arg_flags;
  uint32_t n_slots;
  uint32_t n_inputs; /* number of input slots */
  const ow_attr* attrs;
  uint64_t n_attrs;
  uint64_t attr_stride;
  int32_t n_threads; /* number of threads of run; ow_call.n_threads will be the same */
  uint32_t pack_capacity;
  /* The results, zero before the call. */
  void* prepared;           /* immutable from now on, used by all threads */
  uint64_t workspace_bytes; /* scratch memory for run, aligned to 64 bytes, not kept between runs */
  uint64_t estimate_ns;     /* duration of one run with n_threads threads; 0 if unknown */
  ow_pack* packs;           /* room for pack_capacity requests, n_packs of them filled in */
  uint32_t n_packs;
  uint32_t out_flags;
  char* message; /* the reason of a refusal; the error otherwise */
  uint64_t message_bytes;
  uint32_t flags; /* OW_PREPARE_, since 1.1; an argument, not a result */
  uint32_t reserved;
  uint64_t held_bytes; /* since 1.1: a result; approximate size of `prepared`, such as code */
} ow_prepare;

/*
 * The call frame of bind, pack and run; it is also the runtime's own step. Between bind and unbind
 * one frame at one address is used for every run of an instance of a plan, so its pointers may be
 * kept; args[i]->data and stream may differ from run to run and are read again in each.
 */
typedef struct ow_call {
  uint64_t size;
  DLTensor* const* args;
  const uint32_t* slot_begin;
  uint32_t n_slots;
  int32_t n_threads; /* as in prepare; ignore the count of the thread library */
  void* prepared;
  void* bound;  /* from bind, or NULL */
  void* stream; /* the device's; NULL on the host */
  void* workspace;
  uint64_t workspace_bytes;
  const ow_host* host;
  void* run_handle; /* private to the runtime */
  char* message;
  uint64_t message_bytes;
} ow_call;

typedef int32_t (*ow_run_fn)(const ow_call* call);

/* Arguments of a compiled operator's infer. Unknown dims are -1; data and strides NULL. */
typedef struct ow_infer {
  uint64_t size;
  const ow_host* host;
  const char* op_type;
  const DLTensor* const* inputs; /* as args, inputs only */
  const uint32_t* slot_begin;    /* over the input slots */
  const uint32_t* output_counts; /* the number of tensors in each output slot, 0 if absent */
  uint32_t n_inputs;             /* slots */
  uint32_t n_outputs;            /* slots */
  const ow_attr* attrs;
  uint64_t n_attrs;
  uint64_t attr_stride;
  void* infer_handle; /* private to the runtime */
  char* message;
  uint64_t message_bytes;
} ow_infer;

/* ---- Kernels -------------------------------------------------------------------------------- */
#define OW_KERNEL_CAPTURABLE 1u       /* run only enqueues on call->stream: it may be captured */
#define OW_KERNEL_NONDETERMINISTIC 2u /* two runs may differ in the last bits */
#define OW_KERNEL_STRIDED 4u          /* takes any strides */
#define OW_KERNEL_NEEDS_GIL 8u        /* runs Python; reserved for the runtime's own kernels */
#define OW_KERNEL_BY_THREADS 16u      /* the last bits may depend on n_threads; since 1.1 */
#define OW_KERNEL_BLOCKS 32u          /* run may wait for another process, and polls; since 1.1 */

struct ow_kernel {
  uint64_t size;
  const char* op_type;
  const char* device;       /* "cpu", "cuda", … */
  const char* library;      /* that implements it; NULL means the plugin's name */
  const DLDataType* dtypes; /* of the dispatch slot; n_dtypes 0 means every dtype */
  uint64_t n_dtypes;
  int32_t priority; /* 0 to 99; 50 is usual */
  uint32_t flags;   /* OW_KERNEL_ */
  const ow_reuse* may_reuse;
  uint64_t n_may_reuse;
  void* user; /* private to the kernel */

  /* Create the state that all runs share, once per attributes, metas and threads; may be NULL. */
  int32_t (*prepare)(ow_prepare* prepare);
  /* Free `prepared`. May be NULL only without `prepare`. */
  void (*release)(void* prepared);
  /* Create the state of one instance (call->bound is set to *bound). Data pointers are not yet
     those of a run and must not be dereferenced. May be NULL. */
  int32_t (*bind)(const ow_call* call, void** bound);
  void (*unbind)(void* prepared, void* bound);
  /* Write the packed form of argument `arg` to `destination`. Called before the first run and
     whenever the variable was written since; from then on args[arg]->data is the packed copy.
     Only for arguments that prepare requested. */
  int32_t (*pack)(const ow_call* call, uint32_t arg, const DLTensor* source, void* destination);
  ow_run_fn run;
};

/* ---- Operators ------------------------------------------------------------------------------ */
#define OW_OP_HIDDEN 1u /* an unlisted helper, such as a gradient operator */

typedef struct ow_op {
  uint64_t size;
  const char* type;
  const void* proto; /* opwright.OpProto as protobuf wire bytes */
  uint64_t proto_bytes;
  int32_t (*infer)(const ow_infer* infer); /* sets metas by ow_host.set_output */
  const char* gradient_type;               /* the operator that is its gradient, or NULL */
  const char* no_gradient_reason;          /* why it has none; at most one of these two is set */
  uint32_t flags;                          /* OW_OP_ */
  uint32_t n_gradient_needs;
  const char* const* gradient_needs; /* slots whose values the gradient reads */
} ow_op;

/* ---- Devices -------------------------------------------------------------------------------- */
#define OW_DEVICE_ADDRESSABLE 1u /* pointers may be offset, so a plan has one arena */
#define OW_DEVICE_HOST_MEMORY 2u /* the host reads and writes its memory directly */
#define OW_DEVICE_NEEDS_GIL 4u   /* runs Python; reserved for the runtime's own devices */
/* For memory checkers: every value of a plan gets its own allocation of exactly its size, which it
   does not share, kernels do not work in place, and graphs are not recorded. */
#define OW_DEVICE_UNSHARED_MEMORY 8u

/*
 * `state` comes from open. Functions marked optional may be NULL. All of them may be called by
 * several threads at once.
 *
 * Order: opwright creates one stream for each device that it opens. All plans, and all copies by
 * users, are enqueued on it and run in that order.
 * Without streams, `stream` is NULL and a function returns when its work is done.
 */
struct ow_device {
  uint64_t size;
  const char* name;
  int32_t dlpack_code;
  uint32_t flags;     /* OW_DEVICE_ */
  uint64_t alignment; /* of every allocation, at least 64 on an addressable device; a plan's values
                         have it within its arena */
  void* user;         /* private to the device */

  int32_t (*count)(const ow_device* device, int32_t* n, const ow_error* error);
  int32_t (*open)(const ow_device* device, int32_t device_id, void** state, const ow_error* error);
  void (*close)(void* state);
  int32_t (*allocate)(void* state, uint64_t bytes, void** handle, const ow_error* error);
  /* Work that is enqueued may still use the memory: it is reused only after that work. */
  void (*free)(void* state, void* handle);
  /* Pinned host memory; optional. */
  int32_t (*allocate_host)(void* state, uint64_t bytes, void** pointer, const ow_error* error);
  void (*free_host)(void* state, void* pointer);
  /* Free and total bytes; optional. */
  int32_t (*memory_info)(void* state, uint64_t* free_bytes, uint64_t* total_bytes,
                         const ow_error* error);
  /* Copy within the device or between device and host, ordered on `stream`. A source on the host
     may be reused when copy returns. */
  int32_t (*copy)(void* state, void* stream, void* destination, int32_t destination_is_host,
                  const void* source, int32_t source_is_host, uint64_t bytes,
                  const ow_error* error);
  /* Wait for all work of the device. */
  int32_t (*synchronize)(void* state, const ow_error* error);

  /* Streams and events; all optional, together. Without them the device is synchronous. */
  int32_t (*stream_create)(void* state, void** stream, const ow_error* error);
  void (*stream_destroy)(void* state, void* stream);
  int32_t (*stream_synchronize)(void* state, void* stream, const ow_error* error);
  int32_t (*event_create)(void* state, void** event, const ow_error* error);
  void (*event_destroy)(void* state, void* event);
  int32_t (*event_record)(void* state, void* event, void* stream, const ow_error* error);
  int32_t (*event_wait)(void* state, void* event, void* stream, const ow_error* error);
  int32_t (*event_synchronize)(void* state, void* event, const ow_error* error);

  /* Capture and replay; all optional, together, and only with streams. Work that is enqueued on
     the stream between begin and end is not executed but recorded in a graph, which replay enqueues
     on any stream, any number of times. The captured stream is used for nothing else, and only
     capturable kernels and copies inside the device are enqueued on it. If end_capture fails, the
     capture ends without a graph. A graph may be destroyed while it is being replayed. */
  int32_t (*begin_capture)(void* state, void* stream, const ow_error* error);
  int32_t (*end_capture)(void* state, void* stream, void** graph, const ow_error* error);
  int32_t (*replay)(void* state, void* stream, void* graph, const ow_error* error);
  void (*graph_destroy)(void* state, void* graph);
};

/* ---- Services of the host ------------------------------------------------------------------- */
#define OW_LOG_DEBUG 10
#define OW_LOG_INFO 20
#define OW_LOG_WARNING 30
#define OW_LOG_ERROR 40

struct ow_host {
  uint64_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* core_version;
  /* Set the shape of dynamic output `arg` and allocate it, from within run. Afterwards
     call->args[arg] has both. May be called again; the last shape counts. */
  int32_t (*resize)(const ow_call* call, uint32_t arg, int32_t ndim, const int64_t* shape);
  /* Host memory; NULL if there is not enough. `alignment` is a power of two. */
  void* (*allocate)(uint64_t bytes, uint64_t alignment);
  void (*deallocate)(void* pointer);
  void (*log)(int32_t level, const char* message);
  /* Set the meta of output `index` of output slot `slot`, from within infer. dtype.bits 0 leaves
     the dtype to the OpProto's own rule. */
  int32_t (*set_output)(const ow_infer* infer, uint32_t slot, uint32_t index, int32_t ndim,
                        const int64_t* shape, DLDataType dtype);
  /* Since 1.1: call function(data, share) for each share below n_shares, in any order, on at most
     n_threads threads including the caller's; return when all have returned. A share must not
     wait for another share or throw. A nested call runs its shares in the thread of its caller. */
  void (*parallel)(int32_t n_threads, int32_t n_shares, void (*function)(void* data, int32_t share),
                   void* data);
  /* Since 1.1: for a kernel with OW_KERNEL_BLOCKS to call from within run, about every millisecond
     that it waits. Other threads of the caller's language may run meanwhile. Any status but OW_OK
     ends the run, for example after Ctrl-C: run returns it without a message. */
  int32_t (*poll)(const ow_call* call);
};

/* ---- The plugin ----------------------------------------------------------------------------- */
typedef struct ow_plugin {
  uint64_t size;
  uint32_t abi_major; /* OW_ABI_MAJOR and OW_ABI_MINOR of the header it was built with */
  uint32_t abi_minor;
  const char* name; /* the entry-point name */
  const char* version;
  const ow_op* ops;
  uint64_t n_ops;
  uint64_t op_stride;
  const ow_kernel* kernels;
  uint64_t n_kernels;
  uint64_t kernel_stride;
  const ow_device* devices;
  uint64_t n_devices;
  uint64_t device_stride;
} ow_plugin;

/*
 * The one symbol that a library exports. It sets the table, or fails with a status; a table of only
 * `name` and `version` then improves the report. The host table lives as long as the process.
 */
#define OW_PLUGIN_ENTRY "opwright_plugin_v1"
typedef int32_t (*ow_plugin_entry_fn)(const ow_host* host, const ow_plugin** plugin);

#ifdef __cplusplus
}
#endif

#endif /* OPWRIGHT_ABI_H_ */
