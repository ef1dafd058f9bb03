// The C++ interface of oneDNN. The library is opened when one of its functions is first called,
// because opening it takes longer than all other work of a small network that uses our own
// products.
#ifndef OPWRIGHT_CPU_ONEDNN_DNNL_H_
#define OPWRIGHT_CPU_ONEDNN_DNNL_H_

#include <atomic>

#include <oneapi/dnnl/dnnl.h>

namespace opwright_cpu {

// Throws std::runtime_error if the loader does not find the library, since opening it later would
// fail.
void CheckDnnlExists();
// Returns a function of the library. Throws std::runtime_error if the library cannot be opened or
// has a different version, and std::bad_alloc if memory is insufficient.
void* FindDnnlFunction(const char* name);

// Looks up the function only once; uses no lock, since a fork could leave it held in the child.
template <typename Function>
Function FindOnce(std::atomic<Function>* function, const char* name) {
  Function found = function->load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<Function>(FindDnnlFunction(name));
    function->store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace opwright_cpu

#define OPWRIGHT_CPU_DNNL(name)                            \
  ([] {                                                    \
    static std::atomic<decltype(&name)> function{nullptr}; \
    return ::opwright_cpu::FindOnce(&function, #name);     \
  }())

// All functions that our code calls through dnnl.hpp. The linker reports missing functions.
#define dnnl_convolution_backward_data_primitive_desc_create \
  OPWRIGHT_CPU_DNNL(dnnl_convolution_backward_data_primitive_desc_create)
#define dnnl_convolution_backward_weights_primitive_desc_create \
  OPWRIGHT_CPU_DNNL(dnnl_convolution_backward_weights_primitive_desc_create)
#define dnnl_convolution_forward_primitive_desc_create \
  OPWRIGHT_CPU_DNNL(dnnl_convolution_forward_primitive_desc_create)
#define dnnl_data_type_size OPWRIGHT_CPU_DNNL(dnnl_data_type_size)
#define dnnl_deconvolution_forward_primitive_desc_create \
  OPWRIGHT_CPU_DNNL(dnnl_deconvolution_forward_primitive_desc_create)
#define dnnl_engine_create OPWRIGHT_CPU_DNNL(dnnl_engine_create)
#define dnnl_engine_destroy OPWRIGHT_CPU_DNNL(dnnl_engine_destroy)
#define dnnl_get_effective_cpu_isa OPWRIGHT_CPU_DNNL(dnnl_get_effective_cpu_isa)
#define dnnl_matmul_primitive_desc_create OPWRIGHT_CPU_DNNL(dnnl_matmul_primitive_desc_create)
#define dnnl_memory_create_v2 OPWRIGHT_CPU_DNNL(dnnl_memory_create_v2)
#define dnnl_memory_desc_clone OPWRIGHT_CPU_DNNL(dnnl_memory_desc_clone)
#define dnnl_memory_desc_create_submemory OPWRIGHT_CPU_DNNL(dnnl_memory_desc_create_submemory)
#define dnnl_memory_desc_create_with_strides OPWRIGHT_CPU_DNNL(dnnl_memory_desc_create_with_strides)
#define dnnl_memory_desc_create_with_tag OPWRIGHT_CPU_DNNL(dnnl_memory_desc_create_with_tag)
#define dnnl_memory_desc_destroy OPWRIGHT_CPU_DNNL(dnnl_memory_desc_destroy)
#define dnnl_memory_desc_equal OPWRIGHT_CPU_DNNL(dnnl_memory_desc_equal)
#define dnnl_memory_desc_get_size_v2 OPWRIGHT_CPU_DNNL(dnnl_memory_desc_get_size_v2)
#define dnnl_memory_desc_query OPWRIGHT_CPU_DNNL(dnnl_memory_desc_query)
#define dnnl_memory_destroy OPWRIGHT_CPU_DNNL(dnnl_memory_destroy)
#define dnnl_memory_get_engine OPWRIGHT_CPU_DNNL(dnnl_memory_get_engine)
#define dnnl_memory_get_memory_desc OPWRIGHT_CPU_DNNL(dnnl_memory_get_memory_desc)
#define dnnl_memory_set_data_handle OPWRIGHT_CPU_DNNL(dnnl_memory_set_data_handle)
#define dnnl_post_ops_append_binary OPWRIGHT_CPU_DNNL(dnnl_post_ops_append_binary)
#define dnnl_post_ops_append_eltwise OPWRIGHT_CPU_DNNL(dnnl_post_ops_append_eltwise)
#define dnnl_post_ops_create OPWRIGHT_CPU_DNNL(dnnl_post_ops_create)
#define dnnl_post_ops_destroy OPWRIGHT_CPU_DNNL(dnnl_post_ops_destroy)
#define dnnl_primitive_attr_create OPWRIGHT_CPU_DNNL(dnnl_primitive_attr_create)
#define dnnl_primitive_attr_destroy OPWRIGHT_CPU_DNNL(dnnl_primitive_attr_destroy)
#define dnnl_primitive_attr_set_post_ops OPWRIGHT_CPU_DNNL(dnnl_primitive_attr_set_post_ops)
#define dnnl_primitive_attr_set_scratchpad_mode \
  OPWRIGHT_CPU_DNNL(dnnl_primitive_attr_set_scratchpad_mode)
#define dnnl_primitive_create OPWRIGHT_CPU_DNNL(dnnl_primitive_create)
#define dnnl_primitive_desc_destroy OPWRIGHT_CPU_DNNL(dnnl_primitive_desc_destroy)
#define dnnl_primitive_desc_query OPWRIGHT_CPU_DNNL(dnnl_primitive_desc_query)
#define dnnl_primitive_desc_query_md OPWRIGHT_CPU_DNNL(dnnl_primitive_desc_query_md)
#define dnnl_primitive_destroy OPWRIGHT_CPU_DNNL(dnnl_primitive_destroy)
#define dnnl_primitive_execute OPWRIGHT_CPU_DNNL(dnnl_primitive_execute)
#define dnnl_reorder_primitive_desc_create OPWRIGHT_CPU_DNNL(dnnl_reorder_primitive_desc_create)
#define dnnl_stream_create OPWRIGHT_CPU_DNNL(dnnl_stream_create)
#define dnnl_stream_destroy OPWRIGHT_CPU_DNNL(dnnl_stream_destroy)
#define dnnl_stream_wait OPWRIGHT_CPU_DNNL(dnnl_stream_wait)

#include <oneapi/dnnl/dnnl.hpp>

#endif  // OPWRIGHT_CPU_ONEDNN_DNNL_H_
