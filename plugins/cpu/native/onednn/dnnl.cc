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
constexpr const char* kRemedy = "install onednn-cpu-gomp of 2023.2 or newer";

// Returns the oneDNN file that the loader finds in the search paths of this library, the
// environment or the system, or an empty string.
std::string FindFile() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&FindDnnlFunction), &own) == 0) return {};
  void* handle = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const std::unique_ptr<void, int (*)(void*)> closed(handle, dlclose);
  Dl_serinfo size{};
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  const std::unique_ptr<char[]> memory(new char[size.dls_size]);
  auto* list = reinterpret_cast<Dl_serinfo*>(memory.get());
  *list = size;
  if (dlinfo(handle, RTLD_DI_SERINFO, list) != 0) return {};
  for (unsigned i = 0; i < list->dls_cnt; ++i) {
    std::string path = std::string(list->dls_serpath[i].dls_name) + "/" + kFile;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

// Throws std::runtime_error if the library lacks the function.
template <typename Function>
Function Find(void* library, const char* name) {
  void* function = dlsym(library, name);
  if (function == nullptr) {
    throw std::runtime_error(opwright::detail::Concat("cpu: oneDNN must have ", name, ", got a ",
                                                      kFile, " without it; ", kRemedy));
  }
  return reinterpret_cast<Function>(function);
}

void* OpenDnnl() {
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  std::string reason = library == nullptr ? dlerror() : "";
  if (library == nullptr) {
    // If a sanitizer or profiler replaces dlopen, dlopen uses the search paths of the tool instead
    // of ours.
    const std::string path = FindFile();
    if (!path.empty()) {
      library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) reason = dlerror();
    }
  }
  if (library == nullptr) {
    const char* lacks[] = {std::strerror(ENOMEM), "out of memory"};  // glibc's messages
    for (const char* lack : lacks) {
      if (reason.find(lack) != std::string::npos) throw std::bad_alloc();
    }
    throw std::runtime_error(
        opwright::detail::Concat("cpu: oneDNN must be loadable, got \"", reason,
                                 "\"; install onednn-cpu-gomp, or put it next to onednn.so"));
  }
  const dnnl_version_t* found = Find<decltype(&dnnl_version)>(library, "dnnl_version")();
  if (found->major != DNNL_VERSION_MAJOR || found->minor < 2) {
    throw std::runtime_error(opwright::detail::Concat(
        "cpu: oneDNN must be of version 3.2 or a later 3, got ", found->major, ".", found->minor,
        ".", found->patch, "; ", kRemedy));
  }
  // oneDNN's own cache is disabled, since plans and their Context keep prepared primitives. oneDNN
  // would also keep primitives whose creation failed for lack of memory, and crash on them later.
  const char* name = "dnnl_set_primitive_cache_capacity";
  Find<decltype(&dnnl_set_primitive_cache_capacity)>(library, name)(0);
  return library;
}

}  // namespace

void CheckDnnlExists() {
  if (FindFile().empty()) FindDnnlFunction("dnnl_version");
}

void* FindDnnlFunction(const char* name) {
  static std::atomic<void*> kept{nullptr};  // never closed; reopening returns the same handle
  void* library = kept.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = OpenDnnl();
    kept.store(library, std::memory_order_release);
  }
  return Find<void*>(library, name);
}

}  // namespace opwright_cpu
