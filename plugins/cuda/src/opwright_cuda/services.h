/* Services of opwright-cuda for libraries of other packages that have kernels for device "cuda".
 * Such kernels are registered as usual and enqueue work on the stream of the call; the libraries do
 * not link to CUDA. launcher.so exports opwright_cuda_services_v1. `device` is
 * ow_prepare.device_state of a kernel for "cuda". New members are appended, so check `size` before
 * you read a member. */
#ifndef OPWRIGHT_CUDA_SERVICES_H_
#define OPWRIGHT_CUDA_SERVICES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opwright_cuda_services {
  uint64_t size;
  /* Returns a function of the NVIDIA driver by its symbol, such as "cuEventRecord", or NULL if the
   * driver does not export it. */
  void* (*find)(const char* symbol);
  /* Returns the number of the GPU. */
  int32_t (*ordinal)(void* device);
  /* Returns whether each kernel must wait for its work, as set by OPWRIGHT_CUDA_BLOCKING. */
  int32_t (*is_blocking)(void* device);
  /* Makes the context of the GPU current in this thread; pass the result to leave. */
  void* (*enter)(void* device);
  void (*leave)(void* device, void* before);
  /* Waits for a stream. Returns 0, or an error status of the host and the reports of kernels. */
  int32_t (*wait)(void* device, void* stream, char* message, uint64_t message_bytes);
  /* Makes the next wait for the GPU and all later replays of graphs fail with this text. It can be
   * called in any thread. */
  void (*lose)(void* device, const char* text);
} opwright_cuda_services;

typedef const opwright_cuda_services* (*opwright_cuda_services_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* OPWRIGHT_CUDA_SERVICES_H_ */
