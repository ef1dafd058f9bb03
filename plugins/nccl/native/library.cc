#include "library.h"

#include <dlfcn.h>

namespace opwright_nccl {

namespace {

Library functions;

template <typename Function>
bool Find(void* handle, const char* name, Function* function) {
  *reinterpret_cast<void**>(function) = dlsym(handle, name);
  return *function != nullptr;
}

std::string Missing(const std::string& path, const char* name) {
  return path + ": NCCL must be " + VersionText(kLeastVersion) +
         " or newer, got a library without " + name + "; pip install --upgrade nvidia-nccl-cu13";
}

std::string CheckVersion(const std::string& path, const Library& found) {
  int version = 0;
  const int code = found.GetVersion(&version);
  if (code != kSuccess) return path + ": ncclGetVersion failed: " + found.GetErrorString(code);
  if (version >= kLeastVersion) return "";
  return path + ": NCCL must be " + VersionText(kLeastVersion) + " or newer, got " +
         VersionText(version) + "; pip install --upgrade nvidia-nccl-cu13";
}

}  // namespace

const Library& Nccl() { return functions; }

std::string Open(const std::string& path) {
  if (functions.GetVersion != nullptr) return "";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  Library found;
  if (!Find(handle, "ncclGetVersion", &found.GetVersion)) return Missing(path, "ncclGetVersion");
  if (!Find(handle, "ncclGetErrorString", &found.GetErrorString)) {
    return Missing(path, "ncclGetErrorString");
  }
  const std::string fault = CheckVersion(path, found);  // since old versions lack functions
  if (!fault.empty()) return fault;
  if (!Find(handle, "ncclGetLastError", &found.GetLastError)) {
    return Missing(path, "ncclGetLastError");
  }
#define OPWRIGHT_NCCL_LOAD(name, parameters) \
  if (!Find(handle, "nccl" #name, &found.name)) return Missing(path, "nccl" #name);
  OPWRIGHT_NCCL_FUNCTIONS(OPWRIGHT_NCCL_LOAD)
#undef OPWRIGHT_NCCL_LOAD
  functions = found;
  return "";
}

std::string VersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string ErrorText(int code) {
  std::string text = functions.GetErrorString(code);
  const char* last = functions.GetLastError(nullptr);
  if (last != nullptr && last[0] != '\0') text += std::string(": ") + last;
  return text;
}

}  // namespace opwright_nccl
