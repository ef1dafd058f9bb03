/* Services of opwright-cuda for libraries of other packages whose kernels work on device "cuda":
 * they are registered like any kernels, enqueue work on the stream of the call, and link nothing.
 *
 * launcher.so exports opwright_cuda_services_v1. `device` is ow_prepare.device_state of a kernel
 * for "cuda". Members are only appended; check size before you read one. */
#ifndef OPWRIGHT_CUDA_SERVICES_H_
#define OPWRIGHT_CUDA_SERVICES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opwright_cuda_services {
  uint64_t size;
  /* A function of NVIDIA's driver by its symbol, such as "cuEventRecord"; NULL if it has none.
   */
  void* (*find)(const char* symbol);
  /* The number of the GPU. */
  int32_t (*ordinal)(void* device);
  /* Whether each kernel is to wait for its own work: OPWRIGHT_CUDA_BLOCKING. */
  int32_t (*is_blocking)(void* device);
  /* Makes the context of the GPU current in this thread; pass its result to leave. */
  void* (*enter)(void* device);
  void (*leave)(void* device, void* before);
  /* Waits for a stream; 0, or a status of the host with a message: the reports of kernels. */
  int32_t (*wait)(void* device, void* stream, char* message, uint64_t message_bytes);
  /* Has the next wait for the GPU fail with this text, and every replay of a graph from then on.
   * In any thread. */
  void (*lose)(void* device, const char* text);
} opwright_cuda_services;

typedef const opwright_cuda_services* (*opwright_cuda_services_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* OPWRIGHT_CUDA_SERVICES_H_ */
