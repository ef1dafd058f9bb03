/* Runs a model with one input and one output of float32 by ONNX Runtime's C interface: numbers from
   stdin, results to stdout, as raw bytes.

     first_result_onnxruntime LIBRARY MODEL INPUT OUTPUT DIM...

   Its wheel has the library and no header, so here are indices of functions in the interface's
   table. They do not change: functions are only appended. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kCreateTensorWithDataAsOrtValue = 49,
  kGetTensorMutableData = 51,
  kGetTensorShapeElementCount = 64,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69
};
enum { kApiVersion = 14, kWarnings = 2, kArenaAllocator = 1, kDefaultMemory = 0, kFloat = 1 };
enum { kMostDims = 8 };

typedef void (*Function)(void);
typedef void* Status;
typedef struct ApiBase {
  const Function* (*get_api)(uint32_t version);
} ApiBase;

static const Function* api;

static void check(Status status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", ((const char* (*)(Status))api[kGetErrorMessage])(status));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 6 || argc > 5 + kMostDims) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  api = ((const ApiBase* (*)(void))(uintptr_t)dlsym(library, "OrtGetApiBase"))()->get_api(
      kApiVersion);
  void *env, *options, *session, *memory, *input, *output = NULL, *info;
  check(((Status (*)(int, const char*, void**))api[kCreateEnv])(kWarnings, "serve", &env));
  check(((Status (*)(void**))api[kCreateSessionOptions])(&options));
  check(((Status (*)(void*, const char*, void*, void**))api[kCreateSession])(env, argv[2], options,
                                                                             &session));
  int64_t shape[kMostDims];
  const size_t rank = (size_t)argc - 5;
  size_t items = 1;
  for (size_t d = 0; d < rank; ++d) items *= (size_t)(shape[d] = strtoll(argv[5 + d], NULL, 10));
  float* values = aligned_alloc(64, (items * sizeof(float) + 63) / 64 * 64);
  if (values == NULL || fread(values, sizeof(float), items, stdin) != items) return 3;
  check(((Status (*)(int, int, void**))api[kCreateCpuMemoryInfo])(kArenaAllocator, kDefaultMemory,
                                                                  &memory));
  check(((Status (*)(void*, void*, size_t, const int64_t*, size_t, int,
                     void**))api[kCreateTensorWithDataAsOrtValue])(
      memory, values, items * sizeof(float), shape, rank, kFloat, &input));
  const char *inputs[] = {argv[3]}, *outputs[] = {argv[4]};
  check(((Status (*)(void*, void*, const char* const*, void* const*, size_t, const char* const*,
                     size_t, void**))api[kRun])(session, NULL, inputs, &input, 1, outputs, 1,
                                                &output));
  float* results;
  check(((Status (*)(void*, void**))api[kGetTensorMutableData])(output, (void**)&results));
  check(((Status (*)(void*, void**))api[kGetTensorTypeAndShape])(output, &info));
  check(((Status (*)(void*, size_t*))api[kGetTensorShapeElementCount])(info, &items));
  fwrite(results, sizeof(float), items, stdout);
  return 0; /* the process ends, and its memory with it */
}
