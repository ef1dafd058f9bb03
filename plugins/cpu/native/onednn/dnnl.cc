#include "onednn/dnnl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <opwright/sdk/status.hpp>

namespace opwright_cpu {
namespace {

constexpr const char* kFile = "libdnnl.so.3";

// Whether the loader would find it for this library: among its
// folders, the folders of the environment and of the system.
bool IsOnSearchPath() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&FindDnnlFunction), &own) == 0) return false;
  void* handle = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const std::unique_ptr<void, int (*)(void*)> closed(handle, dlclose);
  Dl_serinfo size{};
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return false;
  const std::unique_ptr<char[]> memory(new char[size.dls_size]);
  auto* list = reinterpret_cast<Dl_serinfo*>(memory.get());
  *list = size;
  if (dlinfo(handle, RTLD_DI_SERINFO, list) != 0) return false;
  for (unsigned i = 0; i < list->dls_cnt; ++i) {
    const std::string path = std::string(list->dls_serpath[i].dls_name) + "/" + kFile;
    if (access(path.c_str(), R_OK) == 0) return true;
  }
  return false;
}

void* OpenDnnl() {
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    if (std::strstr(reason, std::strerror(ENOMEM)) != nullptr) throw std::bad_alloc();
    throw std::runtime_error(
        opwright::detail::Concat("cpu: oneDNN must be installed, got \"", reason,
                                 "\"; install onednn-cpu-gomp, or put it beside onednn.so"));
  }
  const auto version = reinterpret_cast<decltype(&dnnl_version)>(dlsym(library, "dnnl_version"));
  const dnnl_version_t* found = version();
  if (found->major != DNNL_VERSION_MAJOR) {
    throw std::runtime_error(opwright::detail::Concat(
        "cpu: oneDNN must be of version 3, got ", found->major, ".", found->minor, ".",
        found->patch, "; install onednn-cpu-gomp of 2023.2 or newer"));
  }
  // Plans and their Context keep prepared primitives. oneDNN's own cache would also keep
  // those that it could not make in a moment without memory, and crash on them later.
  const auto set_capacity = reinterpret_cast<decltype(&dnnl_set_primitive_cache_capacity)>(
      dlsym(library, "dnnl_set_primitive_cache_capacity"));
  set_capacity(0);
  return library;
}

}  // namespace

void CheckDnnlExists() {
  if (!IsOnSearchPath()) FindDnnlFunction("dnnl_version");
}

void* FindDnnlFunction(const char* name) {
  static std::atomic<void*> kept{nullptr};  // never closed; a second opening is the same
  void* library = kept.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = OpenDnnl();
    kept.store(library, std::memory_order_release);
  }
  void* function = dlsym(library, name);
  if (function == nullptr) {
    throw std::runtime_error(opwright::detail::Concat("cpu: oneDNN must have ", name));
  }
  return function;
}

}  // namespace opwright_cpu
