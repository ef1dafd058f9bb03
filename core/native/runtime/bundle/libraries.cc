// The part of Bundle that finds plugin libraries and their kernels.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/bundle/bundle.h"
#include "runtime/library/plugin_table.h"

namespace opwright {

namespace {

constexpr const char* kVariable = "OPWRIGHT_LIBRARIES";

bool Serves(const ow_kernel& kernel, const ow_plugin& plugin, const std::string& op_type,
            const std::string& library, DLDataType dtype) {
  const char* own = kernel.library == nullptr ? plugin.name : kernel.library;
  if (op_type != kernel.op_type || library != own || std::strcmp(kernel.device, "cpu") != 0) {
    return false;
  }
  bool takes = kernel.n_dtypes == 0;
  for (uint64_t i = 0; i < kernel.n_dtypes; ++i) takes |= SameDtype(kernel.dtypes[i], dtype);
  return takes;
}

}  // namespace

void AddFolders(const char* list, std::vector<std::string>* folders) {
  const std::string text = list == nullptr ? "" : list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) folders->push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// Returns the folders to search, in order: from the caller, the environment, the bundle and this
// library.
std::vector<std::string> Bundle::ListFolders() const {
  std::vector<std::string> folders = options_.folders;
  AddFolders(std::getenv(kVariable), &folders);
  if (!folder_.empty()) folders.push_back(folder_);
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&AddFolders), &info) != 0 && info.dli_fname != nullptr) {
    const std::string own = info.dli_fname;
    const size_t slash = own.rfind('/');
    folders.push_back(slash == std::string::npos ? "." : own.substr(0, slash + 1));
  }
  return folders;
}

void Bundle::OpenLibrary(Requirement* requirement) const {
  if (requirement->library) return;
  const std::string wanted =
      Concat(who_, ": needs the library ", requirement->file, " of the plugin '",
             requirement->plugin, "' ", requirement->version);
  std::string others;
  for (const std::string& folder : ListFolders()) {
    for (const std::string& inner : {std::string(), requirement->folder + "/"}) {
      const bool ends = folder.back() == '/';
      const std::string path = Concat(folder, ends ? "" : "/", inner, requirement->file);
      if (access(path.c_str(), F_OK) != 0) continue;
      std::shared_ptr<Library> library;
      try {
        library = Library::Open(path);
      } catch (const Error& error) {
        Throw(error.kind(), wanted, ", got ", error.what());
      }
      const ow_plugin& plugin = library->plugin();
      if (requirement->plugin == plugin.name && requirement->version == plugin.version) {
        requirement->library = std::move(library);
        return;
      }
      others += Concat(others.empty() ? "" : ", ", plugin.name, " ", plugin.version, " in ", path);
    }
  }
  if (!others.empty()) {
    Throw(ErrorKind::kPlugin, wanted, ", got ", others,
          "; install the release that the bundle was written with, or write it again");
  }
  std::string searched;
  for (const std::string& folder : ListFolders()) {
    searched += Concat(searched.empty() ? "" : ", ", folder);
  }
  Throw(ErrorKind::kPlugin, wanted, ", got no such file in ", searched,
        "; put it there, or name its folder in ", kVariable);
}

const ow_kernel& Bundle::FindKernel(uint32_t number) {
  KernelName& name = kernels_[number];
  if (name.kernel != nullptr) return *name.kernel;
  Requirement& requirement = requirements_[name.requirement];
  OpenLibrary(&requirement);
  const ow_plugin& plugin = requirement.library->plugin();
  for (uint64_t i = 0; i < plugin.n_kernels && name.kernel == nullptr; ++i) {
    const ow_kernel& kernel = KernelAt(plugin, i);
    if (Serves(kernel, plugin, name.op_type, name.library, name.dtype)) name.kernel = &kernel;
  }
  if (name.kernel == nullptr) {
    Throw(ErrorKind::kPlugin, who_, ": ", requirement.library->path(), " must have ", name.op_type,
          "[cpu, ", DtypeName(name.dtype), "] of '", name.library, "', got none");
  }
  return *name.kernel;
}

}  // namespace opwright
