#include "runtime/threads/host_threads.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace opwright {

namespace {

bool IsOpenMp(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  for (const char* prefix : {"libgomp", "libomp", "libiomp"}) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

// Collects the paths first, since the loader must not be called while its libraries are iterated.
std::vector<std::string> OpenMpPaths() {
  std::vector<std::string> paths;
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    if (!IsOpenMp(info->dlpi_name)) return 0;
    try {
      static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
    } catch (const std::bad_alloc&) {
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, &paths);
  return paths;
}

}  // namespace

HostThreads::Parallel HostThreads::FindIn(const char* path) {
  // The handle is never closed, since jobs run on the library's threads from now on.
  void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  void* symbol = library == nullptr ? nullptr : dlsym(library, "GOMP_parallel");
  return reinterpret_cast<Parallel>(symbol);
}

HostThreads::Parallel HostThreads::FindNext(Parallel known) {
  Parallel first = nullptr;
  for (const std::string& path : OpenMpPaths()) {
    const Parallel found = FindIn(path.c_str());
    if (found == nullptr) continue;
    if (known == nullptr) return found;
    if (first == nullptr) first = found;
    if (found == known) known = nullptr;
  }
  return first;
}

void HostThreads::AfterStall(int64_t now_ns, int64_t others_ns) {
  if (is_chosen_) return;
  const pthread_t caller = pthread_self();
  const bool is_known = stall_ns_ != 0 && pthread_equal(caller_, caller) != 0;
  const bool are_busy = (others_ns - others_ns_) * kBusyPart > now_ns - stall_ns_;
  if (is_known && are_busy) parallel_ = FindNext(parallel_);
  if (!is_known) parallel_ = nullptr;
  caller_ = caller;
  stall_ns_ = now_ns;
  others_ns_ = others_ns;
}

}  // namespace opwright
