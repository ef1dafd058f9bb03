/* Runs a bundle of float32 tensors: inputs from stdin, outputs to stdout, as raw bytes.
     run_bundle FILE FOLDERS BATCH [THREADS]
   Each of the threads has a session, all run at once, and must compute the same bits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opwright/run.h"

#ifndef OPEN_FLAGS
#define OPEN_FLAGS OW_OPEN_CHECK
#endif

enum { kMost = 8, kRank = 8, kMostThreads = 16 };

static char text[1024];
static const ow_error error = {text, sizeof text};

static void check(int32_t status) {
  if (status == OW_OK) return;
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static DLTensor make(const ow_model* model, uint32_t kind, uint64_t i, int64_t n, int64_t* shape) {
  ow_description description = {sizeof description, NULL, {0, 0, 0}, 0, NULL, NULL, 0, 0};
  check(ow_describe(model, kind, i, &description, &error));
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  size_t bytes = 4;
  for (int32_t d = 0; d < description.ndim; ++d) {
    shape[d] = description.steps[d] * n + description.bases[d];
    bytes *= (size_t)shape[d];
  }
  tensor.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  tensor.device.device_type = kDLCPU;
  tensor.ndim = description.ndim;
  tensor.dtype = description.dtype;
  tensor.shape = shape;
  tensor.byte_offset = 0;
  return tensor;
}

static size_t count(const DLTensor* tensor) {
  size_t elements = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) elements *= (size_t)tensor->shape[d];
  return elements;
}

/* The tensors of one kind. */
typedef struct {
  uint64_t n;
  int64_t shapes[kMost][kRank];
  DLTensor tensors[kMost];
  const DLTensor* pointers[kMost];
} List;

static void make_all(const ow_model* model, uint32_t kind, int64_t n, List* list) {
  list->n = ow_count(model, kind);
  if (list->n > kMost) exit(2);
  for (uint64_t i = 0; i < list->n; ++i) {
    list->tensors[i] = make(model, kind, i, n, list->shapes[i]);
    list->pointers[i] = &list->tensors[i];
  }
}

static void free_all(List* list) {
  for (uint64_t i = 0; i < list->n; ++i) free(list->tensors[i].data);
}

typedef struct {
  pthread_t thread;
  ow_session* session;
  List* inputs;
  List outputs;
} Runner;

static void* run(void* data) {
  Runner* runner = data;
  List *in = runner->inputs, *out = &runner->outputs;
  char own[1024];
  const ow_error failure = {own, sizeof own};
  if (ow_run(runner->session, in->pointers, in->n, out->pointers, out->n, &failure) != OW_OK) {
    fprintf(stderr, "%s\n", own);
    exit(1);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int n_threads = argc == 5 ? atoi(argv[4]) : 1;
  if ((argc != 4 && argc != 5) || n_threads < 1 || n_threads > kMostThreads) return 2;
  const ow_open_options options = {sizeof options, argv[2], OPEN_FLAGS, 0};
  ow_model* model = NULL;
  check(ow_open(argv[1], &options, &model, &error));
  static List inputs;
  make_all(model, OW_INPUTS, atoi(argv[3]), &inputs);
  for (uint64_t i = 0; i < inputs.n; ++i) {
    const DLTensor* input = inputs.pointers[i];
    if (fread(input->data, 4, count(input), stdin) != count(input)) return 3;
  }
  static Runner runners[kMostThreads];
  for (int t = 0; t < n_threads; ++t) {
    runners[t].inputs = &inputs;
    check(ow_session_new(model, &runners[t].session, &error));
    make_all(model, OW_OUTPUTS, atoi(argv[3]), &runners[t].outputs);
  }
  for (int t = 1; t < n_threads; ++t) {
    if (pthread_create(&runners[t].thread, NULL, run, &runners[t]) != 0) return 4;
  }
  run(&runners[0]);
  for (int t = 1; t < n_threads; ++t) pthread_join(runners[t].thread, NULL);
  for (uint64_t i = 0; i < runners[0].outputs.n; ++i) {
    const DLTensor* first = runners[0].outputs.pointers[i];
    for (int t = 1; t < n_threads; ++t) {
      const DLTensor* other = runners[t].outputs.pointers[i];
      if (memcmp(first->data, other->data, 4 * count(first)) != 0) return 5;
    }
    fwrite(first->data, 4, count(first), stdout);
  }
  for (int t = 0; t < n_threads; ++t) {
    ow_session_free(runners[t].session);
    free_all(&runners[t].outputs);
  }
  free_all(&inputs);
  ow_release(model);
  return 0;
}
