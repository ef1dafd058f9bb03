/* Runs a bundle of float32 tensors: inputs from stdin, outputs to stdout, as they lie in memory.
     run_bundle FILE FOLDERS BATCH */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opwright/run.h"

#ifndef OPEN_FLAGS
#define OPEN_FLAGS OW_OPEN_CHECK
#endif

enum { kMost = 8, kRank = 8 };

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

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const ow_open_options options = {sizeof options, argv[2], OPEN_FLAGS, 0};
  ow_model* model = NULL;
  ow_session* session = NULL;
  check(ow_open(argv[1], &options, &model, &error));
  check(ow_session_new(model, &session, &error));
  int64_t shapes[2][kMost][kRank];
  DLTensor tensors[2][kMost];
  const DLTensor* pointers[2][kMost];
  for (uint32_t kind = OW_INPUTS; kind <= OW_OUTPUTS; ++kind) {
    for (uint64_t i = 0; i < ow_count(model, kind); ++i) {
      tensors[kind][i] = make(model, kind, i, atoi(argv[3]), shapes[kind][i]);
      pointers[kind][i] = &tensors[kind][i];
    }
  }
  for (uint64_t i = 0; i < ow_count(model, OW_INPUTS); ++i) {
    const DLTensor* input = pointers[OW_INPUTS][i];
    if (fread(input->data, 4, count(input), stdin) != count(input)) return 3;
  }
  check(ow_run(session, pointers[0], ow_count(model, 0), pointers[1], ow_count(model, 1), &error));
  for (uint64_t i = 0; i < ow_count(model, OW_OUTPUTS); ++i) {
    fwrite(pointers[OW_OUTPUTS][i]->data, 4, count(pointers[OW_OUTPUTS][i]), stdout);
  }
  for (int kind = 0; kind < 2; ++kind) {
    for (uint64_t i = 0; i < ow_count(model, (uint32_t)kind); ++i) free(tensors[kind][i].data);
  }
  ow_session_free(session);
  ow_release(model);
  return 0;
}
