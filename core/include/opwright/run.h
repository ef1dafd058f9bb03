/*
 * The C interface of libopwright: opens and runs a bundle that opwright wrote, without Python.
 *
 *   char text[1024];
 *   ow_error error = {text, sizeof text};
 *   ow_model* model;
 *   ow_session* session;
 *   if (ow_open("model.owb", NULL, &model, &error)) { puts(text); return 1; }
 *   if (ow_session_new(model, &session, &error)) { puts(text); return 1; }
 *   if (ow_run(session, inputs, 1, outputs, 1, &error)) { puts(text); return 1; }
 *
 * This header is normative. It needs C11 or C++17 and DLPack's header, and changes like abi.h:
 * structs begin with `size`, the sizeof that the caller knew; fields and functions are only added.
 *
 * What a bundle may do
 * --------------------
 * A bundle is code. Its numbers and sizes are checked before they are used. Its descriptor and
 * each tensor have checksums; OW_OPEN_CHECK compares tensor checksums. Checksums detect damage
 * but not attacks: an attacker who can write the file can write its checksums, too. Kernels trust
 * the attributes in it, so an untrusted bundle may crash the process or worse. Sign your files. A
 * bundle names plugin libraries by file name, never by path, and these are code as well. They are
 * searched in the folders of the options, in the folders of the environment variable
 * OPWRIGHT_LIBRARIES (separated by ":"), next to the bundle, and next to this library, in that
 * order. The file is mapped: it may be replaced, renamed and removed while it is open, but not
 * overwritten or truncated.
 *
 * Threads
 * -------
 * A model is immutable and shared by all threads, with one copy of its weights and their packed
 * forms. A session holds the state that runs write, and supports one run at a time; further
 * sessions need only the memory of their runs. Kernels share the thread pool of the process. Its
 * size is set by ow_set_threads, otherwise OPWRIGHT_NUM_THREADS, otherwise OMP_NUM_THREADS,
 * otherwise the number of available processors. A process made by fork() runs the models of its
 * parent with one thread.
 *
 * Every function that fails returns an OW_ status other than OW_OK and writes a message that ends
 * with NUL, shortened to fit, to the error's buffer. `error` may be NULL.
 */
#ifndef OPWRIGHT_RUN_H_
#define OPWRIGHT_RUN_H_

#include "opwright/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OW_RUN __attribute__((visibility("default")))

#define OW_RUN_MAJOR 1
#define OW_RUN_MINOR 0

/* A run was canceled by ow_cancel. */
#define OW_CANCELLED 5

typedef struct ow_model ow_model;
typedef struct ow_session ow_session;

/* Bits of ow_open_options.flags. */
#define OW_OPEN_CHECK 1u /* compare the checksums of all tensors: reads the whole file */

typedef struct ow_open_options {
  uint64_t size;
  const char* folders; /* searched for libraries first, separated by ":"; or NULL */
  uint32_t flags;      /* OW_OPEN_ */
  uint32_t reserved;
} ow_open_options;

/* Kinds of entries, for ow_count and ow_describe. */
#define OW_INPUTS 0
#define OW_OUTPUTS 1
#define OW_STATE 2     /* variables that runs write, in the session */
#define OW_LIBRARIES 3 /* plugin libraries: for ow_count and ow_get_requirement */

/* Pointers live as long as the model. */
typedef struct ow_description {
  uint64_t size;
  const char* name;
  DLDataType dtype; /* bits 0 for a variable that no run has written */
  int32_t ndim;
  const int64_t* steps; /* dim i is steps[i] * n + bases[i] for a batch of n */
  const int64_t* bases;
  int64_t least_batch;
  int64_t most_batch;
} ow_description;

typedef struct ow_requirement {
  uint64_t size;
  const char* file;
  const char* plugin;
  const char* version;
  const char* path;     /* of the loaded file; NULL if the library is optional and not loaded yet */
  uint32_t is_optional; /* loaded if kernels of other libraries refuse */
  uint32_t reserved;
} ow_requirement;

/* OW_RUN_MAJOR << 16 | OW_RUN_MINOR of the library. */
OW_RUN uint32_t ow_version(void);

/* Open a bundle; it has one owner. `options` may be NULL. */
OW_RUN int32_t ow_open(const char* path, const ow_open_options* options, ow_model** model,
                       const ow_error* error);
/* Open a file in memory, which must stay unchanged as long as the model; if it is aligned
   to 64 bytes, weights are not copied. */
OW_RUN int32_t ow_open_memory(const void* data, uint64_t bytes, const ow_open_options* options,
                              ow_model** model, const ow_error* error);
/* Add and release a reference. Sessions hold one to their model. NULL is allowed. */
OW_RUN void ow_retain(ow_model* model);
OW_RUN void ow_release(ow_model* model);

/* The number of OW_INPUTS, OW_OUTPUTS, OW_STATE or OW_LIBRARIES; 0 for another kind. */
OW_RUN uint64_t ow_count(const ow_model* model, uint32_t kind);
/* Fill in the fields that fit into `description->size` bytes. */
OW_RUN int32_t ow_describe(const ow_model* model, uint32_t kind, uint64_t i,
                           ow_description* description, const ow_error* error);
OW_RUN int32_t ow_get_requirement(const ow_model* model, uint64_t i, ow_requirement* requirement,
                                  const ow_error* error);

OW_RUN int32_t ow_session_new(ow_model* model, ow_session** session, const ow_error* error);
/* None of its runs may be in progress. NULL is allowed. */
OW_RUN void ow_session_free(ow_session* session);

/* Copy a variable of OW_STATE to or from a compact tensor of its dtype and shape on the CPU. */
OW_RUN int32_t ow_get(ow_session* session, const char* name, const DLTensor* value,
                      const ow_error* error);
OW_RUN int32_t ow_set(ow_session* session, const char* name, const DLTensor* value,
                      const ow_error* error);

/* Write the dims of all outputs for inputs of these shapes, one output after another, to `dims`,
   which has room for n_dims. Only dtype, ndim and shape of the inputs are read. */
OW_RUN int32_t ow_output_shapes(const ow_model* model, const DLTensor* const* inputs,
                                uint64_t n_inputs, int64_t* dims, uint64_t n_dims,
                                const ow_error* error);
/* Prepare the plan and memory of this batch, so that its first run is as fast as later ones. */
OW_RUN int32_t ow_warm(ow_session* session, int64_t batch, const ow_error* error);

/* Compute the outputs for the inputs. All are compact CPU tensors in the caller's memory, aligned
   to their items, preferably to 64 bytes. Outputs overlap nothing. After a failure, outputs may be
   partly written, and the state has the writes of the operators before the failed operator. */
OW_RUN int32_t ow_run(ow_session* session, const DLTensor* const* inputs, uint64_t n_inputs,
                      const DLTensor* const* outputs, uint64_t n_outputs, const ow_error* error);
/* Compute the outputs as new tensors, which the caller frees with their deleters. */
OW_RUN int32_t ow_run_managed(ow_session* session, const DLTensor* const* inputs, uint64_t n_inputs,
                              DLManagedTensorVersioned** outputs, uint64_t n_outputs,
                              const ow_error* error);
/* Cancel the current run, from another thread: it returns OW_CANCELLED after the current kernel. A
   run that has not begun is not canceled. */
OW_RUN void ow_cancel(ow_session* session);

/* Set the number of threads of kernels, 1 to 1024. */
OW_RUN int32_t ow_set_threads(int32_t n_threads, const ow_error* error);
/* Call `log`, from any thread, instead of writing warnings and errors to stderr; NULL restores
   stderr. */
OW_RUN void ow_set_log(void (*log)(void* user, int32_t level, const char* message), void* user);

#ifdef __cplusplus
}
#endif

#endif /* OPWRIGHT_RUN_H_ */
