/* Classifies rows of numbers by a bundle: reads n rows from stdin, and prints for each the class of
   the largest output, and its value.

     serve MODEL.owb N < rows.txt
*/
#include <opwright/run.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMostDims = 8 };

static char text[1024];
static const ow_error error = {text, sizeof text};

static void check(int32_t status) {
  if (status == OW_OK) return;
  fprintf(stderr, "%s\n", text);
  exit(1);
}

/* Creates the tensor of a model's first input or output, for a batch of n. */
static DLTensor make_tensor(const ow_model* model, uint32_t kind, int64_t n, int64_t* shape) {
  ow_description description = {.size = sizeof description};
  check(ow_describe(model, kind, 0, &description, &error));
  const int is_float32 = description.dtype.code == kDLFloat && description.dtype.bits == 32;
  if (ow_count(model, kind) != 1 || !is_float32 || description.ndim > kMostDims) {
    fprintf(stderr, "the bundle must have one input and one output of float32\n");
    exit(1);
  }
  size_t items = 1;
  for (int32_t d = 0; d < description.ndim; ++d) {
    shape[d] = description.steps[d] * n + description.bases[d];
    items *= (size_t)shape[d];
  }
  DLTensor tensor = {.ndim = description.ndim, .dtype = description.dtype, .shape = shape};
  tensor.device.device_type = kDLCPU;
  tensor.data = aligned_alloc(64, (items * sizeof(float) + 63) / 64 * 64);
  if (tensor.data == NULL) exit(1);
  return tensor;
}

static size_t count_items(const DLTensor* tensor) {
  size_t items = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) items *= (size_t)tensor->shape[d];
  return items;
}

int main(int argc, char** argv) {
  const int64_t n = argc == 3 ? strtoll(argv[2], NULL, 10) : 0;
  if (n < 1 || n > 1 << 20) {
    fprintf(stderr, "serve MODEL.owb N < rows.txt\n");
    return 2;
  }
  ow_model* model = NULL;
  ow_session* session = NULL;
  check(ow_open(argv[1], NULL, &model, &error));
  check(ow_session_new(model, &session, &error));

  int64_t input_shape[kMostDims], output_shape[kMostDims];
  const DLTensor input = make_tensor(model, OW_INPUTS, n, input_shape);
  const DLTensor output = make_tensor(model, OW_OUTPUTS, n, output_shape);
  float* values = input.data;
  for (size_t i = 0; i < count_items(&input); ++i) {
    if (scanf("%f", &values[i]) != 1) {
      fprintf(stderr, "%zu numbers were expected, got %zu\n", count_items(&input), i);
      return 1;
    }
  }

  const DLTensor *inputs[] = {&input}, *outputs[] = {&output};
  check(ow_run(session, inputs, 1, outputs, 1, &error));

  const float* scores = output.data;
  const size_t classes = count_items(&output) / (size_t)n;
  for (int64_t row = 0; row < n; ++row, scores += classes) {
    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) best = scores[i] > scores[best] ? i : best;
    printf("%zu %.9g\n", best, (double)scores[best]);
  }
  free(input.data);
  free(output.data);
  ow_session_free(session);
  ow_release(model);
  return 0;
}
