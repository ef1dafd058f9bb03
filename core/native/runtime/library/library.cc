#include "runtime/library/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/border.h"
#include "runtime/library/elf_file.h"
#include "runtime/library/host.h"
#include "runtime/library/plugin_table.h"
#include "runtime/status.h"

namespace opwright {

namespace {

using FileId = std::pair<dev_t, ino_t>;

struct OpenLibraries {
  // The mutex is recursive, since a library's constructors may, against the rules, open another
  // library.
  std::recursive_mutex mutex;
  std::map<FileId, std::shared_ptr<Library>> by_file;  // owns the libraries, which never close
};

OpenLibraries& Libraries() {
  static auto* libraries = new OpenLibraries;  // never freed, since they may outlive statics
  return *libraries;
}

// Owns a descriptor, through which the same file is checked and identified.
class File {
 public:
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ >= 0) return;
    const int error = errno;
    Throw(ErrorKind::kPlugin, path, ": a library must be a file that can be read, got ",
          std::strerror(error));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }
  FileId id() const {
    struct stat status{};
    fstat(descriptor_, &status);
    return {status.st_dev, status.st_ino};
  }

 private:
  int descriptor_;
};

// Returns the major version of a different entry symbol that the library exports, or 0.
int FindOtherMajor(void* handle) {
  constexpr int kMaxMajor = 32;
  for (int major = 1; major <= kMaxMajor; ++major) {
    const std::string symbol = Concat("opwright_plugin_v", major);
    if (major != OW_ABI_MAJOR && dlsym(handle, symbol.c_str()) != nullptr) return major;
  }
  return 0;
}

}  // namespace

std::shared_ptr<Library> Library::Open(const std::string& path) {
  const File file(path);
  CheckElfFile(file.descriptor(), path);
  OpenLibraries& libraries = Libraries();
  const std::lock_guard<std::recursive_mutex> lock(libraries.mutex);
  const auto known = libraries.by_file.find(file.id());
  if (known != libraries.by_file.end()) return known->second;
  const std::shared_ptr<Library> library(new Library(path));
  library->OpenHandle();
  for (const auto& [id, other] : libraries.by_file) {
    if (other->handle_ == library->handle_) {
      Throw(ErrorKind::kPlugin, path,
            ": a library must not be replaced once it is open, got another file in its place; "
            "start a new process");
    }
  }
  library->TakeTable();
  libraries.by_file[file.id()] = library;
  return library;
}

void Library::OpenHandle() {
  // RTLD_LOCAL, since two plugins may define the same name; RTLD_NOW so that a missing symbol
  // fails here and not in a run. The loader would search for a name without a slash in other
  // folders.
  const std::string name = path_.find('/') == std::string::npos ? "./" + path_ : path_;
  handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* text = dlerror();
  std::string reason = text == nullptr ? "no reason" : text;
  if (reason.rfind(name + ": ", 0) == 0) reason.erase(0, name.size() + 2);
  Throw(ErrorKind::kPlugin, path_, ": a library must be loadable by the system, got \"", reason,
        "\"; install what it needs");
}

ow_plugin_entry_fn Library::FindEntry() const {
  void* symbol = dlsym(handle_, OW_PLUGIN_ENTRY);
  if (symbol != nullptr) return reinterpret_cast<ow_plugin_entry_fn>(symbol);
  const int major = FindOtherMajor(handle_);
  if (major == 0) {
    Throw(ErrorKind::kPlugin, path_, ": a plugin library must export ", OW_PLUGIN_ENTRY,
          ", got none of this name; define it with extern \"C\" and default visibility");
  }
  Throw(ErrorKind::kPlugin, path_, ": a plugin library must be built for ABI ", OW_ABI_MAJOR,
        ", got one for ABI ", major,
        major > OW_ABI_MAJOR ? "; install a newer opwright" : "; install a newer version of it");
}

void Library::TakeTable() {
  const ow_plugin_entry_fn entry = FindEntry();
  const ow_plugin* plugin = nullptr;
  char thrown[512] = {0};
  ErrorLog log;
  const int32_t status =
      CallAtBorder(thrown, sizeof(thrown), [&] { return entry(HostServices(), &plugin); });
  if (status != OW_OK) {
    std::string reason = log.text.empty() ? thrown : log.text;
    if (plugin != nullptr && plugin->size >= kPluginSize10 && plugin->name && plugin->version) {
      reason += Concat(reason.empty() ? "" : " ", "(", plugin->name, " ", plugin->version, ")");
    }
    // A lack of memory may be temporary and must not disable the plugin.
    const bool lacks_memory = status == OW_OUT_OF_MEMORY;
    Throw(lacks_memory ? ErrorKind::kOutOfMemory : ErrorKind::kPlugin, path_, ": ", OW_PLUGIN_ENTRY,
          " must return its table, got status ", status, reason.empty() ? "" : ": ", reason);
  }
  try {
    CheckPluginTable(plugin);
  } catch (const Error& error) {
    Throw(ErrorKind::kPlugin, path_, ": ", error.what());
  }
  plugin_ = plugin;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace opwright
